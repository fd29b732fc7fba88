"""Atomic operations on global and shared memory: atom, which returns what it found, and red, which does not.

Lanes take their turns in order: block by block, thread by thread. Where no two lanes meet, all are done at once; else
address by address, each with the running results of its lanes.

PTX ISA, "Parallel Synchronization and Communication Instructions: atom, red". Memory orders and scopes change no value
here, since every store is seen at once. In global memory an f32 sum flushes subnormal operands and results to zero; in
shared memory it does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .datatypes import UNSIGNED, dtype_of
from .floats import canonical, flush, greater, lesser
from .formats import FORMATS
from .half import PACKED, arithmetic16, packed, through_float64
from .instructions import Code, Frame, Site, Step, UnsupportedInstruction, opcode, outputs_of, put, read, registers_of
from .lanes import Mask
from .loadstore import ORDERS, SPACES, access, address_of, by_space, memory_of
from .memory import Fault
from .ptx import Address, Instruction

Update = Callable[..., np.ndarray]
"""From what memory holds and the operands to what it holds next."""

_INTEGER: dict[str, Update] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, new: new,
    "inc": lambda old, most: np.where(old >= most, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, most: np.where((old == 0) | (old > most), most, old - old.dtype.type(1)),
    "cas": lambda old, expected, new: np.where(old == expected, new, old),
}
_RUNNING = {"add", "min", "max", "and", "or", "xor"}
"""Operations whose ufunc accumulates: entry i of the result follows from the entries before it, in order."""


@dataclass(frozen=True)
class _Operation:
    """An atomic operation on one element: `flushing` is the form that global memory has instead, if any."""

    name: str
    dtype: np.dtype
    update: Update
    flushing: Update | None = None

    def in_space(self, space: str) -> Update:
        return self.flushing if self.flushing and space == "global" else self.update

    @property
    def running(self) -> np.ufunc | None:
        return self.update if self.name in _RUNNING and isinstance(self.update, np.ufunc) else None


@opcode("atom", "red")
def atomic(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "atom" and "red"; of a vector each element by itself."""
    parts = instruction.parts
    if {"async", "shared::cluster", "b128", "local", "const", "param"} & set(parts):
        raise UnsupportedInstruction(instruction)
    operation = _operation(instruction)
    operands = list(instruction.operands)
    outputs = outputs_of(operands.pop(0), instruction, code) if parts[0] == "atom" else []
    where = operands.pop(0)
    if not isinstance(where, Address):
        raise UnsupportedInstruction(instruction, f"{where} is no address")
    operands = operands[: 2 if operation.name == "cas" else 1]  # a cache policy may follow
    address = address_of(where, instruction, code)
    values = [[read(r, operation.dtype, instruction, code) for r in registers_of(o)] for o in operands]
    if len(values) != (2 if operation.name == "cas" else 1):
        raise UnsupportedInstruction(instruction, "it lacks an operand")
    if len({len(v) for v in values} | ({len(outputs)} if outputs else set())) != 1:
        raise UnsupportedInstruction(instruction, "its operands have different numbers of elements")
    space = next((SPACES[p] for p in parts if p in ("global", "shared", "shared::cta")), None)
    order = next((p for p in parts if p in ORDERS), "relaxed")
    width = operation.dtype.itemsize * len(values[0])
    sites = {s: Site(f"{parts[0]}.{s}", s, width, instruction.line, order) for s in ("global", "shared")}

    def step(frame: Frame, mask: Mask) -> None:
        base = address(frame.registers)
        given = [[get(frame.registers) for get in v] for v in values]
        pieces = [(space, base, mask)] if space else by_space(frame, base, mask)
        for name, offset, lanes in pieces:
            if name not in sites:
                raise UnsupportedInstruction(instruction, "there are no atomics on local memory")
            found = _update(sites[name], operation, frame, offset, given, lanes)
            put(frame, outputs, found, lanes)

    return step


