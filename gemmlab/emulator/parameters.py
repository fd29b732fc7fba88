"""The parameter space: what a kernel was launched with, and what functions pass to each other.

A kernel's parameters are the same bytes for every lane. An argument of a call, or what a call returns, is bytes for
each lane, kept as a lattice with one more axis, so that it may be stored and loaded in pieces of any width. Where a
kernel takes a parameter's address, the bytes lie in global memory as well, and the address leads there.

PTX ISA, "State Spaces: Parameter State Space" and "ld.param, st.param".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .datatypes import UNSIGNED
from .instructions import Code, Frame, Step, UnsupportedInstruction, outputs_of, put, read, registers_of
from .lanes import RANK, Mask
from .ptx import Address, Instruction, Symbol

_NOTHING = np.zeros((1,) * RANK + (0,), np.uint8)


def load_parameter(instruction: Instruction, code: Code, count: int, dtype: np.dtype) -> Step:
    """Step of a ld.param. What a call did not store, since its value is undefined, reads zero."""
    outputs = outputs_of(instruction.operands[0], instruction, code)
    name, offset = _place(instruction, instruction.operands[1])
    end = offset + count * dtype.itemsize
    if len(outputs) != count:
        raise UnsupportedInstruction(instruction, f"expected {count} registers, found {len(outputs)}")
    launched = {p.name: p.bytes for p in code.function.parameters}
    if end > launched.get(name, end if "@" in name else 0):
        raise UnsupportedInstruction(instruction, f"{name} is no parameter that has bytes {offset} to {end - 1}")

    def step(frame: Frame, mask: Mask) -> None:
        held = frame.parameters[name] if name in launched else _padded(frame.arguments.get(name, _NOTHING), end)
        pieces = np.ascontiguousarray(held[..., offset:end]).view(dtype)
        values = [pieces[..., i].reshape(held.shape[:-1] or (1,) * RANK) for i in range(count)]
        put(frame, outputs, [_extended(frame, i, v) for i, v in zip(outputs, values, strict=True)], mask)

    return step


def _padded(held: np.ndarray, end: int) -> np.ndarray:
    """At least `end` bytes for each lane."""
    missing = end - held.shape[-1]
    return held if missing <= 0 else np.pad(held, [(0, 0)] * RANK + [(0, missing)])


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
    end = offset + value.itemsize
    held = _padded(arguments.get(name, _NOTHING), end)
    shape = np.broadcast_shapes(held.shape[:-1], value.shape, (1,) * RANK if mask is None else mask.shape)
    new = np.array(np.broadcast_to(held, (*shape, held.shape[-1])))
    raw = np.ascontiguousarray(np.broadcast_to(value, shape))[..., None].view(np.uint8)
    new[..., offset:end] = raw if mask is None else np.where(mask[..., None], raw, new[..., offset:end])
    arguments[name] = new


def argument(name: str, dtype: np.dtype) -> Callable[[Frame], np.ndarray]:
    """Reader, given a frame, of a whole argument."""

    def get(frame: Frame) -> np.ndarray:
        held = _padded(frame.arguments.get(name, _NOTHING), dtype.itemsize)
        return np.ascontiguousarray(held[..., : dtype.itemsize]).view(dtype)[..., 0]

    return get
