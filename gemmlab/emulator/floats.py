"""Floating-point arithmetic in float32 and float64, rounded once and in the direction that PTX asks for.

NumPy rounds every float32 and float64 operation once, to nearest even, as PTX's .rn does; what NumPy lacks is fma and
the other directions.

- fma in float32: a product of two float32 is exact in float64, and so is its sum with a third up to one rounding;
  rounding that once more goes wrong only where the sum lies half-way between two floats, or where the result is
  subnormal. Those lanes are found and computed again by rounding the sum to odd.
- fma in float64: the same authors' algorithm with error-free transformations; lanes near the ends of the exponent
  range, where those would lose bits, go to exact rationals.
- .rz, .rm and .rp: float32 through float64 rounded to odd, float64 through exact rationals.

Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008;
Dekker, "A floating-point technique for extending the available precision", 1971. PTX ISA, "Floating-Point
Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from . import exact
from .formats import F16, F32, Format

_F64 = np.dtype(np.float64)
_QUIET = np.uint64(1 << 51)
_INVALID = np.uint64(0xFFF8 << 48).view(_F64)
_ONE = np.uint64(1)
# Of a float64, the top three bits of the exponent and the 29 bits that a float32 lacks. Once _SHIFT is added, the
# former are all ones for the exponents of normal float32 (897 to 1150, and two more), the latter zero for a value
# half-way between two of them. So what needs a second look is at most _SURE.
_SHIFT = np.uint64((1792 - 897 << 52) + (1 << 28))
_SURE = np.uint64(7 << 60)
_LOOK = _SURE | np.uint64((1 << 29) - 1)
_SPLIT = np.float64(2**27 + 1)
_NAN = {f.storage: f.unsigned.type(f.nan).view(f.storage) for f in (F16, F32)}


def canonical(value: np.ndarray) -> np.ndarray:
    """f16 or f32 with every NaN as the one that the hardware returns. In float64 a NaN keeps its payload."""
    nan = np.isnan(value)
    return np.where(nan, _NAN[value.dtype], value) if value.dtype in _NAN and nan.any() else value


def quiet(value: np.ndarray) -> np.ndarray:
    """float64 with every NaN quiet, its sign and payload kept."""
    nan = np.isnan(value)
    return np.where(nan, (value.view(np.uint64) | _QUIET).view(_F64), value) if nan.any() else value


def surviving_nan(result: np.ndarray, first: np.ndarray, second: np.ndarray, *third: np.ndarray) -> np.ndarray:
    """A float64 result that is NaN as that of its operands which survives on an H200: of two NaNs the second, of three
    the second before the third, and else the one that an invalid operation gives there. The ISA leaves it open.
    """
    nan = np.isnan(result)
    if nan.any():
        result = np.where(nan, _INVALID, result)
        for operand in (first, *third, second):
            result = np.where(nan & np.isnan(operand), quiet(operand), result)
    return result


def flush(value: np.ndarray) -> np.ndarray:
    """Subnormals to zero of the same sign (.ftz)."""
    magnitude = np.abs(value)
    small = (magnitude < np.finfo(value.dtype).tiny) & (magnitude > 0)
    return np.where(small, np.copysign(value.dtype.type(0), value), value) if small.any() else value


def lesser(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smaller of two, and of a number and a NaN the number. NumPy's fmin gives either of a number and a signalling
    NaN, by the place in the array.
    """
    return np.where((a < b) | np.isnan(b), a, b)


