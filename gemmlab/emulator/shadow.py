"""Who touched each granule of a memory last: the writer, and the readers and atomics that nothing has ordered since.

Of several concurrent readers two suffice, the lowest and the highest lane: whoever is neither of them conflicts with
one of them (see `footprint.py`), and a reader that comes before a later reader need not be kept, since whatever is
ordered after the later one is ordered after both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

NEVER = -1

Concurrent = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""(who, when, granules' positions, lane now) -> whether that access and one by `lane now` are unordered."""


class Records:
    """One access for each granule: who (a lane of the launch), when (NEVER: nobody) and the number of its site."""

    def __init__(self, size: int) -> None:
        self.who = np.zeros(size, np.int64)
        self.when = np.full(size, NEVER, np.int32)
        self.site = np.zeros(size, np.int32)

    def take(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.who[at], self.when[at], self.site[at]

    def put(self, at: np.ndarray, who: np.ndarray, when: np.ndarray | int, site: np.ndarray | int) -> None:
        self.who[at], self.when[at], self.site[at] = who, when, site

    def forget(self, at: np.ndarray) -> None:
        self.when[at] = NEVER

    def repeated(self, times: int, every: int) -> Records:
        """`times` rows like the one there is, each granule as `every` smaller ones."""
        result = Records(0)
        for name in ("who", "when", "site"):
            setattr(result, name, np.tile(np.repeat(getattr(self, name), every), times))
        return result


@dataclass
class Pair:
    """The lowest and the highest of the lanes that made one kind of access."""

    low: Records
    high: Records

    def add(
        self, at: np.ndarray, low: np.ndarray, high: np.ndarray, when: int, site: int, concurrent: Concurrent
    ) -> None:
        """Take in an access by lanes from `low` to `high` at granules `at`."""
        kept = []
        for held in (self.low, self.high):
            who, time, number = held.take(at)
            keep = (time > NEVER) & concurrent(who, time, at, low)
            if high is not low:
                keep &= concurrent(who, time, at, high)
            kept.append((who, time, number, keep))
        if not (kept[0][3].any() or kept[1][3].any()):
            self.low.put(at, low, when, site)
            self.high.put(at, high, when, site)
            return
        for record, new, better in ((self.low, low, np.less), (self.high, high, np.greater)):
            best = (new, np.full(new.shape, when, np.int32), np.full(new.shape, site, np.int32))
            for who, time, number, keep in kept:
                wins = keep & better(who, best[0])
                best = tuple(np.where(wins, a, b) for a, b in zip((who, time, number), best, strict=True))
            record.put(at, *best)


class Shadow:
    """Records of a memory of `size` bytes in granules of `granule` bytes; all blocks share one row of them until one
    does otherwise than the rest.
    """

    def __init__(self, size: int, granule: int = 4) -> None:
        self.size, self.granule, self.rows = -(-size // 16) * 16, granule, 1
        self.last_write = NEVER
        self.written: Records | None = None
        self.pending: Records | None = None
        self.readers: Pair | None = None
        self.atomics: Pair | None = None

    @property
    def length(self) -> int:
        """Granules of a row."""
        return self.size // self.granule

    def records(self, name: str) -> Records:
        """'written' or 'pending', made when first wanted."""
        if getattr(self, name) is None:
            setattr(self, name, Records(self.rows * self.length))
        return getattr(self, name)

    def pair(self, name: str) -> Pair:
        """'readers' or 'atomics', made when first wanted."""
        if getattr(self, name) is None:
            setattr(self, name, Pair(Records(self.rows * self.length), Records(self.rows * self.length)))
        return getattr(self, name)

    def expand(self, rows: int) -> None:
        """Give each block a row of its own."""
        if self.rows < rows:
            self.rows = rows
            self._repeat(rows, 1)

    def refine(self, granule: int) -> None:
        """Look closer, since an access is narrower than a granule."""
        if granule < self.granule:
            every, self.granule = self.granule // granule, granule
            self._repeat(1, every)

    def _repeat(self, times: int, every: int) -> None:
        for name in ("written", "pending"):
            records = getattr(self, name)
            if records is not None:
                setattr(self, name, records.repeated(times, every))
        for name in ("readers", "atomics"):
            pair = getattr(self, name)
            if pair is not None:
                setattr(self, name, Pair(pair.low.repeated(times, every), pair.high.repeated(times, every)))
