"""Barriers of a block: their PTX forms, the lanes parked at them, and when they let go.

PTX ISA, "Parallel Synchronization and Communication Instructions: bar, barrier". A barrier with a thread count counts
warps: any arrived lane counts its whole warp, once the others of its lanes are not on their way any more, since they
meet again before they arrive. Threads that have returned are no longer wanted (Volta and later).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .faults import Hazard, KernelFault
from .instructions import DTYPES, Code, Read, UnsupportedInstruction, destination, merge, read, read_predicate
from .lanes import WARP, Batch, Mask, warps_of
from .ptx import Instruction

BARRIERS = 16
"""Barriers of a block."""

_COMBINE = {
    "popc": lambda votes, went: votes.sum(axis=1),
    "or": lambda votes, went: votes.any(axis=1),
    "and": lambda votes, went: (votes | ~went).all(axis=1),
}


@dataclass(frozen=True)
class Barrier:
    """A barrier instruction. `number` and `count` read its operands (count None: every thread of the block). An
    arrival does not wait (`waits`). Of an `aligned` barrier all lanes of a warp execute the same one. A reduction
    combines `vote` over the threads that meet and writes register `result`.
    """

    line: int
    number: Read
    count: Read | None
    waits: bool = True
    aligned: bool = True
    reduction: str | None = None
    vote: Read | None = None
    result: int | None = None


@dataclass(frozen=True)
class Wait:
    """Lanes at a barrier: its number, the threads it wants (0: all of the block), and where they go on."""

    barrier: Barrier
    number: int
    count: int
    resume: int
    mask: np.ndarray
    vote: np.ndarray | None = None

    @property
    def line(self) -> int:
        return self.barrier.line

    def with_lanes(self, mask: np.ndarray) -> Wait:
        return replace(self, mask=mask)


@dataclass(frozen=True)
class Left:
    """Lanes that returned, and the line that sent them away."""

    line: int
    mask: np.ndarray


@dataclass(frozen=True)
class Meeting:
    """Threads that the barrier `number` joins, as (blocks, threads) booleans: those that `arrived`, waiting or not, and
    those that `waited` for them. `whole` marks the blocks in which every living thread waited (or none lives).
    """

    arrived: np.ndarray
    waited: np.ndarray
    whole: np.ndarray
    number: int = 0


def form(instruction: Instruction, code: Code) -> Barrier:
    """Barrier of a bar or barrier instruction; UnsupportedInstruction for a form that is not emulated."""
    parts = instruction.parts
    kind = next((p for p in parts[1:] if p in ("sync", "arrive", "red")), None)
    if kind is None or "cluster" in parts:
        raise UnsupportedInstruction(instruction, "this barrier is not emulated")
    aligned = parts[0] == "bar" or "aligned" in parts
    operands = list(instruction.operands)
    if kind != "red":
        number, *count = (read(o, DTYPES["u32"], instruction, code) for o in operands)
        return Barrier(instruction.line, number, count[0] if count else None, kind == "sync", aligned)
    result, *operands, vote = operands
    number, *count = (read(o, DTYPES["u32"], instruction, code) for o in operands)
    reduction = next(p for p in parts if p in _COMBINE)
    return Barrier(
        instruction.line,
        number,
        count[0] if count else None,
        True,
        aligned,
        reduction,
        read_predicate(vote, instruction, code),
        destination(result, instruction, code),
    )


def arrive(barrier: Barrier, registers: list[np.ndarray], mask: np.ndarray, resume: int) -> list[Wait]:
    """Lanes of the mask at a barrier, apart where its number or its thread count differs between them."""
    vote = barrier.vote(registers) if barrier.vote else None
    number = barrier.number(registers)
    count = np.zeros_like(number) if barrier.count is None else barrier.count(registers)
    if number.size == 1 and count.size == 1:
        waits = [Wait(barrier, int(number.item()), int(count.item()), resume, mask, vote)]
    else:
        here, number, count = np.broadcast_arrays(mask, number, count)
        pairs = np.unique(np.stack([number[here], count[here]]), axis=1).T
        waits = [Wait(barrier, int(n), int(c), resume, here & (number == n) & (count == c), vote) for n, c in pairs]
    for wait in waits:
        _require_legal(wait)
    return waits


def _require_legal(wait: Wait) -> None:
    """Raises KernelFault for a number or a thread count that no barrier has."""
    if wait.number >= BARRIERS or wait.count % WARP:
        what = f"barrier {wait.number}{f' for {wait.count} threads' if wait.count else ''}"
        cure = f"a block has barriers 0 to {BARRIERS - 1}, and a thread count is a multiple of {WARP}"
        raise KernelFault(Hazard("divergent-barrier", wait.line, what, cure=cure))


def meet(batch: Batch, waits: Sequence[Wait], arrivals: Sequence[Wait], living: Mask) -> list[tuple[int, Meeting]]:
    """Numbers of the barriers that have all the threads they want, each with who meets there."""
    waiting = [(w, batch.flat(w.mask)) for w in waits]
    passed = [(a, batch.flat(a.mask)) for a in arrivals]
    alive, nobody = batch.active(living), np.zeros((batch.blocks, batch.threads), bool)
    busy = warps_of(alive & ~np.logical_or.reduce([nobody, *(lanes for _, lanes in waiting)]))
    found = []
    for number in sorted({w.number for w in waits}):
        here, gone = (
            np.logical_or.reduce([nobody, *(lanes for w, lanes in which if w.number == number)])
            for which in (waiting, passed)
        )
        counts = [w.count * lanes.any(axis=1) for w, lanes in [*waiting, *passed] if w.number == number]
        wanted = np.maximum.reduce(counts)
        some, whole = here.any(axis=1), (here == alive).all(axis=1)
        warps = warps_of(gone) | warps_of(here) & ~busy
        ready = some & np.where(wanted > 0, WARP * warps.sum(axis=1) >= wanted, whole)
        if ready.any():
            rows = ready[:, None]
            found.append((number, Meeting((here | gone) & rows, here & rows, whole & (ready | ~some), number)))
    return found


def reduced(batch: Batch, waits: Sequence[Wait], reduction: str | None, went: np.ndarray) -> np.ndarray | None:
    """What barriers of one reduction give each block, as a lattice: the votes of the threads that `went`, combined.
    None for barriers that reduce nothing.
    """
    if reduction is None:
        return None
    alike = [batch.flat(w.vote & w.mask) for w in waits if w.barrier.reduction == reduction]
    return _COMBINE[reduction](np.logical_or.reduce(alike) & went, went).reshape((*batch.extent, 1, 1, 1))


def write_reduction(wait: Wait, value: np.ndarray, registers: list[np.ndarray], mask: Mask) -> None:
    """Put a reduction's result where its lanes expect it."""
    held = registers[wait.barrier.result]
    registers[wait.barrier.result] = merge(mask, value.astype(held.dtype), held)


def deadlock(batch: Batch, wait: Wait) -> Hazard:
    """Finding of a barrier that nobody else will come to."""
    rows = batch.flat(wait.mask)
    row, thread = (int(i[0]) for i in np.nonzero(rows))
    came, wanted = int(rows[row].sum()), wait.count or "all"
    block = batch.block_index(row)
    return Hazard(
        "divergent-barrier",
        wait.line,
        f"block {block} waits for ever: {came} threads arrived at barrier {wait.number}, which wants {wanted}",
        block,
        (batch.thread_index(thread),),
        came,
        cure="let every thread that the barrier counts reach it",
    )
