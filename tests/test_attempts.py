"""Attempts in CUDA that are none, never end or flood the page: each is answered in words, and soon."""

import io
import time

import numpy as np
import pytest

from gemmlab import emulator, exercises, lane_orders, launch, nvrtc
from gemmlab.exercises import (
    Refused,
    attempts,
    register_tile_exercises,
    shared_tile_exercises,
    vector_load_exercises,
    warp_tile_exercises,
)
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung

ENTRIES = {
    exercises.transposed: "gemm_transposed",
    exercises.one_dimensional_block: "gemm_1d",
    shared_tile_exercises.any_shape: "gemm_shared_tiles",
    shared_tile_exercises.one_barrier: "gemm_shared_tiles",
    shared_tile_exercises.padded: "gemm_shared_tiles",
    register_tile_exercises.two_by_two: "gemm_two_by_two",
    vector_load_exercises.any_row_length: "gemm_quads",
}
JUDGES = (*ENTRIES, warp_tile_exercises.mapping)
PARAMETERS = "int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C"

every_judge = pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.__name__)
every_judge_of_kernels = pytest.mark.parametrize("judge", ENTRIES, ids=lambda judge: judge.__name__)


def kernel(entry: str, body: str) -> str:
    return f'extern "C" __global__ void {entry}({PARAMETERS})\n{{\n{body}\n}}\n'


@every_judge
@pytest.mark.parametrize("given", [None, 3, b"__global__", ["x"], "void f() {}\0", "void f() {}\ud83d", 10**400])
def test_what_is_no_source_is_refused_as_such(judge, given):
    with pytest.raises(Refused, match=r"^.{1,90} is no CUDA source: put the text of a kernel between triple quotes$"):
        judge(given)


@every_judge
@pytest.mark.parametrize("given", [..., "", " \n", "...", "int x = ...;"])
def test_gaps_are_not_attempted(judge, given):
    assert judge(given) == "not attempted: put code in place of the dots"


@every_judge_of_kernels
def test_a_kernel_of_another_name_is_refused_with_the_names_that_there_are(judge):
    with pytest.raises(Refused, match=rf"no kernel '{ENTRIES[judge]}': the source defines other"):
        judge(kernel("other", "C[0] = 1.0f;"))


@every_judge_of_kernels
def test_code_that_does_not_compile_is_told_in_the_compilers_words(judge):
    with pytest.raises(nvrtc.CompileError, match="expected an expression"):
        judge(kernel(ENTRIES[judge], "C[0] = ;"))


@every_judge_of_kernels
@pytest.mark.parametrize(
    "body", ["for (volatile int i = 0; i >= 0; i = 0) C[0] = i;", "for (;;) __syncthreads();", 'for (;;) printf("on");']
)
def test_an_attempt_that_never_ends_is_refused_after_its_time(judge, body, monkeypatch, capsys):
    monkeypatch.setattr(attempts, "SECONDS", 0.5)
    before, limit = time.process_time(), emulator.time_limit()  # of this process alone, whatever else the machine does
    with pytest.raises(Refused, match="the time for all launches together is up; a loop here may never end"):
        judge(kernel(ENTRIES[judge], body))
    assert time.process_time() - before < 10
    assert emulator.time_limit() == limit


def test_what_the_emulator_does_not_run_is_refused_with_the_line():
    recursive = "__device__ __noinline__ float f(int n) { return n < 2 ? 1.0f : f(n - 1) + f(n - 2); }\n"
    with pytest.raises(Refused, match=r"calls itself, which is not emulated; use a loop"):
        shared_tile_exercises.any_shape(recursive + kernel("gemm_shared_tiles", "C[0] = f(K);"))


def test_dots_that_an_attempt_prints_are_no_gap(capsys):
    talkative = shared_tile_exercises.PLAIN.replace(
        "    float sum", '    if (row < 0) printf("\\"...");\n    float sum'
    )
    assert shared_tile_exercises.any_shape(talkative).startswith("accepted")


def test_an_attempt_that_prints_is_judged_and_shows_an_excerpt(capsys):
    talkative = shared_tile_exercises.PLAIN.replace("    float sum", '    printf("%d\\n", row);\n    float sum')
    assert shared_tile_exercises.any_shape(talkative).startswith("accepted")
    printed = capsys.readouterr().out
    assert printed.startswith("0\n0\n") and printed.endswith("left out: launch it yourself)\n")
    assert len(printed) < attempts.MOST_PRINTED + 100


