"""Moves and addresses: mov, cvta, isspacep, and hints that change no value.

PTX ISA, "Data Movement and Conversion Instructions".
"""

from __future__ import annotations

import numpy as np

from .datatypes import DTYPES, UNSIGNED, dtype_of
from .instructions import (
    Code,
    Frame,
    Step,
    assign,
    destination,
    elementwise,
    merge,
    opcode,
    outputs_of,
    read,
)
from .lanes import Mask, uniform
from .memory import GLOBAL_BASE, LOCAL_WINDOW, SHARED_WINDOW
from .ptx import Instruction, Register, Vector


@opcode("mov")
def mov(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "mov": also packs a vector into a register, and unpacks one."""
    target, source = instruction.operands
    dtype = dtype_of(instruction, instruction.parts[-1])
    if isinstance(source, Vector):
        return _pack(instruction, code, target, source, UNSIGNED[dtype.itemsize])
    if isinstance(target, Vector):
        return _unpack(instruction, code, target, source, UNSIGNED[dtype.itemsize])
    return assign(destination(target, instruction, code), read(source, dtype, instruction, code))


def _pack(instruction: Instruction, code: Code, target: Register, source: Vector, dtype: np.dtype) -> Step:
    width = dtype.itemsize // len(source.items)
    part = np.dtype(f"u{width}")
    reads = [read(item, part, instruction, code) for item in source.items]

    def compute(registers: list[np.ndarray]) -> np.ndarray:
        value = dtype.type(0)
        for i, get in enumerate(reads):
            value = value | get(registers).astype(dtype) << dtype.type(8 * width * i)
        return value

    return assign(destination(target, instruction, code), compute)


def _unpack(instruction: Instruction, code: Code, target: Vector, source: Register, dtype: np.dtype) -> Step:
    width = dtype.itemsize // len(target.items)
    part = np.dtype(f"u{width}")
    get = read(source, dtype, instruction, code)
    outputs = outputs_of(target, instruction, code)

    def step(frame: Frame, mask: Mask) -> None:
        value = get(frame.registers)
        for i, index in enumerate(outputs):
            if index is not None:
                piece = (value >> dtype.type(8 * width * i)).astype(part)
                frame.registers[index] = merge(mask, piece, frame.registers[index])

    return step


_WINDOWS = {
    "global": (GLOBAL_BASE, 1 << 64),
    "const": (GLOBAL_BASE, 1 << 64),
    "shared": (SHARED_WINDOW, LOCAL_WINDOW),
    "shared::cta": (SHARED_WINDOW, LOCAL_WINDOW),
    "local": (LOCAL_WINDOW, GLOBAL_BASE),
}
"""Generic addresses of each state space."""


@opcode("cvta")
def cvta(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "cvta": an address within a state space to a generic one, or back (.to)."""
    to = instruction.parts[1] == "to"
    space = instruction.parts[2 if to else 1]
    start = _WINDOWS[space][0] if space in ("shared", "shared::cta", "local") else 0
    dtype = dtype_of(instruction, instruction.parts[-1])
    offset = np.uint64(start).astype(dtype)
    function = np.subtract if to else np.add
    return elementwise(lambda a: function(a, offset) if start else a, instruction, code, dtype)


@opcode("isspacep")
def isspacep(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "isspacep": whether a generic address lies in a state space. Constant variables and parameters lie in
    global memory here, but an address that was made for global memory is not one of theirs.
    """
    space = instruction.parts[1]
    if space in ("const", "param", "param::entry"):
        index = destination(instruction.operands[0], instruction, code)
        return assign(index, lambda registers: uniform(False, bool))
    start, end = _WINDOWS[space]
    return elementwise(lambda a: (a >= np.uint64(start)) & (a <= np.uint64(end - 1)), instruction, code, DTYPES["u64"])


@opcode("createpolicy")
def createpolicy(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "createpolicy": any number, since no cache operation changes a value."""
    return assign(destination(instruction.operands[0], instruction, code), lambda registers: uniform(0, np.uint64))


@opcode("prefetch", "prefetchu", "applypriority", "discard", "nanosleep", "griddepcontrol", "pmevent", "nop")
def no_effect(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, sections of the same names: hints and delays."""

    def step(frame: Frame, mask: Mask) -> None:
        pass

    return step
