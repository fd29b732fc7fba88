"""Grids, warps, divergence and barriers: runs a compiled program over batches of blocks.

All lanes of a batch stand at some basic block. The lowest block that has lanes runs first, for exactly those lanes,
so lanes that took different sides of a branch meet again where the sides join. A barrier parks lanes until their block
has arrived. The machine counts nothing: it tells its observers, and a plain launch has none.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

import numpy as np

from .barriers import Left, arrive, deadlock, meet, reduced, write_reduction
from .code import CompiledFunction, Exit, Program
from .faults import Hazard, KernelFault, access_hazard
from .instructions import SPECIAL_REGISTERS, Frame, Site
from .lanes import Batch, Mask, batches, both, uniform
from .layout import Region
from .memory import Fault, GlobalMemory
from .observer import Observer, tell_of_warps
from .onchip import BlockMemory, ThreadMemory
from .printf import Output
from .standing import Standing
from .warps import WarpWait, carry_out, ready, stranded

LANES = 1 << 14
"""Lanes that run together: enough to amortise Python, few enough that a value stays in cache (at twice as many a
float64 temporary passes half a megabyte, and each operation was seen to take seven times as long)."""

ON_CHIP_BYTES = 1 << 28
"""Shared and local memory of the blocks that run together; more of it, and fewer blocks do."""

WATCHED_BYTES = ON_CHIP_BYTES // 8
"""The same when observers watch, who may keep several times as much to know each byte."""

PATIENCE = 20_000
"""Blocks run in a row by one rule before all that have lanes get their turns: a spinning lane must not starve the one
that would release it."""

POLL = PATIENCE // 50
"""Blocks that one counts for which looks at a flag."""

STEPS_PER_LOOK = 16
"""Instructions between two looks at the clock: the slowest take a tenth of a second."""

NOTICE_SECONDS = 10.0
"""After so long in one batch of blocks a launch says where it is, or stops where it has gone wrong before."""


@dataclass
class Machine:
    """One launch, of `seconds` at most, and not past `until` on the monotonic clock.

    `on_fault` receives every hazard that the machine itself finds; it may raise to stop the launch.
    """

    program: Program
    memory: GlobalMemory
    on_fault: Callable[[Hazard], None]
    observers: tuple[Observer, ...] = ()
    seconds: float = 120.0
    until: float = inf
    lanes: int = LANES
    output: Output = field(default_factory=Output)
    _deadline: float = field(default=0.0, init=False)
    _notice: float = field(default=0.0, init=False)
    _faulted: bool = field(default=False, init=False)

    def run(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        parameters: dict[str, np.ndarray],
        dynamic_shared: int = 0,
    ) -> None:
        """Run the kernel over a grid; grid and block are (x, y, z), parameters the raw bytes of each by name."""
        self._deadline = min(time.monotonic() + self.seconds, self.until)
        function = self.program.kernel
        self.program.pass_parameters(parameters)
        regions = self.program.shared.regions(dynamic_shared)
        threads = block[0] * block[1] * block[2]
        per_block = (regions[-1].end if regions else 0) + threads * function.local_bytes
        room = WATCHED_BYTES if self.observers else ON_CHIP_BYTES
        lanes = min(self.lanes, max(1, room // max(per_block, 1)) * threads)
        try:
            with np.errstate(all="ignore"):
                for batch in batches(grid[::-1], block[::-1], lanes):
                    self._notice = min(time.monotonic() + NOTICE_SECONDS, self._deadline)
                    self.look_at_the_clock(function.blocks[0].exit.line)
                    self._run_batch(function, batch, regions, parameters)
        finally:
            self.output.end()

    def _run_batch(
        self,
        function: CompiledFunction,
        batch: Batch,
        regions: tuple[Region, ...],
        parameters: dict[str, np.ndarray],
    ) -> None:
        shared, local = BlockMemory(batch, regions), ThreadMemory(batch, function.local_bytes, function.local_fill)
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
        standing = Standing({0: mask}, mask)
        pending = standing.pending
        ticks = turns = 0
        block = blocks[0]
        try:
            while True:
                if not pending or ticks > PATIENCE:
                    ticks, turns = 0, turns + (1 if pending else 0)
                    self._let_go(frame, standing)
                    if not pending:
                        return
                number = min(pending) if turns % 2 == 0 else sorted(pending)[ticks % len(pending)]
                mask = pending.pop(number)
                block = blocks[number]
                ticks += POLL + 1 if block.polls else 1
                for at in range(0, len(block.steps) or 1, STEPS_PER_LOOK):
                    self.look_at_the_clock(block.exit.line)
                    for step in block.steps[at : at + STEPS_PER_LOOK]:
                        step(frame, mask)
                self._leave(block.exit, function, frame, mask, standing)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"line {block.exit.line}: the launch was interrupted here") from None

    def look_at_the_clock(self, line: int) -> None:
        """Raise KernelFault when the time of the launch is up; say once for a batch that it takes long."""
        now = time.monotonic()
        if now > self._deadline:
            what = f"the launch was stopped after {self.seconds:g} s"
            cure = "; if the launch is only long, use a smaller problem or allow more with emulator.time_limit(seconds)"
            if self._deadline == self.until:
                what, cure = "the time for all launches together is up", ", or few threads do the work of many"
            raise KernelFault(Hazard("timeout", line, what, cure=f"a loop here may never end{cure}"))
        if now > self._notice:
            self._notice = self._deadline
            self._give_notice(line)

    def _give_notice(self, line: int) -> None:
        """Print where blocks still run. Raises KernelFault where an access has gone wrong already."""
        running = f"the same blocks still run after {NOTICE_SECONDS:g} s"
        if self._faulted:
            cure = "mend the other findings first; a loop here may never end"
            raise KernelFault(Hazard("timeout", line, f"{running}, so the launch was stopped", cure=cure))
        stop = f"interrupt with the stop button or Ctrl+C, or wait for the limit of {self.seconds:.3g} s"
        print(f"line {line}: {running}; {stop}", file=sys.stderr, flush=True)

    def _leave(self, leave: Exit, function: CompiledFunction, frame: Frame, mask: Mask, standing: Standing) -> None:
        """Send the lanes of a finished block on."""

        def go(target: int, lanes: Mask) -> None:
            if target in function.returns and leave.kind != "next":
                standing.left.append(Left(leave.line, _full(lanes)))
            else:
                standing.go(target, lanes)

        if leave.kind == "next":
            go(leave.targets[0], mask)
            return
        if leave.lanes is not None:
            predicate = leave.lanes(frame.registers)
            if predicate.size == 1:
                if not predicate.item():
                    go(leave.targets[-1], mask)
                    return
            else:
                stay = both(mask, ~predicate)
                mask = both(mask, predicate)
                if stay.any():
                    go(leave.targets[-1], stay)
                if not mask.any():
                    return
        if leave.kind == "jump":
            go(leave.targets[0], mask)
        elif leave.kind == "return":
            standing.left.append(Left(leave.line, _full(mask)))
        elif leave.kind == "table":
            selector = leave.selector(frame.registers)
            for value, target in enumerate(leave.targets):
                lanes = both(mask, selector == value)
                if lanes.any():
                    go(target, lanes)
        elif leave.kind == "warp":
            standing.warp_waits.append(WarpWait(leave.exchange, leave.targets[0], mask))
            self._exchange(frame, standing, standing.warp_waits[-1:])
        else:
            self._at_barrier(leave, frame, mask, standing)

    def _at_barrier(self, leave: Exit, frame: Frame, mask: Mask, standing: Standing) -> None:
        barrier, resume = leave.barrier, leave.targets[-1]
        waits = arrive(barrier, frame.registers, _full(mask), resume)
        if not barrier.waits:
            for observer in frame.observers:
                observer.arrived(frame, waits)
            standing.arrivals.extend(waits)
            standing.go(resume, mask)
            return
        (wait, *others) = waits
        alone = not (others or standing.pending or standing.waits or standing.warp_waits or standing.arrivals)
        if alone and wait.mask.all() and wait.count in (0, frame.batch.threads):
            for observer in frame.observers:
                observer.stopped(frame, [wait], standing.left)
                observer.met(frame, None)
            if barrier.reduction:
                value = reduced(frame.batch, [wait], barrier.reduction, frame.batch.active(None))
                write_reduction(wait, value, frame.registers, None)
            standing.go(resume, None)
        else:
            standing.waits.extend(waits)

    def _let_go(self, frame: Frame, standing: Standing) -> None:
        """Let lanes go on that wait for nobody any more. Where nobody can run and none is let go, none ever will be."""
        stuck = not standing.pending
        if self._release_warps(frame, standing) or (standing.waits and self._release(frame, standing)):
            return
        if stuck and standing.warp_waits:
            raise KernelFault(stranded(frame, standing.warp_waits[0], standing.waits))
        if stuck and standing.waits:
            raise KernelFault(deadlock(frame.batch, standing.waits[0]))

    def _release_warps(self, frame: Frame, standing: Standing) -> bool:
        """Let lanes go on from warp-wide instructions where all that they wait for have come, wherever they stand."""
        freed = False
        for form in {w.exchange.form for w in standing.warp_waits}:
            freed |= self._exchange(frame, standing, [w for w in standing.warp_waits if w.exchange.form == form])
        return freed

    def _exchange(self, frame: Frame, standing: Standing, waits: list[WarpWait]) -> bool:
        """Carry out a warp-wide instruction for those lanes whose warp is there, and send them on."""
        lanes = ready(frame, waits, None if waits[0].mask is None else standing.living)
        if lanes is not None and not lanes.any():
            return False
        carry_out(frame, waits, lanes, self.program.kernel.absent_fill)
        tell_of_warps(frame, waits, lanes)
        standing.warp_waits = [w for w in standing.warp_waits if w not in waits]
        for wait in waits:
            going = both(wait.mask, lanes)
            if going is None or going.any():
                standing.go(wait.resume, going)
            if lanes is not None and (wait.mask & ~lanes).any():
                standing.warp_waits.append(wait.with_lanes(wait.mask & ~lanes))
        return True

    def _release(self, frame: Frame, standing: Standing) -> bool:
        """Let every block go on whose barrier has all the threads that it wants."""
        batch = frame.batch
        for observer in frame.observers:
            observer.stopped(frame, standing.waits, standing.left)
        meetings = meet(batch, standing.waits, standing.arrivals, standing.living)
        for number, meeting in meetings:
            for observer in frame.observers:
                observer.met(frame, meeting)
            here = [w for w in standing.waits if w.number == number]
            went = meeting.waited.reshape(batch.shape)
            # one block may be at a barrier that counts while another is at one that asks whether all agree
            values = {w.barrier.reduction: reduced(batch, here, w.barrier.reduction, meeting.waited) for w in here}
            for wait in here:
                lanes = wait.mask & went
                if wait.barrier.reduction:
                    write_reduction(wait, values[wait.barrier.reduction], frame.registers, lanes)
                if lanes.any():
                    standing.go(wait.resume, lanes)
            standing.gone(number, went, meeting.arrived.reshape(batch.shape))
        return bool(meetings)

    def fault(self, site: Site, batch: Batch, found: Fault) -> None:
        """Turn what a checked access found into a hazard."""
        self._faulted = True
        self.on_fault(access_hazard(site.op, site.line, batch, found))


def _full(mask: Mask) -> np.ndarray:
    return uniform(True, bool) if mask is None else mask
