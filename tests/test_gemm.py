"""The problem, its inputs and its reference."""

from fractions import Fraction

import numpy as np
import pytest

from gemmlab.gemm import FAMILIES, Gemm, inputs, reference, require_matrix

SMALL = Gemm(M=3, N=4, K=5)


def test_work_is_two_flops_for_each_product():
    assert Gemm(M=2, N=3, K=5).flops == 60


@pytest.mark.parametrize("name", ["M", "N", "K"])
def test_a_size_below_one_is_refused_with_its_name_value_and_limit(name):
    with pytest.raises(ValueError, match=f"{name} is 0, but must be at least 1"):
        Gemm(**{"M": 4, "N": 4, "K": 4, name: 0})


def test_a_size_that_is_no_integer_is_refused():
    with pytest.raises(TypeError, match=r"N is 4\.0, but must be an integer"):
        Gemm(4, 4.0, 4)


@pytest.mark.parametrize(
    ("sizes", "array"), [((65536, 1, 32768), "A"), ((1, 65536, 32768), "B"), ((65536, 32768, 1), "C")]
)
def test_an_array_of_two_to_the_31_elements_is_refused_by_name(sizes, array):
    with pytest.raises(ValueError, match=rf"{array} would have .* = 2147483648 elements, .* at most 2147483647"):
        Gemm(*sizes)


def test_an_array_of_two_to_the_31_minus_1_elements_is_legal():
    assert Gemm(2**31 - 1, 1, 1).M == 2147483647


def test_factors_are_what_a_kernel_receives_as_float32():
    assert Fraction(Gemm(1, 1, 1, alpha=0.1).alpha) == Fraction(13421773, 2**27)  # the float32 next to 0.1


@pytest.mark.parametrize("alpha", [1e39, float("nan"), float("inf")])
def test_a_factor_that_float32_cannot_hold_is_refused(alpha):
    with pytest.raises(ValueError, match=r"alpha is .*, but must be finite in float32 \(at most 3\.4028235e\+38\)"):
        Gemm(1, 1, 1, alpha=alpha)


def test_a_factor_that_is_no_number_is_refused():
    with pytest.raises(TypeError, match="beta is 'two', but must be a real number"):
        Gemm(1, 1, 1, beta="two")


@pytest.mark.parametrize("family", FAMILIES)
def test_inputs_are_contiguous_float32_of_the_problems_shapes(family):
    for matrix, shape in zip(inputs(SMALL, family), [(3, 5), (5, 4), (3, 4)], strict=True):
        assert matrix.shape == shape
        assert matrix.dtype == np.float32
        assert matrix.flags.c_contiguous


def test_an_unknown_family_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'gaussian'; known: zeros, ones, identity, alternating, distinct, uniform"):
        inputs(SMALL, "gaussian")


@pytest.mark.parametrize(
    ("family", "product"),
    [
        ("zeros", np.zeros((3, 4))),
        ("ones", np.full((3, 4), 5)),
        ("alternating", [[5, -5, 5, -5], [-5, 5, -5, 5], [5, -5, 5, -5]]),
    ],
)
def test_the_product_of_a_simple_family_is_known_by_hand(family, product):
    np.testing.assert_array_equal(reference(SMALL, *inputs(SMALL, family)), product)


def test_an_identity_repeats_the_rows_of_B_and_then_zeros():
    tall = Gemm(M=5, N=4, K=3)
    A, B, C = inputs(tall, "identity")
    np.testing.assert_array_equal(reference(tall, A, B, C), np.vstack([B, np.zeros((2, 4))]))


@pytest.mark.parametrize("family", ["identity", "distinct", "uniform"])
def test_a_transposed_square_result_differs_wherever_it_can(family):
    square = Gemm(8, 8, 8)
    product = reference(square, *inputs(square, family))
    assert (product != product.T).sum() == 8 * 8 - 8


def test_distinct_rows_and_columns_are_all_different():
    product = reference(SMALL, *inputs(SMALL, "distinct"))
    assert len(np.unique(product, axis=0)) == 3
    assert len(np.unique(product.T, axis=0)) == 4


def test_uniform_inputs_are_the_documented_bits_of_pcg64():
    # A float32 of NumPy's generators is the upper 24 bits of a 32-bit draw; PCG64 draws 64 bits, lower half first.
    draw = int(np.random.PCG64(7).random_raw())
    halves = [draw & 0xFFFFFFFF, draw >> 32]
    A, _, _ = inputs(SMALL, "uniform", seed=7)
    assert A.flat[:2].tolist() == [2 * (half >> 8) / 2**24 - 1 for half in halves]


def test_uniform_inputs_stay_in_their_interval_and_follow_the_seed():
    first, again, other = (inputs(SMALL, "uniform", seed)[0] for seed in (1, 1, 2))
    assert first.min() >= -1 and first.max() < 1
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_cancelling_products_sum_to_zero_exactly():
    even = Gemm(M=3, N=4, K=6)
    A, B, _ = inputs(even, "cancellation")
    assert np.abs(A).max() > 0.1
    for row in range(3):
        for column in range(4):
            terms = (Fraction(float(A[row, k])) * Fraction(float(B[k, column])) for k in range(6))
            assert sum(terms) == 0


def test_the_reference_scales_and_adds():
    problem = Gemm(M=1, N=1, K=2, alpha=-0.5, beta=2.0)
    A, B, C = (np.array(values, np.float32) for values in ([[3, 4]], [[5], [6]], [[7]]))
    assert reference(problem, A, B, C) == [[-0.5 * 39 + 2 * 7]]


def test_the_reference_is_a_float64_sum_of_the_float32_inputs():
    problem = Gemm(M=1, N=1, K=2)
    A, B = np.array([[2**24, 1]], np.float32), np.ones((2, 1), np.float32)
    result = reference(problem, A, B)
    assert result.dtype == np.float64
    assert result == [[2**24 + 1]]  # which float32 cannot hold


def test_the_reference_does_not_read_C_when_beta_is_zero():
    A, B, C = inputs(SMALL, "ones")
    np.testing.assert_array_equal(reference(SMALL, A, B, np.full_like(C, np.nan)), np.full((3, 4), 5))


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        (np.zeros((5, 3), np.float32), ValueError, r"A has shape \(5, 3\), but must be \(3, 5\) for Gemm\(M=3"),
        (np.zeros((3, 5)), TypeError, "A has dtype float64, but must be float32"),
        ([[0.0] * 5] * 3, TypeError, "A must be a NumPy array, not list"),
    ],
)
def test_a_matrix_of_the_wrong_kind_is_refused_by_name(matrix, error, message):
    with pytest.raises(error, match=message):
        require_matrix(SMALL, "A", matrix)
