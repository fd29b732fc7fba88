"""Mistakes that must be refused and named, and right kernels that must be accepted: one table, PLANTED."""

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from fake_cupy import ILLEGAL_ADDRESS, breaking_cupy

from gemmlab import context, diagnosis, emulator, launch
from gemmlab.correctness import FACTORS, USUAL_EDGES, cases, edges_of, examine, recheck
from gemmlab.gemm import FAMILIES, Gemm, inputs, reference
from gemmlab.ladder import RUNGS, Geometry, arguments, rung
from gemmlab.tolerance import SENTINEL, expect, initial_output, verdict

EDGE = 8  # outputs of PLAIN's blocks along each side, and the steps of its tiles of K where it has any
PLAIN = """
extern "C" __global__ void gemm(
    int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    const int row = blockIdx.y * 8 + threadIdx.y;
    const int col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N)
        return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k)
        sum = fmaf(A[row * K + k], B[k * N + col], sum);
    float value = alpha * sum;
    if (beta != 0.0f)
        value = fmaf(beta, C[row * N + col], value);
    C[row * N + col] = value;
}
"""
LOOP = """    for (int k = 0; k < K; ++k)
        sum = fmaf(A[row * K + k], B[k * N + col], sum);
"""
END = PLAIN[PLAIN.index("    float value") :]
RAGGED, SQUARE, FACTORED = Gemm(33, 31, 37), Gemm(32, 32, 32), Gemm(33, 31, 37, alpha=-0.5, beta=2.0)


