"""An observer of global memory: the lines of 128 bytes that requests touch, and the sectors that blocks reach.

A line is what one tag of the L1 cache stands for. A block reaches a sector however often its threads ask for it, so
that the sectors are those that cross L2 where L1 keeps whatever a block has once loaded and nothing of another's.
"""

from __future__ import annotations

import numpy as np

from .instructions import Frame, Site
from .lanes import Mask
from .observer import Observer
from .traffic import requests_of
from .wavefronts import NOBODY, SECTOR, distinct

LINE = 128
"""Bytes of an L1 line (CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory")."""


class Reach(Observer):
    """Sums over a launch `lines`, the distinct lines of each request of plain loads, stores and atomics, and `sectors`,
    the distinct sectors that each block reads, and those that it writes.
    """

    def __init__(self) -> None:
        self.lines = self.sectors = 0
        self._reached: dict[bool, list[np.ndarray]] = {}
        self._known: dict[tuple[object, ...], int] = {}

    def start(self, frame: Frame) -> None:
        self._reached = {False: [], True: []}

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        if site.space != "global":
            return
        placed = address.view(np.int64) if mask is None else np.where(mask, address.view(np.int64), NOBODY)
        reached = np.where(placed < 0, NOBODY, placed // SECTOR)
        self._reached[site.op.startswith("st")].append(reached.reshape(*placed.shape[:3], -1))
        if not site.op.startswith("cp.async"):  # a copy of 16 bytes passes L1 by
            repeats = frame.batch.blocks // int(np.prod(placed.shape[:3]))
            self.lines += repeats * self._lines(frame, placed)

    def finish(self, frame: Frame) -> None:
        batch = frame.batch
        for reached in self._reached.values():
            if reached:
                full = [np.broadcast_to(each, (*batch.extent, each.shape[3])) for each in reached]
                self.sectors += int(distinct(np.concatenate(full, axis=3)).sum())

    def _lines(self, frame: Frame, placed: np.ndarray) -> int:
        active = placed[placed >= 0]
        near = np.where(placed < 0, NOBODY, placed - (active.min() & ~(LINE - 1)))
        key = (frame.batch.block, near.shape, hash(near.tobytes()))
        if key not in self._known:
            rows = requests_of(frame.batch, np.where(near < 0, NOBODY, near // LINE))
            self._known[key] = int(distinct(rows).sum())
        return self._known[key]
