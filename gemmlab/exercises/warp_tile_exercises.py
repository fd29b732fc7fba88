"""Checks of rung 6's exercises: reuse at each level of the hierarchy, and a mapping of warps and lanes.

They answer as `exercises` does.
"""

import math
from collections.abc import Mapping
from typing import Any

from gemmlab import array_traffic, block_work, emulator, exercises, findings, lane_orders, launch
from gemmlab.emulator.lanes import WARP
from gemmlab.exercises import Refused
from gemmlab.exercises.attempts import of_source
from gemmlab.gemm import Gemm
from gemmlab.ladder import Tile
from gemmlab.lane_orders import WARP_TILES
from gemmlab.launch import Kernel
from gemmlab.roofline import FLOAT_BYTES

TILES = {
    "64 x 128, 32 x 64, 8 x 8": {"BM": 64, "BN": 128, "WM": 32, "WN": 64, "TM": 8, "TN": 8},
    "128 x 128, 64 x 32, 8 x 8": {"BM": 128, "BN": 128, "WM": 64, "WN": 32, "TM": 8, "TN": 8},
    "64 x 64, 16 x 32, 4 x 4": {"BM": 64, "BN": 64, "WM": 16, "WN": 32, "TM": 4, "TN": 4},
}
LEVELS = ("block: from global memory", "warp: different values of shared memory", "thread: into registers")
DEPTH = 16  # steps of k in one chunk
EDGES = Gemm(65, 130, 20)
SHAPES = (EDGES, Gemm(1, 1, 1), Gemm(33, 127, 18), Gemm(64, 129, 7, alpha=-0.5, beta=2.0))
FAMILIES = ("distinct", "uniform")
BLOCK = Gemm(WARP_TILES.tile["BM"], WARP_TILES.tile["BN"], WARP_TILES.tile["BK"])


def reuse(predicted: Mapping[str, Mapping[str, Any]]) -> str:
    """Judge predictions of loads an FMA, by tile of TILES and level of LEVELS: values that a block loads from global
    memory, different values that a warp reads from shared memory, and values that a thread brings into registers.
    """
    rows = {name: exercises.answers_to(LEVELS, row) for name, row in exercises.answers_to(TILES, predicted).items()}
    counted = {name: _loads_per_fma(tile) for name, tile in TILES.items()}
    return exercises.judge_numbers(
        {f"{name}; {level}": rows[name][level] for name in TILES for level in LEVELS},
        {f"{name}; {level}": loads for name, row in counted.items() for level, loads in row.items()},
        "A tile of m x n needs 1 / m + 1 / n values for each FMA, at every level. Next: exercise 2.",
    )


@of_source
def mapping(statements: str) -> str:
    """Judge four statements that place a warp in the block's tile and a lane in the warp's: every output once, right,
    and in no more wavefronts than rung 6.
    """
    try:
        attempt = launch.of(WARP_TILES, source=lane_orders.mapped(statements))
    except ValueError as error:
        raise Refused(str(error)) from None
    _require_right(attempt)
    mine, theirs = (wavefronts_a_step(kernel, BLOCK) for kernel in (attempt, launch.of(WARP_TILES)))
    if mine > theirs:
        rows = [row for row in array_traffic.count(attempt, BLOCK) if row.op == "ld.shared"]
        raise Refused(
            f"right, but a warp's loads of one step take {mine:g} wavefronts, where {theirs:g} do:\n"
            + array_traffic.table(rows)
        )
    return (
        f"accepted: every output has one owner, and a step takes {mine:g} wavefronts. Neighbouring lanes share values "
        "of A, lanes two further values of B, or the other way round. Next: the quiz."
    )


def wavefronts_a_step(kernel: Kernel, problem: Gemm) -> float:
    """Return the wavefronts of one warp's shared loads in one step of k. `problem` must be one block's."""
    _, block, _ = kernel.geometry(problem)
    loads = (row.units for row in array_traffic.count(kernel, problem) if row.op == "ld.shared")
    return sum(loads) / (math.prod(block) // WARP * problem.K)


def _require_right(attempt: Kernel) -> None:
    try:
        block_work.watch(attempt, BLOCK)
    except (ValueError, emulator.KernelFault) as error:
        raise Refused(f"with one block of {BLOCK.M} x {BLOCK.N} outputs: {error}") from None
    traced = launch.trace(attempt, EDGES)
    if traced.hazards:
        raise Refused(findings.text(traced))
    try:
        launch.require(launch.check(attempt, SHAPES, FAMILIES))
    except (AssertionError, emulator.KernelFault) as wrong:
        raise Refused(str(wrong)) from None


def _loads_per_fma(tile: Tile) -> dict[str, float]:
    kernel = launch.of(WARP_TILES, tile)
    problem = Gemm(tile["BM"], tile["BN"], DEPTH)
    rows, work, fmas = array_traffic.count(kernel, problem), block_work.watch(kernel, problem), problem.flops // 2

    def values(op: str) -> float:
        return sum(row.lanes * row.bytes // FLOAT_BYTES for row in rows if row.op == op)

    of_a_warp = sum(work.values(0, name) for name in ("As", "Bs")) / len(work.outputs(0))
    return dict(zip(LEVELS, (values("ld.global") / fmas, of_a_warp, values("ld.shared") / fmas), strict=True))
