"""Arithmetic by opcode: add, sub, mul, mad, fma, div, rem, min, max, abs, neg, sqrt, rcp, copysign.

The type decides who computes: `integers`, `floats` for f32 and f64, `half` for f16, bf16 and packed types. Here the
modifiers are applied: .ftz flushes subnormal operands and results, .sat clamps to [0, 1], .relu to 0 and above.

PTX ISA, "Integer Arithmetic Instructions", "Floating-Point Instructions", "Half Precision Floating-Point Instructions"
and "Mixed Precision Floating-Point Instructions".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from . import approximations, integers
from .datatypes import dtype_of, types_of
from .floats import (
    arithmetic32,
    arithmetic64,
    canonical,
    flush,
    flush_edge,
    fma32,
    fma32_ftz,
    greater,
    lesser,
    relu,
    saturate,
    surviving_nan,
    unrounded,
)
from .formats import BF16, F16, F32, F64, FORMATS, Format
from .half import PACKED, arithmetic16, packed, through_float64
from .instructions import Code, Step, UnsupportedInstruction, elementwise, opcode
from .ptx import Instruction

Function = Callable[..., np.ndarray]


def is_float(instruction: Instruction) -> bool:
    """Whether the instruction computes in a floating-point type, packed or not."""
    last = types_of(instruction)[-1]
    return PACKED.get(last, (last,))[0] in FORMATS


def rounding_of(instruction: Instruction) -> str:
    """The direction of rounding that the opcode names, .rn unless it names one."""
    return next((p for p in instruction.parts if p in ("rn", "rz", "rm", "rp", "rna")), "rn")


def _arithmetic(form: Format, name: str, rounding: str) -> Function:
    if form is F32:
        return arithmetic32(name, rounding)
    if form is F64:
        return arithmetic64(name, rounding)
    return arithmetic16(form, name, rounding)


def _modified(function: Function, form: Format, instruction: Instruction) -> Function:
    """The function with .ftz, .sat and .relu applied to its operands and its result."""
    parts = instruction.parts
    if "ftz" in parts:
        function = _flushed(function, form, instruction)
    after = [f for p, f in (("sat", saturate), ("relu", relu)) if p in parts]
    if form is BF16:
        after = [through_float64(form, f) for f in after]
    return reduce(lambda inner, change: lambda *values: change(inner(*values)), after, function)


def _flushed(function: Function, form: Format, instruction: Instruction) -> Function:
    """The function with subnormal operands and results flushed."""
    name, rounding = instruction.parts[0], rounding_of(instruction)
    if function is fma32:
        return fma32_ftz
    # other results below the least normal number are exact
    exact = name in ("mul", "mad", "fma", "div", "rcp") and not {"approx", "full"} & set(instruction.parts)

    def flushing(*values: np.ndarray) -> np.ndarray:
        values = tuple(map(flush, values))
        result = flush(function(*values))
        if not exact:
            return result
        operation = "fma" if name == "mad" else name
        return flush_edge(result, form, rounding, lambda: unrounded(operation, rounding, *map(form.widen, values)))

    return flushing


def float_step(instruction: Instruction, code: Code, function_of: Callable[[Format], Function], arity: int) -> Step:
    """Step of a float operation: `function_of` gives the operation in a format, and modifiers and packing are added."""
    *wider, source = types_of(instruction)
    if source in PACKED:
        name, element = PACKED[source]
        function = packed(_modified(function_of(FORMATS[name]), FORMATS[name], instruction), element)
        return elementwise(function, instruction, code, *[dtype_of(instruction, source)] * arity)
    if wider and wider[-1] == "f32" and source in ("f16", "bf16"):
        return _mixed_step(instruction, code, function_of, FORMATS[source], arity)
    form = FORMATS[source]
    return elementwise(_modified(function_of(form), form, instruction), instruction, code, *[form.storage] * arity)


def _mixed_step(
    instruction: Instruction, code: Code, function_of: Callable[[Format], Function], narrow: Format, arity: int
) -> Step:
    """An f32 operation whose operands but the last are halves (add.f32.f16 d, a, c and fma.f32.f16 d, a, b, c)."""
    inner = _modified(function_of(F32), F32, instruction)

    def function(*values: np.ndarray) -> np.ndarray:
        return inner(*(narrow.widen(v).astype(np.float32) for v in values[:-1]), values[-1])

    return elementwise(function, instruction, code, *[narrow.storage] * (arity - 1), F32.storage)


@opcode("add", "sub")
def add(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "add", "sub", "add.cc" and "sub.cc"."""
    name = instruction.parts[0]
    if is_float(instruction):
        rounding = rounding_of(instruction)
        return float_step(instruction, code, lambda form: _arithmetic(form, name, rounding), 2)
    if "cc" in instruction.parts:
        return integers.carry_step(instruction, code)
    function = np.add if name == "add" else np.subtract
    return _integer_step(instruction, code, integers.saturated(function) if "sat" in instruction.parts else function)


