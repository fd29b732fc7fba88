"""An observer that counts shared memory's traffic as ptxas may merge it: the fewest requests, the fewest wavefronts.

ptxas turns loads of neighbouring words into one of 8 or 16 bytes where it knows the alignment (README, "Where PTX and
machine code differ"). Here loads count as neighbours where they stand in one run, which ends at a barrier, at a fence
and where a load is met again, as at the end of a loop's body; where the same lanes make them, each lane at the same
distance from the other load; and where what they make together is aligned on every lane. Of each such group the cheaper
form is counted, merged or not, and an address that a run loads twice once. ptxas merges no others, but may leave these
alone, so that the counts are the fewest that the machine code can have for straight-line code as PTX has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import NamedTuple

import numpy as np

from .barriers import Meeting
from .instructions import Frame, Site
from .lanes import Batch, Mask
from .observer import Observer
from .traffic import requests_of
from .wavefronts import NOBODY, WAVEFRONT, WORD, count

_WIDEST = 16


class Cost(NamedTuple):
    """Requests (warp instructions) and wavefronts."""

    requests: int
    wavefronts: int


@dataclass
class _Group:
    """Loads of a run by the same lanes, which differ by one distance: `lanes` holds the lattice of distances from the
    lowest address, `pieces` the lowest address and the width of each load.
    """

    batch: Batch
    lanes: np.ndarray
    pieces: set[tuple[int, int]]


class Merged(Observer):
    """Sums `requests` and `wavefronts` of shared memory over a launch, each as few as ptxas may make them."""

    def __init__(self) -> None:
        self.requests = self.wavefronts = 0
        self._run: dict[tuple[object, ...], _Group] = {}
        self._met: set[int] = set()
        self._known: dict[tuple[object, ...], Cost] = {}

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        if site.space != "shared":
            return
        lowest, lanes = _relative(address, mask)
        key = (lanes.shape, hash(lanes.tobytes()))
        if site.op != "ld.shared" or site.order or site.bytes < WORD:
            self._add(self._cost(key, frame.batch, lanes, lowest, site.bytes, site.op))
            return
        if id(site) in self._met:
            self._end_run()
        self._met.add(id(site))
        self._run.setdefault(key, _Group(frame.batch, lanes, set())).pieces.add((lowest, site.bytes))

    def met(self, frame: Frame, meeting: Meeting | None) -> None:
        self._end_run()

    def warp_met(self, frame: Frame, line: int, mask: Mask) -> None:
        self._end_run()

    def fence(self, frame: Frame, line: int, mask: Mask, wide: bool) -> None:
        self._end_run()

    def finish(self, frame: Frame) -> None:
        self._end_run()

    def _end_run(self) -> None:
        for key, group in self._run.items():
            self._add(self._fewest(key, group))
        self._run, self._met = {}, set()

    def _add(self, cost: Cost) -> None:
        self.requests += cost.requests
        self.wavefronts += cost.wavefronts

    def _fewest(self, key: tuple[object, ...], group: _Group) -> Cost:
        widest = gcd(_WIDEST, int(np.gcd.reduce(np.maximum(group.lanes, 0), axis=None)))
        costs = {
            (start, width): self._cost(key, group.batch, group.lanes, start, width, "ld.shared")
            for piece, length in group.pieces
            for start, width in _units(piece, length, widest)
        }
        alone = [costs[piece] for piece in group.pieces if piece[1] > widest]
        units = {(start // widest * widest, widest) for start, width in group.pieces if width <= widest}
        return _total([*alone, *(_best(unit, group.pieces, costs)[0] for unit in units)])

    def _cost(self, key: tuple[object, ...], batch: Batch, lanes: np.ndarray, start: int, width: int, op: str) -> Cost:
        """A request of `width` bytes a lane at so many bytes past `start`, over all warps that have an active lane."""
        start %= WAVEFRONT  # a count depends on addresses only up to a multiple of what the banks span
        known = (*key, batch.block, start, width, op)
        if known not in self._known:
            rows = requests_of(batch, np.where(lanes < 0, NOBODY, lanes + start))
            rows = rows[(rows >= 0).any(axis=1)]
            self._known[known] = Cost(len(rows), int(count(op, "shared", width, rows).sum()))
        rows_stand_for = batch.blocks // int(np.prod(lanes.shape[:3]))
        return Cost(*(rows_stand_for * each for each in self._known[known]))


def _relative(address: np.ndarray, mask: Mask) -> tuple[int, np.ndarray]:
    """The lowest address of the active lanes, and each lane's distance from it, NOBODY where it is not active."""
    if mask is None:
        lowest = address.min()
        return int(lowest), (address - lowest).view(np.int64)
    lowest = np.where(mask, address, ~np.uint64(0)).min()
    return int(lowest), np.where(mask, (address - lowest).view(np.int64), NOBODY)


def _units(start: int, width: int, widest: int) -> list[tuple[int, int]]:
    """A load, and the aligned loads of up to `widest` bytes that could hold it."""
    return [(start, width)] + [(start // size * size, size) for size in (2 * WORD, 4 * WORD) if width < size <= widest]


def _best(
    unit: tuple[int, int], pieces: set[tuple[int, int]], costs: Mapping[tuple[int, int], Cost]
) -> tuple[Cost, bool]:
    """The fewest for the pieces that lie in a unit (start, width), and whether they fill it."""
    start, width = unit
    if unit in pieces:
        return costs[unit], True
    if width <= WORD:
        return Cost(0, 0), False
    halves = [_best((each, width // 2), pieces, costs) for each in (start, start + width // 2)]
    apart = _total([cost for cost, _ in halves])
    if not all(full for _, full in halves):
        return apart, False
    return Cost(*map(min, apart, costs[unit])), True


def _total(costs: list[Cost]) -> Cost:
    return Cost(sum(cost.requests for cost in costs), sum(cost.wavefronts for cost in costs))
