"""Memory of a block and of a thread: shared and local, checked array by array."""

from __future__ import annotations

from bisect import bisect_right
from math import prod

import numpy as np

from .lanes import RANK, Batch, Mask
from .layout import Region
from .memory import POISON, UNITS, Fault, FaultHandler, Place


class BlockMemory:
    """Shared memory of a batch: one row of bytes a block, addressed by offset; `regions` are its arrays, in order.

    `copies` are asynchronous ones that have not landed, `committed` how many groups of them each lane has closed.
    """

    space = "shared"

    def __init__(self, batch: Batch, regions: tuple[Region, ...], fill: int = POISON) -> None:
        self.batch, self.regions = batch, regions
        self.copies: list = []
        self.committed = np.zeros((1,) * RANK, np.int64)
        self._starts = [r.start for r in regions]
        self._ends = [r.end for r in regions]
        self._storage = np.full((*self._rows(), max(-(-self.nbytes // 16), 1) * 16), fill, np.uint8)

    def _rows(self) -> tuple[int, ...]:
        return self.batch.extent

    @property
    def nbytes(self) -> int:
        """Bytes of a row, red zones included."""
        return self._ends[-1] if self._ends else 0

    def view(self, width: int) -> np.ndarray:
        """The rows as units of `width` bytes."""
        return self._storage.view(UNITS[width])

    def read(self, batch: Batch, address: np.ndarray, mask: Mask, width: int, fault: FaultHandler) -> np.ndarray:
        index, mask = self._index(address, mask, width, fault)
        if mask is not None:
            index = np.where(mask, index, 0)
        rows = self.view(width)
        if index.shape[:3] == (1, 1, 1):
            return rows.take(index[0, 0, 0], axis=3)
        index = index + self._row_starts(rows)
        return rows.reshape(-1).take(index)

    def write(
        self, batch: Batch, address: np.ndarray, values: np.ndarray, mask: Mask, width: int, fault: FaultHandler
    ) -> None:
        index, mask = self._index(address, mask, width, fault)
        rows = self.view(width)
        if index.shape[:3] == (1, 1, 1) and mask is None:
            rows[:, :, :, np.broadcast_to(index[0, 0, 0], batch.block)] = np.broadcast_to(values, batch.shape)
            return
        index = np.broadcast_to(index + self._row_starts(rows), batch.shape)
        values = np.broadcast_to(values, batch.shape)
        if mask is not None:
            active = np.broadcast_to(mask, batch.shape)
            index, values = index[active], values[active]
        rows.reshape(-1)[index] = values

    def _row_starts(self, rows: np.ndarray) -> np.ndarray:
        starts = np.arange(prod(self.batch.extent), dtype=np.int64) * rows.shape[3]
        return starts.reshape((*self.batch.extent, 1, 1, 1))

    def _index(self, address: np.ndarray, mask: Mask, width: int, fault: FaultHandler) -> tuple[np.ndarray, Mask]:
        """Unit index of every lane; lanes at fault are reported and taken out of the mask."""
        address = address.astype(np.int64)
        if not self.region_of(int(address.min()), int(address.max()) + width) or (address & (width - 1)).any():
            outside, crooked = self.faulty(address, width)
            active = True if mask is None else mask
            for kind, lanes in (("misaligned", crooked & active), ("out-of-bounds", outside & active)):
                if lanes.any():
                    fault(self._fault(kind, lanes, address, width))
            mask = active & ~crooked & ~outside
            address = np.where(mask, address, 0)
        return address >> (width.bit_length() - 1), mask

    def valid(self, address: np.ndarray, mask: Mask, width: int, fault: FaultHandler) -> Mask:
        """Lanes of the mask that point where they may; the others are reported."""
        return self._index(address, mask, width, fault)[1]

    def region_of(self, first: int, end: int) -> Region | None:
        """The array that holds all bytes from `first` to before `end`."""
        at = bisect_right(self._starts, first) - 1
        return self.regions[at] if at >= 0 and end <= self._ends[at] else None

    def faulty(self, address: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Lanes (of an i64 lattice) whose bytes are not all in one array, and those that are misaligned instead."""
        crooked = (address & (width - 1)) != 0
        if not self.regions:
            return ~crooked, crooked
        at = np.searchsorted(np.array(self._starts), address, side="right") - 1
        outside = (at < 0) | (address + width > np.array(self._ends)[at])
        return outside & ~crooked, crooked

    def _fault(self, kind: str, lanes: np.ndarray, address: np.ndarray, width: int) -> Fault:
        full = np.broadcast_to(lanes, self.batch.shape)
        first = int(np.broadcast_to(address, self.batch.shape)[full][0])
        return Fault(kind, self.space, width, self.batch.flat(lanes), self.place(first))

    def place(self, offset: int) -> Place:
        """The array whose edge an offset is nearest to, and where it lies from its start."""
        if not self.regions:
            return Place(offset)
        nearest = min(self.regions, key=lambda r: max(r.start - offset, offset - r.end + 1, 0))
        return Place(offset, nearest.name, offset - nearest.start, nearest.bytes)


class ThreadMemory(BlockMemory):
    """Local memory of a batch: one row of `nbytes` a thread, addressed by byte offset."""

    space = "local"

    def __init__(self, batch: Batch, nbytes: int, fill: int = POISON) -> None:
        super().__init__(batch, (Region("local memory", 0, nbytes),) if nbytes else (), fill)

    def _rows(self) -> tuple[int, ...]:
        return self.batch.shape

    def read(self, batch: Batch, address: np.ndarray, mask: Mask, width: int, fault: FaultHandler) -> np.ndarray:
        index, mask = self._index(address, mask, width, fault)
        if index.size == 1:
            return self.view(width)[..., index.item()].copy()
        if mask is not None:
            index = np.where(mask, index, 0)
        index = np.broadcast_to(index, batch.shape)[..., None]
        return np.take_along_axis(self.view(width), index, axis=RANK)[..., 0]

    def write(
        self, batch: Batch, address: np.ndarray, values: np.ndarray, mask: Mask, width: int, fault: FaultHandler
    ) -> None:
        index, mask = self._index(address, mask, width, fault)
        rows = self.view(width)
        if mask is None and index.size == 1:
            rows[..., index.item()] = values
            return
        index = np.broadcast_to(index, batch.shape).reshape(-1)
        lanes = np.arange(index.size)
        values = np.broadcast_to(values, batch.shape).reshape(-1)
        if mask is not None:
            lanes = np.flatnonzero(np.broadcast_to(mask, batch.shape))
            index, values = index[lanes], values[lanes]
        rows.reshape(-1, rows.shape[RANK])[lanes, index] = values
