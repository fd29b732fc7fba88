"""Rung 6: its kernel on every edge, who owns and reads what, its orders of lanes, pictures, and exercises."""

import ast
import json
import re
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from gemmlab import block_work, lane_orders, launch, nvrtc
from gemmlab.exercises import Refused, warp_tile_exercises
from gemmlab.exercises.warp_tile_exercises import LEVELS, wavefronts_a_step
from gemmlab.figures import warp_tile_pictures
from gemmlab.gemm import FAMILIES, Gemm
from gemmlab.ladder import rung

matplotlib.use("agg")

WARP_TILES, VECTORIZED = rung("warp_tiles"), rung("vectorized")
TILE = dict(WARP_TILES.tile)
BM, BN, BK, WM, WN, TM, TN = (TILE[name] for name in ("BM", "BN", "BK", "WM", "WN", "TM", "TN"))
BLOCK = Gemm(BM, BN, BK)
SMALL = {"BM": 32, "BN": 64, "BK": 16, "WM": 16, "WN": 32, "TM": 4, "TN": 4}
CELLS = json.loads((Path(__file__).parent.parent / "notebooks" / "06_warp_tiles.ipynb").read_text("utf-8"))["cells"]


def cell(cell_id: str) -> str:
    return "".join(next(each["source"] for each in CELLS if each["id"] == cell_id))


def shown(number: int, language: str) -> str:
    (block,) = re.findall(rf"```{language}\n(.*?)```", cell(f"exercise-{number}-answer"), re.DOTALL)
    return block


def words(figure: plt.Figure) -> str:
    """Every title and text of a figure."""
    found = [figure.get_suptitle()]
    for axis in figure.axes:
        found += [axis.get_title(), *(text.get_text() for text in axis.texts)]
    plt.close(figure)
    return "\n".join(found)


@pytest.fixture(scope="module")
def work() -> block_work.BlockWork:
    return block_work.watch(launch.of(WARP_TILES), BLOCK)


# Right for every shape.


@pytest.mark.parametrize("tile", [None, SMALL], ids=["default", "small"])
@pytest.mark.parametrize("K", [1, 16, 17, 20])
def test_every_shape_around_the_tiles_is_right(tile, K):
    full = WARP_TILES.full_tile(tile)
    edges = [(m, n) for m in (full["WM"] - 1, full["BM"] + 1) for n in (full["WN"], full["BN"] - 2, full["BN"] + 1)]
    launch.require(launch.check(launch.of(WARP_TILES, tile), [Gemm(m, n, K) for m, n in edges], ["distinct"]))


def test_thin_tall_and_wide_problems_are_right():
    problems = [Gemm(1, 1, 1), Gemm(1, 300, 9), Gemm(300, 1, 9), Gemm(3, 5, 300)]
    launch.require(launch.check(launch.of(WARP_TILES), problems, ["uniform"]))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_inputs_is_right(family):
    launch.require(launch.check(launch.of(WARP_TILES), [Gemm(BM + 1, BN + 3, 21)], [family]))


@pytest.mark.parametrize("beta", [0, 1, -0.5])
def test_alpha_and_beta_are_applied_and_a_nan_in_C_does_not_survive_a_beta_of_0(beta):
    problems = [Gemm(33, N, 17, alpha, beta) for N in (31, 32) for alpha in (0, -0.5)]
    launch.require(launch.check(launch.of(WARP_TILES), problems, ["uniform"]))


@pytest.mark.parametrize(
    "problem", [Gemm(BM + 1, BN + 4, BK + 4), Gemm(BM + 1, BN + 1, BK + 1)], ids=["quads", "single"]
)
def test_nothing_races_or_is_read_before_it_is_written(problem):
    assert launch.trace(launch.of(WARP_TILES), problem).ok


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90"])
def test_nothing_spills(arch):
    used = nvrtc.resources(WARP_TILES.source(), WARP_TILES.entry, WARP_TILES.options(), arch)
    assert (used.spill_store_bytes, used.spill_load_bytes) == (0, 0)


@pytest.mark.parametrize(
    "tile, message",
    [
        ({"BM": 64, "WM": 48}, "BM = 64 is not a multiple of WM = 48, the outputs of a warp"),
        ({"WN": 36, "BN": 36}, "WN = 36 is not a multiple of TN = 8, the outputs of a thread"),
        ({"BM": 128, "BN": 128, "WM": 64, "WN": 64}, "a warp's tile into 64 tiles of threads, but a warp has 32 lanes"),
        ({"TM": 2, "WM": 8}, "TM = 2 is not a multiple of 4"),
        ({"WM": 8, "WN": 256, "BN": 256}, "WM = 8 and TM = 8 make 1 rows of lanes, but lanes stand in pairs of rows"),
    ],
)
def test_an_illegal_tile_is_refused_with_the_rule_and_both_numbers(tile, message):
    with pytest.raises(ValueError, match=message):
        WARP_TILES.options(tile)


