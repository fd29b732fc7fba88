"""Instructions of a whole warp: shfl.sync, vote.sync, match.sync, redux.sync, elect.sync, bar.warp.sync, activemask.

The lanes that a member mask names wait for each other, wherever they stand, and then exchange values; lanes that have
returned are not waited for. Lanes meet only in instructions of one form. A lane that is asked for and is not there,
since it has returned or never was, gives 0, as on an H200. The ISA leaves it open, and what a lane gives that the mask
does not name, so observers are told of both.

PTX ISA, "Data Movement and Conversion Instructions: shfl.sync" and "Parallel Synchronization and Communication
Instructions: vote.sync, match.sync, activemask, redux.sync, elect.sync, bar.warp.sync".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from .barriers import Wait
from .datatypes import DTYPES, dtype_of
from .faults import Hazard
from .instructions import (
    Code,
    Frame,
    Read,
    Step,
    UnsupportedInstruction,
    destination,
    merge,
    opcode,
    outputs_of,
    put,
    read,
    read_predicate,
)
from .lanes import WARP, Batch, Mask, both
from .ptx import Instruction
from .shuffles import Ask, absent_lanes, asking, shuffle

_U32 = DTYPES["u32"]
_LANE = np.arange(WARP, dtype=np.uint32)
_BIT = np.uint32(1) << _LANE

Values = list[np.ndarray]
Compute = Callable[[np.ndarray, np.ndarray, Values], tuple[np.ndarray, ...]]
"""From who is there (bool), the member masks and the operands, all (rows, warps, 32), to the results."""


@dataclass(frozen=True)
class Exchange:
    """A warp-wide instruction: lanes meet in one `form` of it. `compute` is None for a barrier alone, `ask` for all but
    shuffles.
    """

    line: int
    form: str
    members: Read
    sources: tuple[Read, ...] = ()
    outputs: tuple[int | None, ...] = ()
    compute: Compute | None = None
    ask: Ask | None = None


@dataclass(frozen=True, eq=False)
class WarpWait:
    """Lanes at a warp-wide instruction, and the block where they go on."""

    exchange: Exchange
    resume: int
    mask: Mask

    @property
    def line(self) -> int:
        return self.exchange.line

    def with_lanes(self, mask: Mask) -> WarpWait:
        return replace(self, mask=mask)


def exchange_of(instruction: Instruction, code: Code) -> Exchange:
    """Exchange of a warp-wide instruction; UnsupportedInstruction for one that is not emulated."""
    parts = instruction.parts
    if "sync" not in parts:
        raise UnsupportedInstruction(instruction, "without .sync it ran on GPUs before Volta only")
    *operands, members = instruction.operands
    who = read(members, _U32, instruction, code)
    if parts[0] in ("bar", "meet"):
        return Exchange(instruction.line, "bar.warp.sync" if parts[0] == "bar" else ".".join(parts[1:]), who)
    target, *given = operands
    kinds, compute = _operation(instruction)
    ask = asking(instruction.parts[2]) if instruction.parts[0] == "shfl" else None
    if len(kinds) != len(given):
        raise UnsupportedInstruction(instruction, f"expected {len(kinds)} source operands, found {len(given)}")
    sources = tuple(
        read_predicate(o, instruction, code) if t == DTYPES["pred"] else read(o, t, instruction, code)
        for o, t in zip(given, kinds, strict=True)
    )
    outputs = tuple(outputs_of(target, instruction, code))
    return Exchange(instruction.line, instruction.opcode, who, sources, outputs, compute, ask)


def _operation(instruction: Instruction) -> tuple[list[np.dtype], Compute]:
    """Types of the source operands, and what is computed from them."""
    name, parts = instruction.parts[0], instruction.parts
    if name == "shfl":
        ask = asking(parts[2])
        return [_U32, _U32, _U32], lambda here, members, values: shuffle(ask, here, *values)
    if name == "vote":
        return [DTYPES["pred"]], _VOTES[parts[2]]
    if name == "match":
        return [dtype_of(instruction, parts[-1])], _match_all if "all" in parts else _match_any
    if name == "redux" and parts[-1] in ("s32", "u32", "b32"):
        return [dtype_of(instruction, parts[-1])], _REDUCTIONS[parts[2]]
    if name == "elect":
        return [], _elect
    raise UnsupportedInstruction(instruction)


def pack(bits: np.ndarray) -> np.ndarray:
    """Booleans (..., 32) as one word for each warp, lane 0 in the lowest bit."""
    return (bits * _BIT).sum(axis=-1, dtype=np.uint32)[..., None]


def _ballot(here: np.ndarray, members: np.ndarray, values: Values) -> tuple[np.ndarray, ...]:
    return (pack(values[0] & here) & members,)


def _all(here: np.ndarray, members: np.ndarray, values: Values) -> tuple[np.ndarray, ...]:
    return (pack(~values[0] & here) & members == 0,)


def _any(here: np.ndarray, members: np.ndarray, values: Values) -> tuple[np.ndarray, ...]:
    return (pack(values[0] & here) & members != 0,)


def _uni(here: np.ndarray, members: np.ndarray, values: Values) -> tuple[np.ndarray, ...]:
    return (_all(here, members, values)[0] | ~_any(here, members, values)[0],)


_VOTES: dict[str, Compute] = {"ballot": _ballot, "all": _all, "any": _any, "uni": _uni}


def _together(here: np.ndarray, members: np.ndarray) -> np.ndarray:
    """For each lane (axis -2), which lanes (axis -1) its mask names and are there."""
    return ((members[..., None] & _BIT) != 0) & here[..., None, :]


def _match_any(here: np.ndarray, members: np.ndarray, values: Values) -> tuple[np.ndarray, ...]:
    (value,) = values
    equal = (value[..., None] == value[..., None, :]) & _together(here, members)
    return (pack(equal)[..., 0],)


def _match_all(here: np.ndarray, members: np.ndarray, values: Values) -> tuple[np.ndarray, ...]:
    (value,) = values
    together = _together(here, members)
    same = ((value[..., None] == value[..., None, :]) | ~together).all(axis=-1)
    return np.where(same, pack(together)[..., 0], np.uint32(0)), same


def _reduction(function: np.ufunc, identity: Callable[[np.dtype], object]) -> Compute:
    def compute(here: np.ndarray, members: np.ndarray, values: Values) -> tuple[np.ndarray, ...]:
        (value,) = values
        chosen = np.where(_together(here, members), value[..., None, :], value.dtype.type(identity(value.dtype)))
        return (function.reduce(chosen, axis=-1, dtype=value.dtype),)

    return compute


_REDUCTIONS: dict[str, Compute] = {
    "add": _reduction(np.add, lambda t: 0),
    "min": _reduction(np.minimum, lambda t: np.iinfo(t).max),
    "max": _reduction(np.maximum, lambda t: np.iinfo(t).min),
    "and": _reduction(np.bitwise_and, lambda t: np.iinfo(t).max),
    "or": _reduction(np.bitwise_or, lambda t: 0),
    "xor": _reduction(np.bitwise_xor, lambda t: 0),
}


def _elect(here: np.ndarray, members: np.ndarray, values: Values) -> tuple[np.ndarray, ...]:
    """The lowest lane that the mask names and that is there leads."""
    leader = _together(here, members).argmax(axis=-1).astype(np.uint32)
    return leader, leader == _LANE


def _by_warp(batch: Batch, grid: tuple[int, ...], value: np.ndarray) -> np.ndarray:
    """Lattice as (rows, warps, 32), one row for each block that differs; lanes past the last thread are zero."""
    flat = np.broadcast_to(value, grid + batch.block).reshape(prod(grid), batch.threads)
    room = -batch.threads % WARP
    padded = np.pad(flat, ((0, 0), (0, room))) if room else flat
    return padded.reshape(prod(grid), -1, WARP)


def _by_lane(batch: Batch, grid: tuple[int, ...], value: np.ndarray) -> np.ndarray:
    rows = np.broadcast_to(value, (prod(grid), -(-batch.threads // WARP), WARP)).reshape(prod(grid), -1)
    return rows[:, : batch.threads].reshape(grid + batch.block)


def carry_out(frame: Frame, waits: Sequence[WarpWait], lanes: Mask, absent_fill: tuple[int, int] | None) -> None:
    """Exchange values among `lanes`, which wait at one or several places, and write what each place is to receive. With
    `absent_fill`, a line and a byte, what the ISA leaves open in that line is of that byte.
    """
    first, registers, batch = waits[0].exchange, frame.registers, frame.batch
    if first.compute is None:
        return
    members = members_of(frame, waits)
    sources = [_gathered(waits, [w.exchange.sources[i](registers) for w in waits]) for i in range(len(first.sources))]
    here = np.ones((1,) * 6, bool) if lanes is None else lanes
    grid = np.broadcast_shapes(*(v.shape[:3] for v in (here, members, *sources)))
    here, members, *sources = (_by_warp(batch, grid, v) for v in (here, members, *sources))
    found = list(first.compute(here, members, sources))
    if first.ask and (frame.observers or absent_fill):
        source = np.broadcast_to(first.ask(*sources[1:])[0], found[0].shape)
        absent = absent_lanes(here, members, source)
        if absent_fill and absent_fill[0] == first.line:
            found[0] = np.where(absent, np.uint32(absent_fill[1] * 0x01010101), found[0])
        if absent.any():
            for observer in frame.observers:
                observer.absent(frame, first.line, *(_by_lane(batch, grid, v) for v in (absent, source)))
    results = [_by_lane(batch, grid, result) for result in found]
    for wait in waits:
        put(frame, wait.exchange.outputs, results, both(wait.mask, lanes))


def members_of(frame: Frame, waits: Sequence[WarpWait]) -> np.ndarray:
    """The masks that lanes at several places give, as one lattice."""
    return _gathered(waits, [w.exchange.members(frame.registers) for w in waits])


def _gathered(waits: Sequence[WarpWait], values: Values) -> np.ndarray:
    """One lattice of what lanes at several places hold."""
    result = values[0]
    for wait, value in zip(waits[1:], values[1:], strict=True):
        result = np.where(wait.mask, value, result)
    return result


def ready(frame: Frame, waits: Sequence[WarpWait], living: Mask) -> Mask:
    """Lanes all of whose living members wait with them; None for all lanes. Those who wait at another place count where
    they give the same mask (PTX ISA: "the same qualifiers and same membermask value").
    """
    if any(w.mask is None for w in waits):
        return None
    batch = frame.batch
    here = np.logical_or.reduce(np.broadcast_arrays(*(w.mask for w in waits)))
    members = members_of(frame, waits)
    alive = np.ones((1,) * 6, bool) if living is None else living
    grid = np.broadcast_shapes(here.shape[:3], members.shape[:3], alive.shape[:3])
    by_warp = [_by_warp(batch, grid, v) for v in (here, members, alive)]
    come = pack(by_warp[0])
    if len(waits) > 1:
        alike = by_warp[1][..., None] == by_warp[1][..., None, :]
        come = pack(alike & by_warp[0][..., None, :])[..., 0]
    missing = by_warp[1] & pack(by_warp[2]) & ~come
    return here & _by_lane(batch, grid, missing == 0)


def stranded(frame: Frame, wait: WarpWait, barriers: Sequence[Wait]) -> Hazard:
    """Lanes wait in a warp-wide instruction for others of their warp, which will never come."""
    batch = frame.batch
    rows = batch.flat(wait.mask)
    row, thread = (int(i[0]) for i in np.nonzero(rows))
    block, first = batch.block_index(row), batch.thread_index(thread)
    elsewhere = f", which wait at the barrier of line {barriers[0].line}" if barriers else ""
    return Hazard(
        "divergent-barrier",
        wait.line,
        f"thread {first} of block {block} waits for ever in {wait.exchange.form} for lanes of its warp that do not "
        f"come{elsewhere}",
        block,
        (first,),
        int(rows[row].sum()),
        tuple(b.line for b in barriers[:1]),
        cure="let every lane that its mask names reach it (of a matrix instruction all 32), and name no other",
    )


@opcode("activemask")
def activemask(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "activemask": the lanes that stand here now."""
    index = destination(instruction.operands[0], instruction, code)

    def step(frame: Frame, mask: Mask) -> None:
        here = np.ones((1,) * 6, bool) if mask is None else mask
        grid = here.shape[:3]
        value = _by_lane(frame.batch, grid, pack(_by_warp(frame.batch, grid, here)))
        frame.registers[index] = merge(mask, value, frame.registers[index])

    return step
