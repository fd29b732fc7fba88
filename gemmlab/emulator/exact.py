"""float64 arithmetic by exact rationals, rounded once in any direction: slow and sure, for the few lanes that need it.

IEEE 754-2008, 4.3 and 6.3; PTX ISA, "Floating-Point Instructions", rounding modifiers .rn, .rz, .rm and .rp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np


def special_fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """What a * b + c is where an operand is infinite or NaN, or where the result is an exact zero.

    A finite product may overflow in NumPy, but the exact one does not reach an infinite c.
    """
    return np.where(np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c), c + 0.0, a * b + c)


_NATIVE: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "fma": special_fma,
}
"""What decides where an operand is infinite, NaN or a zero divisor: there the result needs no rounding."""

_RATIONAL: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "rcp": lambda a: 1 / a,
    "fma": lambda a, b, c: a * b + c,
}


def apply(name: str, rounding: str, *values: np.ndarray) -> np.ndarray:
    """add, sub, mul, div, rcp, sqrt or fma of float64 arrays, element by element."""
    arrays = np.broadcast_arrays(*values)
    native = _NATIVE[name](*arrays)
    regular = np.logical_and.reduce([np.isfinite(a) for a in arrays])
    if name in ("div", "rcp"):
        regular &= arrays[-1] != 0
    if name == "sqrt":
        regular &= arrays[0] > 0
    result = np.array(native)
    one = _root if name == "sqrt" else _rational(name)
    result[regular] = [one(rounding, *map(float, lane)) for lane in zip(*(a[regular] for a in arrays), strict=True)]
    return result


def _rational(name: str) -> Callable[..., float]:
    function = _RATIONAL[name]

    def one(rounding: str, *operands: float) -> float:
        value = function(*map(Fraction, operands))
        if value == 0:
            return _zero(name, rounding, *operands)
        try:
            near = value.numerator / value.denominator
        except OverflowError:
            near = math.inf if value > 0 else -math.inf
        return _directed(near, value if math.isinf(near) else value - Fraction(near), rounding)

    return one


def _root(rounding: str, operand: float) -> float:
    near = math.sqrt(operand)
    return _directed(near, Fraction(operand) - Fraction(near) ** 2, rounding)


def _directed(near: float, error: Fraction, rounding: str) -> float:
    """The nearest float64, moved to the neighbour where the direction asks for it; `error` has the sign of what the
    exact value lies beyond it. An infinity that came of rounding up is moved as any other.
    """
    if math.isinf(near):
        error = -error
    up = rounding == "rp" or (rounding == "rz" and near < 0)
    down = rounding == "rm" or (rounding == "rz" and near > 0)
    if error > 0 and up:
        return math.nextafter(near, math.inf)
    if error < 0 and down:
        return math.nextafter(near, -math.inf)
    return near


def _zero(name: str, rounding: str, *operands: float) -> float:
    """The sign of an exact zero."""
    if name in ("mul", "div"):
        return math.copysign(0.0, math.copysign(1.0, operands[0]) * math.copysign(1.0, operands[1]))
    if name == "fma":
        first = math.copysign(1.0, operands[0]) * math.copysign(1.0, operands[1])
    else:
        first = math.copysign(1.0, operands[0])
    second = math.copysign(1.0, operands[-1]) * (-1.0 if name == "sub" else 1.0)
    if first == second:
        return math.copysign(0.0, first)
    return -0.0 if rounding == "rm" else 0.0
