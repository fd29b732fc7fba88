"""The lanes of a request that point where they may, array by array: what observers of memory go by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .instructions import Frame, Site
from .lanes import Mask
from .memory import Allocation


@dataclass(frozen=True)
class Touch:
    """Lanes of a request that reach one global array, or (`owner` None) the block's or thread's own memory."""

    owner: Allocation | None
    address: np.ndarray
    mask: Mask


class Touches:
    """Finds the touches of a request; the last ones are kept, since several observers ask for the same."""

    def __init__(self) -> None:
        self._last: tuple[object, ...] = ()
        self._found: tuple[Touch, ...] = ()

    def of(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> tuple[Touch, ...]:
        if not self._last or any(a is not b for a, b in zip(self._last, (site, frame, address, mask), strict=True)):
            self._last = (site, frame, address, mask)
            find = _global if site.space == "global" else _own
            self._found = find(site, frame, address, mask)
        return self._found


def _global(site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> tuple[Touch, ...]:
    memory, width = frame.memory, site.bytes
    lowest, highest = _extremes(address, None)
    owner = memory.below(lowest)
    if mask is not None and (owner is None or highest + width > owner.base + owner.nbytes):
        lowest, highest = _extremes(address, mask)
        owner = memory.below(lowest)
    if owner is not None and highest + width <= owner.base + owner.nbytes and not _crooked(address, width, mask):
        return (Touch(owner, address, mask),)
    shape = address.shape if mask is None else np.broadcast_shapes(address.shape, mask.shape)
    pieces = memory.split(frame.batch, np.broadcast_to(address, shape), mask, width, lambda found: None)
    return tuple(Touch(owner, address, lanes) for owner, lanes, _ in pieces)


def _own(site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> tuple[Touch, ...]:
    memory = frame.shared if site.space == "shared" else frame.local
    offset = address.astype(np.int64)
    if memory.region_of(int(offset.min()), int(offset.max()) + site.bytes) and not _crooked(address, site.bytes, mask):
        return (Touch(None, offset, mask),)
    outside, crooked = memory.faulty(offset, site.bytes)
    lanes = ~(outside | crooked) if mask is None else mask & ~(outside | crooked)
    if not lanes.any():
        return ()
    return (Touch(None, offset, None if lanes.all() else lanes),)


def _extremes(address: np.ndarray, mask: Mask) -> tuple[int, int]:
    if mask is None:
        return int(address.min()), int(address.max())
    far = np.iinfo(address.dtype).max
    return int(np.where(mask, address, far).min()), int(np.where(mask, address, 0).max())


def _crooked(address: np.ndarray, width: int, mask: Mask) -> bool:
    over = (address & address.dtype.type(width - 1)) != 0
    return bool(over.any()) and (mask is None or bool((over & mask).any()))
