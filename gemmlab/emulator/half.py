"""Arithmetic in f16 and bf16, and packed types: two halves, two 16-bit integers or two f32 in one register.

A half operation is computed on float64 values and rounded once by `formats`; NumPy's float16 operations, which go
through float32 and its more than twice as many bits, round alike and are faster.

PTX ISA, "Half Precision Floating-Point Instructions" and "Fundamental Types", "Packed Data Types".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .floats import canonical, unrounded
from .formats import F16, Format

Function = Callable[..., np.ndarray]

PACKED = {
    "f16x2": ("f16", np.dtype(np.float16)),
    "bf16x2": ("bf16", np.dtype(np.uint16)),
    "s16x2": ("s16", np.dtype(np.int16)),
    "u16x2": ("u16", np.dtype(np.uint16)),
    "f32x2": ("f32", np.dtype(np.float32)),
}
"""Packed types: the type of an element, and its NumPy type."""

_NEAREST16 = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def arithmetic16(form: Format, name: str, rounding: str = "rn") -> Function:
    """add, sub, mul or fma in f16 or bf16."""
    if form is F16 and rounding == "rn" and name in _NEAREST16:
        nearest = _NEAREST16[name]
        return lambda *values: canonical(nearest(*values))
    return lambda *values: form.narrow(unrounded(name, rounding, *map(form.widen, values)), rounding)


def through_float64(form: Format, function: Function) -> Function:
    """A function of float64 values, applied to values of the format and rounded to it."""
    return lambda *values: form.narrow(function(*map(form.widen, values)))


def packed(function: Function, element: np.dtype) -> Function:
    """A function of elements, applied to both halves of registers that hold two."""
    half = np.dtype(f"u{element.itemsize}")
    whole = np.dtype(f"u{2 * element.itemsize}")
    bits = whole.type(8 * element.itemsize)

    def apply(*values: np.ndarray) -> np.ndarray:
        low = function(*(v.astype(half).view(element) for v in values))
        high = function(*((v >> bits).astype(half).view(element) for v in values))
        return (high.view(half).astype(whole) << bits) | low.view(half)

    return apply


def unpack(value: np.ndarray, element: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The low and the high half of a register."""
    half = np.dtype(f"u{element.itemsize}")
    return value.astype(half).view(element), (value >> value.dtype.type(8 * half.itemsize)).astype(half).view(element)
