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
        times[_any_lane(lanes)] = self.clock.tick()

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
        return np.where(_any_lane(lanes)[:, :, None], time, 0)


def _any_lane(lanes: np.ndarray) -> np.ndarray:
    """(rows, threads) as (rows, warps): which warps have a lane here."""
    return np.logical_or.reduceat(lanes, np.arange(0, lanes.shape[1], WARP), axis=1)


class Fences:
    """How much of what the threads of a batch did lies behind a fence, as a time for each thread. What a thread fenced
    is known to itself until it meets others, and from then on to their warps.
    """

    def __init__(self, ordering: Ordering) -> None:
        batch = ordering.batch
        self._ordering = ordering
        self._warp_of = np.arange(batch.threads) // WARP
        self._own = np.zeros((batch.blocks, batch.threads), np.int64)
        self._known = np.zeros((batch.blocks, ordering.warps, batch.threads), np.int64)

    def fence(self, lanes: np.ndarray, now: int) -> None:
        """Threads (of a (blocks, threads) mask) pass a fence, which covers what they did and what they know of."""
        rows = np.flatnonzero(lanes.any(axis=1))
        self._own[lanes] = now
        self._known[rows] = np.maximum(self._known[rows], self._ordering.known_by_warp(rows, lanes[rows]))

    def met(self, arrived: np.ndarray, waited: np.ndarray) -> None:
        """Threads that `waited` at a barrier learn what those that `arrived` know."""
        rows = np.flatnonzero(waited.any(axis=1))
        known = self.known_to(rows, arrived[rows])[:, None]
        learn = _any_lane(waited[rows])[:, :, None]
        self._known[rows] = np.where(learn, np.maximum(self._known[rows], known), self._known[rows])

    def warp_met(self, lanes: np.ndarray) -> None:
        """Threads met those of their own warp."""
        row, thread = np.nonzero(lanes & (self._own > 0))
        at = row, self._warp_of[thread], thread
        self._known[at] = np.maximum(self._known[at], self._own[row, thread])

    def known_to(self, rows: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """For these blocks, what any of their `lanes` knows: (rows, threads)."""
        warps = np.where(_any_lane(lanes)[:, :, None], self._known[rows], 0).max(axis=1)
        return np.maximum(warps, np.where(lanes, self._own[rows], 0))


@dataclass
class History:
    """What one block published: at each of the `times`, up to when each thread's acts are covered for every block
    (`wide`) and for its own (`narrow`).
    """

    times: list[int] = field(default_factory=list)
    wide: list[np.ndarray] = field(default_factory=list)
    narrow: list[np.ndarray] = field(default_factory=list)

    def add(self, now: int, wide: np.ndarray, narrow: np.ndarray) -> None:
        """Publish what is covered now, if it is more than before."""
        if self.times:
            wide, narrow = np.maximum(wide, self.wide[-1]), np.maximum(narrow, self.narrow[-1])
            if (narrow == self.narrow[-1]).all() and (wide == self.wide[-1]).all():
                return
        if narrow.any():
            self.times.append(now)
            self.wide.append(wide)
            self.narrow.append(narrow)


class Publications:
    """What threads make known by flags: a fence, then an atomic write publishes what the fence covers to every thread
    that makes an atomic read afterwards, and to those that it meets then. The fence covers what its thread did, and
    what others did whom it had met before; a fence of the block's scope counts within the block. Whether it is the same
    address is not asked, so a flag that was forgotten can hide behind another. Blocks are numbered over the launch.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._published = clock, defaultdict(History)
        self.fenced = False

    def start(self, ordering: Ordering, first_block: int) -> None:
        """A batch begins."""
        batch = ordering.batch
        self._batch, self._first_block = batch, first_block
        self._wide, self._narrow = Fences(ordering), Fences(ordering)
        self._learned = np.zeros((batch.blocks, batch.threads), np.int64)

    def fence(self, mask: Mask, wide: bool) -> None:
        """Lanes pass a fence, of the GPU's scope if `wide`."""
        self.fenced, now = True, self._clock.tick()
        for fences in (self._wide, self._narrow) if wide else (self._narrow,):
            fences.fence(self._batch.active(mask), now)

    def atomic(self, mask: Mask, reads: bool, writes: bool) -> None:
        """Lanes make an atomic access."""
        now, lanes = self._clock.now, self._batch.active(mask)
        if writes:
            rows = np.flatnonzero(lanes.any(axis=1))
            wide, narrow = (fences.known_to(rows, lanes[rows]) for fences in (self._wide, self._narrow))
            for i, row in enumerate(rows.tolist()):
                self._published[row + self._first_block].add(now, wide[i], narrow[i])
        if reads:
            self._learned[lanes] = now
        self._clock.tick()

    def met(self, meeting: Meeting | None) -> None:
        """Threads met at a barrier of their block."""
        everyone = self._batch.active(None)
        arrived, waited = (everyone, everyone) if meeting is None else (meeting.arrived, meeting.waited)
        latest = np.where(arrived, self._learned, 0).max(axis=1, keepdims=True)
        self._learned = np.where(waited, np.maximum(self._learned, latest), self._learned)
        for fences in (self._wide, self._narrow):
            fences.met(arrived, waited)

    def warp_met(self, mask: Mask) -> None:
        """Lanes of each warp met."""
        lanes = self._batch.active(mask)
        starts = np.arange(0, lanes.shape[1], WARP)
        latest = np.maximum.reduceat(np.where(lanes, self._learned, 0), starts, axis=1)
        latest = np.repeat(latest, WARP, axis=1)[:, : lanes.shape[1]]
        self._learned = np.where(lanes, np.maximum(self._learned, latest), self._learned)
        for fences in (self._wide, self._narrow):
            fences.warp_met(lanes)

    def ordered(
        self,
        earlier: tuple[np.ndarray, np.ndarray],
        when: np.ndarray,
        later: tuple[np.ndarray, np.ndarray],
        atomic: bool,
    ) -> np.ndarray:
        """Whether what a thread did at a time came before what another does now, each as (blocks, threads). An `atomic`
        access need not be fenced: it comes before whatever learns of it. Blocks that have ended do nothing now.
        """
        row = later[0] - self._first_block
        running = (row >= 0) & (row < self._batch.blocks)
        learned = np.where(running, self._learned[np.where(running, row, 0), later[1]], 0)
        result = np.zeros(when.shape, bool)
        for block in np.unique(earlier[0]).tolist():
            history = self._published.get(block)
            if history is None or not history.times:
                continue
            mine = earlier[0] == block
            seen = np.searchsorted(history.times, learned, side="right") - 1
            for last in np.unique(seen[mine & (seen >= 0)]).tolist():
                here = np.flatnonzero(mine & (seen == last))
                thread = earlier[1][here]
                upto = np.where(later[0][here] == block, history.narrow[last][thread], history.wide[last][thread])
                itself = atomic & (when[here] >= history.times[0]) & (when[here] <= learned[here])
                result[here] = (when[here] < upto) | itself
        return result
