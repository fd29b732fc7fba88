"""Checks of the exercises. Each returns what to tell the learner, or raises Refused with the evidence.

What is still to be filled in stands as `...`, in Python and in CUDA alike, and an attempt that holds one is not
attempted. Attempts run on the emulator whatever the backend: a wild store there is an error with a line and a thread.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from gemmlab import emulator, launch, warp
from gemmlab.exercises.attempts import bare, of_source, require_right
from gemmlab.exercises.judging import (
    NOT_ATTEMPTED,
    Refused,
    answers_to,
    compare,
    judge_answers,
    judge_numbers,
    same,
    shown,
)
from gemmlab.gemm import Gemm
from gemmlab.ladder import Geometry, rung
from gemmlab.launch import Kernel

__all__ = [
    "NOT_ATTEMPTED",
    "Refused",
    "answers_to",
    "block_shapes",
    "compare",
    "fifth_sector",
    "judge_answers",
    "judge_numbers",
    "one_dimensional_block",
    "same",
    "shown",
    "transposed",
    "transposed_source",
]

TILE_1D = 32  # outputs along each side of what a one-dimensional block of 1024 threads computes
SQUARE = Gemm(64, 64, 64)


def block_shapes(predicted: Mapping[tuple[int, int], Sequence[Any]]) -> str:
    """Judge predictions for rung 0: by block (BX, BY), the rows and columns of C that its first warp covers, and the
    sectors of one request of that warp to A, to B and to C.
    """
    asked = ("rows", "columns", "sectors of A", "sectors of B", "sectors of C")
    counted = {block: _warp_counts(*block) for block in ((8, 4), (16, 16), (32, 32))}
    rows = answers_to(counted, predicted)
    for block, row in rows.items():
        if row is not ... and not (isinstance(row, list | tuple) and len(row) <= len(asked)):
            raise Refused(f"block {block}: {shown(row)} is no row of {len(asked)} numbers ({', '.join(asked)})")
    return judge_numbers(
        {f"{x} x {y}: {name}": _at(row, i) for (x, y), row in rows.items() for i, name in enumerate(asked)},
        {f"{x} x {y}: {name}": n for (x, y), row in counted.items() for name, n in zip(asked, row, strict=True)},
        "A costs a sector for each row that the warp covers, B one for each 8 columns. Next: exercise 2.",
    )


@of_source
def transposed(source: str) -> str:
    """Judge a mended version of `transposed_source()`: it must be right for every shape, square or not."""
    if bare(source) == bare(transposed_source()):
        return f"{NOT_ATTEMPTED}: this is still the kernel as given, which writes the transpose"
    naive = rung("naive")
    attempt = Kernel(source, "gemm_transposed", naive.options(), naive.geometry)
    require_right(attempt)
    return (
        "accepted: right for every shape. A test whose C is symmetric, or a single row, could not see the mistake. "
        "Next: the quiz, then rung 1, which changes which lane takes which output."
    )


def transposed_source() -> str:
    """Return rung 0's kernel with one mistake: the store swaps row and column, so that C's memory holds C^T, N x M."""
    right = rung("naive").source()
    wrong = right.replace("C[row * N + col] = value", "C[col * M + row] = value")
    return wrong.replace("gemm_naive", "gemm_transposed")


@of_source
def one_dimensional_block(source: str) -> str:
    """Judge a `gemm_1d` for blocks of (1024, 1, 1), each of a 32 x 32 tile of C; tiles go along M in x, along N in y.

    It must be right for every shape, and move no more sectors than rung 1.
    """
    attempt = Kernel(source, "gemm_1d", (), _geometry_1d)
    require_right(attempt)
    _require_coalesced(attempt)
    return (
        "accepted: right for every shape, and as coalesced as rung 1. The same arithmetic on threadIdx.x can put a "
        "warp wherever a later rung wants it. Next: exercise 2."
    )


def fifth_sector(predicted: Mapping[str, Any]) -> str:
    """Judge predictions for rung 1 at N = 33: sectors that the first warp's requests to B touch, by step of k, and the
    shortest padded row, in floats, that needs no fifth sector.
    """
    steps = _sectors_of_B(N=33)
    whole = next(N for N in range(33, 66) if max(_sectors_of_B(N)) == 4)
    counted = {
        "step 0": steps[0],
        "step 1": steps[1],
        "step 8": steps[8],
        "steps 0 to 7 together": sum(steps[:8]),
        "floats in a padded row": whole,
    }
    return judge_numbers(
        answers_to(counted, predicted),
        counted,
        "A row that starts off a 32-byte boundary costs a fifth sector; rows of a multiple of 8 floats never do. "
        "Next: the quiz, then rung 2.",
    )


def _require_coalesced(attempt: Kernel) -> None:
    traced = launch.trace(attempt, SQUARE)
    allowed = launch.trace(launch.of(rung("coalesced")), SQUARE)
    for kind, what in (("ld", "loads"), ("st", "stores")):
        moved, least = _moved(traced, kind), _moved(allowed, kind)
        if moved > least:
            raise Refused(
                f"right, but not coalesced: its {what} move {moved:,} bytes at 64 x 64 x 64, rung 1's "
                f"{least:,}\n{launch.traffic_table(traced, attempt.source)}"
            )


def _moved(traced: emulator.Trace, kind: str) -> int:
    return sum(access.moved_bytes for access in traced.accesses if access.op == f"{kind}.global")


def _geometry_1d(problem: Gemm) -> Geometry:
    return Geometry((-(-problem.M // TILE_1D), -(-problem.N // TILE_1D), 1), (TILE_1D**2, 1, 1), 0)


def _warp_counts(x: int, y: int) -> tuple[int, ...]:
    seen = warp.watch(launch.of(rung("naive"), {"BX": x, "BY": y}), Gemm(64, 64, 8))
    return *seen["C"][0].extent, *(len(seen[name][0].sectors) for name in "ABC")


def _sectors_of_B(N: int) -> list[int]:
    seen = warp.watch(launch.of(rung("coalesced")), Gemm(1, N, 9))
    return [len(request.sectors) for request in seen["B"]]


def _at(row: Any, position: int) -> Any:
    """The number at a position of a row; `...` where the row is `...` itself or too short."""
    return row[position] if row is not ... and position < len(row) else ...