def _operation(instruction: Instruction) -> _Operation:
    name = next((p for p in instruction.parts[1:] if p in _INTEGER), None)
    type_ = instruction.parts[-1]
    if name is None:
        raise UnsupportedInstruction(instruction, "its opcode names no operation")
    element, part = PACKED.get(type_, (type_, None))
    if element not in FORMATS:
        return _Operation(name, dtype_of(instruction, type_), _INTEGER[name])
    form = FORMATS[element]
    if element in ("f32", "f64"):
        if name not in ("add", "exch"):
            raise UnsupportedInstruction(instruction)
        flushing = (lambda old, new: flush(canonical(flush(old) + flush(new)))) if element == "f32" else None
        return _Operation(name, form.storage, _INTEGER[name], flushing if name == "add" else None)
    choose = {"min": lesser, "max": greater}
    update = arithmetic16(form, "add") if name == "add" else through_float64(form, choose[name])
    if part is not None:
        update = packed(update, part)
    return _Operation(name, dtype_of(instruction, type_), update)


def _update(
    site: Site, operation: _Operation, frame: Frame, address: np.ndarray, operands: list[list[np.ndarray]], mask: Mask
) -> list[np.ndarray]:
    """Carry out a request, and give what each lane found of each element."""
    access(site, frame, address, mask)
    mask = _valid(site, frame, address, mask)
    found = []
    for i, values in enumerate(zip(*operands, strict=True)):
        where = address + np.uint64(i * operation.dtype.itemsize)
        found.append(_element(site, operation, frame, where, values, mask))
    return found


def _valid(site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> Mask:
    """Lanes that point where they may; the others are reported once."""
    bad: list[np.ndarray] = []

    def report(found: Fault) -> None:
        bad.append(found.lanes.reshape(frame.batch.shape))
        frame.fault(site, found)

    memory_of(frame, site.space).read(frame.batch, address, mask, site.bytes, report)
    if not bad:
        return mask
    return np.logical_and(True if mask is None else mask, ~np.logical_or.reduce(bad))


def _element(
    site: Site, operation: _Operation, frame: Frame, address: np.ndarray, operands: tuple[np.ndarray, ...], mask: Mask
) -> np.ndarray:
    """One element for all lanes: read, find each lane's turn, write the last result of each address."""
    memory, bits, shape = memory_of(frame, site.space), UNSIGNED[operation.dtype.itemsize], frame.batch.shape
    ignore: Callable[[Fault], None] = lambda found: None  # noqa: E731
    held = memory.read(frame.batch, address, mask, bits.itemsize, ignore).view(operation.dtype)
    active = np.flatnonzero(np.broadcast_to(True if mask is None else mask, shape))
    held, where, *values = (np.broadcast_to(v, shape).reshape(-1)[active] for v in (held, address, *operands))
    if site.space == "shared":
        # each block has a memory of its own
        where = where + (active // frame.batch.threads).astype(np.uint64) * np.uint64(1 << 32)
    old, new, last = _in_turn(operation, site.space, where, held, values)
    result, found, writers = np.zeros(shape, bits), np.zeros(shape, operation.dtype), np.zeros(shape, bool)
    result.reshape(-1)[active] = new.view(bits)
    found.reshape(-1)[active] = old
    writers.reshape(-1)[active[last]] = True
    memory.write(frame.batch, address, result, writers, bits.itemsize, ignore)
    return found


def _in_turn(
    operation: _Operation, space: str, where: np.ndarray, held: np.ndarray, values: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What each lane finds and leaves, and the lanes that come last at their address. `held` is what memory holds."""
    update = operation.in_space(space)
    order = np.argsort(where, kind="stable")
    starts = np.flatnonzero(np.r_[order.size > 0, where[order][1:] != where[order][:-1]])
    if len(starts) == len(order):
        return held, update(held, *values), order
    ends = np.r_[starts[1:], len(order)]
    old, new = held.copy(), held.copy()
    for start, end in zip(starts, ends, strict=True):
        lanes = order[start:end]
        chain = _chain(operation, update, held[lanes[:1]], [v[lanes] for v in values])
        old[lanes], new[lanes] = chain[:-1], chain[1:]
    return old, new, order[ends - 1]


def _chain(operation: _Operation, update: Update, first: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
    """What one address holds at first and after each of its lanes."""
    if operation.running is not None:
        chain = operation.running.accumulate(np.r_[first, values[0]])
        if update is operation.update or not (_subnormal(chain).any() or _subnormal(values[0]).any()):
            return chain
    states = [first]
    for i in range(len(values[0])):
        states.append(update(states[-1], *(v[i : i + 1] for v in values)))
    return np.concatenate(states)


def _subnormal(value: np.ndarray) -> np.ndarray:
    return (value != 0) & (np.abs(value) < np.finfo(value.dtype).tiny)
