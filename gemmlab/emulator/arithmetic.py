"""Arithmetic, integer and floating: add, sub, mul, mad, fma, div, rem, min, max, abs, neg, sqrt, rcp.

PTX ISA, "Integer Arithmetic Instructions" and "Floating-Point Instructions". Integers wrap; .hi and .wide keep the
upper half and the whole product; division truncates toward zero. A division by zero gives all ones, as the hardware
does (the ISA leaves it open).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .floats import canonical, float_step, fma32
from .instructions import Code, Step, UnsupportedInstruction, dtype_of, elementwise, opcode
from .ptx import Instruction

_WIDER = {2: {"u": np.uint32, "i": np.int32}, 4: {"u": np.uint64, "i": np.int64}}


def _is_float(instruction: Instruction) -> bool:
    return instruction.parts[-1] in ("f32", "f64", "f16")


@opcode("add", "sub")
def add(instruction: Instruction, code: Code) -> Step:
    function = np.add if instruction.parts[0] == "add" else np.subtract
    if _is_float(instruction):
        return float_step(instruction, code, lambda a, b: canonical(function(a, b)), 2)
    if "cc" in instruction.parts:
        raise UnsupportedInstruction(instruction, "carry chains are not emulated")
    dtype = dtype_of(instruction, instruction.parts[-1])
    if "sat" in instruction.parts:
        limits = np.iinfo(np.int32)
        return elementwise(
            lambda a, b: np.clip(function(a.astype(np.int64), b), limits.min, limits.max).astype(np.int32),
            instruction,
            code,
            dtype,
            dtype,
        )
    return elementwise(function, instruction, code, dtype, dtype)


def high_half(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Upper half of the product of two integers of one type."""
    dtype = a.dtype
    bits = 8 * dtype.itemsize
    if dtype.itemsize < 8:
        wide = np.dtype(_WIDER[dtype.itemsize][dtype.kind])
        return (a.astype(wide) * b.astype(wide) >> wide.type(bits)).astype(dtype)
    low = np.uint64(0xFFFFFFFF)
    half = np.uint64(32)
    x, y = a.view(np.uint64), b.view(np.uint64)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    high = x1 * y1 + (middle >> half) + ((middle & low) + x0 * y1 >> half)
    if dtype.kind == "i":
        zero = np.uint64(0)
        high = high - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)
    return high.view(dtype)


def _wide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide = _WIDER[a.dtype.itemsize][a.dtype.kind]
    return a.astype(wide) * b.astype(wide)


@opcode("mul")
def mul(instruction: Instruction, code: Code) -> Step:
    if _is_float(instruction):
        return float_step(instruction, code, lambda a, b: canonical(np.multiply(a, b)), 2)
    dtype = dtype_of(instruction, instruction.parts[-1])
    function = {"lo": np.multiply, "hi": high_half, "wide": _wide}[instruction.parts[1]]
    return elementwise(function, instruction, code, dtype, dtype)


@opcode("mad")
def mad(instruction: Instruction, code: Code) -> Step:
    if _is_float(instruction):
        return fma(instruction, code)
    if "cc" in instruction.parts or "sat" in instruction.parts:
        raise UnsupportedInstruction(instruction, "carry chains and saturation of mad are not emulated")
    dtype = dtype_of(instruction, instruction.parts[-1])
    product = {"lo": np.multiply, "hi": high_half, "wide": _wide}[instruction.parts[1]]
    wide = instruction.parts[1] == "wide"
    addend = np.dtype(_WIDER[dtype.itemsize][dtype.kind]) if wide else dtype
    return elementwise(lambda a, b, c: product(a, b) + c, instruction, code, dtype, dtype, addend)


@opcode("fma")
def fma(instruction: Instruction, code: Code) -> Step:
    if instruction.parts[-1] != "f32":
        raise UnsupportedInstruction(instruction, "only fma in f32 is emulated")
    return float_step(instruction, code, fma32, 3)


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    divisor = np.where(b == 0, b.dtype.type(1), b)
    quotient = a // divisor
    if a.dtype.kind == "i":
        quotient = quotient + ((a % divisor != 0) & ((a < 0) != (divisor < 0))).astype(a.dtype)
    return np.where(b == 0, np.array(-1).astype(a.dtype), quotient)


@opcode("div")
def div(instruction: Instruction, code: Code) -> Step:
    if _is_float(instruction):
        return float_step(instruction, code, lambda a, b: canonical(np.divide(a, b)), 2)
    dtype = dtype_of(instruction, instruction.parts[-1])
    return elementwise(_quotient, instruction, code, dtype, dtype)


@opcode("rem")
def rem(instruction: Instruction, code: Code) -> Step:
    dtype = dtype_of(instruction, instruction.parts[-1])
    return elementwise(
        lambda a, b: np.where(b == 0, a, a - _quotient(a, b) * b), instruction, code, dtype, dtype
    )


@opcode("min", "max")
def extreme(instruction: Instruction, code: Code) -> Step:
    least = instruction.parts[0] == "min"
    if _is_float(instruction):
        if "NaN" in instruction.parts or "xorsign" in instruction.parts:
            raise UnsupportedInstruction(instruction, "min and max with .NaN or .xorsign are not emulated")
        chosen = _float_min if least else _float_max
        return float_step(instruction, code, lambda a, b: canonical(chosen(a, b)), 2)
    dtype = dtype_of(instruction, instruction.parts[-1])
    return elementwise(np.minimum if least else np.maximum, instruction, code, dtype, dtype)


def _float_min(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smaller number; a NaN only when both are; -0 counts as smaller than +0."""
    return np.where((a == b) & np.signbit(a), a, np.where((a == b) & np.signbit(b), b, np.fmin(a, b)))


def _float_max(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where((a == b) & ~np.signbit(a), a, np.where((a == b) & ~np.signbit(b), b, np.fmax(a, b)))


@opcode("abs", "neg")
def sign(instruction: Instruction, code: Code) -> Step:
    function: Callable[..., np.ndarray] = np.abs if instruction.parts[0] == "abs" else np.negative
    if _is_float(instruction):
        return float_step(instruction, code, function, 1)
    return elementwise(function, instruction, code, dtype_of(instruction, instruction.parts[-1]))


@opcode("sqrt", "rcp")
def root(instruction: Instruction, code: Code) -> Step:
    function = np.sqrt if instruction.parts[0] == "sqrt" else np.reciprocal
    return float_step(instruction, code, lambda a: canonical(function(a)), 1)
