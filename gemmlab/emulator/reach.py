"""An observer of global memory: wavefronts that loads take of L1's data banks, and the sectors that blocks reach.

L1 and shared memory are one set of data banks (NVIDIA H100 white paper, "H100 SM": "combined shared memory/L1 data
cache"), so a load that hits in L1 is taken to cost the wavefronts of a shared load of the same addresses: a line of 128
bytes lies across the 32 banks. A block reaches a sector however often its threads ask for it, so that the sectors are
those that cross L2 where L1 keeps whatever a block has once loaded, and nothing of another's.
"""

from __future__ import annotations

import numpy as np

from .instructions import Frame, Site
from .lanes import Mask
from .observer import Observer
from .traffic import requests_of
from .wavefronts import NOBODY, SECTOR, WAVEFRONT, distinct, wavefronts


class Reach(Observer):
    """Sums over a launch `wavefronts`, of plain loads from global memory, and `sectors`, the distinct ones that each
    block reads, and those that it writes.
    """

    def __init__(self) -> None:
        self.wavefronts = self.sectors = 0
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
        if site.op == "ld.global":
            repeats = frame.batch.blocks // int(np.prod(placed.shape[:3]))
            self.wavefronts += repeats * self._wavefronts(frame, placed, site.bytes)

    def finish(self, frame: Frame) -> None:
        batch = frame.batch
        for reached in self._reached.values():
            if reached:
                full = [np.broadcast_to(each, (*batch.extent, each.shape[3])) for each in reached]
                self.sectors += int(distinct(np.concatenate(full, axis=3)).sum())

    def _wavefronts(self, frame: Frame, placed: np.ndarray, width: int) -> int:
        near = np.where(placed < 0, NOBODY, placed - (placed[placed >= 0].min() & ~(WAVEFRONT - 1)))
        key = (frame.batch.block, width, near.shape, hash(near.tobytes()))
        if key not in self._known:
            self._known[key] = int(wavefronts(requests_of(frame.batch, near), width, load=True).sum())
        return self._known[key]
