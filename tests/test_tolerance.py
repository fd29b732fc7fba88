"""The error bound and the verdict."""

from fractions import Fraction

import numpy as np
import pytest

from gemmlab.gemm import FAMILIES, Gemm, inputs, reference
from gemmlab.tolerance import SENTINEL, compare, expect, gamma, initial_output, verdict

PROBLEM = Gemm(M=5, N=7, K=9)
U = 2.0**-24


def right_result(problem, A, B, C):
    return reference(problem, A, B, C).astype(np.float32)


@pytest.fixture
def right():
    A, B, C = inputs(PROBLEM)
    return expect(PROBLEM, A, B, C), right_result(PROBLEM, A, B, C)


def broken(result, changes):
    result = result.copy()
    for position, value in changes.items():
        result[position] = value
    return result


def test_gamma_is_nu_over_one_minus_nu():
    assert Fraction(gamma(2**10)) == pytest.approx(Fraction(2**10, 2**24 - 2**10))


def test_no_bound_is_given_for_sums_too_long_for_float32():
    with pytest.raises(ValueError, match="sums of 16777216 roundings in float32: it needs fewer than 16777216"):
        gamma(2**24)


def test_the_bound_of_one_product_is_three_roundings():
    # K = 1: one product, one rounding each for alpha and beta, on |2 * 3| = 6; the 2^-149 terms vanish beside it.
    problem = Gemm(1, 1, 1)
    bound = expect(problem, np.full((1, 1), 2, np.float32), np.full((1, 1), -3, np.float32)).bound
    assert bound[0, 0] == pytest.approx(6 * 3 * U / (1 - 3 * U), rel=1e-12)


def test_the_bound_scales_with_alpha_and_covers_beta_times_C():
    problem = Gemm(1, 1, 1, alpha=-4.0, beta=0.5)
    one = np.ones((1, 1), np.float32)
    bound = expect(problem, one, one, -8 * one).bound
    assert bound[0, 0] == pytest.approx(4 * 3 * U / (1 - 3 * U) + 4 * 2 * U / (1 - 2 * U), rel=1e-12)


def test_zero_times_anything_leaves_only_the_smallest_subnormals():
    A, B, C = inputs(PROBLEM, "zeros")
    np.testing.assert_array_equal(expect(PROBLEM, A, B, C).bound, (9 + 2) * 2.0**-149)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (-0.5, 2), (0, 1)])
def test_a_float32_sum_in_order_is_right_on_every_family(family, alpha, beta):
    problem = Gemm(6, 4, 301, alpha, beta)
    A, B, C = inputs(problem, family)
    total = np.zeros((6, 4), np.float32)
    for k in range(problem.K):
        total += A[:, k, None] * B[None, k, :]
    result = np.float32(alpha) * total + (np.float32(beta) * C if beta else 0)
    verdict(problem, A, B, C, result.astype(np.float32)).require()


def test_an_error_within_the_bound_passes_and_one_of_twice_the_bound_fails():
    problem = Gemm(1, 1, 1)
    one = np.ones((1, 1), np.float32)  # the bound is 3u, and float32 steps by 2u above one
    expected = expect(problem, one, one)
    assert compare(expected, one + np.float32(2 * U)).correct
    assert not compare(expected, one + np.float32(6 * U)).correct


def test_the_verdict_reports_the_element_that_uses_most_of_its_bound(right):
    expected, result = right
    found = compare(expected, broken(result, {(3, 2): result[3, 2] + 1}))
    assert not found.correct
    assert (found.worst, found.wrong, found.nan, found.unwritten, found.outputs) == ((3, 2), 1, 0, 0, 35)
    assert found.got == result[3, 2] + np.float32(1)
    assert found.want == expected.value[3, 2]
    assert found.error_bound == expected.bound[3, 2]
    assert found.max_abs_error == pytest.approx(1, rel=1e-6)


def test_a_transposed_square_result_is_wrong():
    square = Gemm(8, 8, 8)
    A, B, C = inputs(square, "distinct")
    found = verdict(square, A, B, C, np.ascontiguousarray(right_result(square, A, B, C).T))
    assert found.wrong == 8 * 8 - 8


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_neither_nan_nor_infinity_ever_passes(right, value):
    expected, result = right
    found = compare(expected, broken(result, {(4, 6): value}))
    assert not found.correct
    assert found.worst == (4, 6)
    assert (found.nan, found.wrong) == ((1, 0) if np.isnan(value) else (0, 1))


