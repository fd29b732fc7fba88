"""What is ordered before what: barriers, warp-level barriers, and fences with atomics, as times.

The launch has one clock, which ticks at each event that orders accesses. An access is stamped with the time it happens
at; it comes before what a thread does now exactly when its stamp is below the time up to which that thread knows of it.
A barrier of the whole block lets all its threads know all; a barrier with a thread count joins what its warps know
(those that only arrive learn nothing); a warp-level barrier joins its lanes. Knowledge passes on, as in vector clocks.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from .barriers import Meeting
from .lanes import WARP, Batch, Mask


@dataclass
class Clock:
    """The time of a launch."""

    now: int = 0

    def tick(self) -> int:
        """The time after an event."""
        self.now += 1
        return self.now


class Ordering:
    """What the threads of one batch know of each other. As long as all blocks do alike, one row stands for all."""

    def __init__(self, batch: Batch, clock: Clock) -> None:
        self.batch, self.clock = batch, clock
        self.threads, self.warps = batch.threads, -(-batch.threads // WARP)
        self.block = np.full(1, clock.tick(), np.int64)
        self.warp = np.zeros((1, self.warps), np.int64)
        self._between: np.ndarray | None = None
        self._within: np.ndarray | None = None
        self.oldest = clock.now

    @property
    def rows(self) -> int:
        return len(self.block)

    def expand(self) -> None:
        """Give each block a row of its own."""
        if self.rows < self.batch.blocks:
            n = self.batch.blocks
            self.block, self.warp = np.repeat(self.block, n), np.repeat(self.warp, n, axis=0)
            self._between = None if self._between is None else np.repeat(self._between, n, axis=0)
            self._within = None if self._within is None else np.repeat(self._within, n, axis=0)

    def met(self, meeting: Meeting | None) -> None:
        """Threads met at a barrier of their block."""
        now = self.clock.tick()
        if meeting is None or meeting.whole.all():
            self.block[:] = now
        else:
            alike = (meeting.arrived == meeting.arrived[0]).all() and (meeting.waited == meeting.waited[0]).all()
            if not alike or self.rows > 1:
                self.expand()
            rows = slice(None) if self.rows > 1 else slice(0, 1)
            whole = meeting.whole[rows]
            self.block[whole] = now
            arrived = _any_lane(meeting.arrived[rows]) & ~whole[:, None]
            waited = _any_lane(meeting.waited[rows]) & ~whole[:, None]
            if arrived.any():
                self._join_warps(arrived, waited, now)
        self.oldest = int(self.block.min())

    def _join_warps(self, arrived: np.ndarray, waited: np.ndarray, now: int) -> None:
        if self._between is None:
            self._between = np.zeros((self.rows, self.warps, self.warps), np.int64)
        known = np.where(arrived[:, :, None], self._between, 0).max(axis=1)
        known = np.where(arrived, now, known)[:, None, :]
        self._between = np.where(waited[:, :, None], np.maximum(self._between, known), self._between)
        self.warp[waited] = now

    def warp_met(self, mask: Mask) -> None:
        """Lanes of each warp met."""
        now = self.clock.tick()
        if mask is None:
            self.warp[:] = now
            return
        if mask.shape[:3] != (1, 1, 1):
            self.expand()
        lanes = self.batch.flat(mask) if self.rows > 1 else self.batch.by_thread(mask)
        padding = self.warps * WARP - self.threads
        exists = np.pad(np.ones(self.threads, bool), (0, padding)).reshape(self.warps, WARP)
        here = np.pad(lanes, ((0, 0), (0, padding))).reshape(-1, self.warps, WARP)
        full = (here | ~exists).all(axis=2)
        self.warp[full] = now
        partial = np.nonzero(here.any(axis=2) & ~full)
        if partial[0].size:
            self._join_lanes(partial, here[partial], now)

    def _join_lanes(self, warps: tuple[np.ndarray, ...], here: np.ndarray, now: int) -> None:
        if self._within is None:
            self._within = np.zeros((self.rows, self.warps, WARP, WARP), np.int64)
        within = self._within[warps]
        known = np.where(here[:, :, None], within, 0).max(axis=1)
        known = np.where(here, now, known)[:, None, :]
        self._within[warps] = np.where(here[:, :, None], np.maximum(within, known), within)

    def known(self, row: np.ndarray, thread: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The time up to which `thread` of a block knows what `other` of the same block did."""
        row = row if self.rows > 1 else np.zeros_like(row)
        warp, other_warp = thread // WARP, other // WARP
        time = np.where(warp == other_warp, self.warp[row, warp], 0)
        time = np.maximum(time, self.block[row])
        if self._between is not None:
            time = np.maximum(time, self._between[row, warp, other_warp])
        if self._within is not None:
            lanes = np.where(warp == other_warp, self._within[row, warp, thread % WARP, other % WARP], 0)
            time = np.maximum(time, lanes)
        return time


def _any_lane(lanes: np.ndarray) -> np.ndarray:
    """(rows, threads) as (rows, warps): which warps have a lane here."""
    return np.logical_or.reduceat(lanes, np.arange(0, lanes.shape[1], WARP), axis=1)


@dataclass
class Publications:
    """What threads make known by flags: a fence, then an atomic write publishes what its block did before the fence to
    every block (a fence of the block's scope: to its own) that makes an atomic read afterwards. Whether it is the same
    address is not asked, so a flag that was forgotten can hide behind another. Blocks are numbered over the launch.
    """

    clock: Clock
    fenced: dict[int, tuple[int, int]] = field(default_factory=dict)
    published: dict[int, list[tuple[int, int, int]]] = field(default_factory=lambda: defaultdict(list))
    learned: dict[int, int] = field(default_factory=dict)

    def fence(self, blocks: np.ndarray, wide: bool) -> None:
        """Threads of these blocks pass a fence, of the GPU's scope if `wide`."""
        now = self.clock.tick()
        for block in blocks.tolist():
            self.fenced[block] = (now if wide else self.fenced.get(block, (0, 0))[0], now)

    def atomic(self, blocks: np.ndarray, reads: bool, writes: bool) -> None:
        """Threads of these blocks make an atomic access."""
        now = self.clock.now
        for block in blocks.tolist():
            fenced, history = self.fenced.get(block), self.published[block]
            if writes and fenced is not None and (not history or history[-1][1:] != fenced):
                history.append((now, *fenced))
            if reads:
                self.learned[block] = now
        self.clock.tick()

    def ordered(self, block: np.ndarray, when: np.ndarray, later: np.ndarray, atomic: bool) -> np.ndarray:
        """Whether what `block` did at a time came before what block `later` does now; all are (n,). An `atomic` access
        need not be fenced: it comes before whatever learns of it.
        """
        cases, which = np.unique(np.stack([block, when, later]), axis=1, return_inverse=True)
        return np.array([self._ordered(*case, atomic) for case in cases.T.tolist()], bool)[which]

    def _ordered(self, block: int, when: int, later: int, atomic: bool) -> bool:
        learned = self.learned.get(later, 0)
        return any(
            at <= learned and (when < (by_block if block == later else by_all) or (atomic and at <= when <= learned))
            for at, by_all, by_block in self.published.get(block, ())
        )
