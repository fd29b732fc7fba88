"""Rung 2: its kernel on every edge, what it moves, its barriers, and the exercises of its notebook."""

import ast
import json
import re
from pathlib import Path

import pytest

from gemmlab import launch, nvrtc, snapshots
from gemmlab.emulator.lanes import WARP
from gemmlab.exercises import Refused, shared_tile_exercises
from gemmlab.gemm import FAMILIES, Gemm
from gemmlab.ladder import rung
from gemmlab.roofline import shared_bytes, shared_loads_per_fma

SHARED = rung("shared_tiles")
CELLS = json.loads((Path(__file__).parent.parent / "notebooks" / "02_shared_tiles.ipynb").read_text("utf-8"))["cells"]
TILES = (8, 16, 32)
SIZES = (1, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129)
COUNT = len(SIZES)
every_tile = pytest.mark.parametrize("T", TILES)


def kernel(T: int = 32, source: str | None = None) -> launch.Kernel:
    return launch.of(SHARED, {"TILE": T}, source)


def cell(cell_id: str) -> str:
    return "".join(next(each["source"] for each in CELLS if each["id"] == cell_id))


def changed(source: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in source, f"{old!r} is not in the source"
        source = source.replace(old, new)
    return source


def line_of(source: str, text: str) -> int:
    (line,) = (number for number, each in enumerate(source.splitlines(), start=1) if text in each)
    return line


# Right for every shape.


@pytest.mark.parametrize("M", SIZES)
def test_every_pair_of_sizes_below_at_and_above_the_tiles_is_right(M):
    # The third size is the sum of the others' places, so that every two of M, N and K meet in all combinations.
    i = SIZES.index(M)
    problems = [Gemm(M, N, SIZES[(i + j) % COUNT]) for j, N in enumerate(SIZES)]
    launch.require(launch.check(kernel(), problems, ["distinct"]))


@pytest.mark.parametrize("T", (8, 16))
def test_smaller_tiles_are_right_at_every_size_of_each_dimension(T):
    problems = [Gemm(size, SIZES[(i + 5) % COUNT], SIZES[(7 * i) % COUNT]) for i, size in enumerate(SIZES)]
    launch.require(launch.check(kernel(T), problems, ["uniform"]))


@every_tile
def test_tall_wide_and_thin_problems_are_right(T):
    problems = [Gemm(1000, 2, 3), Gemm(2, 1000, 3), Gemm(70, 90, 1), Gemm(1, 1, 1000), Gemm(1, 1, 1)]
    launch.require(launch.check(kernel(T), problems, ["uniform"]))


@every_tile
@pytest.mark.parametrize("alpha", (0, 1, -0.5, 2))
def test_alpha_and_beta_are_applied_and_a_nan_in_C_does_not_survive_a_beta_of_0(T, alpha):
    # With a beta of 0, C begins as NaN everywhere.
    problems = [Gemm(33, 31, 17, alpha, beta) for beta in (0, 1, -0.5, 2)]
    launch.require(launch.check(kernel(T), problems, ["uniform"]))


@every_tile
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_inputs_is_right(T, family):
    launch.require(launch.check(kernel(T), [Gemm(37, 19, 45)], [family]))


@every_tile
@pytest.mark.parametrize("shape", [(64, 64, 64), (33, 34, 70), (17, 19, 23), (1, 1, 1)], ids=str)
def test_nothing_races_or_is_read_before_it_is_written(T, shape):
    assert launch.trace(kernel(T), Gemm(*shape, beta=2.0)).hazards == ()


# What it takes and what it moves.


@every_tile
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90"])
def test_nothing_spills_and_shared_memory_is_8_T_squared(T, arch):
    used = nvrtc.resources(SHARED.source(), SHARED.entry, SHARED.options({"TILE": T}), arch)
    assert (used.spill_store_bytes, used.spill_load_bytes, used.stack_bytes) == (0, 0, 0)
    assert used.shared_bytes == 8 * T**2 == shared_bytes(T, T, T)
    assert used.registers * T * T <= 65536


def test_tiles_of_64_are_refused_with_the_threads_they_make_and_the_most_there_are():
    with pytest.raises(ValueError, match="TILE = 64 makes a block of 4096 threads, but a GPU takes at most 1024"):
        SHARED.options({"TILE": 64})


def rows(traced, op):
    return [access for access in traced.accesses if access.op == op]


@every_tile
def test_each_operand_is_loaded_T_times_less_and_each_fma_reads_shared_memory_twice(T):
    problem = Gemm(64, 96, 128)
    products = problem.M * problem.N * problem.K
    traced = launch.trace(kernel(T), problem)
    assert [access.lanes for access in rows(traced, "ld.global")] == [products // T] * 2
    assert (
        sum(access.lanes for access in rows(traced, "ld.shared")) == 2 * products == shared_loads_per_fma() * products
    )
    assert sum(access.lanes for access in rows(traced, "st.global")) == problem.M * problem.N


def test_C_is_read_only_where_beta_asks_for_it():
    reads = {beta: rows(launch.trace(kernel(), Gemm(32, 32, 32, beta=beta)), "ld.global") for beta in (0.0, 1.0)}
    assert [len(found) for found in reads.values()] == [2, 3]


@every_tile
def test_no_access_moves_more_than_its_lanes_want_and_no_bank_conflicts(T):
    assert all(access.units == access.ideal for access in launch.trace(kernel(T), Gemm(64, 64, 64)).accesses)


def test_the_sums_are_those_that_nsight_compute_counted_on_an_h200():
    # Counted at 512^3 with tiles of 32: an eighth of each side makes 8^3 times fewer loads and 8^2 times fewer stores.
    traced = launch.trace(kernel(32), Gemm(64, 64, 64))
    loads, (store,) = rows(traced, "ld.global"), rows(traced, "st.global")
    assert sum(access.requests for access in loads) * 8**3 == 262_144
    assert sum(access.sectors for access in loads) * 8**3 == 1_048_576
    assert store.sectors * 8**2 == 32_768


def test_a_warp_makes_64_shared_loads_in_a_chunk_of_32():
    traced = launch.trace(kernel(32), Gemm(32, 32, 32))
    (read,) = rows(traced, "ld.shared")
    assert read.requests == 64 * 32 * 32 // WARP


def test_the_last_block_of_17_by_19_by_23_holds_1_row_3_columns_and_9_columns_of_zeros():
    shapes = {"As": (16, 16), "Bs": (16, 16)}
    first, second = snapshots.chunks(kernel(16), Gemm(17, 19, 23), shapes, block=(1, 1, 0))
    assert (first["As"].valid, first["Bs"].valid) == ((1, 16), (16, 3))
    assert (second["As"].valid, second["Bs"].valid) == ((1, 7), (7, 3))
    assert (second["As"].corner, second["Bs"].corner) == ((16, 16), (16, 16))
    assert not second["As"].filled[:, 7:].any() and 16 - 7 == 9


# The barriers, each taken away.

WRITTEN, READ = (
    "// nobody reads a tile before all of it is written",
    "// nobody overwrites a tile that somebody still reads",
)
GUARD = "    if (row >= M || col >= N)\n        return;\n"
SUM = "    float sum = 0.0f;\n"


@pytest.mark.parametrize("barrier", [WRITTEN, READ])
@every_tile
def test_without_a_barrier_the_answer_is_right_and_the_trace_names_both_lines_and_two_threads(T, barrier):
    source = SHARED.source()
    broken = changed(source, (f"__syncthreads();  {barrier}", f";  {barrier}"))
    problem = Gemm(33, 34, 70)
    launch.require(launch.check(kernel(T, broken), [problem], ["uniform"]))
    hazards = launch.trace(kernel(T, broken), problem).hazards
    read = line_of(source, "sum = fmaf(")
    written = {line_of(source, "As[ty][tx] ="), line_of(source, "Bs[ty][tx] =")}
    assert {hazard.kind for hazard in hazards} == {"race"}
    assert {frozenset({hazard.line, *hazard.lines}) for hazard in hazards} == {frozenset({read, w}) for w in written}
    assert all(len(set(hazard.threads)) == 2 for hazard in hazards)


@every_tile
def test_returning_early_is_a_divergent_barrier_at_both_barriers(T):
    broken = changed(SHARED.source(), (SUM, GUARD + SUM))
    hazards = launch.trace(kernel(T, broken), Gemm(33, 34, 70)).hazards
    diverged = [hazard for hazard in hazards if hazard.kind == "divergent-barrier"]
    assert {hazard.line for hazard in diverged} == {line_of(broken, WRITTEN), line_of(broken, READ)}
    assert all("returned at line" in hazard.message for hazard in diverged)


# The exercises: as given, as solved in the notebook, and wrong.

GIVEN = {
    1: (shared_tile_exercises.any_shape, shared_tile_exercises.any_shape_source),
    2: (shared_tile_exercises.one_barrier, shared_tile_exercises.one_barrier_source),
    3: (shared_tile_exercises.padded, shared_tile_exercises.padded_source),
}


def shown(number: int, language: str) -> str:
    """Return the solution that the notebook folds away."""
    (block,) = re.findall(rf"```{language}\n(.*?)```", cell(f"exercise-{number}-answer"), re.DOTALL)
    return block


@pytest.mark.parametrize("number", (1, 2, 3, 4))
def test_an_exercise_as_the_notebook_gives_it_is_not_attempted_and_stops_nothing(number):
    printed: list[str] = []
    exec(
        cell(f"exercise-{number}-attempt"),
        {"shared_tile_exercises": shared_tile_exercises, "print": printed.append},
    )
    (answer,) = printed
    assert answer.startswith("not attempted")


@pytest.mark.parametrize("number", GIVEN)
def test_the_solution_that_the_notebook_shows_is_accepted_and_says_what_comes_next(number):
    judge, _ = GIVEN[number]
    answer = judge(shown(number, "cuda"))
    assert answer.startswith("accepted") and f"Next: exercise {number + 1}" in answer


A, B = "A[row * K + k0 + tx]", "B[(k0 + ty) * N + col]"
LOADS = ((A, f"row < M && k0 + tx < K ? {A} : 0.0f"), (B, f"k0 + ty < K && col < N ? {B} : 0.0f"))
STORE = ("    float value", f"{GUARD}    float value")


@pytest.mark.parametrize(
    "changes, evidence",
    [
        ((STORE,), "out-of-bounds: line"),  # loads that ask nothing
        (LOADS, r"race: line|out-of-bounds: line"),  # a store that asks nothing
        ((*LOADS, (SUM, GUARD + SUM)), "divergent-barrier: line"),  # returns early
        (((A, f"row < M ? {A} : 0.0f"), (B, f"col < N ? {B} : 0.0f"), STORE), "out-of-bounds: line"),
        (((A, f"k0 + tx < K ? {A} : 0.0f"), (B, f"k0 + ty < K ? {B} : 0.0f"), STORE), "out-of-bounds: line"),
        (((A, f"row < M && k0 + tx < N ? {A} : 0.0f"), LOADS[1], STORE), "A.*guard the access"),  # N for K
        ((*LOADS, STORE, ("k < TILE; ++k", "k < TILE - 1; ++k")), "outside the error bound"),
        ((*LOADS, STORE, ("row >= M || col", "row >= M - 1 || col")), "never written"),
        (
            (*LOADS, STORE, ("fmaf(beta, C[row * N + col], value)", "value + C[row * N + col]")),
            "C is added without beta",
        ),
        ((*LOADS, STORE, ("if (beta != 0.0f)", "if (true)")), "NaN"),
    ],
)
def test_a_kernel_that_is_wrong_at_the_edges_is_refused_with_the_evidence(changes, evidence):
    with pytest.raises(Refused, match=evidence):
        shared_tile_exercises.any_shape(changed(shared_tile_exercises.any_shape_source(), *changes))


LOOP = "        for (int k"
TURN = "        now = 1 - now;"
SYNC = "        __syncthreads();\n"


@pytest.mark.parametrize(
    "changes, evidence",
    [
        (((TURN, SYNC + TURN),), r"race: line(.|\n)*reads"),  # at the end of the chunk
        ((("        As[now]", SYNC + "        As[now]"),), "race: line"),  # before the loads
        ((("    if (row >=", "    __syncthreads();\n    if (row >="),), "race: line"),  # once, after all chunks
        (((LOOP, "        __syncwarp();\n" + LOOP),), r"race: line(.|\n)*Bs"),  # for a warp alone
        (((LOOP, "        if (row < M && col < N) __syncthreads();\n" + LOOP),), "divergent-barrier: line"),
        (((LOOP, "        if (k0 == 0) __syncthreads();\n" + LOOP),), "race: line"),  # in the first chunk alone
        (((LOOP, SYNC + LOOP), (TURN, SYNC + TURN)), "waits 4 times for 2 chunks"),  # one too many
        (((LOOP, SYNC + LOOP), (TURN, "")), "race: line"),  # one buffer after all
        (((LOOP, SYNC + LOOP), ("sum);", "sum + 1.0f);")), "outside the error bound"),
    ],
)
def test_a_barrier_in_the_wrong_place_is_refused_with_the_evidence(changes, evidence):
    attempt = shared_tile_exercises.one_barrier_source()
    for old, new in changes:
        attempt = attempt.replace(old, new)
    with pytest.raises(Refused, match=evidence):
        shared_tile_exercises.one_barrier(attempt)


AS, BS = "float As[TILE][TILE]", "float Bs[TILE][TILE]"


@pytest.mark.parametrize(
    "changes, evidence",
    [
        (((BS, "float Bs[TILE][TILE + 1]"),), "conflicts: 32 wavefronts"),  # the wrong array
        (((AS, "float As[TILE + 1][TILE]"),), "conflicts: 32 wavefronts"),  # a row more
        (((AS, "float As[TILE][2 * TILE]"),), "conflicts: 32 wavefronts"),  # a whole turn of the banks
        (((AS, "float As[TILE][TILE + 2]"),), "conflicts: 2 wavefronts"),
        (((AS, "float As[TILE][TILE + 3]"),), "takes 8,576 bytes of shared memory where 8,320 do"),
        (((AS, "float As[TILE][TILE + 1]"), (BS, "float Bs[TILE][TILE + 1]")), "takes 8,448 bytes"),
        ((("As[tx][ty]", "As[ty][tx]"), ("As[k][ty]", "As[ty][k]")), "its tile transposed"),  # another layout
        (((AS, "float As[TILE][TILE + 1]"), ("As[k][ty]", "As[ty][k]")), "outside the error bound"),
    ],
)
def test_padding_that_cures_nothing_or_wastes_words_is_refused_with_the_evidence(changes, evidence):
    with pytest.raises(Refused, match=evidence):
        shared_tile_exercises.padded(changed(shared_tile_exercises.padded_source(), *changes))


def test_an_attempt_of_another_tile_than_that_of_its_launch_is_refused_by_its_define():
    attempt = shared_tile_exercises.PLAIN.replace("#ifndef TILE\n#define TILE 32\n#endif", "#define TILE 16")
    with pytest.raises(Refused, match=r"line 1 of the source, '#define TILE 16', overrides the option -DTILE=32"):
        shared_tile_exercises.any_shape(attempt)


def test_the_predictions_that_the_notebook_shows_are_accepted():
    (assignment,) = ast.parse(shown(4, "python")).body
    assert shared_tile_exercises.intensity(ast.literal_eval(assignment.value)).startswith("accepted: 5 of 5")


@pytest.mark.parametrize(
    "name, guess",
    [
        ("bytes that a chunk loads, TILE = 16", 1024),  # one tile of the two
        ("bytes that a chunk loads, TILE = 16", 512),  # values, not bytes
        ("FLOP/byte of a chunk, TILE = 8", 1),  # FMAs, not FLOPs
        ("FLOP/byte of a chunk, TILE = 16", 16),  # values, not bytes
        ("FLOP/byte of a chunk, TILE = 32", 0.25),  # as if nothing were shared
        ("bytes that rung 1 loads, over those of TILE = 32", 1024),  # the threads of a block
    ],
)
def test_a_wrong_prediction_is_refused_beside_what_was_counted(name, guess):
    with pytest.raises(Refused, match=re.escape(name)):
        shared_tile_exercises.intensity({name: guess})
