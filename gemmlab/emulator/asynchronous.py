"""Asynchronous copies from global to shared memory: cp.async, commit_group, wait_group, wait_all.

PTX ISA, "Data Movement and Conversion Instructions: cp.async". The bytes are read when the copy is issued and land when
the thread that issued it waits for its group, so that a wait that is missing shows: on a GPU they may land that late.
A group is what a thread issued since it last committed, be it nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .instructions import DTYPES, Code, Frame, Read, Site, Step, UnsupportedInstruction, opcode, read
from .lanes import Mask, both, uniform
from .loadstore import access, address_of, unwatched_load
from .memory import UNITS
from .onchip import BlockMemory
from .ptx import Immediate, Instruction, Operand, Register

FETCH = "cp.async.global"
"""The half of a copy that reads."""


@dataclass(frozen=True)
class Copy:
    """Bytes on their way: `values` to shared `address` for the `lanes` that wait, each in its `group`, counted from
    0.
    """

    site: Site
    address: np.ndarray
    values: np.ndarray
    lanes: np.ndarray
    group: np.ndarray


@opcode("cp")
def cp(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "cp.async", "cp.async.commit_group", "cp.async.wait_group" and "cp.async.wait_all"."""
    parts = instruction.parts
    if parts[1] != "async" or {"bulk", "mbarrier", "reduce", "tensor"} & set(parts):
        raise UnsupportedInstruction(instruction)
    if "commit_group" in parts:
        return lambda frame, mask: _commit(frame, mask)
    if "wait_group" in parts:
        newest = int(instruction.operands[0].text, 0)
        return lambda frame, mask: _wait(frame, mask, newest)
    if "wait_all" in parts:
        return _wait_for_all
    return _copy(instruction, code)


def _copy(instruction: Instruction, code: Code) -> Step:
    target, source, width, *others = instruction.operands
    width = int(width.text, 0)
    if width not in (4, 8, 16) or ("cg" in instruction.parts and width != 16):
        raise UnsupportedInstruction(instruction, f"no copy of {width} bytes; .ca copies 4, 8 or 16 and .cg 16")
    to, come_from = (address_of(operand, instruction, code) for operand in (target, source))
    size = _source_size(others, width, instruction, code)
    site = Site("cp.async.shared", "shared", width, instruction.line)
    source_site = Site(FETCH, "global", width, instruction.line)

    def step(frame: Frame, mask: Mask) -> None:
        registers, shared = frame.registers, frame.shared
        values = _fetch(source_site, frame, come_from(registers), size(registers), mask)
        address = to(registers)
        access(site, frame, address, mask)
        lanes = shared.valid(address, mask, width, lambda found: frame.fault(site, found))
        lanes = uniform(True, bool) if lanes is None else lanes
        if lanes.any():
            shared.copies.append(Copy(site, address, values, lanes, shared.committed))

    return step


def _source_size(others: list[Operand], width: int, instruction: Instruction, code: Code) -> Read:
    """Bytes to read, the rest of the `width` being zero: all, a src-size, or none where ignore-src holds."""
    whole = uniform(width, np.uint32)
    if not others or (len(others) == 1 and "cache_hint" in instruction.opcode):
        return lambda registers: whole
    first = others[0]
    if isinstance(first, Immediate):
        return read(first, DTYPES["u32"], instruction, code)
    if isinstance(first, Register) and code.function.registers.get(first.name) == "pred":
        ignore = read(first, DTYPES["pred"], instruction, code)
        return lambda registers: np.where(ignore(registers), np.uint32(0), whole)
    return read(first, DTYPES["u32"], instruction, code)


def _fetch(site: Site, frame: Frame, address: np.ndarray, size: np.ndarray, mask: Mask) -> np.ndarray:
    """Units of the copy's width: `size` bytes from global memory, then zeros."""
    if (size >= site.bytes).all():
        return _read(site, frame, address, mask)
    reading = both(mask, size > 0)
    zero = np.zeros((1,) * address.ndim, UNITS[site.bytes])
    if not reading.any():
        return zero
    if ((size == 0) | (size >= site.bytes)).all():
        return np.where(reading, _read(site, frame, address, reading), zero)
    access(site, frame, address, reading)
    crooked = reading & (address % np.uint64(site.bytes) != 0)
    if crooked.any():
        unwatched_load(site, frame, address, crooked)
    unit = int(np.bitwise_or.reduce(size, axis=None)) | site.bytes
    unit &= -unit
    part, shape = replace(site, bytes=unit), np.broadcast_shapes(address.shape, reading.shape)
    units = np.zeros((*shape, site.bytes // unit), UNITS[unit])
    for i in range(0, site.bytes, unit):
        lanes = reading & (size > i) & ~crooked
        if lanes.any():
            units[..., i // unit] = np.where(lanes, _fetched(part, frame, address + np.uint64(i), lanes), 0)
    return units.view(UNITS[site.bytes])[..., 0]


def _read(site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> np.ndarray:
    access(site, frame, address, mask)
    return _fetched(site, frame, address, mask)


def _fetched(site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> np.ndarray:
    """Read and tell observers of the bytes that are read indeed."""
    for observer in frame.observers:
        observer.fetched(site, frame, address, mask)
    return unwatched_load(site, frame, address, mask)


def _commit(frame: Frame, mask: Mask) -> None:
    shared = frame.shared
    shared.committed = shared.committed + (1 if mask is None else mask.astype(np.int64))


def _wait_for_all(frame: Frame, mask: Mask) -> None:
    _commit(frame, mask)
    _wait(frame, mask, 0)


def _wait(frame: Frame, mask: Mask, newest: int) -> None:
    """Let all groups but the `newest` land for the lanes that wait."""
    shared = frame.shared
    left = []
    for copy in shared.copies:
        done = copy.lanes & (copy.group < shared.committed - newest)
        done = done if mask is None else done & mask
        if done.any():
            _land(frame, copy, done)
        waiting = copy.lanes & ~done
        if waiting.any():
            left.append(replace(copy, lanes=waiting))
    shared.copies = left


def _land(frame: Frame, copy: Copy, done: np.ndarray) -> None:
    lanes = None if done.all() else done
    for observer in frame.observers:
        observer.landed(copy.site, frame, copy.address, lanes)
    report = lambda found: frame.fault(copy.site, found)  # noqa: E731
    frame.shared.write(frame.batch, copy.address, copy.values, lanes, copy.site.bytes, report)


def group_in_flight(shared: BlockMemory, row: int, thread: int, offset: int) -> str:
    """Which of its groups a thread's copy to a byte of shared memory belongs to, in words."""
    batch = shared.batch
    for copy in reversed(shared.copies):
        address = int(batch.flat(copy.address)[row, thread])
        if batch.flat(copy.lanes)[row, thread] and address <= offset < address + copy.site.bytes:
            group = int(batch.flat(copy.group)[row, thread])
            committed = int(batch.flat(shared.committed)[row, thread])
            if group >= committed:
                return "it was not committed"
            return f"it is in group {group + 1} of {committed}, and no wait has covered that"
    return "no wait has covered it"
