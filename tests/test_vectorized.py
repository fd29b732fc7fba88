"""Rung 5: its kernel for every row length, what it moves by array, its other layouts, and its notebook's exercises."""

import ast
import json
import re
from pathlib import Path

import pytest

from gemmlab import array_traffic, emulator, launch, layouts, nvrtc
from gemmlab.exercises import Refused, vector_load_exercises
from gemmlab.gemm import FAMILIES, Gemm, inputs
from gemmlab.ladder import rung

VECTORIZED = rung("vectorized")
TILE = dict(VECTORIZED.tile)
BM, BN, BK, TM, TN = (TILE[name] for name in ("BM", "BN", "BK", "TM", "TN"))
WARPS = (BM // TM) * (BN // TN) // 32
BLOCK = Gemm(BM, BN, BK)
SMALL = {"BM": 32, "BN": 32, "BK": 8, "TM": 4, "TN": 4}
CELLS = json.loads((Path(__file__).parent.parent / "notebooks" / "05_vectorized.ipynb").read_text("utf-8"))["cells"]


def cell(cell_id: str) -> str:
    return "".join(next(each["source"] for each in CELLS if each["id"] == cell_id))


def shown(number: int, language: str) -> str:
    (block,) = re.findall(rf"```{language}\n(.*?)```", cell(f"exercise-{number}-answer"), re.DOTALL)
    return block


def shown_numbers(number: int) -> dict:
    (assignment,) = ast.parse(shown(number, "python")).body
    return ast.literal_eval(assignment.value)


def changed(source: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in source, f"{old!r} is not in the source"
        source = source.replace(old, new)
    return source


def of(kernel: launch.Kernel, array: str, op: str) -> array_traffic.ArrayTraffic:
    return array_traffic.of(array_traffic.count(kernel, BLOCK), array, op)


# Right for every shape and every length of a row.


@pytest.mark.parametrize("tile", [None, SMALL], ids=["default", "small"])
@pytest.mark.parametrize("K", [1, 15, 16, 17, 18, 19, 36])
def test_every_length_of_a_row_is_right(tile, K):
    # Rows of A are K floats long, those of B are N: all remainders of both by 4, below, at and above the tile.
    edge = (tile or TILE)["BN"]
    problems = [Gemm(edge // 2 + 1, N, K) for N in (edge - 1, edge, edge + 1, edge + 2, edge + 3)]
    launch.require(launch.check(launch.of(VECTORIZED, tile), problems, ["distinct"]))


def test_thin_tall_and_wide_problems_are_right():
    problems = [
        Gemm(1, 1, 1),
        Gemm(1, 300, 9),
        Gemm(300, 1, 9),
        Gemm(3, 5, 300),
        Gemm(BM - 1, 4, 4),
        Gemm(BM + 1, 5, 8),
    ]
    launch.require(launch.check(launch.of(VECTORIZED), problems, ["uniform"]))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_inputs_is_right_by_quads_and_by_single_floats(family):
    problems = [Gemm(BM + 1, 132, 20), Gemm(BM + 1, 131, 21)]
    launch.require(launch.check(launch.of(VECTORIZED), problems, [family]))


@pytest.mark.parametrize("beta", [0, 1, -0.5])
def test_alpha_and_beta_are_applied_and_a_nan_in_C_does_not_survive_a_beta_of_0(beta):
    problems = [Gemm(33, N, 17, alpha, beta) for N in (31, 32) for alpha in (0, -0.5)]
    launch.require(launch.check(launch.of(VECTORIZED), problems, ["uniform"]))


@pytest.mark.parametrize(
    "problem", [Gemm(BM + 1, BN + 4, BK + 4), Gemm(BM + 1, BN + 1, BK + 1)], ids=["quads", "single"]
)
def test_nothing_races_or_is_read_before_it_is_written(problem):
    assert launch.trace(launch.of(VECTORIZED), problem).ok


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90"])
def test_nothing_spills(arch):
    used = nvrtc.resources(VECTORIZED.source(), VECTORIZED.entry, VECTORIZED.options(), arch)
    assert (used.spill_store_bytes, used.spill_load_bytes) == (0, 0)
    assert used.shared_bytes == 4 * BK * (BM + TILE["PAD"] + BN)


@pytest.mark.parametrize(
    "tile, message",
    [
        ({"TM": 2}, "TM = 2 is not a multiple of 4, the floats of a 16-byte access"),
        ({"PAD": 2}, "PAD = 2 is not a multiple of 4"),
        ({"BN": 132}, "BN = 132 is not a multiple of TN = 8"),
    ],
)
def test_an_illegal_tile_is_refused_with_the_rule_and_both_numbers(tile, message):
    with pytest.raises(ValueError, match=message):
        VECTORIZED.options(tile)


def test_threads_that_do_not_load_whole_rows_are_refused():
    with pytest.raises(ValueError, match=r"makes 512 threads, which load 64 rows of B's tile at a time, but BK = 16"):
        VECTORIZED.options({"BM": 512, "BN": 32, "BK": 16, "TM": 8, "TN": 4})


# What moves, by array.


def test_a_quarter_of_the_instructions_brings_as_many_values():
    rows = array_traffic.count(launch.of(VECTORIZED), BLOCK)
    fmas = BM * BN * BK
    loads = [row for row in rows if row.op == "ld.shared"]
    assert sum(row.lanes for row in loads) == fmas * (TM / 4 + TN / 4) / (TM * TN)
    assert {row.bytes for row in loads} == {16}
    brought = {row.array: row.lanes * row.bytes for row in rows if row.op == "ld.global"}
    assert brought == {"A": 4 * BM * BK, "B": 4 * BK * BN}


def test_a_row_of_B_that_is_no_multiple_of_4_is_loaded_float_by_float():
    rows = array_traffic.count(launch.of(VECTORIZED), Gemm(BM, BN - 1, BK))
    assert array_traffic.of(rows, "B", "ld.global").bytes == 4
    assert array_traffic.of(rows, "Bs", "ld.shared").bytes == 16


@pytest.mark.parametrize("shape, element", [((8, 33, 8), r"B\[1, 0\]"), ((8, 32, 33), r"A\[1, 0\]")])
def test_quads_for_an_odd_row_are_misaligned_and_the_element_is_named(shape, element):
    problem = Gemm(*shape)
    careless = launch.of(VECTORIZED, source=layouts.always_vector())
    with pytest.raises(
        emulator.KernelFault, match=f"reads 16 bytes at byte 132 .{element}.* 4 past a multiple of 16"
    ) as fault:
        launch.run(careless, problem, inputs(problem))
    assert fault.value.hazard.kind == "misaligned"


def test_transposed_a_step_reads_two_quads_of_A_where_it_read_eight_floats():
    as_A_lies = launch.of(VECTORIZED, source=layouts.step_by_step(layouts.untransposed()))
    loads = of(as_A_lies, "As", "ld.shared"), of(layouts.padded(0), "As", "ld.shared")
    assert [(row.bytes, row.requests) for row in loads] == [(4, WARPS * BK * TM), (16, WARPS * BK * TM // 4)]
    # A warp stands in two rows of threads, whose quads lie 4 rows of 16 floats apart: 64 words, one bank.
    assert [row.a_request for row in loads] == [2, 2]


def test_transposed_the_store_of_a_quad_becomes_four_scattered_stores():
    stores = (
        of(launch.of(VECTORIZED, source=layouts.untransposed()), "As", "st.shared"),
        of(layouts.padded(0), "As", "st.shared"),
    )
    quads = BM * BK // 4 // 32
    assert [(row.bytes, row.requests) for row in stores] == [(16, quads), (4, 4 * quads)]
    # 512 bytes are four wavefronts; of 128 bytes, four quads of k meet in a bank, 4 rows of 64 words apart.
    assert [row.a_request for row in stores] == [4, 4]
    assert [row.conflicts for row in stores] == [False, True]


@pytest.mark.parametrize("pad, wavefronts", [(0, 4), (4, 2), (8, 4), (12, 2)])
def test_padding_cures_half_of_the_conflict_for_rows_must_stay_aligned(pad, wavefronts):
    # 4 * (64 + pad) words from quad to quad of k are 0 or 16 banks.
    assert of(layouts.padded(pad), "As", "st.shared").a_request == wavefronts


def test_padding_B_changes_nothing_for_its_loads_stay_within_a_row():
    padded = launch.of(VECTORIZED, source=layouts.padded_B())
    assert of(padded, "Bs", "ld.shared") == of(launch.of(VECTORIZED), "Bs", "ld.shared")


def test_columns_side_by_side_make_the_loads_of_B_conflict_and_scatter_the_store():
    # Eight lanes stand 8 words apart: two words for each bank in use, in each of four passes. A store of 16 bytes every
    # 32 touches a sector a lane.
    side_by_side, quads = launch.of(VECTORIZED, source=layouts.side_by_side()), launch.of(VECTORIZED)
    assert [of(kernel, "Bs", "ld.shared").a_request for kernel in (side_by_side, quads)] == [8, 4]
    assert [of(kernel, "C", "st.global").a_request for kernel in (side_by_side, quads)] == [32, 16]


@pytest.mark.parametrize(
    "other",
    [layouts.untransposed, layouts.side_by_side, layouts.step_by_step, layouts.padded_B],
    ids=lambda f: f.__name__,
)
def test_every_other_layout_is_right_too(other):
    kernel = launch.of(VECTORIZED, source=other())
    assert other() != VECTORIZED.source()
    launch.require(launch.check(kernel, [Gemm(65, 130, 20), Gemm(65, 132, 20)], ["distinct"]))


def test_a_layout_is_not_made_of_a_source_that_lacks_what_it_rewrites():
    with pytest.raises(ValueError, match="0 times, not once: start from rung 5's own"):
        layouts.side_by_side(layouts.side_by_side())


def test_traffic_by_array_adds_up_to_the_traffic_by_line():
    kernel = launch.of(VECTORIZED)
    by_line, by_array = launch.trace(kernel, BLOCK).accesses, array_traffic.count(kernel, BLOCK)
    for space in ("global", "shared"):
        lines = [access for access in by_line if access.space == space]
        arrays = [row for row in by_array if row.op.endswith(space)]
        for name in ("requests", "lanes", "units", "ideal"):
            assert sum(getattr(each, name) for each in arrays) == sum(getattr(each, name) for each in lines)


def test_a_row_that_is_not_there_is_refused_with_those_that_are():
    rows = array_traffic.count(launch.of(VECTORIZED), BLOCK)
    with pytest.raises(
        ValueError, match=r"0 kinds of access are st\.global of A, not one; there are: ld\.global of A, 16 bytes"
    ):
        array_traffic.of(rows, "A", "st.global")


def test_the_table_names_the_unit_of_each_row():
    lines = array_traffic.table(array_traffic.count(launch.of(VECTORIZED), BLOCK)).splitlines()
    assert lines[0].split() == [
        "array",
        "access",
        "bytes",
        "a",
        "lane",
        "requests",
        "a",
        "request",
        "at",
        "best",
        "in",
        "all",
    ]
    assert all(line.endswith("wavefronts" if ".shared" in line else "sectors") for line in lines[1:])


def test_no_columns_of_the_table_run_together_however_long_a_name_is():
    rows = [
        array_traffic.ArrayTraffic("local memory", "st.local", 16, 1, 32, 1, 1, (1,)),
        array_traffic.ArrayTraffic("As", "cp.async.shared", 16, 1, 32, 1, 1, (1,)),
    ]
    assert [line.split("  ")[0] for line in array_traffic.table(rows).splitlines()] == ["array", "local memory", "As"]
    assert all(
        re.search(r"  (st\.local|cp\.async\.shared)  ", line) for line in array_traffic.table(rows).splitlines()[1:]
    )


# The exercises.


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_exercise_as_the_notebook_gives_it_is_not_attempted_and_stops_nothing(number):
    printed = []
    exec(cell(f"exercise-{number}-attempt"), {"vector_load_exercises": vector_load_exercises, "print": printed.append})
    (answer,) = printed
    assert answer.startswith("not attempted")


def test_the_kernel_that_the_notebook_shows_is_accepted():
    answer = vector_load_exercises.any_row_length(shown(1, "cuda"))
    assert answer.startswith("accepted") and "128 requests" in answer and "Next: exercise 2" in answer


@pytest.mark.parametrize(
    "old, new, evidence",
    [
        ("quads_of_B = N % 4 == 0", "quads_of_B = true", r"N=\d+.*\n?.*reads 16 bytes"),
        ("quads_of_A = K % 4 == 0", "quads_of_A = N % 4 == 0", "reads 16 bytes at byte .* of A"),
        ("quads_of_B = N % 4 == 0", "quads_of_B = K % 4 == 0", "reads 16 bytes at byte .* of B"),
        ("quads_of_B = N % 4 == 0", "quads_of_B = N % 2 == 0", "reads 16 bytes at byte .* of B"),
        ("quads_of_A = K % 4 == 0", "quads_of_A = false", r"requests to A bring 4 bytes a lane"),
        ("row < M ? K - int(k0 + x) : 0, quads_of_A", "K - int(k0 + x), quads_of_A", "bytes at byte"),
        ("left > 3 ? p[3]", "left > 2 ? p[3]", "bytes at byte|outside the error bound"),
        ("left > 1 ? p[1] : 0.0f", "0.0f", "outside the error bound"),
        ("row < M ? K - int(k0 + x) : 0", "row < M ? K : 0", "bytes at byte|outside the error bound"),
        ("        __syncthreads();  // nobody reads a tile before all of it is written\n", "", "race|nothing orders"),
    ],
)
def test_a_kernel_that_is_wrong_or_not_vectorised_is_refused_with_the_evidence(old, new, evidence):
    with pytest.raises(Refused, match=evidence):
        vector_load_exercises.any_row_length(changed(shown(1, "cuda"), (old, new)))


def test_the_layout_that_the_notebook_shows_is_accepted():
    answer = vector_load_exercises.least_conflicts(shown_numbers(2))
    assert answer.startswith("accepted") and "Next: exercise 3" in answer


@pytest.mark.parametrize(
    "outputs, pad, evidence",
    [
        ("side by side", 4, "2,560 wavefronts of shared loads"),  # loads of Bs: 4 more for each of 256 requests
        ("in quads", 0, "384 of stores in a block; another choice takes 1,536 and 256"),
        ("in quads", 8, "another choice takes"),
        ("in quads", 12, "with less memory"),
        ("in quads", 2, "66 floats long, 264 bytes: no multiple of 16"),
        ("in quads", 5, "is none of"),
        ("in a comb", 4, "is none of"),
    ],
)
def test_a_layout_that_another_one_beats_is_refused_with_both_counts(outputs, pad, evidence):
    with pytest.raises(Refused, match=evidence):
        vector_load_exercises.least_conflicts({"outputs": outputs, "PAD": pad})


def test_the_numbers_that_the_notebook_shows_are_accepted():
    assert vector_load_exercises.counts(shown_numbers(3)).startswith("accepted: 5 of 5")


@pytest.mark.parametrize(
    "name, guess",
    [
        ("shared load instructions an FMA, 8 x 8", 0.25),  # values, not instructions
        ("shared load instructions an FMA, 4 x 4", 0.5),
        ("FMAs for each shared load instruction, 8 x 8", 4),
        ("16-byte loads from global memory, a thread and chunk", 24),  # floats
        ("4-byte stores to As, a thread and chunk", 2),  # as if it were not scattered
    ],
)
def test_a_wrong_number_is_refused_beside_what_was_counted(name, guess):
    with pytest.raises(Refused, match=name):
        vector_load_exercises.counts({name: guess})
