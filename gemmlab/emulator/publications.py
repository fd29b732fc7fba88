"""What fences and atomic flags order, as times of the launch's clock (`ordering.py`): what was published, and to whom.

PTX ISA, "Memory Consistency Model: Release and Acquire Patterns".
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from .barriers import Meeting
from .lanes import WARP, Mask, warps_of
from .ordering import Clock, Ordering


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
        learn = warps_of(waited[rows])[:, :, None]
        self._known[rows] = np.where(learn, np.maximum(self._known[rows], known), self._known[rows])

    def warp_met(self, lanes: np.ndarray) -> None:
        """Threads met those of their own warp."""
        row, thread = np.nonzero(lanes & (self._own > 0))
        at = row, self._warp_of[thread], thread
        self._known[at] = np.maximum(self._known[at], self._own[row, thread])

    def known_to(self, rows: np.ndarray, lanes: np.ndarray) -> np.ndarray:
        """For these blocks, what any of their `lanes` knows: (rows, threads)."""
        warps = np.where(warps_of(lanes)[:, :, None], self._known[rows], 0).max(axis=1)
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
