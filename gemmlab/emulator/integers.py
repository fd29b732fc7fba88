"""Integer arithmetic: sums, products and quotients of every width, carry chains, 24-bit products and dot products.

Integers wrap to their width unless .sat asks for the nearest value that fits; .hi and .wide keep the upper half and the
whole of a product; division truncates toward zero. Division and remainder by zero give all
ones, as on an H200 (the ISA leaves them open).

PTX ISA, "Integer Arithmetic Instructions" and "Extended-Precision Integer Arithmetic Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .datatypes import DTYPES, dtype_of, types_of
from .instructions import Code, Frame, Step, UnsupportedInstruction, destination, elementwise, merge, opcode, read
from .lanes import Mask
from .ptx import Instruction

Function = Callable[..., np.ndarray]
_WIDER = {2: {"u": np.uint32, "i": np.int32}, 4: {"u": np.uint64, "i": np.int64}}
_U32, _I32, _PREDICATE = DTYPES["u32"], DTYPES["s32"], DTYPES["pred"]
CARRY = "%CC.CF"
"""The carry flag of the condition code register, one for each lane."""


def wide_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The whole product, of twice the width."""
    wide = _WIDER[a.dtype.itemsize][a.dtype.kind]
    return a.astype(wide) * b.astype(wide)


def high_half(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Upper half of the product of two integers of one type."""
    dtype = a.dtype
    if dtype.itemsize < 8:
        wide = wide_product(a, b)
        return (wide >> wide.dtype.type(8 * dtype.itemsize)).astype(dtype)
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


PRODUCTS: dict[str, Function] = {"lo": np.multiply, "hi": high_half, "wide": wide_product}


def saturated(function: Function) -> Function:
    """The function of two s32, with its result clamped to the range of s32."""
    limits = np.iinfo(np.int32)
    return lambda a, b: np.clip(function(a.astype(np.int64), b.astype(np.int64)), limits.min, limits.max).astype(_I32)


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A / b toward zero; all ones where b is zero."""
    one = b.dtype.type(1)
    divisor = np.where(b == 0, one, b)
    if a.dtype.kind == "i":
        negated = divisor == -1  # the least integer over -1 wraps to itself
        divisor = np.where(negated, one, divisor)
        floor = a // divisor
        result = floor + ((floor * divisor != a) & ((a < 0) != (divisor < 0))).astype(a.dtype)
        result = np.where(negated, np.negative(a), result)
    else:
        result = a // divisor
    return np.where(b == 0, ~a.dtype.type(0), result)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What division toward zero leaves, of a's sign; all ones where b is zero."""
    return np.where(b == 0, ~a.dtype.type(0), a - quotient(a, b) * b)


def extreme(least: bool, relu: bool) -> Function:
    """Min or max; with .relu never below zero."""
    chosen = np.minimum if least else np.maximum
    return (lambda a, b: np.maximum(chosen(a, b), a.dtype.type(0))) if relu else chosen


def mad(instruction: Instruction, code: Code) -> Step:
    """Mad in integers, without a carry."""
    dtype = dtype_of(instruction, types_of(instruction)[-1])
    kind = next(p for p in instruction.parts if p in PRODUCTS)
    product = PRODUCTS[kind]
    if "sat" in instruction.parts:
        add = saturated(np.add)
        return elementwise(lambda a, b, c: add(product(a, b), c), instruction, code, dtype, dtype, dtype)
    addend = np.dtype(_WIDER[dtype.itemsize][dtype.kind]) if kind == "wide" else dtype
    return elementwise(lambda a, b, c: product(a, b) + c, instruction, code, dtype, dtype, addend)


def _product24(instruction: Instruction, dtype: np.dtype) -> Function:
    wide = _WIDER[4][dtype.kind]
    spare = dtype.type(8)
    shift = wide(16 if "hi" in instruction.parts else 0)

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = (v << spare >> spare for v in (a, b))
        return (a.astype(wide) * b.astype(wide) >> shift).astype(dtype)

    return product


@opcode("mul24")
def mul24(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "mul24"."""
    dtype = dtype_of(instruction, instruction.parts[-1])
    return elementwise(_product24(instruction, dtype), instruction, code, dtype, dtype)


@opcode("mad24")
def mad24(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "mad24"."""
    dtype = dtype_of(instruction, instruction.parts[-1])
    product = _product24(instruction, dtype)
    add = saturated(np.add) if "sat" in instruction.parts else np.add
    return elementwise(lambda a, b, c: add(product(a, b), c), instruction, code, dtype, dtype, dtype)


@opcode("sad")
def sad(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "sad": the absolute difference, added."""
    dtype = dtype_of(instruction, instruction.parts[-1])
    return elementwise(lambda a, b, c: c + np.where(a < b, b - a, a - b), instruction, code, dtype, dtype, dtype)


@opcode("dp4a", "dp2a")
def dot(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "dp4a" and "dp2a": dot product of four bytes with four bytes, or of two 16-bit halves with the lower or
    upper two bytes.
    """
    a_type, b_type = instruction.parts[-2:]
    signed = "s32" in (a_type, b_type)
    step = 8 if instruction.parts[0] == "dp4a" else 16
    first_byte = 16 if "hi" in instruction.parts else 0

    def function(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        total = c
        for i in range(32 // step):
            x = _field(a, step * i, step, a_type)
            y = _field(b, first_byte + 8 * i, 8, b_type)
            total = total + x * y
        return total.view(_I32 if signed else _U32)

    return elementwise(function, instruction, code, _U32, _U32, _U32)


def _field(value: np.ndarray, position: int, bits: int, kind: str) -> np.ndarray:
    """Some bits of a register as a 32-bit pattern, sign-extended for s32."""
    up, down = 32 - position - bits, 32 - bits
    shifted = value << np.uint32(up)
    if kind == "s32":
        return (shifted.view(_I32) >> np.int32(down)).view(_U32)
    return shifted >> np.uint32(down)


def carry_step(instruction: Instruction, code: Code) -> Step:
    """add, sub and mad that read (addc, subc, madc) or write (.cc) the carry flag; a subtraction's is its borrow."""
    name, parts = instruction.parts[0], instruction.parts
    dtype = np.dtype(f"u{dtype_of(instruction, parts[-1]).itemsize}")
    index = destination(instruction.operands[0], instruction, code)
    reads = [read(o, _source(parts, dtype), instruction, code) for o in instruction.operands[1:]]
    flag = code.slot(instruction, CARRY)
    takes, leaves, subtracts = name.endswith("c"), "cc" in parts, name.startswith("sub")
    product = PRODUCTS[parts[1]] if name.startswith("mad") else None
    if len(reads) != (3 if product else 2):
        raise UnsupportedInstruction(instruction, f"expected {3 if product else 2} source operands, found {len(reads)}")

    def step(frame: Frame, mask: Mask) -> None:
        registers = frame.registers
        values = [get(registers) for get in reads]
        if product:
            values = [product(*values[:2]), values[2]]
        a, b = (v.view(dtype) for v in values)
        carried = registers[flag].astype(dtype) if takes else dtype.type(0)
        if subtracts:
            result = a - b - carried
            flagged = (a < b) | ((a == b) & (carried != 0))
        else:
            result = a + b + carried
            flagged = (result < a) | ((result == a) & (carried != 0))
        registers[index] = merge(mask, result, registers[index])
        if leaves:
            registers[flag] = merge(mask, flagged, registers[flag])

    return step


def _source(parts: tuple[str, ...], unsigned: np.dtype) -> np.dtype:
    """Type that operands are read as: the sign matters to the upper half of a product alone."""
    return DTYPES[parts[-1]] if "hi" in parts else unsigned


@opcode("addc", "subc", "madc")
def with_carry(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "addc", "subc" and "madc"."""
    return carry_step(instruction, code)
