"""Approximate functions: ex2, lg2, sin, cos, tanh, rsqrt, and the .approx forms of rcp, sqrt and div.

A GPU's special function unit returns a value near the true one; its bits are not documented. The emulator returns the
true value rounded to nearest, so a GPU's result may differ from it by as much as the PTX ISA allows:

- ex2.approx.f32: 2 ulp; lg2.approx.f32: 2^-22, absolute for an operand in (0.5, 2), relative elsewhere
- rcp.approx.f32: 1 ulp; sqrt.approx.f32: relative 2^-23; rsqrt.approx.f32: relative 2^-22.9
- div.approx.f32: 2 ulp for a divisor of 2^-126 to 2^126 in size; div.full.f32: 2 ulp
- sin.approx.f32, cos.approx.f32: absolute 2^-20.5 in [-2 pi, 2 pi], 2^-14.7 in [-100 pi, 100 pi], unstated beyond
- tanh.approx.f32: relative 2^-11; tanh.approx.{f16, bf16}: absolute 2^-10.987 and 2^-8
- ex2.approx.{f16, bf16}: relative 2^-9.9 and 2^-7
- rcp.approx.ftz.f64, rsqrt.approx.ftz.f64: from the upper 32 bits of the operand to the upper 32 bits of the result

PTX ISA, "Floating-Point Instructions" and "Half Precision Floating-Point Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .datatypes import dtype_of, types_of
from .floats import canonical, flush
from .formats import F32, F64, FORMATS
from .half import PACKED, packed, through_float64
from .instructions import Code, Step, UnsupportedInstruction, elementwise, opcode
from .ptx import Instruction

Function = Callable[..., np.ndarray]

_FUNCTIONS: dict[str, Function] = {
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "rcp": np.reciprocal,
    "rsqrt": lambda value: np.reciprocal(np.sqrt(value)),
}

_UPPER = np.uint64(0xFFFFFFFF00000000)
_GROSS_NAN = np.uint64(0x7FFFFFFF00000000).view(np.float64)


@opcode("ex2", "lg2", "sin", "cos", "tanh", "rsqrt")
def function_step(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "Floating-Point Instructions: ex2, lg2, sin, cos, tanh, rsqrt"."""
    return root(instruction, code)


def root(instruction: Instruction, code: Code) -> Step:
    """Step of an approximate function of one operand."""
    function, name = _FUNCTIONS[instruction.parts[0]], types_of(instruction)[-1]
    if name == "f64":
        return _double(function, instruction, code)
    element, dtype = PACKED.get(name, (name, None))
    form = FORMATS[element]
    computed = through_float64(form, function)
    if "ftz" in instruction.parts and form is F32:
        inner = computed
        computed = lambda value: flush(inner(flush(value)))  # noqa: E731
    if dtype is not None:
        return elementwise(packed(computed, dtype), instruction, code, dtype_of(instruction, name))
    return elementwise(computed, instruction, code, form.storage)


def _double(function: Function, instruction: Instruction, code: Code) -> Step:
    """rsqrt.approx.f64 in full, and the gross rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64, which know only the upper
    half of operand and result.
    """
    if instruction.parts[0] not in ("rcp", "rsqrt"):
        raise UnsupportedInstruction(instruction)
    if "ftz" not in instruction.parts:
        return elementwise(function, instruction, code, F64.storage)

    def gross(value: np.ndarray) -> np.ndarray:
        operand = flush((value.view(np.uint64) & _UPPER).view(np.float64))
        result = flush(function(operand))
        result = ((result.view(np.uint64) + np.uint64(1 << 31)) & _UPPER).view(np.float64)
        return np.where(np.isnan(result), _GROSS_NAN, result)

    return elementwise(gross, instruction, code, F64.storage)


def quotient(instruction: Instruction) -> Function:
    """div.approx and div.full in f32. The former multiplies by a reciprocal, which is zero for a divisor past 2^126."""

    def full(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return canonical(np.divide(a, b))

    def approximate(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result = full(a, b)
        huge = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
        return np.where(huge, canonical(a * np.copysign(np.float32(0), b)), result) if huge.any() else result

    return full if "full" in instruction.parts else approximate
