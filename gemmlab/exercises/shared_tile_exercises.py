"""Checks of rung 2's exercises: edges, the one barrier, the one padding, intensity. They answer as `exercises` does.

Right numbers do not pass alone: an attempt in which the emulator finds a hazard is refused with the finding.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmlab import exercises, findings, launch, nvrtc, roofline, snapshots
from gemmlab.emulator.report import by_number
from gemmlab.exercises import NOT_ATTEMPTED, Refused
from gemmlab.exercises.attempts import bare, loaded_bytes, of_source, require_right, require_tiled
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import rung
from gemmlab.launch import Kernel

RUNG = rung("shared_tiles")
TILE = RUNG.tile["TILE"]
EDGES = Gemm(33, 34, 70)  # blocks with one row and with two columns of C, and a third chunk of 6 steps
SQUARE = Gemm(64, 64, 64)
PLAIN = """#ifndef TILE
#define TILE 32
#endif

extern "C" __global__ void __launch_bounds__(TILE * TILE)
gemm_shared_tiles(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty;
    const int col = blockIdx.x * TILE + tx;

    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        As[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.0f;
        Bs[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.0f;
        __syncthreads();

        for (int k = 0; k < TILE; ++k)
            sum = fmaf(As[ty][k], Bs[k][tx], sum);
        __syncthreads();
    }

    if (row >= M || col >= N)
        return;
    float value = alpha * sum;
    if (beta != 0.0f)
        value = fmaf(beta, C[row * N + col], value);
    C[row * N + col] = value;
}
"""
SUM = "    float sum = 0.0f;\n"
FIRST_BARRIER, SECOND_BARRIER = "        __syncthreads();\n\n", "        __syncthreads();\n    }\n"


@of_source
def any_shape(source: str) -> str:
    """Judge a mended version of `any_shape_source()`: it must be right where M, N and K are no multiples of TILE."""
    attempt = _attempt(source)
    if _untouched(attempt, any_shape_source()):
        return f"{NOT_ATTEMPTED}: this is still the kernel as given, which is right for multiples of TILE alone"
    _require_right(attempt)
    return (
        "accepted: right for every shape. Threads past the edge load zeros and reach every barrier; the store alone is "
        "masked. Next: exercise 2."
    )


def any_shape_source() -> str:
    """Return a tiled kernel that minds no edge."""
    return _rewritten(
        ("row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.0f", "A[row * K + k0 + tx]"),
        ("k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.0f", "B[(k0 + ty) * N + col]"),
        ("    if (row >= M || col >= N)\n        return;\n", ""),
    )


@of_source
def one_barrier(source: str) -> str:
    """Judge a mended version of `one_barrier_source()`: no race, and one barrier a chunk."""
    attempt = _attempt(source)
    if _untouched(attempt, one_barrier_source()):
        return f"{NOT_ATTEMPTED}: this is still the kernel as given, which has no barrier"
    _require_right(attempt)
    stops, chunks = len(snapshots.at_barriers(attempt, SQUARE, inputs(SQUARE))), SQUARE.K // TILE
    if stops != chunks:
        raise Refused(
            f"right, and no race, but at K = {SQUARE.K} a block waits {stops} times for {chunks} chunks: with two "
            "buffers one barrier a chunk does"
        )
    return (
        "accepted: no race, and one barrier a chunk. It holds readers back until their buffer is written, and it holds "
        "back who would overwrite the other one, since all who read that come here first. Next: exercise 3."
    )


def one_barrier_source() -> str:
    """Return a tiled kernel with two buffers for each tile, used in turn, and without a barrier."""
    return _rewritten(
        ("As[TILE][TILE]", "As[2][TILE][TILE]"),
        ("Bs[TILE][TILE]", "Bs[2][TILE][TILE]"),
        ("As[ty]", "As[now][ty]"),
        ("Bs[ty]", "Bs[now][ty]"),
        ("Bs[k]", "Bs[now][k]"),
        (SUM, f"    int now = 0;  // the buffer in use\n{SUM}"),
        (FIRST_BARRIER, "\n"),
        (SECOND_BARRIER, "        now = 1 - now;\n    }\n"),
    )


@of_source
def padded(source: str) -> str:
    """Judge a mended version of `padded_source()`: no bank conflict, A's tile transposed still, no word in vain."""
    attempt = _attempt(source)
    if _untouched(attempt, padded_source()):
        return f"{NOT_ATTEMPTED}: this is still the kernel as given, whose stores to As conflict"
    _require_right(attempt)
    _require_no_conflict(attempt)
    _require_transposed(attempt)
    used = nvrtc.resources(attempt.source, attempt.entry, attempt.options).shared_bytes
    needed = roofline.FLOAT_BYTES * (TILE * (TILE + 1) + TILE * TILE)
    if used > needed:
        raise Refused(
            f"right, and without a conflict, but it takes {used:,} bytes of shared memory where {needed:,} do: pad the "
            "array that conflicts, and no other, by as little as cures it"
        )
    return (
        f"accepted: {used:,} bytes, and no conflict. With one word more in a row, a column of As goes over all banks. "
        "Bs is written and read along its rows, so padding it would buy nothing. Next: exercise 4."
    )


def padded_source() -> str:
    """Return a tiled kernel with A's tile stored transposed, so that the stores of a warp meet in one bank."""
    return _rewritten(("As[ty][tx]", "As[tx][ty]"), ("As[ty][k]", "As[k][ty]"))


def intensity(predicted: Mapping[str, Any]) -> str:
    """Judge predictions of what the chunks of a tile ask for, of the intensity, and of what that makes of traffic."""
    direct = launch.trace(launch.of(rung("coalesced")), SQUARE)
    tiled = {T: launch.trace(launch.of(RUNG, {"TILE": T}), SQUARE) for T in (8, 16, 32)}
    loaded = {T: loaded_bytes(traced) for T, traced in tiled.items()}
    asked = {T: of_all // _chunks(T) for T, of_all in loaded.items()}
    counted = {
        "bytes that a chunk loads, TILE = 16": asked[16],
        **{f"FLOP/byte of a chunk, TILE = {T}": SQUARE.flops // _chunks(T) / asked[T] for T in tiled},
        "bytes that rung 1 loads, over those of TILE = 32": loaded_bytes(direct) // loaded[32],
    }
    return exercises.judge_numbers(
        exercises.answers_to(counted, predicted),
        counted,
        "The intensity is TILE / 4 and the traffic 1 / TILE: both follow the edge of the tile. Next: the quiz.",
    )


def _rewritten(*changes: tuple[str, str]) -> str:
    """PLAIN with texts replaced, each wherever it stands."""
    source = PLAIN
    for old, new in changes:
        source = source.replace(old, new)
    return source


def _attempt(source: str) -> Kernel:
    try:
        return launch.of(RUNG, source=source)
    except ValueError as error:
        raise Refused(str(error)) from None


def _untouched(attempt: Kernel, given: str) -> bool:
    return bare(attempt.source) == bare(given)


def _require_right(attempt: Kernel) -> None:
    """Raises Refused for a hazard, then for a wrong result."""
    traced = launch.trace(attempt, EDGES)
    if traced.hazards:
        raise Refused(f"at M={EDGES.M}, N={EDGES.N}, K={EDGES.K}\n{findings.text(traced)}")
    require_right(attempt)
    require_tiled(attempt, SQUARE, TILE)


def _require_transposed(attempt: Kernel) -> None:
    A, B, C = inputs(SQUARE)
    first, *_ = snapshots.at_barriers(attempt, SQUARE, (A, B, C))
    words = first.arrays.get("As", np.empty(0))
    rows = words.reshape(TILE, -1)[:, :TILE] if words.size and words.size % TILE == 0 else words
    if not np.array_equal(rows, A[:TILE, :TILE].T):
        raise Refused(
            "right, and without a conflict, but As[k][i] must hold A's element of row i and step k, its tile transposed"
        )


def _require_no_conflict(attempt: Kernel) -> None:
    traced = launch.trace(attempt, SQUARE)
    for access in traced.accesses:
        if access.space == "shared" and access.units > access.ideal:
            line = by_number(attempt.source).get(access.line, "").strip()
            raise Refused(
                f"right, but line {access.line} conflicts: {access.units // access.requests} wavefronts for a request, "
                f"where {access.ideal // access.requests} would do\n    {access.line:>3} | {line}"
            )


def _chunks(tile: int) -> int:
    """How many chunks all blocks of SQUARE walk through together."""
    return SQUARE.M * SQUARE.N * SQUARE.K // tile**3
