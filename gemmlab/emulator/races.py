"""An observer that finds races: two threads touch a byte, one at least writes, and nothing orders the two.

Judged by what orders accesses (`ordering.py`), whatever the values and in whatever order the emulator ran them. Two
atomics do not race; a volatile access counts as an atomic one in global memory, where flags are kept, and as a plain one
in shared memory, where it orders no lanes. Bytes that an asynchronous copy brings race with everything until the thread
that asked has waited for them; they count as written by it at that moment.

Reads of an array that nobody has written lately cost nothing but a note; notes are looked at when somebody writes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .arguments import Passed
from .asynchronous import group_in_flight
from .barriers import Meeting
from .conflict import ASYNC, ATOMIC, IN_FLIGHT, READ, WRITE, Party, conflict_hazard, kind_of, scope_of
from .faults import Hazard
from .footprint import Footprint, Footprints
from .instructions import Frame, Site
from .lanes import WARP, Batch, Mask
from .memory import Allocation
from .observer import Observer
from .ordering import Clock, Ordering, Publications
from .shadow import NEVER, Records, Shadow
from .touches import Touch, Touches

NOTES = 512
NOTED_BYTES = 1 << 26
"""Notes of reads that one memory keeps, and the bytes of their addresses; more, and they are worked off."""


@dataclass(frozen=True)
class Note:
    """A read to be looked at later: which lanes of which batch read what, and when."""

    site: int
    batch: Batch
    first_lane: int
    touch: Touch
    width: int
    when: int


@dataclass
class Watched:
    """A memory under watch: a global array, or (`owner` None) the shared memory of a batch."""

    shadow: Shadow
    owner: Allocation | None
    notes: list[Note] = field(default_factory=list)
    noted: int = 0

    @property
    def start(self) -> int:
        return self.owner.base if self.owner else 0


class Races(Observer):
    """Reports every pair of conflicting accesses that nothing orders."""

    def __init__(self, report: Callable[[Hazard], None], touches: Touches) -> None:
        self._report, self._touches = report, touches
        self._clock = Clock()
        self._publications = Publications(self._clock)
        self._footprints = Footprints()
        self._sites: dict[tuple[int, str], int] = {}
        self._parties: list[tuple[int, str]] = []
        self._constant: set[int] = set()
        self._arrays: dict[int, Watched] = {}
        self._batches: list[tuple[int, Batch]] = []
        self._next_lane = 0

    def begin(self, arrays: tuple[Passed, ...]) -> None:
        writable = {a.allocation.base for a in arrays if not a.constant}
        self._constant = {a.allocation.base for a in arrays} - writable

    def start(self, frame: Frame) -> None:
        self._batch, self._ordering = frame.batch, Ordering(frame.batch, self._clock)
        self._shared = Watched(Shadow(frame.shared.nbytes), None)
        self._first_lane, self._next_lane = self._next_lane, self._next_lane + frame.batch.blocks * frame.batch.threads
        self._batches.append((self._first_lane, frame.batch))

    def met(self, frame: Frame, meeting: Meeting | None) -> None:
        self._ordering.met(meeting)
        notes = self._shared.notes
        if notes and notes[-1].when < self._ordering.oldest:
            notes.clear()
            self._shared.noted = 0

    def warp_met(self, frame: Frame, line: int, mask: Mask) -> None:
        self._ordering.warp_met(mask)

    def fence(self, frame: Frame, line: int, mask: Mask, wide: bool) -> None:
        self._publications.fence(self._blocks(mask), wide)

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        if site.space == "local":
            return
        kind = kind_of(site)
        for touch in self._touches.of(site, frame, address, mask):
            if touch.owner is None:
                self._touch(frame, site, kind, self._shared, touch)
            elif kind != READ or touch.owner.base not in self._constant:
                watched = self._arrays.get(touch.owner.base)
                if watched is None:
                    watched = self._arrays[touch.owner.base] = Watched(Shadow(touch.owner.nbytes), touch.owner)
                self._touch(frame, site, kind, watched, touch)
        if kind == ATOMIC:
            self._publish(site, mask)

    def landed(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        for touch in self._touches.of(site, frame, address, mask):
            at, footprint, low, _ = self._find(self._shared, self._batch, 0, touch, site.bytes)
            shadow = self._shared.shadow
            mine = shadow.records("pending").who[at] == low
            shadow.pending.forget(at[mine])
            shadow.records("written").put(at, low, self._clock.now, self._number(site.line, ASYNC))
            shadow.last_write = self._clock.now

    def _publish(self, site: Site, mask: Mask) -> None:
        releases = site.order in ("release", "acq_rel")
        if releases:
            self._publications.fence(self._blocks(mask), wide=True)
        if self._publications.fenced:
            writes = not site.op.startswith("ld")
            self._publications.atomic(self._blocks(mask), not site.op.startswith(("st", "red")), writes)

    def _blocks(self, mask: Mask) -> np.ndarray:
        """Numbers in the launch of the blocks that have active lanes."""
        rows = np.flatnonzero(self._batch.active(mask).any(axis=1))
        return rows + self._first_lane // self._batch.threads

    def _touch(self, frame: Frame, site: Site, kind: str, watched: Watched, touch: Touch) -> None:
        shadow, now = watched.shadow, self._clock.now
        number = self._number(site.line, kind)
        recent = self._ordering.oldest if watched.owner is None else 0
        in_flight = watched.owner is None and bool(frame.shared.copies)
        if kind == READ and shadow.last_write < recent and not in_flight:
            self._note(watched, Note(number, self._batch, self._first_lane, touch, site.bytes, now))
            return
        if kind != READ and watched.notes:
            self._work_off(watched)
        at, footprint, low, high = self._find(watched, self._batch, self._first_lane, touch, site.bytes)
        against = [shadow.written]
        if kind != ATOMIC and shadow.atomics:
            against += [shadow.atomics.low, shadow.atomics.high]
        if kind != READ and shadow.readers:
            against += [shadow.readers.low, shadow.readers.high]
        self._compare(frame, watched, [r for r in against if r], recent, number, at, low, high)
        if in_flight:
            self._compare(frame, watched, [shadow.records("pending")], NEVER + 1, number, at, low, high)
        if kind == READ:
            self._note(watched, Note(number, self._batch, self._first_lane, touch, site.bytes, now))
            return
        if kind == ATOMIC:
            shadow.pair("atomics").add(at, low, high, now, number, self._concurrency(watched))
        else:
            if not footprint.alone:
                self._collide(frame, watched, number, at, low, high)
            shadow.records("pending" if kind == ASYNC else "written").put(at, low, now, number)
        shadow.last_write = now

    def _note(self, watched: Watched, note: Note) -> None:
        watched.notes.append(note)
        watched.noted += note.touch.address.nbytes
        if len(watched.notes) > NOTES or watched.noted > NOTED_BYTES:
            self._work_off(watched)

    def _work_off(self, watched: Watched) -> None:
        """Enter the noted reads, those that everything since is ordered after excepted."""
        for note in watched.notes:
            if watched.owner is None and note.when < self._ordering.oldest:
                continue
            at, _, low, high = self._find(watched, note.batch, note.first_lane, note.touch, note.width)
            readers = watched.shadow.pair("readers")
            readers.add(at, low, high, note.when, note.site, self._concurrency(watched))
        watched.notes.clear()
        watched.noted = 0

    def _find(
        self, watched: Watched, batch: Batch, first_lane: int, touch: Touch, width: int
    ) -> tuple[np.ndarray, Footprint, np.ndarray, np.ndarray]:
        """Positions in the shadow that a touch covers, and the lowest and highest lane at each: lanes of the launch in
        global memory, threads of the block in shared memory."""
        shadow, own = watched.shadow, watched.owner is None
        shadow.refine(width)
        lowest, footprint = self._footprints.of(batch, touch.address, touch.mask, width, shadow.granule, own)
        at = footprint.granules + (lowest - watched.start // shadow.granule)
        if not own:
            low = footprint.low + first_lane
            return at, footprint, low, low if footprint.alone else footprint.high + first_lane
        if footprint.rows is None and shadow.rows == 1 and self._ordering.rows == 1:
            return at, footprint, footprint.low, footprint.high
        self._ordering.expand()
        shadow.expand(batch.blocks)
        if footprint.rows is None:
            starts = np.arange(batch.blocks) * shadow.length
            at = (starts[:, None] + at).reshape(-1)
            low = np.tile(footprint.low, batch.blocks)
            return at, footprint, low, low if footprint.alone else np.tile(footprint.high, batch.blocks)
        low = footprint.low % batch.threads
        return at + footprint.rows * shadow.length, footprint, low, low if footprint.alone else footprint.high % batch.threads

    def _concurrency(self, watched: Watched) -> Callable[..., np.ndarray]:
        """Whether an access at some position by `who` at a time is unordered with one by `lane` now."""
        ordering, own = self._ordering, watched.owner is None
        threads, length = self._batch.threads, watched.shadow.length
        first_block, blocks = self._first_lane // threads, self._batch.blocks

        def concurrent(who: np.ndarray, when: np.ndarray, at: np.ndarray, lane: np.ndarray) -> np.ndarray:
            if own:
                row = at // length
                block = other = row + first_block
                found = (who != lane) & (when >= ordering.known(row, lane, who))
            else:
                block, other = lane // threads, who // threads
                running = (block >= first_block) & (block < first_block + blocks)
                row = np.where(running, block - first_block, 0)
                inside = running & (when >= ordering.known(row, lane % threads, who % threads))
                found = (who != lane) & (inside | (block != other))
            if self._publications.fenced and found.any():
                found[found] = ~self._publications.ordered(other[found], when[found], block[found])
            return found

        return concurrent

    def _compare(
        self,
        frame: Frame,
        watched: Watched,
        against: list[Records],
        recent: int,
        number: int,
        at: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
    ) -> None:
        """Report the accesses recorded since `recent` that lanes `low` and `high` at positions `at` conflict with."""
        concurrent = self._concurrency(watched)
        found = []
        for records in against:
            chosen = np.flatnonzero(records.when[at] >= recent)
            if not chosen.size:
                continue
            where = at[chosen]
            who, when, site = records.take(where)
            for lane in (low,) if high is low else (low, high):
                lane = lane[chosen]
                hit = records is watched.shadow.pending or concurrent(who, when, where, lane)
                found.append([a[np.broadcast_to(hit, a.shape)] for a in (site, where, who, lane)])
        if not found:
            return
        site, *columns = (np.concatenate(each) for each in zip(*found, strict=True))
        for earlier in np.unique(site):
            self._tell(frame, watched, int(earlier), number, *(column[site == earlier] for column in columns))

    def _collide(
        self, frame: Frame, watched: Watched, number: int, at: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> None:
        """Report granules that several lanes of one store write."""
        both = np.flatnonzero(low != high)
        self._tell(frame, watched, number, number, at[both], low[both], high[both])

    def _tell(
        self, frame: Frame, watched: Watched, earlier: int, later: int, at: np.ndarray, who: np.ndarray, lane: np.ndarray
    ) -> None:
        """Report one race at positions `at`, by the pair of lanes that is furthest apart."""
        threads, shadow = self._batch.threads, watched.shadow
        apart = 2 * (who // threads != lane // threads) + (who // WARP != lane // WARP)
        i = int(apart.argmax())
        position = int(at[i])
        row, granule = divmod(position, shadow.length)
        if watched.owner is None:
            place = frame.shared.place(granule * shadow.granule)
            blocks = [frame.batch.block_index(row)] * 2
        else:
            place = watched.owner.place(position * shadow.granule)
            blocks = [self._block(int(lane_)) for lane_ in (who[i], lane[i])]
        parties = [
            Party(*self._parties[site], block, frame.batch.thread_index(int(number) % threads))
            for site, block, number in zip((earlier, later), blocks, (who[i], lane[i]), strict=True)
        ]
        in_flight = self._parties[earlier][1] == ASYNC and shadow.pending is not None and shadow.pending.when[position] > NEVER
        scope = IN_FLIGHT if in_flight else scope_of(*parties, bool(apart[i]))
        group = group_in_flight(frame.shared, row, int(who[i]), place.address) if in_flight else ""
        count = int(np.unique(at).size)
        self._report(conflict_hazard(
            "global" if watched.owner else "shared", place, *parties, scope, count, shadow.granule, group))

    def _block(self, lane: int) -> tuple[int, int, int]:
        """(x, y, z) of the block that a lane of the launch is in."""
        first, batch = self._batches[bisect_right(self._batches, lane, key=lambda each: each[0]) - 1]
        return batch.block_index((lane - first) // batch.threads)

    def _number(self, line: int, kind: str) -> int:
        """Number of a line and what it does, by which the shadow remembers it."""
        found = self._sites.setdefault((line, kind), len(self._parties))
        if found == len(self._parties):
            self._parties.append((line, kind))
        return found
