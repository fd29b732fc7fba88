"""Floating-point arithmetic with the rounding that PTX asks for.

NumPy rounds every float32 and float64 operation once, to nearest even, as PTX's .rn does; what NumPy lacks is fma. A
product of two float32 is exact in float64, and so is its sum with a third up to one rounding; rounding that once more
to float32 goes wrong only where the sum lies half-way between two floats, or where the result is subnormal. Those
lanes are found and computed again by rounding the sum to odd (Boldo and Melquiond, "Emulation of FMA and correctly
rounded sums: proved algorithms using rounding to odd", 2008).

PTX ISA: "Floating-Point Instructions" (add, sub, mul, fma, div, sqrt, rcp, ex2, lg2, sin, cos, tanh, abs, neg, min,
max). NaN results are 0x7FFFFFFF in float32.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .instructions import Code, Step, UnsupportedInstruction, dtype_of, elementwise, opcode
from .ptx import Instruction

F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
_LOW = np.uint64((1 << 29) - 1)
_HALF = np.uint64(1 << 28)
_ONE = np.uint64(1)
_EXPONENT = np.uint32(0x7F800000)
_EXPONENT_STEP = np.uint32(0x00800000)
_NAN = {F16: np.uint16(0x7FFF).view(F16), F32: np.uint32(0x7FFFFFFF).view(F32), F64: np.uint64(2**63 - 1).view(F64)}


def canonical(value: np.ndarray) -> np.ndarray:
    """The value with every NaN as the one that the hardware returns."""
    nan = np.isnan(value)
    return np.where(nan, _NAN[value.dtype], value) if nan.any() else value


def fma32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c in float32 with a single rounding."""
    product = a.astype(F64) * b.astype(F64)
    addend = c.astype(F64)
    total = product + addend
    result = total.astype(F32)
    exponent = result.view(np.uint32) + _EXPONENT_STEP
    exponent &= _EXPONENT
    unsure = (total.view(np.uint64) & _LOW) == _HALF
    unsure |= exponent <= _EXPONENT_STEP
    if unsure.any():
        a, b = (np.broadcast_to(v, total.shape)[unsure] for v in (product, addend))
        result[unsure] = canonical(_round_to_odd(a, b, total[unsure]).astype(F32))
    return result


def _round_to_odd(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> np.ndarray:
    """a + b in float64 rounded to odd; `total` is the sum rounded to nearest. A later rounding to a narrower type
    then gives the right result."""
    back = total - a
    error = (a - (total - back)) + (b - back)
    bits = total.view(np.uint64)
    away = np.signbit(error) == np.signbit(total)
    odd = np.where(away, bits, bits - _ONE) | _ONE
    return np.where((error != 0) & np.isfinite(total), odd, bits).view(F64)


def flush(value: np.ndarray) -> np.ndarray:
    """Subnormals to zero of the same sign (.ftz)."""
    return np.where(np.abs(value) < np.finfo(value.dtype).tiny, np.copysign(value.dtype.type(0), value), value)


def saturate(value: np.ndarray) -> np.ndarray:
    """Clamp to [0, 1], NaN to 0 (.sat)."""
    return np.where(np.isnan(value), value.dtype.type(0), np.clip(value, value.dtype.type(0), value.dtype.type(1)))


def modified(function: Callable[..., np.ndarray], instruction: Instruction) -> Callable[..., np.ndarray]:
    """The function with the instruction's .ftz and .sat applied to its operands and its result."""
    parts = instruction.parts
    if "ftz" in parts:
        inner = function

        def function(*values: np.ndarray) -> np.ndarray:
            return flush(inner(*map(flush, values)))

    if "sat" in parts:
        unclamped = function

        def function(*values: np.ndarray) -> np.ndarray:
            return saturate(unclamped(*values))

    return function


def float_step(
    instruction: Instruction, code: Code, function: Callable[..., np.ndarray], arity: int, exact: bool = True
) -> Step:
    """Step of a float operation; refuses the directed roundings that NumPy cannot give."""
    dtype = dtype_of(instruction, instruction.parts[-1])
    if exact and {"rz", "rm", "rp"} & set(instruction.parts):
        raise UnsupportedInstruction(instruction, "only rounding to nearest even (.rn) is emulated")
    return elementwise(modified(function, instruction), instruction, code, *[dtype] * arity)
