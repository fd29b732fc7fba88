"""Where the lanes of a batch stand while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .barriers import Left, Wait
from .lanes import Mask, both
from .warps import WarpWait


@dataclass
class Standing:
    """Lanes by the block at which they stand, by the barrier or the warp-wide instruction where they wait, or gone."""

    pending: dict[int, Mask]
    entered: Mask
    waits: list[Wait] = field(default_factory=list)
    arrivals: list[Wait] = field(default_factory=list)
    warp_waits: list[WarpWait] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)

    def go(self, target: int, mask: Mask) -> None:
        """Add lanes to those that stand at a block."""
        if target in self.pending:
            other = self.pending[target]
            mask = None if mask is None or other is None else mask | other
        self.pending[target] = None if mask is None or mask.all() else mask

    @property
    def living(self) -> Mask:
        """Lanes that have not returned."""
        living = self.entered
        for gone in self.left:
            living = both(living, ~gone.mask)
        return living

    def gone(self, number: int, waited: np.ndarray, arrived: np.ndarray) -> None:
        """Take away lanes that a barrier let go, and arrivals that it has counted."""
        self.waits = _without(self.waits, number, waited)
        self.arrivals = _without(self.arrivals, number, arrived)


def _without(waits: list[Wait], number: int, gone: np.ndarray) -> list[Wait]:
    """Waits less the lanes that a barrier let go."""
    kept = [w if w.number != number else w.with_lanes(w.mask & ~gone) for w in waits]
    return [w for w in kept if w.mask.any()]
