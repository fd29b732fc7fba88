"""Loads and stores: ld, ldu, st, in every state space, scalar and vector, plain and generic.

PTX ISA, "Data Movement and Conversion Instructions: ld, st" and "State Spaces". Cache operators, eviction hints and
memory orders change no value here: lanes run in one order and every store is seen at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .instructions import (
    DTYPES,
    UNSIGNED,
    Code,
    Frame,
    Read,
    Site,
    Step,
    UnsupportedInstruction,
    dtype_of,
    merge,
    opcode,
    outputs_of,
    read,
    registers_of,
    resize,
)
from .lanes import Mask, both
from .memory import GLOBAL_BASE, LOCAL_WINDOW, SHARED_WINDOW, Fault, GlobalMemory
from .onchip import BlockMemory
from .parameters import load_parameter, store_parameter
from .ptx import Address, Instruction, Symbol

SPACES = {
    "global": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "local": "local",
    "const": "global",
    "param": "global",
    "param::entry": "global",
}
ORDERS = ("volatile", "relaxed", "acquire", "release", "acq_rel")
_WINDOWS = {"shared": (SHARED_WINDOW, LOCAL_WINDOW), "local": (LOCAL_WINDOW, GLOBAL_BASE)}
U32, U64 = DTYPES["u32"], DTYPES["u64"]


def memory_of(frame: Frame, space: str) -> GlobalMemory | BlockMemory:
    """The memory behind a state space."""
    return {"global": frame.memory, "shared": frame.shared, "local": frame.local}[space]


def address_of(operand: Address, instruction: Instruction, code: Code) -> Read:
    """Byte address of a lane, u64."""
    if isinstance(operand.base, Symbol):
        return read(operand, U64, instruction, code)
    if operand.base is None:
        raise UnsupportedInstruction(instruction, f"the absolute address {operand.offset:#x} is in no array")
    base = read(operand.base, U64, instruction, code)
    if operand.offset == 0:
        return base
    if code.function.registers.get(operand.base.name, "")[1:] == "32":
        # a 32-bit address wraps at 32 bits, so that a negative index may stand in the register
        narrow = read(operand.base, U32, instruction, code)
        offset = np.uint32(operand.offset % (1 << 32))
        return lambda registers: (narrow(registers) + offset).astype(U64)
    offset = np.uint64(operand.offset % (1 << 64))
    return lambda registers: base(registers) + offset


def split(value: np.ndarray, dtype: np.dtype, count: int) -> list[np.ndarray]:
    """A wide unit as `count` elements."""
    if count == 1:
        return [value.view(dtype)]
    parts = np.ascontiguousarray(value).view(dtype).reshape(*value.shape, count)
    return [parts[..., i] for i in range(count)]


def join(values: list[np.ndarray]) -> np.ndarray:
    """Elements as one wide unit."""
    if len(values) == 1:
        return values[0]
    stacked = np.stack(np.broadcast_arrays(*values), axis=-1)
    width = stacked.itemsize * len(values)
    return stacked.view(np.complex128 if width == 16 else f"u{width}")[..., 0]


def access(site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
    """Tell every observer of a request before it is carried out."""
    for observer in frame.observers:
        observer.access(site, frame, address, mask)


def load(site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> np.ndarray:
    """Tell observers of a read and carry it out."""
    access(site, frame, address, mask)
    return unwatched_load(site, frame, address, mask)


def unwatched_load(site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> np.ndarray:
    """Read what is no traffic, such as a parameter."""
    report: Callable[[Fault], None] = lambda found: frame.fault(site, found)  # noqa: E731
    return memory_of(frame, site.space).read(frame.batch, address, mask, site.bytes, report)


def store(site: Site, frame: Frame, address: np.ndarray, value: np.ndarray, mask: Mask) -> None:
    """Write units of the site's width on active lanes, and tell observers."""
    access(site, frame, address, mask)
    report: Callable[[Fault], None] = lambda found: frame.fault(site, found)  # noqa: E731
    memory_of(frame, site.space).write(frame.batch, address, value, mask, site.bytes, report)


