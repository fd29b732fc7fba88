"""Checks of the exercises. Each returns what to tell the learner, or raises Refused with the evidence.

What is still to be filled in stands as `...`, in Python and in CUDA alike, and an attempt that holds one is not
attempted. Attempts run on the emulator whatever the backend: a wild store there is an error with a line and a thread.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

from gemmlab import correctness, emulator, launch, warp
from gemmlab.gemm import Gemm
from gemmlab.ladder import Geometry, rung
from gemmlab.launch import Kernel

NOT_ATTEMPTED = "not attempted"
TILE_1D = 32  # outputs along each side of what a one-dimensional block of 1024 threads computes
SQUARE = Gemm(64, 64, 64)
TRACED = Gemm(33, 31, 9)
LONGEST = 1e15  # beyond it a number is written with an exponent
MOST_SHOWN = 80  # characters of an odd answer that a refusal repeats


class Refused(AssertionError):
    """A wrong answer; the message is the evidence."""

    def _render_traceback_(self) -> list[str]:
        # IPython prints this in place of a traceback, whose frames say nothing about the answer.
        return [f"Refused: {self}"]


def answers(given: Any) -> Mapping[Any, Any]:
    """Return a dictionary of answers as it is. Raises Refused for anything else."""
    if not isinstance(given, Mapping):
        raise Refused(f"{shown(given)} is no dictionary: keep the names as they stand, and put answers behind them")
    return given


def shown(answer: Any) -> str:
    """Return what a learner wrote as text, shortened to MOST_SHOWN characters."""
    try:
        text = repr(answer)
    except ValueError:  # of integers with thousands of digits, which Python writes none of
        return "a number of thousands of digits"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def compare(predicted: Mapping[str, Any], found: Mapping[str, float | str], how: str = "counted") -> str:
    """Return predictions beside what was found, a line each; `how` heads its column: 'counted', or 'measured'.

    A prediction may be `...`, and none is refused. What was found is a number, or one written to the digits that were
    asked for, such as '1.50', which is shown and compared as it stands.
    """
    width = max(map(len, found))
    lines = [f"{'':<{width}}  {'predicted':>13}  {how:>9}"]
    for name, count in found.items():
        guess, said = predicted.get(name, ...), count if isinstance(count, str) else _written(count)
        lines.append(f"{name:<{width}}  {_written(guess):>13}  {said:>9}  {_remark(guess, float(count))}".rstrip())
    return "\n".join(lines)


def block_shapes(predicted: Mapping[tuple[int, int], Sequence[Any]]) -> str:
    """Judge predictions for rung 0: by block (BX, BY), the rows and columns of C that its first warp covers, and the
    sectors of one request of that warp to A, to B and to C.
    """
    asked = ("rows", "columns", "sectors of A", "sectors of B", "sectors of C")
    for block, row in answers(predicted).items():
        if row is not ... and not (isinstance(row, list | tuple) and len(row) <= len(asked)):
            raise Refused(f"block {block}: {shown(row)} is no row of {len(asked)} numbers ({', '.join(asked)})")
    counted = {block: _warp_counts(*block) for block in ((8, 4), (16, 16), (32, 32))}
    return judge_numbers(
        {f"{x} x {y}: {name}": _at(predicted.get((x, y), ...), i) for x, y in counted for i, name in enumerate(asked)},
        {f"{x} x {y}: {name}": n for (x, y), row in counted.items() for name, n in zip(asked, row, strict=True)},
        "A costs a sector for each row that the warp covers, B one for each 8 columns. Next: exercise 2.",
    )


def transposed(source: str) -> str:
    """Judge a mended version of `transposed_source()`: it must be right for every shape, square or not."""
    if bare(source) == bare(transposed_source()):
        return f"{NOT_ATTEMPTED}: this is still the kernel as given, which writes the transpose"
    naive = rung("naive")
    attempt = Kernel(source, "gemm_transposed", naive.options(), naive.geometry)
    return judge_kernel(attempt) or (
        "accepted: right for every shape. A test whose C is symmetric, or a single row, could not see the mistake. "
        "Next: the quiz, then rung 1, which changes which lane takes which output."
    )


def transposed_source() -> str:
    """Return rung 0's kernel with one mistake: the store swaps row and column, so that C's memory holds C^T, N x M."""
    right = rung("naive").source()
    wrong = right.replace("C[row * N + col] = value", "C[col * M + row] = value")
    return wrong.replace("gemm_naive", "gemm_transposed")


def one_dimensional_block(source: str) -> str:
    """Judge a `gemm_1d` for blocks of (1024, 1, 1), each of a 32 x 32 tile of C; tiles go along M in x, along N in y.

    It must be right for every shape, and move no more sectors than rung 1.
    """
    attempt = Kernel(source, "gemm_1d", (), _geometry_1d)
    answer = judge_kernel(attempt)
    if answer:
        return answer
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
        {name: answers(predicted).get(name, ...) for name in counted},
        counted,
        "A row that starts off a 32-byte boundary costs a fifth sector; rows of a multiple of 8 floats never do. "
        "Next: the quiz, then rung 2.",
    )


def judge_numbers(
    predicted: Mapping[str, Any], counted: Mapping[str, int], lesson: str, source: str = "the emulator counted"
) -> str:
    """Return how far predictions got, with the lesson once all are as counted; `...` stands for one not yet made.

    Raises Refused with the predictions that differ, beside what was counted.
    """
    missing = [name for name, guess in predicted.items() if guess is ...]
    wrong = {name: guess for name, guess in predicted.items() if guess is not ... and not _equal(guess, counted[name])}
    if wrong:
        raise Refused(
            f"what was predicted differs from what {source}, in {len(wrong)} of {len(counted)}\n"
            + compare(wrong, {name: counted[name] for name in wrong})
        )
    if len(missing) == len(counted):
        return f"{NOT_ATTEMPTED}: put numbers in place of the dots"
    if missing:
        return f"{NOT_ATTEMPTED}: {', '.join(missing)}; the rest is as counted"
    return f"accepted: {len(counted)} of {len(counted)} as counted. {lesson}"


def judge_answers(given: Any, asked: Sequence[str], against: Callable[[str, Any], str | None], lesson: str = "") -> str:
    """Return how far answers got, given by what was asked, with the lesson once all are right; `...` stands for one not
    yet given, or for all of them.

    `against` returns the evidence against an answer, None where it is right. Raises Refused with all the evidence, and
    for what is no dictionary or has another name.
    """
    given = {} if given is ... else answers(given)
    for name in given:
        if name not in asked:
            raise Refused(f"{shown(name)} is no name of this exercise; the names are: {'; '.join(asked)}")
    said = {name: given[name] for name in asked if given.get(name, ...) is not ...}
    evidence = [text for name, answer in said.items() if (text := against(name, answer))]
    if evidence:
        raise Refused("\n".join(evidence))
    missing = [name for name in asked if name not in said]
    if missing:
        return f"{NOT_ATTEMPTED}: {', '.join(missing)}" + ("; the rest is right" if said else "")
    return f"accepted: {len(asked)} of {len(asked)}. {lesson}"


def same(answer: Any, right: str | float) -> bool:
    """Say whether an answer, of whatever type, is the right text or number."""
    return isinstance(answer, str | Real) and bool(answer == right)


def judge_kernel(attempt: Kernel) -> str | None:
    """Return 'not attempted' for a source with gaps, None for one that is found right and free of hazards.

    Raises Refused with what its examination says, or the first hazard, and nvrtc.CompileError.
    """
    if "..." in bare(attempt.source):
        return f"{NOT_ATTEMPTED}: put code in place of the dots"
    examined = correctness.examine(attempt)
    if not examined.correct:
        raise Refused(examined.message)
    traced = launch.trace(attempt, TRACED)
    if traced.hazards:
        raise Refused("right here, but by luck: " + "\n".join(map(str, traced.hazards)))
    return None


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


def bare(source: str) -> str:
    """A CUDA source without comments and white space."""
    return re.sub(r"//[^\n]*|/\*.*?\*/|\s+", "", source, flags=re.S)


def _equal(guess: Any, count: float) -> bool:
    return isinstance(guess, Real) and bool(guess == count)


def _remark(guess: Any, count: float) -> str:
    if guess is ...:
        return ""
    if not isinstance(guess, Real):
        return "write a number"
    if guess == count:
        return "as predicted"
    return f"{guess / count:.3g} times as much" if count != 0 and abs(guess) < LONGEST else "differs"


def _written(value: Any) -> str:
    if value is ...:
        return NOT_ATTEMPTED
    if not isinstance(value, Real):
        return shown(value)
    if abs(value) < LONGEST:
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6g}"
    return f"over {LONGEST:g}" if isinstance(value, int) else f"{value:.6g}"