def covering(problem: Gemm) -> Geometry:
    return Geometry((-(-problem.N // EDGE), -(-problem.M // EDGE), 1), (EDGE, EDGE, 1), 0)


def whole_tiles_only(problem: Gemm) -> Geometry:
    return Geometry((max(problem.N // EDGE, 1), max(problem.M // EDGE, 1), 1), (EDGE, EDGE, 1), 0)


def edited(*edits: tuple[str, str], geometry: Callable[[Gemm], Geometry] = covering) -> launch.Kernel:
    source = PLAIN
    for old, new in edits:
        assert old in source
        source = source.replace(old, new)
    return launch.Kernel(source, "gemm", (), geometry)


def kernel(*edits: tuple[str, str], geometry: Callable[[Gemm], Geometry] = covering) -> Callable:
    """An examination of PLAIN with edits, as (right or not, what is said of it)."""

    def judged() -> tuple[bool, str]:
        found = examine(edited(*edits, geometry=geometry), {"K": (EDGE,)})
        return found.correct, found.message

    return judged


def result(make: Callable, problem: Gemm = RAGGED, family: str = "uniform") -> Callable:
    """The verdict on `make(A, B, C, right)` and its causes, as (right or not, what is said of it)."""

    def judged() -> tuple[bool, str]:
        A, B, C = inputs(problem, family)
        made = make(A, B, C, in_order(problem, A, B, C)).astype(np.float32)
        causes = diagnosis.causes(problem, A, B, initial_output(problem, C), made)
        return verdict(problem, A, B, C, made).correct, "; ".join(map(str, causes))

    return judged


def in_order(problem: Gemm, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> np.ndarray:
    """The result in float32, products added one after the other."""
    total = np.zeros((A.shape[0], B.shape[1]), np.float32)
    for k in range(A.shape[1]):
        total += A[:, k, None] * B[None, k]
    return np.float32(problem.alpha) * total + (np.float32(problem.beta) * C if problem.beta else np.float32(0))


def with_element(value: float) -> Callable:
    def change(A, B, C, right):
        right[20, 7] = value
        return right

    return change


def half_precision_sum(A, B, C, right):
    total = np.zeros(right.shape, np.float16)
    for k in range(A.shape[1]):
        total = (total + A[:, k, None] * B[None, k]).astype(np.float16)
    return total


def beta_after_each_tile(A, B, C, right):
    for k in range(0, 37, 8):
        C = -0.5 * (A[:, k : k + 8] @ B[k : k + 8]) + 2 * C
    return C


def stale_tile(A, B, C, right):
    """What a missing barrier leaves when the warp of rows 8 to 15 takes the second tile of A before it is there."""
    late = A[8:16].copy()
    late[:, 8:16] = A[8:16, 0:8]
    right[8:16] = in_order(RAGGED, late, B, C[8:16])
    return right


def one_of_16_million() -> tuple[bool, str]:
    problem = Gemm(4096, 4096, 2)
    A, B, C = inputs(problem)
    made = in_order(problem, A, B, C)
    made[1234, 4001] += np.float32(1e-5)
    found = verdict(problem, A, B, C, made)
    assert found.wrong == 1 and found.worst == (1234, 4001) and found.outputs == 16_777_216
    return found.correct, ""


def ulp_wrong(problem: Gemm, direction: float) -> Callable:
    """Every output one unit in the last place off the correctly rounded one."""

    def change(A, B, C, right):
        return np.nextafter(reference(problem, A, B, C).astype(np.float32), np.float32(direction))

    return result(change, problem)


def of_rung(each) -> Callable:
    def judged() -> tuple[bool, str]:
        found = examine(launch.of(each))
        return found.correct, found.message

    return judged


@dataclass(frozen=True)
class Planted:
    """A kernel or a result, whether it is right, and what must be said of it where it is not."""

    name: str
    judged: Callable[[], tuple[bool, str]]
    right: bool
    said: str = ""


STORE = "C[row * N + col] = value;"
TF32 = "__uint_as_float(__float_as_uint({}) + 0x1000 & 0xffffe000)"
BETA_PER_TILE = """    for (int k0 = 0; k0 < K; k0 += 8) {
        float part = 0.0f;
        for (int k = k0; k < min(k0 + 8, K); ++k)
            part = fmaf(A[row * K + k], B[k * N + col], part);
        C[row * N + col] = alpha * part + (beta != 0.0f ? beta * C[row * N + col] : 0.0f);
    }
}
"""
BETA_ADDED_PER_TILE = (
    "        for (int k0 = 0; k0 < K; k0 += 8)\n            value = fmaf(beta, C[row * N + col], value);\n"
)
FMA = "sum = fmaf(A[row * K + k], B[k * N + col], sum);"
PAST = FMA + " if ({}) sum += 1.0f;"
SPLIT_K = """    float low = 0.0f;
    for (int k = 0; k < K / 2; ++k)
        low = fmaf(A[row * K + k], B[k * N + col], low);
    for (int k = K / 2; k < K; ++k)
        sum = fmaf(A[row * K + k], B[k * N + col], sum);
    sum += low;
"""

REFUSED = (
    Planted("kernel: C is stored as its transpose", kernel((STORE, "C[col * M + row] = value;")), False, "(A @ B).T"),
    Planted("kernel: A @ B.T", kernel(("B[k * N + col]", "B[col * K + k]")), False, "equals A @ B.T"),
    Planted("kernel: A.T @ B", kernel(("A[row * K + k]", "A[k * M + row]")), False, "equals A.T @ B"),
    Planted("kernel: K - K % 8 steps", kernel(("k < K;", "k < K - K % 8;")), False, "the sum ends at K - K % BK"),
    Planted(
        "kernel: beta after each tile", kernel((LOOP + END, BETA_PER_TILE)), False, "each tile of K stores beta * C"
    ),
    Planted(
        "kernel: beta * C for each tile",
        kernel(("        value = fmaf(beta, C[row * N + col], value);\n", BETA_ADDED_PER_TILE)),
        False,
        "beta * C is added",
    ),
    Planted("kernel: C read with beta 0", kernel(("if (beta != 0.0f)", "")), False, "C is read although beta is 0"),
    Planted("kernel: alpha forgotten", kernel(("alpha * sum", "sum")), False, "alpha is left out"),
    Planted("kernel: beta * C forgotten", kernel(("if (beta != 0.0f)", "if (false)")), False, "beta * C is left out"),
    Planted("kernel: grid of whole tiles only", kernel(geometry=whole_tiles_only), False, "were never computed"),
    Planted("kernel: stores nothing", kernel((STORE, "")), False, "no thread reached a store"),
    Planted("kernel: zeros", kernel((STORE, "C[row * N + col] = 0.0f;")), False, "A @ B is left out"),
    Planted("kernel: NaN", kernel((STORE, "C[row * N + col] = row == 5 ? 0.0f / 0.0f : value;")), False, "NaN"),
    Planted(
        "kernel: infinity", kernel((STORE, "C[row * N + col] = row == 5 ? 1.0f / 0.0f : value;")), False, "got inf"
    ),
    Planted("kernel: the last row", kernel(("row >= M ||", "row >= M - 1 ||")), False, "were never computed"),
    Planted(
        "kernel: operands rounded to TF32",
        kernel(("A[row * K + k]", TF32.format("A[row * K + k]")), ("B[k * N + col]", TF32.format("B[k * N + col]"))),
        False,
        "rounded to TF32",
    ),
    Planted("kernel: the fifth block of a row", kernel((FMA, PAST.format("blockIdx.x == 4"))), False, "outside"),
    Planted("kernel: the ninth row of blocks", kernel((FMA, PAST.format("blockIdx.y == 8"))), False, "outside"),
    Planted(
        "kernel: blocks far from both edges",
        kernel((FMA, PAST.format("blockIdx.x > 1 && blockIdx.y > 1"))),
        False,
        "outside",
    ),
    Planted("transpose of a square", result(lambda A, B, C, right: right.T.copy(), SQUARE), False, "(A @ B).T"),
    Planted("A @ B.T of squares", result(lambda A, B, C, right: A @ B.T, SQUARE), False, "equals A @ B.T"),
    Planted("A.T @ B of squares", result(lambda A, B, C, right: A.T @ B, SQUARE), False, "equals A.T @ B"),
    Planted("7 columns missing", result(lambda A, B, C, right: A[:, :30] @ B[:30]), False, "the last 7 of 37 columns"),
    Planted("last tile alone", result(lambda A, B, C, right: A[:, 32:] @ B[32:]), False, "the first 32 of 37 columns"),
    Planted(
        "beta after each tile", result(beta_after_each_tile, FACTORED), False, "after each tile of 8 steps of K, 5"
    ),
    Planted("beta forgotten", result(lambda A, B, C, right: right - C, FACTORED), False, "added without beta"),
    Planted(
        "alpha on C too", result(lambda A, B, C, right: -0.5 * (A @ B) - C, FACTORED), False, "multiplies beta * C"
    ),
    Planted("half-precision sum", result(half_precision_sum), False),
    Planted("a stale tile, as without a barrier", result(stale_tile), False),
    Planted("a NaN", result(with_element(np.nan)), False),
    Planted("an infinity", result(with_element(-np.inf)), False),
    Planted("an output never written", result(with_element(SENTINEL)), False),
    Planted("zeros where ones are summed", result(lambda A, B, C, right: 0 * right, family="ones"), False, "left out"),
    Planted("one output of 16 million", one_of_16_million, False),
)
ACCEPTED = (
    Planted("kernel: fused multiply-add", kernel(), True),
    Planted(
        "kernel: products rounded before they are added",
        kernel((LOOP, LOOP.replace("fmaf(A[", "__fadd_rn(__fmul_rn(A[").replace("col], sum)", "col]), sum)"))),
        True,
    ),
    Planted("kernel: backwards", kernel(("int k = 0; k < K; ++k", "int k = K - 1; k >= 0; --k")), True),
    Planted("kernel: split K", kernel((LOOP, SPLIT_K)), True),
    *(Planted(f"kernel: rung {each.number}, {each.name}", of_rung(each), True) for each in RUNGS),
    *(
        Planted(f"1 ulp {name}, K = {K}", ulp_wrong(Gemm(33, 31, K), direction), True)
        for name, direction in (("above", np.inf), ("below", -np.inf))
        for K in (1, 2, 37)
    ),
    Planted("pairwise sums", result(lambda A, B, C, right: (A[:, None] * B.T).sum(-1)), True),
    Planted("cancelling sums, in order", result(lambda A, B, C, right: right, family="cancellation"), True),
    Planted(
        "cancelling sums, backwards",
        result(lambda A, B, C, right: in_order(RAGGED, A[:, ::-1], B[::-1], C), family="cancellation"),
        True,
    ),
    Planted("cancelling sums, by BLAS", result(lambda A, B, C, right: A @ B, family="cancellation"), True),
)
PLANTED = REFUSED + ACCEPTED


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_what_is_wrong_is_refused_and_what_is_right_accepted(planted):
    right, said = planted.judged()
    assert right is planted.right, said
    assert planted.said in said


# What an examination covers.


def test_the_edges_of_a_rung_are_those_of_its_blocks_warps_and_threads():
    assert edges_of(launch.of(rung("warp_tiles"))) == {"M": (8, 32, 64), "N": (8, 64, 128), "K": (16,)}
    assert edges_of(launch.of(rung("shared_tiles"), {"TILE": 16})) == {"M": (16,), "N": (16,), "K": (16,)}
    # BX and BY say nothing of M and N by their names, so the geometry must.
    assert edges_of(launch.of(rung("naive"), {"BX": 32, "BY": 4})) == {"M": (32,), "N": (4,), "K": USUAL_EDGES}
    assert edges_of(launch.of(rung("coalesced"), {"BX": 32, "BY": 4})) == {"M": (4,), "N": (32,), "K": USUAL_EDGES}


def test_the_edges_of_a_pasted_kernel_are_in_its_source_and_its_geometry():
    pasted = launch.Kernel("#define BK 12 // deep\nconstexpr int TM = 4;\n" + PLAIN, "gemm", (), covering)
    assert edges_of(pasted) == {"M": (4, 8), "N": (8,), "K": (12,)}


def test_the_slices_of_a_split_k_are_edges_too():
    sliced = launch.Kernel(PLAIN, "gemm", (), lambda problem: Geometry((1, 1, -(-problem.K // 48)), (1, 1, 1), 0))
    assert edges_of(sliced)["K"] == (48,)


@pytest.mark.parametrize("number", ["0", "65536", "2147483647"])
def test_a_constant_that_can_be_no_tile_is_no_edge(number):
    pasted = launch.Kernel(f"#define BN {number}\n#define BK {number}\n" + PLAIN, "gemm", (), covering)
    assert edges_of(pasted) == {"M": (8,), "N": (8,), "K": USUAL_EDGES}


def test_a_grid_that_does_not_depend_on_the_shape_has_no_edges_of_its_own():
    persistent = launch.Kernel(PLAIN, "gemm", (), lambda problem: Geometry((132, 1, 1), (256, 1, 1), 0))
    assert edges_of(persistent)["M"] == USUAL_EDGES


def test_every_pair_of_sizes_around_two_edges_comes_in_some_shape():
    edges = {"M": (64,), "N": (128,), "K": (16,)}
    shapes = [(problem.M, problem.N, problem.K) for problem, family in cases(edges) if family == "uniform"]
    sizes = {axis: (1, edge - 1, edge, edge + 1) for axis, edge in enumerate((64, 128, 16))}
    for first, second in combinations(range(3), 2):
        seen = {(shape[first], shape[second]) for shape in shapes}
        assert {(a, b) for a in sizes[first] for b in sizes[second]} <= seen
    assert (64, 128, 16) in shapes and (65, 129, 17) in shapes


def test_every_family_and_every_pair_of_factors_comes_and_the_launches_are_few():
    planned = cases(edges_of(launch.of(rung("warp_tiles"))))
    assert {family for _, family in planned} == set(FAMILIES)
    assert {(problem.alpha, problem.beta) for problem, _ in planned} == {(a, b) for a in FACTORS for b in FACTORS}
    assert any(problem.M > 50 * problem.N for problem, _ in planned)
    assert any(problem.N > 50 * problem.M for problem, _ in planned)
    assert any(problem.K > 100 for problem, _ in planned)
    assert len(planned) <= 45


def test_smaller_edges_come_with_the_sizes_on_both_sides_of_them():
    planned = cases({"M": (8, 32, 64), "N": (4, 64), "K": (16,)})
    assert {7, 8, 9, 31, 32, 33, 63, 64, 65} <= {problem.M for problem, _ in planned}
    assert {3, 4, 5} <= {problem.N for problem, _ in planned}


def test_a_tile_of_one_output_has_no_shape_below_it():
    assert all(min(problem.M, problem.N, problem.K) >= 1 for problem, _ in cases({"M": (1,), "N": (1,), "K": (1,)}))


# What it says.


def test_a_report_has_a_line_for_each_problem_and_ends_with_the_outcome():
    found = examine(edited())
    header, *lines, outcome = str(found).splitlines()
    assert "worst error / bound" in header
    assert len(lines) == len({each.problem for each in found.checks})
    assert outcome == f"gemm: {len(found.checks)} of {len(found.checks)} results are right"
    assert found.require() is found


def test_a_failure_says_where_how_far_off_and_in_one_sentence_why():
    with pytest.raises(AssertionError) as refused:
        examine(edited(("k < K;", "k < K - K % 8;")), {"K": (8,)}).require()
    said = str(refused.value)
    assert "worst at row" in said and "largest absolute error" in said and "largest relative error" in said
    assert "diagnosis: the last" in said and "wrong results" in said


def test_a_result_that_no_known_mistake_explains_gets_no_explanation():
    found = examine(edited((STORE, "C[row * N + col] = value + (row == 2 && col == 3 ? 0.01f : 0.0f);")))
    assert found.diagnosis is None
    assert "no known mistake explains most of these results" in found.message


def test_a_failure_under_a_divergent_barrier_names_the_barrier():
    tiles = rung("shared_tiles").source()
    under_a_branch = tiles.replace("__syncthreads();", "if (ty < 16) __syncthreads();", 1)
    assert under_a_branch != tiles
    wrong = launch.of(rung("shared_tiles"), source=under_a_branch)
    for refused in (
        lambda: examine(wrong).require(),
        lambda: launch.require(launch.check(wrong, [RAGGED], ["uniform"])),
    ):
        with pytest.raises(
            AssertionError, match=r"the emulator finds:\n(race|divergent-barrier|uninitialized): line \d+"
        ):
            refused()


def test_a_wrong_launch_without_a_hazard_and_one_too_large_to_trace_say_nothing_of_hazards():
    assert launch.found(edited((STORE, "C[row * N + col] = 0.0f;")), RAGGED) == ()
    wild = edited(("row >= M || col >= N", "false"))
    assert launch.found(wild, RAGGED) and launch.found(wild, Gemm(1025, 1025, 1025)) == ()


def test_a_fault_ends_the_examination_and_keeps_the_checks_before_it():
    wild = edited((STORE, STORE + "\n    if (K == 9) C[M * N] = 0.0f;"))
    found = examine(wild, {"K": (8,)})
    assert not found.correct and not found.wrong and len(found.checks) > 0
    assert f"stopped at launch {len(found.checks) + 1} of {found.planned}, M=" in found.message
    assert "K=9" in found.fault and "line 16" in found.fault
    with pytest.raises(AssertionError, match="stopped at launch"):
        found.require()


# A cause is claimed only where it is one.


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("problem", [RAGGED, SQUARE, FACTORED, Gemm(1, 1, 1), Gemm(1, 9, 2, alpha=0.0, beta=1.0)])
def test_a_right_result_has_no_cause(family, problem):
    A, B, C = inputs(problem, family)
    made = in_order(problem, A, B, C).astype(np.float32)
    assert diagnosis.causes(problem, A, B, initial_output(problem, C), made) == ()


@pytest.mark.parametrize("planted", ["A @ B.T", "half"])
def test_a_nearly_explained_result_is_not_explained(planted):
    A, B, C = inputs(SQUARE)
    made = (A @ B.T).copy() if planted == "A @ B.T" else (A[:, :16] @ B[:16]).copy()
    made[3, 3] += np.float32(0.01)
    assert diagnosis.causes(SQUARE, A, B, initial_output(SQUARE, C), made) == ()


def test_no_length_of_a_sum_is_named_where_several_explain_it():
    # Products that cancel in pairs: 0, 2, ... and 12 of the 13 add up to 0.
    odd = Gemm(5, 6, 13)
    A, B, C = inputs(odd, "cancellation")
    (cause,) = diagnosis.causes(odd, A, B, initial_output(odd, C), np.zeros((5, 6), np.float32))
    assert cause.kind == "A @ B forgotten"


def test_what_could_be_first_or_last_columns_is_called_columns():
    A, B, C = inputs(RAGGED, "ones")
    (cause,) = diagnosis.causes(RAGGED, A, B, initial_output(RAGGED, C), np.full((33, 31), 32, np.float32))
    assert str(cause) == "5 of 37 columns of A are missing from the sum"


def test_a_deep_sum_is_diagnosed_in_the_memory_that_its_operands_take():
    deep = Gemm(12, 12, 2**19, alpha=2.0)
    A, B, C = inputs(deep, "ones")
    tracemalloc.start()
    found = diagnosis.causes(deep, A, B, initial_output(deep, C), np.full((12, 12), deep.K, np.float32))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "alpha forgotten" in {cause.kind for cause in found}
    # Float64 copies of A and B, and of their sizes, are 4 times A and B. The products of C's outputs would be 24 times.
    assert peak < 8 * (A.nbytes + B.nbytes)


# After timing.


class Timed:
    """A kernel's launches on device arrays, of which each runs the source that its number picks."""

    def __init__(self, problem, *kernels):
        self.problem, self.kernels = problem, kernels
        A, B, C = inputs(problem)
        self.before, self.expected = initial_output(problem, C), expect(problem, A, B, C)
        self.device = [emulator.asarray(each) for each in (A, B, self.before)]

    def submit(self, number=0):
        chosen = self.kernels[min(number, len(self.kernels) - 1)]
        grid, block, _ = chosen.geometry(self.problem)
        emulator.RawKernel(chosen.source, chosen.entry)(grid, block, arguments(self.problem, *self.device))

    def recheck(self):
        return recheck(self.expected, self.submit, self.device[2], self.before)


def test_with_beta_0_what_many_launches_left_is_checked():
    timed = Timed(Gemm(9, 10, 11), edited(), edited(("alpha * sum", "alpha * sum + 1.0f")))
    for number in range(3):
        timed.submit(number)
    found = timed.recheck()
    assert not found.correct and "wrong after it was timed: of 90 outputs" in found.message
    timed.submit(0)
    assert timed.recheck().correct


def test_with_beta_C_is_put_back_and_one_more_launch_is_checked():
    timed = Timed(Gemm(9, 10, 11, beta=2.0), edited())
    for _ in range(3):
        timed.submit()
    assert timed.recheck().correct


def test_a_kernel_that_spoils_its_inputs_is_found_after_timing():
    spoils = edited((STORE, STORE + "\n    if (row + col == 0) const_cast<float*>(A)[0] += 1.0f;"))
    timed = Timed(Gemm(9, 10, 11, beta=1.0), spoils)
    timed.submit()
    assert not timed.recheck().correct


# A launch that ends the GPU's context.


@pytest.fixture(autouse=True)
def no_context_has_ended(monkeypatch):
    monkeypatch.setattr(context, "_ended", [])


def test_the_launch_that_ends_the_context_is_named_and_the_checks_before_it_are_kept():
    cupy = breaking_cupy(at=5)
    found = examine(edited(), xp=cupy)
    assert len(found.checks) == 4 and all(each.verdict.correct for each in found.checks)
    fifth, _ = cases(edges_of(edited()))[4]
    assert (
        f"the launch of gemm, grid {covering(fifth).grid}, block (8, 8, 1), at {launch.written(fifth)}" in found.fault
    )
    assert ILLEGAL_ADDRESS in found.fault and "Restart the notebook's kernel" in found.fault


def test_every_later_launch_names_the_one_that_ended_the_context():
    cupy, problem = breaking_cupy(at=1), Gemm(9, 10, 11)
    with pytest.raises(context.ContextLost, match="at M=9, N=10, K=11 ended this process's CUDA context"):
        launch.run(edited(), problem, inputs(problem), cupy)
    other = Gemm(3, 3, 3)
    with pytest.raises(context.ContextLost, match=r"at M=9, N=10, K=11 ended .*\n.*Restart the notebook's kernel"):
        launch.run(edited(), other, inputs(other), cupy)
    assert launch.run(edited(), other, inputs(other), emulator).shape == (3, 3), "the emulator goes on"


def test_a_context_that_was_lost_outside_is_not_blamed_on_the_next_launch():
    cupy, problem = breaking_cupy(at=1), Gemm(9, 10, 11)
    cupy.RawKernel(PLAIN, "gemm", options=())((1, 1, 1), (1, 1, 1), ())
    with pytest.raises(context.ContextLost, match="a launch before the launch of gemm"):
        launch.run(edited(), problem, inputs(problem), cupy)


def test_an_error_that_the_context_survives_passes_through():
    with pytest.raises(emulator.CompileError):
        launch.run(launch.Kernel("nonsense", "gemm", (), covering), SQUARE, inputs(SQUARE), breaking_cupy(at=99))