def by_space(frame: Frame, address: np.ndarray, mask: Mask) -> list[tuple[str, np.ndarray, Mask]]:
    """Generic addresses as (space, address within it, lanes that point into it)."""
    pieces = []
    rest = mask
    for space, (start, end) in _WINDOWS.items():
        inside = (address >= np.uint64(start)) & (address < np.uint64(end))
        if not inside.any():
            continue
        lanes = None if inside.all() and mask is None else both(mask, inside)
        if lanes is None or lanes.any():
            pieces.append((space, address - np.uint64(start), lanes))
        rest = both(rest, ~inside)
    if rest is None or rest.any():
        pieces.append(("global", address, rest))
    return pieces


def _form(instruction: Instruction) -> tuple[str | None, int, np.dtype]:
    """(state space or None for generic, elements, element type) of a ld or st."""
    parts = instruction.parts[1:-1]
    space = next((p for p in parts if p in SPACES or p.startswith("param")), None)
    count = next((int(p[1:]) for p in parts if p in ("v2", "v4")), 1)
    dtype = dtype_of(instruction, instruction.parts[-1])
    if "v8" in parts or count * dtype.itemsize > 16:
        raise UnsupportedInstruction(instruction, "accesses of more than 16 bytes a lane are not emulated")
    if "shared::cluster" in parts or "async" in parts:
        raise UnsupportedInstruction(instruction)
    return space, count, dtype


def _require(count: int, registers: Sequence[object], instruction: Instruction) -> None:
    if len(registers) != count:
        raise UnsupportedInstruction(instruction, f"expected {count} registers, found {len(registers)}")


@opcode("ld", "ldu")
def ld(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "ld", "ld.global.nc" and "ldu": from any state space, or from a generic address."""
    space, count, dtype = _form(instruction)
    in_parameters = space is not None and space.startswith("param")
    if in_parameters and isinstance(instruction.operands[1].base, Symbol):
        return load_parameter(instruction, code, count, dtype)
    outputs = outputs_of(instruction.operands[0], instruction, code)
    _require(count, outputs, instruction)
    address = address_of(instruction.operands[1], instruction, code)
    sites = _sites("ld", instruction, dtype.itemsize * count)
    fixed = sites[SPACES[space]] if space else None
    fetch = unwatched_load if in_parameters else load

    def step(frame: Frame, mask: Mask) -> None:
        where = address(frame.registers)
        if fixed is not None:
            write_back(frame, fetch(fixed, frame, where, mask), mask)
            return
        for name, offset, lanes in by_space(frame, where, mask):
            write_back(frame, load(sites[name], frame, offset, lanes), lanes)

    def write_back(frame: Frame, value: np.ndarray, mask: Mask) -> None:
        for index, element in zip(outputs, split(value, dtype, count), strict=True):
            if index is not None:
                _put(frame, index, element, mask)

    return step


def _put(frame: Frame, index: int, value: np.ndarray, mask: Mask) -> None:
    """Write to a register; one wider than the value is sign- or zero-extended by the value's type."""
    held = frame.registers[index]
    if held.dtype.itemsize > value.dtype.itemsize:
        value = value.astype(f"i{held.itemsize}") if value.dtype.kind == "i" else resize(value, UNSIGNED[held.itemsize])
    frame.registers[index] = value if mask is None else merge(mask, value, held)


@opcode("st")
def st(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "st": to any state space, or to a generic address."""
    space, count, dtype = _form(instruction)
    if space is not None and space.startswith("param"):
        return store_parameter(instruction, code, count, dtype)
    bits = UNSIGNED[dtype.itemsize]
    values = [read(r, bits, instruction, code) for r in registers_of(instruction.operands[1])]
    _require(count, values, instruction)
    address = address_of(instruction.operands[0], instruction, code)
    sites = _sites("st", instruction, dtype.itemsize * count)
    fixed = sites[SPACES[space]] if space else None

    def step(frame: Frame, mask: Mask) -> None:
        where = address(frame.registers)
        value = join([get(frame.registers) for get in values])
        if fixed is not None:
            store(fixed, frame, where, value, mask)
            return
        for name, offset, lanes in by_space(frame, where, mask):
            store(sites[name], frame, offset, value, lanes)

    return step


def _sites(kind: str, instruction: Instruction, width: int) -> dict[str, Site]:
    order = next((p for p in instruction.parts if p in ORDERS), "")
    spaces = ("global", "shared", "local")
    return {space: Site(f"{kind}.{space}", space, width, instruction.line, order) for space in spaces}
