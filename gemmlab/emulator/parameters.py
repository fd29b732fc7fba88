"""The parameter space: what a kernel was launched with, and what functions pass to each other.

A kernel's parameters are the same bytes for every lane. An argument of a call, or what a call returns, is bytes for
each lane, kept as a lattice with one more axis, so that it may be stored and loaded in pieces of any width. Where a
kernel takes a parameter's address, the bytes lie in global memory as well, and the address leads there.

PTX ISA, "State Spaces: Parameter State Space" and "ld.param, st.param".
"""

from __future__ import annotations

import numpy as np

from .datatypes import UNSIGNED
from .instructions import Code, Frame, Read, Step, UnsupportedInstruction, outputs_of, put, read, registers_of
from .lanes import RANK, Mask
from .ptx import Address, Instruction, Symbol


def load_parameter(instruction: Instruction, code: Code, count: int, dtype: np.dtype) -> Step:
    """Step of a ld.param."""
    outputs = outputs_of(instruction.operands[0], instruction, code)
    name, offset = _place(instruction, instruction.operands[1])
    width = dtype.itemsize

    def step(frame: Frame, mask: Mask) -> None:
        held = frame.parameters[name] if name in frame.parameters else frame.arguments.get(name)
        if held is None or offset + count * width > held.shape[-1]:
            raise UnsupportedInstruction(instruction, f"{name} has no {count * width} bytes from byte {offset} on")
        pieces = np.ascontiguousarray(held[..., offset : offset + count * width]).view(dtype)
        values = [pieces[..., i].reshape(held.shape[:-1] or (1,) * RANK) for i in range(count)]
        put(frame, outputs, [_extended(frame, i, v) for i, v in zip(outputs, values, strict=True)], mask)

    return step


def _extended(frame: Frame, index: int | None, value: np.ndarray) -> np.ndarray:
    """The value at the width of its register: sign-extended if it is signed, else zero-extended."""
    width = value.dtype.itemsize if index is None else frame.registers[index].dtype.itemsize
    if width <= value.dtype.itemsize:
        return value
    kind = value.dtype.kind
    return value.astype(f"i{width}") if kind == "i" else value.view(UNSIGNED[value.dtype.itemsize]).astype(f"u{width}")


def store_parameter(instruction: Instruction, code: Code, count: int, dtype: np.dtype) -> Step:
    """Step of a st.param: an argument of a call, or what a function returns."""
    bits = UNSIGNED[dtype.itemsize]
    values = [read(r, bits, instruction, code) for r in registers_of(instruction.operands[1])]
    name, offset = _place(instruction, instruction.operands[0])
    if len(values) != count:
        raise UnsupportedInstruction(instruction, f"expected {count} values, found {len(values)}")

    def step(frame: Frame, mask: Mask) -> None:
        for i, get in enumerate(values):
            _store(frame.arguments, name, offset + i * bits.itemsize, get(frame.registers), mask)

    return step


def _place(instruction: Instruction, operand: object) -> tuple[str, int]:
    """Name and byte offset of what lies in the parameter space."""
    if not isinstance(operand, Address) or not isinstance(operand.base, Symbol) or operand.offset < 0:
        raise UnsupportedInstruction(instruction, f"{operand} names no parameter")
    return operand.base.name, operand.offset


def _store(arguments: dict[str, np.ndarray], name: str, offset: int, value: np.ndarray, mask: Mask) -> None:
    held = arguments.get(name, np.zeros((1,) * RANK + (0,), np.uint8))
    end = offset + value.itemsize
    shape = np.broadcast_shapes(held.shape[:-1], value.shape, (1,) * RANK if mask is None else mask.shape)
    new = np.zeros((*shape, max(end, held.shape[-1])), np.uint8)
    new[..., : held.shape[-1]] = held
    raw = np.ascontiguousarray(np.broadcast_to(value, shape))[..., None].view(np.uint8)
    new[..., offset:end] = raw if mask is None else np.where(mask[..., None], raw, new[..., offset:end])
    arguments[name] = new


def argument(name: str, dtype: np.dtype) -> Read:
    """Reader, given a frame, of a whole argument."""
    return lambda frame: np.ascontiguousarray(frame.arguments[name][..., : dtype.itemsize]).view(dtype)[..., 0]