# Who owns and reads what.


def test_a_warp_owns_one_rectangle_and_reads_its_edges(work):
    assert work.warps == (BM // WM) * (BN // WN)
    for warp in range(work.warps):
        top, left = warp // (BN // WN) * WM, warp % (BN // WN) * WN
        assert work.rows(warp) == tuple(range(top, top + WM))
        assert work.columns(warp) == tuple(range(left, left + WN))
        assert (work.values(warp, "As"), work.values(warp, "Bs")) == (WM, WN)
        assert len(work.outputs(warp)) == WM * WN


def test_a_warp_of_rung_5_owns_two_rows_of_threads_and_reads_the_whole_width():
    tile = {name: value for name, value in TILE.items() if name not in ("WM", "WN")}
    rung_5 = block_work.watch(launch.of(VECTORIZED, tile), BLOCK)
    lanes = BN // TN
    assert (rung_5.values(0, "As"), rung_5.values(0, "Bs")) == (32 // lanes * TM, BN)


def test_a_lane_owns_TM_rows_and_TN_columns_in_quads(work):
    for thread in (0, 1, 31, 32):
        rows, columns = work.lane(thread)
        assert (len(rows), len(columns)) == (TM, TN)
        for owned in (rows, columns):
            assert (np.diff(owned.reshape(-1, 4)) == 1).all() and (owned[::4] % 4 == 0).all()


def test_work_is_of_one_block():
    with pytest.raises(ValueError, match=r"takes .* blocks: choose one that a single block finishes"):
        block_work.watch(launch.of(WARP_TILES), Gemm(BM + 1, BN, BK))


def test_an_output_with_two_writers_is_named():
    source = lane_orders.mapped(lane_orders.own().replace("* WM", "* 0"))
    with pytest.raises(ValueError, match=r"C\[0, 0\] has 2 writers, not one"):
        block_work.watch(launch.of(WARP_TILES, source=source), BLOCK)


# Orders of lanes. Loads of 16 bytes take four wavefronts, or two where lanes i and i ^ 1, or i and i ^ 2, want the same
# words; a lane makes two loads of A and two of B in a step.


@pytest.mark.parametrize(
    "order, wavefronts",
    [
        ("row by row", 2 * 2 + 2 * 4),  # lanes i and i ^ 1 share rows, and nobody near a column
        ("column by column", 2 * 4 + 2 * 2),
        ("zigzag", 2 * 2 + 2 * 2),  # lanes i and i ^ 1 share columns, i and i ^ 2 rows
    ],
)
@pytest.mark.parametrize("WM, WN", [(32, 64), (64, 32)])
def test_the_order_of_the_lanes_decides_the_wavefronts_of_a_step(order, wavefronts, WM, WN):
    kernel = launch.of(WARP_TILES, {"BM": 64, "BN": 64, "WM": WM, "WN": WN}, lane_orders.ordered(order))
    assert wavefronts_a_step(kernel, Gemm(64, 64, 16)) == wavefronts
    launch.require(launch.check(kernel, [Gemm(65, 66, 17)], ["distinct"]))


def test_the_kernel_stands_in_zigzag():
    assert wavefronts_a_step(launch.of(WARP_TILES), BLOCK) == 8
    assert lane_orders.ordered("zigzag") == WARP_TILES.source()
    assert lane_orders.mapped(lane_orders.own()) == WARP_TILES.source()


def test_a_wide_warp_tile_in_zigzag_takes_no_more_wavefronts_than_a_square_one():
    kernel = launch.of(WARP_TILES, {"BM": 32, "BN": 128, "WM": 16, "WN": 128})
    assert wavefronts_a_step(kernel, Gemm(32, 128, 16)) == 8


@pytest.mark.parametrize(
    "statements, message",
    [
        ("const int tx = lane;", "not tx"),
        ("int tx = lane;", "not none and inttx=lane;"),
        (lane_orders.own() + "\nreturn;", "and return;"),
        (lane_orders.own().replace("const int ty", "const int t"), "not warp_row, warp_col, tx, t"),
    ],
)
def test_a_mapping_that_is_not_its_four_statements_is_refused(statements, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        lane_orders.mapped(statements)


# Pictures.


def test_the_pictures_say_how_many_warps_and_how_many_values(work):
    assert f"rung 6: {work.warps} warps" in words(warp_tile_pictures.hierarchy({"rung 6": work}))
    text = words(warp_tile_pictures.operands({"rung 6": work}, warp=0))
    assert f"{WM} + {WN} = {WM + WN} values for {WM * WN:,} FMAs" in text


def test_the_pieces_of_a_warp_show_every_lane_once_and_cover_its_tile(work):
    assert warp_tile_pictures.pieces(work) == (TM // 4) * (TN // 4)
    for step in range(warp_tile_pictures.pieces(work)):
        text = words(warp_tile_pictures.piece(work, 1, step)).splitlines()
        assert text[0].startswith(f"piece {step + 1} of {(TM // 4) * (TN // 4)}")
        assert sorted(int(line) for line in text if line.isdigit()) == list(range(32))
    with pytest.raises(IndexError, match="there is no piece"):
        warp_tile_pictures.piece(work, 1, warp_tile_pictures.pieces(work))


def test_pictures_leave_no_figure_open(work):
    before = plt.get_fignums()
    words(warp_tile_pictures.piece(work, 0, 0))
    assert plt.get_fignums() == before


# The exercises.


@pytest.mark.parametrize("number", [1, 2])
def test_an_exercise_as_the_notebook_gives_it_is_not_attempted_and_stops_nothing(number):
    printed = []
    exec(cell(f"exercise-{number}-attempt"), {"warp_tile_exercises": warp_tile_exercises, "print": printed.append})
    (answer,) = printed
    assert answer.startswith("not attempted")


def test_the_reuse_that_the_notebook_shows_is_accepted():
    (assignment,) = ast.parse(shown(1, "python")).body
    names = dict(zip(("block", "warp", "thread"), LEVELS, strict=True))
    predicted = eval(compile(ast.Expression(assignment.value), "solution", "eval"), names)
    assert warp_tile_exercises.reuse(predicted).startswith("accepted: 9 of 9")


@pytest.mark.parametrize(
    "level, guess",
    [
        (LEVELS[0], 1 / 64),  # one operand alone
        (LEVELS[1], 1 / 16 + 1 / 128),  # rung 5's warp
        (LEVELS[1], 1 / 8 + 1 / 8),  # the thread's
        (LEVELS[2], 1 / 16),  # instructions, not values
    ],
)
def test_a_wrong_number_of_loads_is_refused_beside_what_was_counted(level, guess):
    with pytest.raises(Refused, match=re.escape(level)):
        warp_tile_exercises.reuse({"64 x 128, 32 x 64, 8 x 8": {level: guess}})


def test_the_mapping_that_the_notebook_shows_is_accepted():
    assert warp_tile_exercises.mapping(shown(2, "cuda")).startswith("accepted")


COLUMN_PAIRS = """
const int warp_row = warp % (BM / WM) * WM;  // warps down the columns
const int warp_col = warp / (BM / WM) * WN;
const int tx = lane / (2 * WM / TM) * 2 + lane % 2;
const int ty = lane % (2 * WM / TM) / 2;
"""


def test_another_mapping_that_is_as_good_is_accepted():
    assert warp_tile_exercises.mapping(COLUMN_PAIRS).startswith("accepted")


@pytest.mark.parametrize(
    "old, new, evidence",
    [
        ("warp / (BN / WN) * WM", "warp % (BN / WN) * WM", "writers, not one"),
        ("warp / (BN / WN) * WM", "warp / (BN / WN)", "multiple of 16"),
        ("warp % (BN / WN) * WN", "0", "writers, not one"),
        ("lane % (2 * WN / TN) / 2", "lane % (2 * WN / TN)", "bytes at byte .* of Bs"),
        ("lane / (2 * WN / TN) * 2 + lane % 2", "lane % (WM / TM)", "writers, not one"),
        ("const int ty", "const int y", "not warp_row, warp_col, tx, y"),
    ],
)
def test_a_mapping_that_leaves_an_output_without_its_one_owner_is_refused(old, new, evidence):
    statements = shown(2, "cuda")
    assert old in statements
    with pytest.raises(Refused, match=evidence):
        warp_tile_exercises.mapping(statements.replace(old, new))


@pytest.mark.parametrize("order", ["row by row", "column by column"])
def test_a_mapping_that_is_right_but_takes_more_wavefronts_is_refused_with_its_loads(order):
    tx, ty = lane_orders.ORDERS[order]
    statements = re.sub(r"(const int tx = )[^;]*", rf"\g<1>{tx}", shown(2, "cuda"))
    statements = re.sub(r"(const int ty = )[^;]*", rf"\g<1>{ty}", statements)
    with pytest.raises(
        Refused, match=r"right, but a warp's loads of one step take 12 wavefronts, where 8 do(.|\n)*ld\.shared"
    ):
        warp_tile_exercises.mapping(statements)
