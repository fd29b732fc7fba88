"""What is ordered before what by barriers and warp-level barriers, as times; `publications` adds fences and atomics.

The launch has one clock, which ticks at each event that orders accesses. An access is stamped with the time it happens
at; it comes before what a thread does now exactly when its stamp is below the time up to which that thread knows of it.
A barrier of the whole block lets all its threads know all; a barrier with a thread count joins what its warps know
(those that only arrive learn nothing); a warp-level barrier joins its lanes. Knowledge passes on, as in vector clocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .barriers import Meeting
from .lanes import WARP, Batch, Mask, warps_of


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
        self._arrivals: dict[int, np.ndarray] = {}
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

    def arrived(self, number: int, lanes: np.ndarray) -> None:
        """Threads (of a (blocks, threads) mask) arrived at a barrier and go on: what they do next is not behind it."""
        self.expand()
        times = self._arrivals.setdefault(number, np.zeros_like(self.warp))
        times[warps_of(lanes)] = self.clock.tick()

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
            arrived = warps_of(meeting.arrived[rows]) & ~whole[:, None]
            waited = warps_of(meeting.waited[rows]) & ~whole[:, None]
            if arrived.any():
                self._join_warps(arrived, waited, self._arrival_times(meeting.number, arrived, waited, now), now)
        self.oldest = int(self.block.min())

    def _arrival_times(self, number: int, arrived: np.ndarray, waited: np.ndarray, now: int) -> np.ndarray:
        """When each warp came to a barrier, as far as those who waited learn of it; all are (rows, warps)."""
        came = self._arrivals.get(number, np.zeros_like(self.warp))
        times = np.where(waited | (came == 0), now, came)
        came[arrived] = 0
        return times

    def _join_warps(self, arrived: np.ndarray, waited: np.ndarray, times: np.ndarray, now: int) -> None:
        if self._between is None:
            self._between = np.zeros((self.rows, self.warps, self.warps), np.int64)
        known = np.where(arrived[:, :, None], np.minimum(self._between, times[:, :, None]), 0).max(axis=1)
        known = np.maximum(known, np.where(arrived, times, 0))[:, None, :]
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

    def known_by_warp(self, rows: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """The time up to which any of the `lanes` (of the blocks `rows`) of each warp knows what each thread of its
        block did, its own acts aside: (rows, warps, threads), zero for warps that have none.
        """
        if self.rows == 1:
            rows = np.zeros_like(rows)
        own = np.arange(self.warps)[:, None] == np.arange(self.threads) // WARP
        time = np.maximum(self.block[rows, None, None], np.where(own, self.warp[rows][:, :, None], 0))
        if self._between is not None:
            time = np.maximum(time, np.repeat(self._between[rows], WARP, axis=2)[:, :, : self.threads])
        if self._within is not None:
            here = np.pad(lanes, ((0, 0), (0, self.warps * WARP - self.threads))).reshape(
                len(rows), self.warps, WARP, 1
            )
            within = np.where(here, self._within[rows], 0).max(axis=2).reshape(len(rows), 1, -1)[..., : self.threads]
            time = np.where(own, np.maximum(time, within), time)
        return np.where(warps_of(lanes)[:, :, None], time, 0)