def _integer_step(instruction: Instruction, code: Code, function: Function) -> Step:
    """Step of an integer operation on two operands, packed or not."""
    name = types_of(instruction)[-1]
    dtype = dtype_of(instruction, name)
    if name in PACKED:
        function = packed(function, PACKED[name][1])
    return elementwise(function, instruction, code, dtype, dtype)


@opcode("mul")
def mul(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "mul"."""
    if is_float(instruction):
        rounding = rounding_of(instruction)
        return float_step(instruction, code, lambda form: _arithmetic(form, "mul", rounding), 2)
    return _integer_step(instruction, code, integers.PRODUCTS[instruction.parts[1]])


@opcode("mad")
def mad(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "mad" and "mad.cc"."""
    if is_float(instruction):
        return fma(instruction, code)
    step = integers.carry_step if "cc" in instruction.parts else integers.mad
    return step(instruction, code)


@opcode("fma")
def fma(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "fma"."""
    rounding = rounding_of(instruction)
    return float_step(instruction, code, lambda form: _arithmetic(form, "fma", rounding), 3)


@opcode("div")
def div(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "div"."""
    if not is_float(instruction):
        return _integer_step(instruction, code, integers.quotient)
    if {"approx", "full"} & set(instruction.parts):
        return float_step(instruction, code, lambda form: approximations.quotient(instruction), 2)
    rounding = rounding_of(instruction)
    return float_step(instruction, code, lambda form: _arithmetic(form, "div", rounding), 2)


@opcode("rem")
def rem(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "rem"."""
    return _integer_step(instruction, code, integers.remainder)


@opcode("sqrt", "rcp")
def root(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "sqrt" and "rcp"."""
    name, rounding = instruction.parts[0], rounding_of(instruction)
    if "approx" in instruction.parts:
        return approximations.root(instruction, code)
    return float_step(instruction, code, lambda form: _arithmetic(form, name, rounding), 1)


@opcode("min", "max")
def extreme(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "min" and "max"; of two or three operands."""
    least, parts = instruction.parts[0] == "min", instruction.parts
    if not is_float(instruction):
        return _integer_step(instruction, code, integers.extreme(least, "relu" in parts))
    two = _float_extreme(least, "NaN" in parts, "xorsign" in parts)
    arity = len(instruction.operands) - 1
    if arity not in (2, 3):
        raise UnsupportedInstruction(instruction, f"expected 2 or 3 source operands, found {arity}")

    def function_of(form: Format) -> Function:
        chosen = through_float64(form, two) if form in (F16, BF16) else two
        return lambda *values: reduce(chosen, values)

    return float_step(instruction, code, function_of, arity)


def _float_extreme(least: bool, propagate: bool, xorsign: bool) -> Function:
    """The smaller or larger number; -0 counts as smaller than +0. A NaN comes out when both are, or with .NaN when
    either is. With .xorsign.abs magnitudes are compared, and the signs' exclusive or is the result's.
    """
    nearer = lesser if least else greater

    def function(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        negative = np.signbit(a) ^ np.signbit(b)
        if xorsign:
            a, b = np.abs(a), np.abs(b)
        result = nearer(a, b)
        first = (a == b) & (np.signbit(a) == least)
        second = (a == b) & (np.signbit(b) == least)
        result = np.where(first, a, np.where(second, b, result))
        if xorsign:
            result = np.where(negative, -result, result)
        if propagate:
            result = np.where(np.isnan(a) | np.isnan(b), result.dtype.type(np.nan), result)
        return surviving_nan(result, a, b) if result.dtype == F64.storage else canonical(result)

    return function


@opcode("abs", "neg")
def sign(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "abs" and "neg". A NaN comes out canonical, but in f64 unchanged."""
    negate = instruction.parts[0] == "neg"
    if not is_float(instruction):
        function = np.negative if negate else np.abs
        return elementwise(function, instruction, code, dtype_of(instruction, instruction.parts[-1]))

    native = np.negative if negate else np.abs

    def function_of(form: Format) -> Function:
        if form is F64:
            return lambda a: np.where(np.isnan(a), a + a, native(a))
        return through_float64(form, native) if form is BF16 else lambda a: canonical(native(a))

    return float_step(instruction, code, function_of, 1)


@opcode("copysign")
def copysign(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "copysign": the sign of the first operand on the second."""
    dtype = dtype_of(instruction, instruction.parts[-1])
    return elementwise(lambda a, b: np.copysign(b, a), instruction, code, dtype, dtype)
