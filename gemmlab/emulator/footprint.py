"""Which bytes one access touches, and which lanes touch each.

Bytes are taken in granules (1, 2 or 4 bytes). A lane is numbered within its batch: block * threads + thread, so that of
the lanes that touch a granule the lowest and the highest differ in block if any do, else in warp if any do, else they
are different lanes if any are. Those two stand for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .lanes import Batch, Mask


@dataclass(frozen=True)
class Footprint:
    """Distinct granules of one access (counted from the access's lowest), with the lowest and highest lane at each.

    In memory that each block has of its own, `rows` is the block's row of each granule, or None where all blocks do the
    same: lanes are then those of one block. In memory that all blocks share `rows` is None.
    """

    granules: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rows: np.ndarray | None

    @property
    def alone(self) -> bool:
        """Whether no granule is touched by two lanes."""
        return self.low is self.high


class Footprints:
    """Remembers footprints by pattern: the addresses less their lowest."""

    def __init__(self, limit: int = 1 << 26) -> None:
        self._known: dict[tuple[object, ...], Footprint] = {}
        self._bytes, self._limit = 0, limit

    def of(
        self, batch: Batch, address: np.ndarray, mask: Mask, width: int, granule: int, own_rows: bool
    ) -> tuple[int, Footprint] | None:
        """The lowest granule and the footprint above it of an access of `width` bytes a lane; None when no lane is
        active. `own_rows` says that each block has a memory of its own.
        """
        if mask is None:
            lowest = int(address.min()) // granule * granule
            offset = (address - address.dtype.type(lowest)).astype(np.int64)
        else:
            if not mask.any():
                return None
            far = np.iinfo(address.dtype).max
            lowest = int(np.where(mask, address, far).min()) // granule * granule
            offset = np.where(mask, (address - address.dtype.type(lowest)).astype(np.int64), -1)
        key = (batch.extent, batch.block, offset.shape, width, granule, own_rows, hash(offset.tobytes()))
        found = self._known.get(key)
        if found is None:
            found = _footprint(batch, offset, width, granule, own_rows)
            self._bytes += found.granules.nbytes * 4
            if self._bytes > self._limit:
                self._known.clear()
                self._bytes = found.granules.nbytes * 4
            self._known[key] = found
        return lowest // granule, found


@lru_cache(maxsize=64)
def _lanes(shape: tuple[int, ...], extents: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest lane of each cell of a lattice: a cell stands for all lanes along the axes of extent 1."""
    every = np.arange(int(np.prod(extents)), dtype=np.int64).reshape(extents)
    low = every[tuple(slice(0, n) for n in shape)]
    axes = zip(shape, extents, strict=True)
    high = every[tuple(slice(None) if n == full else slice(full - 1, full) for n, full in axes)]
    return low.reshape(-1), high.reshape(-1)


def _footprint(batch: Batch, offset: np.ndarray, width: int, granule: int, own_rows: bool) -> Footprint:
    extents = batch.shape
    if own_rows and offset.shape[:3] == (1, 1, 1):
        extents, own_rows = (1, 1, 1, *batch.block), False
    elif own_rows:
        offset = np.broadcast_to(offset, batch.extent + offset.shape[3:])
    low, high = _lanes(offset.shape, extents)
    flat = offset.reshape(-1)
    if (flat < 0).any():
        active = flat >= 0
        flat, low, high = flat[active], low[active], high[active]
    first = flat // granule
    units = max(1, width // granule)
    if units > 1:
        first = (first[:, None] + np.arange(units)).reshape(-1)
        low, high = np.repeat(low, units), np.repeat(high, units)
    rows = low // batch.threads if own_rows else None
    key = rows * (int(first.max()) + 1) + first if own_rows else first
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], key[order][1:] != key[order][:-1]]))
    granules = first[order][starts]
    lowest = np.minimum.reduceat(low[order], starts)
    highest = np.maximum.reduceat(high[order], starts)
    if np.array_equal(lowest, highest):
        highest = lowest
    return Footprint(granules, lowest, highest, None if rows is None else rows[order][starts])
