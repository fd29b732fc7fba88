"""An observer that finds races: two threads touch a byte, one at least writes, and nothing orders the two.

Judged by what orders accesses (`ordering.py`, `publications.py`), whatever the values and in whatever order the
emulator ran them. Two atomics do not race; a volatile access counts as an atomic one in global memory, where flags are
kept, and as a plain one in shared memory, where it orders no lanes. Bytes that an asynchronous copy brings race with
everything until the thread that asked has waited for them; they count as written by it at that moment.

Reads of an array that nobody has written lately cost nothing but a note; notes are looked at when somebody writes.

Limits. What is judged is the PTX, and the compiler may move an access or make it on more threads than the source does.
Where barriers join part of a block or of a warp, two of many unordered readers stand for the rest, and a race with
another of them can stay unseen; a flag orders by time, not by address (`Publications`). Neither makes a right kernel
look wrong.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from .arguments import Passed
from .asynchronous import FETCH, group_in_flight
from .barriers import Meeting, Wait
from .conflict import ASYNC, ATOMICS, IN_FLIGHT, READ, Party, conflict_hazard, kind_of, scope_of
from .faults import Hazard
from .footprint import Footprints
from .instructions import Frame, Site
from .lanes import WARP, Batch, Mask
from .observer import Observer
from .ordering import Clock, Ordering
from .publications import Publications
from .shadow import NEVER, Concurrent, Records, Shadow
from .touches import Touch, Touches
from .watched import Note, Span, Watched


class Races(Observer):
    """Reports every pair of conflicting accesses that nothing orders."""

    def __init__(self, report: Callable[[Hazard], None], touches: Touches) -> None:
        self._report, self._touches = report, touches
        self._clock = Clock()
        self._publications = Publications(self._clock)
        self._footprints = Footprints()
        self._numbers: dict[tuple[int, str, int], int] = {}
        self._sites: list[tuple[int, str, int]] = []
        self._told: dict[tuple[object, ...], np.ndarray] = {}
        self._constant: set[int] = set()
        self._arrays: dict[int, Watched] = {}
        self._batches: list[tuple[int, Batch]] = []
        self._next_lane = 0

    def begin(self, arrays: tuple[Passed, ...]) -> None:
        writable = {a.allocation.base for a in arrays if not a.constant}
        self._constant = {a.allocation.base for a in arrays} - writable

    def start(self, frame: Frame) -> None:
        batch = frame.batch
        self._batch, self._ordering = batch, Ordering(batch, self._clock)
        self._publications.start(self._ordering, self._next_lane // batch.threads)
        self._shared = Watched(Shadow(frame.shared.nbytes), None)
        self._first_lane, self._next_lane = self._next_lane, self._next_lane + batch.blocks * batch.threads
        self._batches.append((self._first_lane, batch))

    def finish(self, frame: Frame) -> None:
        del self._shared

    def met(self, frame: Frame, meeting: Meeting | None) -> None:
        self._ordering.met(meeting)
        if self._publications.fenced:
            self._publications.met(meeting)
        notes = self._shared.notes
        if notes and notes[-1].when < self._ordering.oldest:
            self._shared.forget_notes()

    def arrived(self, frame: Frame, arrivals: list[Wait]) -> None:
        for each in arrivals:
            self._ordering.arrived(each.number, self._batch.active(each.mask))

    def warp_met(self, frame: Frame, line: int, mask: Mask) -> None:
        self._ordering.warp_met(mask)
        if self._publications.fenced:
            self._publications.warp_met(mask)

    def fence(self, frame: Frame, line: int, mask: Mask, wide: bool) -> None:
        self._publications.fence(mask, wide)

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        if site.space != "local" and site.op != FETCH:
            self.fetched(site, frame, address, mask)

    def fetched(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        kind = kind_of(site)
        for touch in self._touches.of(site, frame, address, mask):
            if touch.owner is None:
                self._look(frame, self._shared, kind, self._note(site, kind, touch))
            elif kind != READ or touch.owner.base not in self._constant:
                watched = self._arrays.get(touch.owner.base)
                if watched is None:
                    watched = self._arrays[touch.owner.base] = Watched(Shadow(touch.owner.nbytes), touch.owner)
                self._look(frame, watched, kind, self._note(site, kind, touch))
        if kind in ATOMICS:
            self._publish(site, mask)

    def landed(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        shadow = self._shared.shadow
        for touch in self._touches.of(site, frame, address, mask):
            note = self._note(site, ASYNC, touch)
            span = self._shared.find(note, self._footprints, self._ordering)
            pending = shadow.records("pending")
            pending.forget(span.at[pending.who[span.at] == span.low])
            shadow.records("written").put(span.at, span.low, note.when, note.site)
            shadow.last_write = note.when

    def _publish(self, site: Site, mask: Mask) -> None:
        if site.order in ("release", "acq_rel"):
            self._publications.fence(mask, wide=True)
        if self._publications.fenced:
            reads, writes = not site.op.startswith(("st", "red")), not site.op.startswith("ld")
            self._publications.atomic(mask, reads, writes)

    def _note(self, site: Site, kind: str, touch: Touch) -> Note:
        what = (site.line, kind, min(site.bytes, 4))
        number = self._numbers.setdefault(what, len(self._sites))
        if number == len(self._sites):
            self._sites.append(what)
        return Note(number, self._batch, self._first_lane, touch, site.bytes, self._clock.now)

    def _look(self, frame: Frame, watched: Watched, kind: str, note: Note) -> None:
        """Compare an access with those before it, and remember it."""
        shadow = watched.shadow
        recent = self._ordering.oldest if watched.own else 0
        in_flight = watched.own and bool(frame.shared.copies)
        if kind == READ:
            watched.note(note)
            if watched.crowded:
                self._work_off(watched)
            if shadow.last_write < recent and not in_flight:
                return
        elif watched.notes:
            self._work_off(watched)
        span = watched.find(note, self._footprints, self._ordering)
        against = [shadow.written]
        if kind not in ATOMICS and shadow.atomics:
            against += [shadow.atomics.low, shadow.atomics.high]
        if kind != READ and shadow.readers:
            against += [shadow.readers.low, shadow.readers.high]
        self._compare(frame, watched, [r for r in against if r], recent, note.site, span)
        if in_flight:
            self._compare(frame, watched, [shadow.records("pending")], NEVER + 1, note.site, span)
        if kind != READ:
            self._remember(frame, watched, kind, note, span)

    def _remember(self, frame: Frame, watched: Watched, kind: str, note: Note, span: Span) -> None:
        shadow = watched.shadow
        shadow.last_write = note.when
        if kind in ATOMICS:
            shadow.pair("atomics").add(span.at, span.low, span.high, note.when, note.site, self._concurrency(watched))
            return
        if not span.alone:
            both = np.flatnonzero(span.low != span.high)
            self._tell(frame, watched, note.site, note.site, span.at[both], span.low[both], span.high[both])
        shadow.records("pending" if kind == ASYNC else "written").put(span.at, span.low, note.when, note.site)

    def _work_off(self, watched: Watched) -> None:
        """Enter the noted reads among the readers, less those that everything from now on is ordered after."""
        recent = self._ordering.oldest if watched.own else 0
        for note in watched.notes:
            if note.when >= recent:
                span = watched.find(note, self._footprints, self._ordering)
                readers = watched.shadow.pair("readers")
                readers.add(span.at, span.low, span.high, note.when, note.site, self._concurrency(watched))
        watched.forget_notes()

    def _concurrency(self, watched: Watched, atomic: bool = False) -> Concurrent:
        """Whether an access (`atomic` ones) at some position by `who` at a time is unordered with one by `lane` now."""
        ordering, own = self._ordering, watched.own
        threads, length = self._batch.threads, watched.shadow.length
        first_block, blocks = self._first_lane // threads, self._batch.blocks

        def concurrent(who: np.ndarray, when: np.ndarray, at: np.ndarray, lane: np.ndarray) -> np.ndarray:
            found = who != lane
            others = np.flatnonzero(found)
            if others.size:
                found[others] = unordered(who[others], when[others], at[others], lane[others])
            return found

        def unordered(who: np.ndarray, when: np.ndarray, at: np.ndarray, lane: np.ndarray) -> np.ndarray:
            if own:
                row = at // length
                block = other = row + first_block
                found = when >= ordering.known(row, lane, who)
            else:
                block, other = lane // threads, who // threads
                running = (block >= first_block) & (block < first_block + blocks)
                row = np.where(running, block - first_block, 0)
                inside = running & (when >= ordering.known(row, lane % threads, who % threads))
                found = inside | (block != other)
            if self._publications.fenced and found.any():
                earlier, later = (other[found], who[found] % threads), (block[found], lane[found] % threads)
                found[found] = ~self._publications.ordered(earlier, when[found], later, atomic)
            return found

        return concurrent

    def _compare(
        self, frame: Frame, watched: Watched, against: list[Records], recent: int, number: int, span: Span
    ) -> None:
        """Report the accesses recorded since `recent` that the lanes of a span conflict with."""
        found, atomics = [], watched.shadow.atomics
        for records in against:
            concurrent = self._concurrency(watched, atomics is not None and records in (atomics.low, atomics.high))
            chosen = np.flatnonzero(records.when[span.at] >= recent)
            if not chosen.size:
                continue
            at = span.at[chosen]
            who, when, site = records.take(at)
            for lanes in span.lanes:
                lane = lanes[chosen]
                anyhow = records is watched.shadow.pending
                hit = np.ones(at.size, bool) if anyhow else concurrent(who, when, at, lane)
                found.append([column[hit] for column in (site, at, who, lane)])
        if not found:
            return
        site, *columns = (np.concatenate(each) for each in zip(*found, strict=True))
        for earlier in np.unique(site):
            self._tell(frame, watched, int(earlier), number, *(column[site == earlier] for column in columns))

    def _tell(
        self,
        frame: Frame,
        watched: Watched,
        earlier: int,
        later: int,
        at: np.ndarray,
        who: np.ndarray,
        lane: np.ndarray,
    ) -> None:
        """Report one race at positions `at`, by the pair of lanes that is furthest apart."""
        threads, shadow = self._batch.threads, watched.shadow
        apart = 2 * (who // threads != lane // threads) + (who // WARP != lane // WARP)
        i = int(apart.argmax())
        position = int(at[i])
        row, granule = divmod(position, shadow.length)
        if watched.own:
            place = frame.shared.place(granule * shadow.granule)
            blocks = [frame.batch.block_index(row)] * 2
        else:
            place = watched.owner.place(granule * shadow.granule)
            blocks = [self._block(int(each[i])) for each in (who, lane)]
        parties = [
            Party(*self._sites[site][:2], block, frame.batch.thread_index(int(each[i]) % threads))
            for site, block, each in zip((earlier, later), blocks, (who, lane), strict=True)
        ]
        flying = self._sites[earlier][1] == ASYNC and shadow.records("pending").when[position] > NEVER
        scope = IN_FLIGHT if flying else scope_of(*parties, bool(apart[i]))
        group = group_in_flight(frame.shared, row, int(who[i]), place.address) if flying else ""
        space, unit = "shared" if watched.own else "global", min(self._sites[earlier][2], self._sites[later][2])
        count = self._new(watched, tuple(sorted((earlier, later))), (at % shadow.length) * shadow.granule // unit, unit)
        self._report(conflict_hazard(space, place, *parties, scope, count, unit, group))

    def _new(self, watched: Watched, pair: tuple[int, int], units: np.ndarray, unit: int) -> int:
        """How many of the units of an array this pair of accesses was not told of before, whatever the block."""
        key = (*pair, None if watched.own else watched.owner.base)
        told = self._told.get(key)
        if told is None:
            told = self._told[key] = np.zeros(watched.shadow.size // unit, bool)
        units = np.unique(units)
        new = int(units.size - told[units].sum())
        told[units] = True
        return new

    def _block(self, lane: int) -> tuple[int, int, int]:
        """(x, y, z) of the block that a lane of the launch is in."""
        first, batch = self._batches[bisect_right(self._batches, lane, key=lambda each: each[0]) - 1]
        return batch.block_index((lane - first) // batch.threads)
