"""PTX types as NumPy types, and literals as values of them (PTX ISA, "Types" and "Constants")."""

from __future__ import annotations

import re

import numpy as np

from .lanes import uniform
from .ptx import Instruction, UnsupportedInstruction

DTYPES = {
    "pred": np.dtype(bool),
    "b8": np.dtype(np.uint8),
    "u8": np.dtype(np.uint8),
    "s8": np.dtype(np.int8),
    "b16": np.dtype(np.uint16),
    "u16": np.dtype(np.uint16),
    "s16": np.dtype(np.int16),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "b32": np.dtype(np.uint32),
    "u32": np.dtype(np.uint32),
    "s32": np.dtype(np.int32),
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.uint32),
    "f16x2": np.dtype(np.uint32),
    "bf16x2": np.dtype(np.uint32),
    "s16x2": np.dtype(np.uint32),
    "u16x2": np.dtype(np.uint32),
    "b64": np.dtype(np.uint64),
    "u64": np.dtype(np.uint64),
    "s64": np.dtype(np.int64),
    "f64": np.dtype(np.float64),
    "f32x2": np.dtype(np.uint64),
    "e4m3x2": np.dtype(np.uint16),
    "e5m2x2": np.dtype(np.uint16),
}

UNSIGNED = {1: DTYPES["u8"], 2: DTYPES["u16"], 4: DTYPES["u32"], 8: DTYPES["u64"]}


def types_of(instruction: Instruction) -> tuple[str, ...]:
    """The parts of an opcode that are types, in written order: ('f32', 'f16') for fma.rn.f32.f16."""
    found = tuple(p for p in instruction.parts[1:] if p in DTYPES)
    if not found:
        raise UnsupportedInstruction(instruction, "its opcode names no type that the emulator has")
    return found


def dtype_of(instruction: Instruction, name: str) -> np.dtype:
    """NumPy type of a PTX type; UnsupportedInstruction for one that has none."""
    if name not in DTYPES:
        raise UnsupportedInstruction(instruction, f"the emulator has no type .{name}")
    return DTYPES[name]


def undefined(dtype: np.dtype) -> np.ndarray:
    """What a register holds that nobody wrote: NaN as a float, the largest integer as an integer, false as a predicate.

    A zero would hide that a sum was never set to zero. The compiler leaves a register undefined only where a right
    program does not depend on it.
    """
    if dtype.kind == "b":
        return uniform(False, dtype)
    return uniform((1 << 8 * dtype.itemsize - 1) - 1, UNSIGNED[dtype.itemsize]).view(dtype)


def filled(dtype: np.dtype, fill: int) -> np.ndarray:
    """A register whose bytes are all alike; a predicate is true where the byte is odd."""
    if dtype.kind == "b":
        return uniform(fill % 2, dtype)
    return uniform(int.from_bytes(bytes([fill]) * dtype.itemsize, "little"), UNSIGNED[dtype.itemsize]).view(dtype)


def resize(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Low bits of a value, or the value zero-extended, as another width."""
    bits = value.view(UNSIGNED[value.dtype.itemsize]) if value.dtype.kind != "b" else value
    if dtype.kind == "b":
        return bits.astype(bool)
    return bits.astype(UNSIGNED[dtype.itemsize]).view(dtype)


def integer(text: str) -> int:
    """The value of an integer literal (PTX ISA, "Integer Constants": octal ones begin with 0)."""
    digits = text.rstrip("U")
    return int(digits, 8) if re.fullmatch(r"[-+]?0[0-7]+", digits) else int(digits, 0)


def immediate(text: str, dtype: np.dtype) -> np.ndarray:
    """A literal as a uniform value of `dtype`; integers wrap to its width."""
    if text[:2] in ("0f", "0F"):
        value = np.array(int(text[2:], 16), np.uint32).view(np.float32)
    elif text[:2] in ("0d", "0D"):
        value = np.array(int(text[2:], 16), np.uint64).view(np.float64)
    elif re.fullmatch(r"[-+]?\d+(\.\d*)?([eE][-+]?\d+)?", text) and not text.lstrip("-+").isdigit():
        value = np.array(float(text), np.float64)
    else:
        number = integer(text)
        if dtype.kind == "b":
            return uniform(bool(number), bool)
        if dtype.kind == "f":
            return uniform(number, dtype)
        unsigned = UNSIGNED[dtype.itemsize]
        return uniform(number & ((1 << 8 * dtype.itemsize) - 1), unsigned).view(dtype)
    if dtype.kind == "f":
        return uniform(value, dtype)
    return resize(uniform(value, value.dtype), dtype)