def test_a_result_of_nothing_but_nan_is_wrong(right):
    expected, result = right
    found = compare(expected, np.full_like(result, np.nan))
    assert (found.correct, found.nan, found.max_abs_error, found.max_rel_error) == (False, 35, None, None)
    assert "35 NaN" in found.message and "no output is a finite number" in found.message


def test_untouched_outputs_are_counted_as_never_written_and_not_as_nan(right):
    expected, result = right
    output = initial_output(PROBLEM, result)
    output[:, :3] = result[:, :3]
    output[0, 0] = np.nan
    found = compare(expected, output)
    assert (found.unwritten, found.nan, found.wrong) == (5 * 4, 1, 0)


def test_the_sentinel_keeps_its_bits_on_the_way_into_an_array(right):
    _, result = right
    bits = initial_output(PROBLEM, result).view(np.uint32)
    assert np.isnan(SENTINEL)
    assert (bits == SENTINEL.view(np.uint32)).all()
    assert SENTINEL.view(np.uint32) not in (0x7FFFFFFF, 0x7FC00000, 0xFFC00000)  # CUDA's, NumPy's and x86's own NaN


def test_C_is_kept_for_the_kernel_when_beta_reads_it():
    problem = Gemm(5, 7, 9, beta=1.0)
    _, _, C = inputs(problem)
    output = initial_output(problem, C)
    np.testing.assert_array_equal(output, C)
    assert output is not C


def test_the_message_counts_first_then_locates_then_sizes_the_errors(right):
    expected, result = right
    found = compare(expected, broken(result, {(1, 2): np.nan, (3, 3): 9, (4, 4): SENTINEL}))
    counts, worst, errors = found.message.splitlines()
    assert counts == (
        "wrong: of 35 outputs, 1 never written (C still holds what it was filled with), 1 NaN, "
        "1 outside the error bound"
    )
    assert worst.startswith("worst at row 1, column 2: got nan, want ")
    assert f"allowed error {expected.bound[1, 2]:.3g}" in worst
    assert errors.startswith("largest absolute error ") and ", largest relative error " in errors


def test_require_raises_the_message_and_returns_a_right_verdict(right):
    expected, result = right
    found = compare(expected, result)
    assert found.require() is found
    assert found.message.startswith("correct: all 35 outputs are within the error bound")
    with pytest.raises(AssertionError, match="1 NaN"):
        compare(expected, broken(result, {(0, 0): np.nan})).require()


def test_no_relative_error_is_reported_where_the_reference_is_zero():
    even = Gemm(M=3, N=4, K=8)
    A, B, C = inputs(even, "cancellation")
    found = verdict(even, A, B, C, np.full((3, 4), 1e-8, np.float32))
    assert found.correct
    assert found.max_rel_error is None
    assert found.max_abs_error == pytest.approx(1e-8)


def test_C_before_the_launch_is_not_read_when_beta_is_zero(right):
    _, result = right
    A, B, C = inputs(PROBLEM)
    assert verdict(PROBLEM, A, B, np.full_like(C, np.nan), result).correct
    assert verdict(PROBLEM, A, B, None, result).correct


def test_an_input_that_is_not_finite_has_no_bound():
    A, B, C = inputs(PROBLEM)
    B[2, 1] = np.inf
    with pytest.raises(ValueError, match=r"B holds inf at \(2, 1\), but no error bound exists"):
        expect(PROBLEM, A, B, C)


def test_a_problem_that_may_overflow_float32_has_no_bound():
    problem = Gemm(1, 1, 2)
    A, B = np.full((1, 2), 1e19, np.float32), np.full((2, 1), 1e19, np.float32)
    with pytest.raises(ValueError, match=r"the terms of output \(0, 0\) add up to 2e\+38 in size, but float32 ends at"):
        expect(problem, A, B)


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        (np.zeros((7, 5), np.float32), ValueError, r"the result has shape \(7, 5\), but must be \(5, 7\)"),
        (np.zeros((5, 7)), TypeError, "the result has dtype float64, but must be float32"),
        (object(), TypeError, r"the result must be a NumPy array, not object: bring .* home with cp\.asnumpy"),
    ],
)
def test_a_result_of_the_wrong_kind_is_refused(right, result, error, message):
    with pytest.raises(error, match=message):
        compare(right[0], result)