def test_what_just_fits_is_shown_whole_and_the_next_character_is_said_to_be_left_out(monkeypatch):
    monkeypatch.setattr(attempts, "MOST_PRINTED", 3)
    page = io.StringIO()
    excerpt = attempts._Excerpt(page)
    excerpt.write("abc")
    assert page.getvalue() == "abc"
    for _ in range(2):
        excerpt.write("d")
    assert page.getvalue() == "abc\n(more of what the attempt prints is left out: launch it yourself)\n"


DIRECT = """    const int row = blockIdx.y * 32 + threadIdx.y;
    const int col = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        if (k % 32 == 0)
            __syncthreads();
        if (row < M && col < N)
            sum = fmaf(A[row * K + k], B[k * N + col], sum);
    }
    if (row >= M || col >= N)
        return;
    float value = alpha * sum;
    if (beta != 0.0f)
        value = fmaf(beta, C[row * N + col], value);
    C[row * N + col] = value;"""
# 2 * 64^3 floats where tiles of 32 need 32 times fewer
NO_TILES = "it loads 2,097,152 bytes of A and B from global memory, where tiles of 32 x 32 need 65,536"


@pytest.mark.parametrize("judge", [shared_tile_exercises.any_shape, shared_tile_exercises.one_barrier])
def test_a_kernel_without_tiles_does_not_pass_for_a_tiled_one(judge):
    with pytest.raises(Refused, match=NO_TILES):
        judge(kernel("gemm_shared_tiles", DIRECT))


def test_a_padded_kernel_that_keeps_one_tile_alone_is_refused():
    source = shared_tile_exercises.padded_source().replace("As[TILE][TILE]", "As[TILE][TILE + 1]")
    for old, new in (
        ("    __shared__ float Bs[TILE][TILE];\n", ""),
        ("        Bs[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.0f;\n", ""),
        ("Bs[k][tx]", "(k0 + k < K && col < N ? B[(k0 + k) * N + col] : 0.0f)"),
    ):
        assert old in source
        source = source.replace(old, new)
    with pytest.raises(Refused, match=r"of A and B from global memory, where tiles of 32 x 32 need 65,536"):
        shared_tile_exercises.padded(source)


def test_an_empty_source_is_not_the_rungs_own():
    with pytest.raises(ValueError, match="the CUDA source is empty"):
        launch.trace(launch.of(rung("naive"), source=""), Gemm(1, 1, 1))


def test_a_row_of_dots_is_not_attempted_and_a_row_too_long_is_refused():
    name = next(iter(register_tile_exercises.STRIPS))
    assert register_tile_exercises.strips({name: ...}).startswith("not attempted")
    assert warp_tile_exercises.reuse(dict.fromkeys(warp_tile_exercises.TILES, ...)).startswith("not attempted")
    with pytest.raises(Refused, match="is no row of 4 numbers"):
        register_tile_exercises.strips({name: (1, 2, 3, 4, 5)})


@pytest.mark.parametrize("pad", [4.0, False, "4", np.array([4, 4]), None])
def test_a_padding_that_is_no_whole_number_is_refused_with_those_there_are(pad):
    with pytest.raises(Refused, match=r"is none of side by side, in quads with 0, 2, 4, 8, 12"):
        vector_load_exercises.least_conflicts({"outputs": "in quads", "PAD": pad})


@pytest.mark.parametrize("pair", [(np.array([8, 4]), 4), ("8", 4), (10**400, 4), (8,), "84", 8])
def test_what_is_no_micro_tile_is_refused_in_few_characters(pair):
    with pytest.raises(Refused) as refused:
        register_tile_exercises.register_budgets({register_tile_exercises.BUDGETS[0]: pair})
    assert len(str(refused.value)) < 150


@pytest.mark.parametrize(
    "judge",
    [
        exercises.block_shapes,
        exercises.fifth_sector,
        shared_tile_exercises.intensity,
        register_tile_exercises.strips,
        register_tile_exercises.micro_tiles,
        register_tile_exercises.register_budgets,
        vector_load_exercises.counts,
        vector_load_exercises.least_conflicts,
        warp_tile_exercises.reuse,
    ],
    ids=lambda judge: judge.__name__,
)
def test_an_answer_to_what_was_not_asked_is_refused_and_not_passed_over(judge):
    with pytest.raises(Refused, match=r"^'misspelt' is no name of this exercise; the names are: "):
        judge({"misspelt": ...})


def test_a_mapping_is_put_into_the_source_as_it_is_written():
    own = lane_orders.own()
    with pytest.raises(nvrtc.CompileError, match=r"lane \\1"):
        warp_tile_exercises.mapping(own.replace("lane", r"lane \1", 1))
    with pytest.raises(Refused) as refused:
        warp_tile_exercises.mapping("int x; " * 100)
    assert len(str(refused.value)) < 250
