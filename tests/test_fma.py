"""fma in float32 against exact rationals: one rounding, at the edges where rounding twice would show."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gemmlab.emulator.floats import fma32


def nearest(value: Fraction) -> float:
    """The float32 nearest to a rational, ties to even; 0 and beyond the largest as IEEE 754 has them."""
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    rounded = round(size / unit) * unit  # Python rounds a Fraction half to even
    result = float("inf") if rounded >= Fraction(2) ** 128 else float(rounded)
    return result if value > 0 else -result


def fma(*operands):
    """fma32 on one lane."""
    with np.errstate(all="ignore"):
        return float(fma32(*(np.array([operand], np.float32) for operand in operands))[0])


# (2^47 - 1) = 13264529 * 10610063: products of two float32 that are a power of two but for one part in 2^47
A, B = 13264529, 10610063
TINY = 2.0**-126


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        # 1 + 2^-24 - 2^-71 lies just below half-way to the next float
        (A * 2.0**-35, B * 2.0**-36, 1.0, 1.0),
        # the same below the least normal number, where a float is 2^-149 wide: 2^-126 - 2^-150 - 2^-197
        (A * 2.0**-98, B * 2.0**-99, TINY - 2.0**-149, TINY - 2.0**-149),
        # exactly half-way: to even
        (2.0**-12, 2.0**-12, 1.0, 1.0),
        (2.0**-12, 2.0**-12, 1.0 + 2.0**-23, 1.0 + 2.0**-22),
        (2.0**-75, 2.0**-75, TINY - 2.0**-149, TINY),
        # half-way past the largest number
        (2.0**52, 2.0**51, 2.0**128 - 2.0**104, np.inf),
        (2.0**52, 2.0**50, 2.0**128 - 2.0**104, 2.0**128 - 2.0**104),
        (2.0**100, 2.0**100, -(2.0**127), np.inf),
        (2.0**-100, 2.0**-100, 0.0, 0.0),
        (0.0, 1.0, 0.0, 0.0),
    ],
)
def test_fma_is_one_rounding_half_way_below_the_least_and_past_the_largest_normal_number(a, b, c, expected):
    assert fma(a, b, c) == expected
    assert fma(-a, b, -c) == -expected


def test_fma_returns_the_nan_of_the_hardware():
    with np.errstate(all="ignore"):
        result = fma32(*(np.array([x], np.float32) for x in (np.inf, 0.0, 1.0)))
    assert result.view(np.uint32)[0] == 0x7FFFFFFF


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(a=finite, b=finite, c=finite)
def test_fma_is_the_exact_sum_rounded_once(a, b, c):
    assert fma(a, b, c) == nearest(Fraction(a) * Fraction(b) + Fraction(c))


significand = st.integers(2**23, 2**24 - 1)


@given(
    a=significand,
    b=significand,
    c=significand,
    exponents=st.tuples(st.integers(-110, 20), st.integers(-110, 20)),
    gap=st.integers(-60, 30),
    sign=st.sampled_from([1, -1]),
)
def test_fma_is_the_exact_sum_rounded_once_where_the_terms_are_of_like_size(a, b, c, exponents, gap, sign):
    first, second = exponents
    operands = (a * 2.0**first, sign * b * 2.0**second, c * 2.0 ** (first + second + 24 + gap))
    a, b, c = (float(np.float32(operand)) for operand in operands)
    assert fma(a, b, c) == nearest(Fraction(a) * Fraction(b) + Fraction(c))


def test_a_lane_that_needs_a_second_look_leaves_the_others_alone():
    a, b, c = (np.full((2, 3), value, np.float32) for value in (2.0, 3.0, 1.0))
    a[1, 2], b[1, 2] = A * 2.0**-35, B * 2.0**-36
    np.testing.assert_array_equal(fma32(a, b, c), [[7, 7, 7], [7, 7, 1]])
