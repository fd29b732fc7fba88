"""Grids, warps, divergence and barriers: runs a compiled program over batches of blocks.

All lanes of a batch stand at some basic block. The lowest block that has lanes runs first, for exactly those lanes,
so lanes that took different sides of a branch meet again where the sides join. A barrier parks lanes until their block
has arrived. The machine counts nothing: it tells its observers, and a plain launch has none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .code import CompiledFunction, Exit, Program
from .faults import Hazard, KernelFault
from .instructions import SPECIAL_REGISTERS, Frame, Site
from .lanes import Batch, Mask, batches, both, uniform
from .memory import BlockMemory, Fault, GlobalMemory, ThreadMemory
from .ptx import PtxError

LANES = 1 << 14
"""Lanes that run together: enough to amortise Python, few enough that a value stays in cache (at twice as many a
float64 temporary passes half a megabyte, and each operation was seen to take seven times as long)."""

PATIENCE = 20_000
"""Blocks run in a row by one rule before lanes that wait get a turn: a spinning lane must not starve the one that
would release it."""

TICKS_PER_LOOK = 64


@dataclass(frozen=True)
class Wait:
    """Lanes parked at a barrier: its number, the threads it wants (0: all of the block), and where they go on."""

    line: int
    number: int
    count: int
    resume: int
    mask: np.ndarray


@dataclass(frozen=True)
class Left:
    """Lanes that returned, and the line they did it at."""

    line: int
    mask: np.ndarray


class Observer:
    """What the machine tells; each method does nothing here, and an observer overrides those that it cares for."""

    def start(self, frame: Frame) -> None:
        """A batch begins."""

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        """A request is about to be carried out."""

    def barrier(self, frame: Frame, waits: list[Wait], left: list[Left]) -> None:
        """Every lane of the batch has returned or waits, at one place or at several."""

    def warp_barrier(self, frame: Frame, line: int, mask: Mask) -> None:
        """Lanes pass a warp-level barrier."""

    def finish(self, frame: Frame) -> None:
        """A batch has ended."""


@dataclass
class Machine:
    """One launch. `on_fault` receives every hazard that the machine itself finds; it may raise to stop the launch."""

    program: Program
    memory: GlobalMemory
    on_fault: Callable[[Hazard], None]
    observers: tuple[Observer, ...] = ()
    seconds: float = 120.0
    lanes: int = LANES
    _deadline: float = field(default=0.0, init=False)

    def run(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        parameters: dict[str, np.ndarray],
        dynamic_shared: int = 0,
    ) -> None:
        """Run a kernel over a grid; grid and block are (x, y, z), parameters the raw bytes of each by name."""
        self._deadline = time.monotonic() + self.seconds
        function = self.program.functions[kernel]
        with np.errstate(all="ignore"):
            for batch in batches(grid[::-1], block[::-1], self.lanes):
                shared = BlockMemory(batch, self.program.shared_bytes + dynamic_shared)
                local = ThreadMemory(batch, function.local_bytes)
                frame = self.frame(function, batch, shared, local, parameters)
                for observer in self.observers:
                    observer.start(frame)
                self.execute(function, frame, None)
                for observer in self.observers:
                    observer.finish(frame)

    def frame(
        self,
        function: CompiledFunction,
        batch: Batch,
        shared: BlockMemory,
        local: ThreadMemory,
        parameters: dict[str, np.ndarray],
    ) -> Frame:
        registers = list(function.code.initial)
        for name, index in function.code.specials.items():
            registers[index] = SPECIAL_REGISTERS[name](batch)
        return Frame(registers, batch, self.memory, shared, local, parameters, self)

    def execute(self, function: CompiledFunction, frame: Frame, mask: Mask) -> None:
        """Run a function from its first block until every lane of the mask has returned."""
        blocks = function.blocks
        pending: dict[int, Mask] = {0: mask}
        waits: list[Wait] = []
        left: list[Left] = []
        ticks = 0
        while pending or waits:
            if not pending:
                self._release(function, frame, waits, left, pending)
                continue
            ticks += 1
            if ticks % TICKS_PER_LOOK == 0:
                self._look_at_the_clock(blocks[min(pending)].exit.line)
            number = min(pending) if ticks // PATIENCE % 2 == 0 else max(pending)
            mask = pending.pop(number)
            block = blocks[number]
            for step in block.steps:
                step(frame, mask)
            self._leave(block.exit, frame, mask, pending, waits, left)

    def _look_at_the_clock(self, line: int) -> None:
        if time.monotonic() > self._deadline:
            raise KernelFault(
                Hazard(
                    "timeout",
                    line,
                    f"line {line}: the launch was stopped after {self.seconds:g} s; a loop here may never end. If it is "
                    "only long, use a smaller problem or allow more with emulator.time_limit(seconds)",
                )
            )

    def _leave(
        self,
        leave: Exit,
        frame: Frame,
        mask: Mask,
        pending: dict[int, Mask],
        waits: list[Wait],
        left: list[Left],
    ) -> None:
        """Send the lanes of a finished block on."""
        if leave.kind == "next":
            _go(pending, leave.targets[0], mask)
            return
        stay: Mask = None
        if leave.lanes is not None:
            predicate = leave.lanes(frame.registers)
            if predicate.size == 1:
                if not predicate.item():
                    _go(pending, leave.targets[-1], mask)
                    return
            else:
                stay = both(mask, ~predicate)
                mask = both(mask, predicate)
                if stay.any():
                    _go(pending, leave.targets[-1], stay)
                if not mask.any():
                    return
        if leave.kind == "jump":
            _go(pending, leave.targets[0], mask)
        elif leave.kind == "return":
            left.append(Left(leave.line, _full(mask)))
        elif leave.kind == "table":
            selector = leave.selector(frame.registers)
            for value, target in enumerate(leave.targets):
                lanes = both(mask, selector == value)
                if lanes.any():
                    _go(pending, target, lanes)
        elif leave.kind == "warp-barrier":
            for observer in frame.observers:
                observer.warp_barrier(frame, leave.line, mask)
            _go(pending, leave.targets[0], mask)
        else:
            number, count = leave.barrier
            registers = frame.registers
            wait = Wait(
                leave.line,
                _one(number(registers), leave, "number"),
                0 if count is None else _one(count(registers), leave, "thread count"),
                leave.targets[-1],
                _full(mask),
            )
            everyone = not pending and not waits and wait.mask.all()
            if everyone and wait.count in (0, frame.batch.threads):
                for observer in frame.observers:
                    observer.barrier(frame, [wait], left)
                _go(pending, wait.resume, None)
            else:
                waits.append(wait)

    def _release(
        self,
        function: CompiledFunction,
        frame: Frame,
        waits: list[Wait],
        left: list[Left],
        pending: dict[int, Mask],
    ) -> None:
        """Nobody can run: let every block go on whose barrier has all the threads that it wants. Threads that have
        returned are no longer wanted (Volta and later)."""
        for observer in frame.observers:
            observer.barrier(frame, waits, left)
        batch = frame.batch
        flat = [batch.flat(w.mask) for w in waits]
        alive = np.sum([f.sum(axis=1) for f in flat], axis=0)
        remaining: list[Wait] = []
        freed = False
        for number in sorted({w.number for w in waits}):
            at = [(w, f) for w, f in zip(waits, flat, strict=True) if w.number == number]
            arrived = np.sum([f.sum(axis=1) for _, f in at], axis=0)
            wanted = max(w.count for w, _ in at)
            ready = (arrived > 0) & (arrived >= (wanted or alive))
            rows = ready.reshape(batch.extent + (1, 1, 1))
            for wait, _ in at:
                go = wait.mask & rows
                if go.any():
                    freed = True
                    _go(pending, wait.resume, go)
                kept = wait.mask & ~rows
                if kept.any():
                    remaining.append(Wait(wait.line, wait.number, wait.count, wait.resume, kept))
        if not freed:
            self._deadlock(batch, waits)
        waits[:] = remaining

    def _deadlock(self, batch: Batch, waits: list[Wait]) -> None:
        wait = waits[0]
        rows = batch.flat(wait.mask)
        row, thread = (int(i[0]) for i in np.nonzero(rows))
        wanted = f"{wait.count}" if wait.count else "all"
        raise KernelFault(
            Hazard(
                "divergent-barrier",
                wait.line,
                f"line {wait.line}: block {batch.block_index(row)} waits for ever: {int(rows[row].sum())} threads arrived "
                f"at barrier {wait.number}, which wants {wanted}; let every thread of the block reach the same barrier",
                batch.block_index(row),
                (batch.thread_index(thread),),
                int(rows[row].sum()),
            )
        )

    def fault(self, site: Site, batch: Batch, found: Fault) -> None:
        """Turn what a checked access found into a hazard."""
        row, thread = (int(i[0]) for i in np.nonzero(found.lanes))
        block, first = batch.block_index(row), batch.thread_index(thread)
        verb = "reads" if site.op.startswith("ld") else "writes"
        count = int(found.lanes.sum())
        if found.kind == "misaligned":
            what = f"{verb} {found.bytes} bytes at {found.where}, which is not a multiple of {found.bytes}"
            cure = "align the address or use narrower accesses"
        else:
            what = f"{verb} {found.bytes} bytes outside its array: {found.where}"
            cure = "guard the access with the array's bounds"
        others = f" ({count} threads do so here)" if count > 1 else ""
        self.on_fault(
            Hazard(
                found.kind,
                site.line,
                f"line {site.line}: thread {first} of block {block} {what}{others}; {cure}",
                block,
                (first,),
                count,
            )
        )

    def call(self, name: str, frame: Frame, arguments: dict[tuple[str, int], np.ndarray], mask: Mask) -> Frame:
        """Run a function that was not inlined on the lanes of the mask; its frame holds what it returned."""
        function = self.program.functions[name]
        callee = self.frame(function, frame.batch, frame.shared, frame.local, {})
        callee.arguments.update(arguments)
        self.execute(function, callee, mask)
        return callee


def _go(pending: dict[int, Mask], target: int, mask: Mask) -> None:
    """Add lanes to those that stand at a block."""
    if target in pending:
        other = pending[target]
        mask = None if mask is None or other is None else mask | other
    pending[target] = None if mask is None or mask.all() else mask


def _full(mask: Mask) -> np.ndarray:
    return uniform(True, bool) if mask is None else mask


def _one(value: np.ndarray, leave: Exit, what: str) -> int:
    if value.size != 1:
        raise PtxError(f"line {leave.line}: a barrier whose {what} differs between threads is not emulated")
    return int(value.item())