def greater(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The larger of two, and of a number and a NaN the number."""
    return np.where((a > b) | np.isnan(b), a, b)


def saturate(value: np.ndarray) -> np.ndarray:
    """Clamp to [0, 1], NaN and -0 to +0 (.sat)."""
    zero, one = value.dtype.type(0), value.dtype.type(1)
    return np.where(value > zero, np.minimum(value, one), zero)


def relu(value: np.ndarray) -> np.ndarray:
    """Clamp to +0 and above (.relu); a NaN stays."""
    return np.where(value <= 0, value.dtype.type(0), value)


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Fused multiply-add in float32: a * b + c with a single rounding, to nearest even."""
    return _fused(a, b, c, lambda odd: odd.astype(np.float32))


def fma32_ftz(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The same with subnormal operands and results flushed."""
    a, b, c = flush(a), flush(b), flush(c)
    result = flush(_fused(a, b, c, lambda odd: odd.astype(np.float32)))
    return flush_edge(result, F32, "rn", lambda: unrounded("fma", "rn", *(v.astype(_F64) for v in (a, b, c))))


def flush_edge(result: np.ndarray, form: Format, rounding: str, exact_value: Callable[[], np.ndarray]) -> np.ndarray:
    """A flushed result, where it is the least normal number flushed too if the exact value is a subnormal one.

    It is subnormal if it is below the least normal number once rounded to the format's precision with no bound on the
    exponent (IEEE 754-2008, 7.5, "after rounding"). On an H200 2^-126 * (1 - 2^-24) is flushed, and what lies nearer to
    2^-126 than to that becomes 2^-126.
    """
    least = 2.0**form.emin
    edge = np.abs(result) == result.dtype.type(least)
    if not edge.any():
        return result
    rounded = form.widen(form.narrow(4.0 * exact_value(), rounding))
    return np.where(edge & (np.abs(rounded) < 4.0 * least), np.copysign(result.dtype.type(0), result), result)


def _fused(a: np.ndarray, b: np.ndarray, c: np.ndarray, finish: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Fused multiply-add by way of float64, twice rounded but where that may go wrong: there `finish` makes the result
    from the sum rounded to odd.
    """
    product = a.astype(_F64) * b.astype(_F64)
    addend = c.astype(_F64)
    total = product + addend
    result = total.astype(np.float32)
    look = total.view(np.uint64) + _SHIFT
    look &= _LOOK
    if np.minimum.reduce(look, axis=None) <= _SURE:
        unsure = look <= _SURE
        a, b = (np.broadcast_to(v, total.shape)[unsure] for v in (product, addend))
        result[unsure] = canonical(finish(round_to_odd(a, b, total[unsure])))
    return result


def round_to_odd(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The sum in float64 rounded to odd; `total` is the sum rounded to nearest. A later rounding to a narrower type
    then gives the right result.
    """
    return _odd(total, _sum_error(a, b, total))


def odd_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sum in float64 rounded to odd."""
    return round_to_odd(a, b, a + b)


def _odd(total: np.ndarray, error: np.ndarray) -> np.ndarray:
    """A sum, given as its nearest float64 and the error of that, rounded to odd."""
    bits = total.view(np.uint64)
    away = np.signbit(error) == np.signbit(total)
    odd = np.where(away, bits, bits - _ONE) | _ONE
    return np.where((error != 0) & np.isfinite(total), odd, bits).view(_F64)


def _sum_error(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
    """What total = a + b lost, exactly (Knuth's two-sum)."""
    back = total - a
    return (a - (total - back)) + (b - back)


def _product_error(a: np.ndarray, b: np.ndarray, product: np.ndarray) -> np.ndarray:
    """What product = a * b lost, exactly (Dekker), away from the ends of the exponent range."""
    scaled_a, scaled_b = _SPLIT * a, _SPLIT * b
    high_a, high_b = scaled_a - (scaled_a - a), scaled_b - (scaled_b - b)
    low_a, low_b = a - high_a, b - high_b
    return ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b


def fma64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Fused multiply-add in float64: a * b + c with a single rounding, to nearest even."""
    a, b, c = np.broadcast_arrays(a, b, c)
    product = a * b
    error = _product_error(a, b, product)
    middle = c + error
    high = product + middle
    rest = odd_sum(_sum_error(c, error, middle), _sum_error(product, middle, high))
    result = high + rest
    plain = exact.special_fma(a, b, c)
    result = np.where((result == 0) | ~np.isfinite(plain), plain, result)
    size = np.abs(product)
    risky = np.maximum(np.abs(a), np.abs(b)) > 2.0**990
    risky |= (size > 2.0**1000) | (np.abs(c) > 2.0**1000) | ((size < 2.0**-960) & (a != 0) & (b != 0))
    risky &= np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    if risky.any():
        result[risky] = exact.apply("fma", "rn", a[risky], b[risky], c[risky])
    return result


def _exact_zero(total: np.ndarray, a: np.ndarray, b: np.ndarray, rounding: str) -> np.ndarray:
    """The sign of a sum that is zero: IEEE 754-2008, 6.3, gives x - x the sign minus only when rounding down."""
    if rounding != "rm":
        return total
    return np.where((total == 0) & (np.signbit(a) != np.signbit(b)), -0.0, total)


def unrounded(name: str, rounding: str, *values: np.ndarray) -> np.ndarray:
    """An operation on float64 values that came from narrower formats, ready for its one rounding to such a format.

    Sums are rounded to odd and products of at most 26 bits each are exact. A quotient or a square root of float32
    values that is no float32 is at least 2^-48 of its size away from every float32, farther than float64's rounding
    reaches, so the plain float64 result serves.
    """
    if name == "mul":
        return values[0] * values[1]
    if name == "div":
        return values[0] / values[1]
    if name == "rcp":
        return 1.0 / values[0]
    if name == "sqrt":
        return np.sqrt(values[0])
    if name == "fma":
        a, b = values[0] * values[1], values[2]
    else:
        a, b = values[0], -values[1] if name == "sub" else values[1]
    return _exact_zero(odd_sum(a, b), a, b, rounding)


_NEAREST: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
}


def arithmetic32(name: str, rounding: str) -> Callable[..., np.ndarray]:
    """add, sub, mul, fma, div, rcp or sqrt in float32."""
    if rounding != "rn":
        return lambda *values: F32.narrow(unrounded(name, rounding, *(v.astype(_F64) for v in values)), rounding)
    if name == "fma":
        return fma32
    nearest = _NEAREST[name]
    return lambda *values: canonical(nearest(*values))


def arithmetic64(name: str, rounding: str) -> Callable[..., np.ndarray]:
    """add, sub, mul, fma, div, rcp or sqrt in float64."""
    function = fma64 if name == "fma" else _NEAREST[name]
    if rounding != "rn":
        function = partial(exact.apply, name, rounding)
    if name in ("add", "sub", "mul", "fma"):
        return lambda *values: surviving_nan(function(*values), *values)
    return function
