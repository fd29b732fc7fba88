"""A memory under watch for races: its shadow, and the reads that were noted and not yet looked at."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .footprint import Footprints
from .lanes import Batch
from .memory import Allocation
from .ordering import Ordering
from .shadow import Shadow
from .touches import Touch

NOTED_BYTES = 1 << 26
"""Bytes that the notes of one memory may take; more, and they are worked off."""

NOTE_BYTES = 1 << 10
"""Bytes of a note beside its addresses, about."""


@dataclass(frozen=True)
class Note:
    """One access: the number of its site, the lanes of a batch that make it (whose first lane has this number in the
    launch), where, how wide, and when.
    """

    site: int
    batch: Batch
    first_lane: int
    touch: Touch
    width: int
    when: int


@dataclass(frozen=True)
class Span:
    """Positions in a shadow that an access covers, and the lowest and the highest lane at each: lanes of the launch in
    global memory, threads of the block in shared memory.
    """

    at: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def alone(self) -> bool:
        """Whether each position has one lane."""
        return self.low is self.high

    @property
    def lanes(self) -> tuple[np.ndarray, ...]:
        return (self.low,) if self.alone else (self.low, self.high)


@dataclass
class Watched:
    """A global array, or (`owner` None) the shared memory of a batch."""

    shadow: Shadow
    owner: Allocation | None
    notes: list[Note] = field(default_factory=list)
    noted_bytes: int = 0

    @property
    def own(self) -> bool:
        """Whether each block has such a memory of its own."""
        return self.owner is None

    @property
    def crowded(self) -> bool:
        """Whether the notes take too much room."""
        return self.noted_bytes > NOTED_BYTES

    def note(self, note: Note) -> None:
        """Keep a read for later."""
        self.notes.append(note)
        self.noted_bytes += note.touch.address.nbytes + NOTE_BYTES

    def forget_notes(self) -> None:
        self.notes.clear()
        self.noted_bytes = 0

    def find(self, note: Note, footprints: Footprints, ordering: Ordering) -> Span:
        """The span of an access; the shadow becomes finer, or gets a row for each block, where the access wants it."""
        shadow, batch, touch = self.shadow, note.batch, note.touch
        shadow.refine(note.width)
        lowest, found = footprints.of(batch, touch.address, touch.mask, note.width, shadow.granule, self.own)
        start = 0 if self.own else self.owner.base // shadow.granule
        at, low, high = found.granules + (lowest - start), found.low, found.high
        if not self.own:
            low = low + note.first_lane
            return Span(at, low, low if found.alone else high + note.first_lane)
        if found.rows is None and shadow.rows == 1 and ordering.rows == 1:
            return Span(at, low, high)
        ordering.expand()
        shadow.expand(batch.blocks)
        starts = np.arange(batch.blocks) * shadow.length
        if found.rows is None:
            at, low = (starts[:, None] + at).reshape(-1), np.tile(low, batch.blocks)
            return Span(at, low, low if found.alone else np.tile(high, batch.blocks))
        at, low = at + starts[found.rows], low % batch.threads
        return Span(at, low, low if found.alone else high % batch.threads)
