"""Checks of rung 5's exercises: 16-byte loads for any row length, a layout that conflicts least, and its counts.

They answer as `exercises` does.
"""

from collections.abc import Mapping
from typing import Any

from gemmlab import array_traffic, emulator, exercises, launch, layouts, roofline
from gemmlab.array_traffic import ArrayTraffic
from gemmlab.exercises import NOT_ATTEMPTED, Refused, same, shown
from gemmlab.exercises.attempts import LOADS, of_source, require_right, require_tiled
from gemmlab.gemm import Gemm
from gemmlab.ladder import Geometry
from gemmlab.launch import Kernel
from gemmlab.tile_rules import QUAD

SIDE = 32  # outputs of a block along each side in exercise 1, four to a thread
ALIGNED = Gemm(64, 64, 64)
ONE_BLOCK = Gemm(64, 128, 32)
VECTOR_BYTES = QUAD * roofline.FLOAT_BYTES
DEALS = {"side by side": layouts.side_by_side, "in quads": lambda: layouts.VECTORIZED.source()}
PADS = (0, 2, 4, 8, 12)
COUNTED = {"4 x 4": {"TM": 4, "TN": 4, "BM": 32, "BN": 64}, "8 x 8": {}}  # the rung's own tile is of 8 x 8 outputs


@of_source
def any_row_length(source: str) -> str:
    """Judge a `gemm_quads` for blocks of 8 x 32 threads, each of a 32 x 32 tile of C: right for every shape, without a
    hazard, and with no load of A or B narrower than 16 bytes where rows are multiples of four floats.
    """
    attempt = Kernel(source, "gemm_quads", (), _quads)
    loads = _loads_of_whole_rows(attempt)
    narrow = [row for row in loads if row.bytes < VECTOR_BYTES]
    if loads and {row.bytes for row in loads} == {roofline.FLOAT_BYTES}:
        return f"{NOT_ATTEMPTED}: each load brings one float still"
    require_right(attempt)
    if narrow:
        raise Refused(
            f"right, but at {ALIGNED.M} x {ALIGNED.N} x {ALIGNED.K}, where every row can be read in quads, "
            f"{narrow[0].requests:,} requests to {narrow[0].array} bring {narrow[0].bytes} bytes a lane:\n"
            + array_traffic.table(loads)
        )
    require_tiled(attempt, ALIGNED, SIDE)
    return (
        f"accepted: right for every shape, and {sum(row.requests for row in loads):,} requests at "
        f"{ALIGNED.M} x {ALIGNED.N} x {ALIGNED.K}, where single floats take four times as many. Next: exercise 2."
    )


def least_conflicts(chosen: Mapping[str, Any]) -> str:
    """Judge a layout for rung 5, by 'outputs' (a name of DEALS) and 'PAD' (one of PADS): no other one's loads, and
    then no other one's stores, may take fewer wavefronts, and no other one as good less memory.
    """
    outputs, pad = exercises.answers_to(("outputs", "PAD"), chosen).values()
    if outputs is ... or pad is ...:
        return f"{NOT_ATTEMPTED}: choose 'outputs' from {', '.join(DEALS)} and 'PAD' from {', '.join(map(str, PADS))}"
    if not any(same(outputs, deal) for deal in DEALS) or type(pad) is not int or pad not in PADS:
        raise Refused(
            f"{shown(outputs)} with PAD = {shown(pad)} is none of {', '.join(DEALS)} with {', '.join(map(str, PADS))}"
        )
    mine = _wavefronts(outputs, pad)
    for deal in DEALS:
        for other in (each for each in PADS if each % QUAD == 0):
            theirs = _wavefronts(deal, other)
            if (*theirs, other) < (*mine, pad):
                raise Refused(
                    f"{outputs} with PAD = {pad}: {mine[0]:,} wavefronts of shared loads and {mine[1]:,} of stores in "
                    f"a block; another choice takes {theirs[0]:,} and {theirs[1]:,}"
                    + (" with less memory" if theirs == mine else "")
                )
    return (
        f"accepted: {mine[0]:,} wavefronts of loads and {mine[1]:,} of stores, and no choice takes fewer. The loads "
        "that conflicted were those of Bs, and padding As could never cure them. Next: exercise 3."
    )


def counts(predicted: Mapping[str, Any]) -> str:
    """Judge predictions of rung 5's shared loads an FMA, for two tiles, and of what a thread moves in a chunk."""
    rows = {name: array_traffic.count(launch.of(layouts.VECTORIZED, tile), ONE_BLOCK) for name, tile in COUNTED.items()}
    fmas = ONE_BLOCK.flops // 2
    own, tile = rows["8 x 8"], layouts.VECTORIZED.tile
    of_a_thread = (tile["BM"] // tile["TM"]) * (tile["BN"] // tile["TN"]) * (ONE_BLOCK.K // tile["BK"])
    counted = {
        **{f"shared load instructions an FMA, {name}": _lanes(of, "ld.shared") / fmas for name, of in rows.items()},
        "FMAs for each shared load instruction, 8 x 8": fmas / _lanes(own, "ld.shared"),
        "16-byte loads from global memory, a thread and chunk": _lanes(own, "ld.global") / of_a_thread,
        "4-byte stores to As, a thread and chunk": array_traffic.of(own, "As", "st.shared").lanes / of_a_thread,
    }
    return exercises.judge_numbers(
        exercises.answers_to(counted, predicted),
        counted,
        "TM / 4 + TN / 4 instructions feed TM * TN FMAs. Next: the quiz, then rung 6.",
    )


def _loads_of_whole_rows(attempt: Kernel) -> list[ArrayTraffic]:
    """Loads of A and B where every row is a multiple of four floats; none for an attempt that faults there."""
    try:
        rows = array_traffic.count(attempt, ALIGNED)
    except emulator.KernelFault:
        return []
    return [row for row in rows if row.op in LOADS and row.array in "AB"]


def _quads(problem: Gemm) -> Geometry:
    return Geometry((-(-problem.N // SIDE), -(-problem.M // SIDE), 1), (SIDE // QUAD, SIDE, 1), 0)


def _wavefronts(outputs: str, pad: int) -> tuple[int, int]:
    """Wavefronts of all shared loads and of all shared stores of one block. Raises Refused for a misaligned layout."""
    row = layouts.VECTORIZED.tile["BM"] + pad
    if row % QUAD:
        raise Refused(
            f"PAD = {pad} makes rows of As {row} floats long, {roofline.FLOAT_BYTES * row} bytes: no multiple of 16, "
            "so that quads of every second row are misaligned"
        )
    rows = array_traffic.count(layouts.padded(pad, DEALS[outputs]()), ONE_BLOCK)
    loads, stores = (sum(row.units for row in rows if row.op == op) for op in ("ld.shared", "st.shared"))
    return loads, stores


def _lanes(rows: tuple[ArrayTraffic, ...], op: str) -> int:
    return sum(row.lanes for row in rows if row.op == op)
