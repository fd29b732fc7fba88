"""Allocations, bounds, alignment and address spaces.

A request is a lattice of byte addresses, one per lane, all of one width. Every request is checked before a byte
moves: an address outside its allocation, its block's shared memory or its thread's local memory, or one that is not a
multiple of the width, is reported and never followed.

Generic addresses (PTX ISA, "State Spaces") tell the spaces apart by range: shared and local memory have windows of
their own below every global allocation.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from .lanes import RANK, Batch, Mask

SHARED_WINDOW = 1 << 32
LOCAL_WINDOW = 1 << 36
GLOBAL_BASE = 1 << 44
ALIGNMENT = 256
RED_ZONE = 1 << 34
"""Bytes of address space between allocations; a 32-bit index that ran wild still lands in it."""

POISON = 0xFF
"""Byte that fills memory nobody wrote: as float32 it reads NaN."""

UNITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
"""NumPy types that carry 1 to 16 bytes of raw bits in one gather."""


@dataclass(frozen=True)
class Fault:
    """What a checked access found: lanes at fault as (blocks, threads) booleans and the addresses they asked for."""

    kind: str
    space: str
    bytes: int
    lanes: np.ndarray
    addresses: np.ndarray
    where: str


FaultHandler = Callable[[Fault], None]


class Allocation:
    """One array's bytes at a device address; `name` is what messages call it."""

    def __init__(self, base: int, nbytes: int, name: str) -> None:
        self.base, self.nbytes, self.name = base, nbytes, name
        storage = np.full(-(-nbytes // 16) * 16, POISON, np.uint8)
        self.buffer = storage[:nbytes]
        self._storage = storage
        self._views: dict[int, np.ndarray] = {}

    def view(self, width: int) -> np.ndarray:
        """The bytes as units of `width`, as many as fit whole."""
        if width not in self._views:
            self._views[width] = self._storage[: self.nbytes // width * width].view(UNITS[width])
        return self._views[width]


class GlobalMemory:
    """All live allocations. They are found by address; a lane that points into none of them is a fault."""

    space = "global"

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._live: dict[int, weakref.ref[Allocation]] = {}
        self._next = GLOBAL_BASE

    def allocate(self, nbytes: int, name: str) -> Allocation:
        allocation = Allocation(self._next, nbytes, name)
        self._next += -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT + RED_ZONE
        insort(self._bases, allocation.base)
        self._live[allocation.base] = weakref.ref(allocation, lambda _, base=allocation.base: self._forget(base))
        return allocation

    def _forget(self, base: int) -> None:
        self._live.pop(base, None)
        at = bisect_right(self._bases, base) - 1
        if at >= 0 and self._bases[at] == base:
            del self._bases[at]

    def nearest(self, address: int) -> Allocation | None:
        """The allocation at or below an address, else the first above it: whose edge was crossed."""
        if not self._bases:
            return None
        at = max(bisect_right(self._bases, address) - 1, 0)
        below = self._live[self._bases[at]]()
        if below and address >= below.base + below.nbytes + RED_ZONE // 2 and at + 1 < len(self._bases):
            return self._live[self._bases[at + 1]]()
        return below

    def read(self, batch: Batch, address: np.ndarray, mask: Mask, width: int, fault: FaultHandler) -> np.ndarray:
        """Units of `width` bytes at `address` (u64 lattice); lanes at fault or inactive read zero."""
        allocation, index = self._locate(address, mask, width)
        if allocation is not None:
            try:
                return allocation.view(width).take(index)
            except IndexError:
                pass
        shape = np.broadcast_shapes(address.shape, (1,) * RANK if mask is None else mask.shape)
        result = np.zeros(shape, UNITS[width])
        for owner, lanes, where in self._split(batch, np.broadcast_to(address, shape), mask, width, fault):
            result[lanes] = owner.view(width)[where]
        return result

    def write(
        self, batch: Batch, address: np.ndarray, values: np.ndarray, mask: Mask, width: int, fault: FaultHandler
    ) -> None:
        """Store units of `width` bytes; where lanes meet at one address the last lane's value stays. A faulty lane
        writes nothing."""
        allocation, index = self._locate(address, mask, width)
        if allocation is not None:
            shape = np.broadcast_shapes(index.shape, values.shape, (1,) * RANK if mask is None else mask.shape)
            index, values = np.broadcast_to(index, shape), np.broadcast_to(values, shape)
            if mask is not None:
                active = np.broadcast_to(mask, shape)
                index, values = index[active], values[active]
            if index.size == 0 or int(index.max()) < allocation.view(width).size:
                allocation.view(width)[index] = values
                return
        shape = np.broadcast_shapes(address.shape, values.shape, (1,) * RANK if mask is None else mask.shape)
        values = np.broadcast_to(values, shape)
        for owner, lanes, where in self._split(batch, np.broadcast_to(address, shape), mask, width, fault):
            owner.view(width)[where] = values[lanes]

    def _locate(self, address: np.ndarray, mask: Mask, width: int) -> tuple[Allocation | None, np.ndarray]:
        """Allocation of the first active lane and every lane's unit index in it, or None when a lane is misaligned.
        The index of a lane below the allocation wraps to a huge value, so one upper bound checks both ends."""
        first = address.flat[0]
        if mask is not None:
            shape = np.broadcast_shapes(address.shape, mask.shape)
            address = np.broadcast_to(address, shape)
            first = address.reshape(-1)[np.broadcast_to(mask, shape).argmax()]
        at = bisect_right(self._bases, int(first)) - 1
        allocation = self._live[self._bases[at]]() if at >= 0 else None
        if allocation is None or allocation.nbytes < width:
            return None, address
        offset = address - np.uint64(allocation.base)
        if mask is not None:
            offset = np.where(mask, offset, np.uint64(0))
        if width > 1:
            if (offset & np.uint64(width - 1)).any():
                return None, address
            offset >>= np.uint64(width.bit_length() - 1)
        return allocation, offset.view(np.int64)

    def _split(self, batch: Batch, address: np.ndarray, mask: Mask, width: int, fault: FaultHandler):
        """Sort active lanes by allocation and report the faulty ones: yields (allocation, lanes, unit indices)."""
        active = np.ones(address.shape, bool) if mask is None else np.broadcast_to(mask, address.shape)
        crooked = active & (address % np.uint64(width) != 0)
        if crooked.any():
            fault(self._fault("misaligned", batch, crooked, address, width))
        left = active & ~crooked
        for base in list(self._bases):
            owner = self._live[base]()
            if owner is None or owner.nbytes < width:
                continue
            lanes = left & (address >= np.uint64(base)) & (address <= np.uint64(base + owner.nbytes - width))
            if lanes.any():
                yield owner, lanes, ((address[lanes] - np.uint64(base)) // np.uint64(width)).view(np.int64)
                left = left & ~lanes
        if left.any():
            fault(self._fault("out-of-bounds", batch, left, address, width))

    def _fault(self, kind: str, batch: Batch, lanes: np.ndarray, address: np.ndarray, width: int) -> Fault:
        first = int(address[lanes][0])
        return Fault(kind, self.space, width, batch.flat(lanes), batch.flat(address), self.describe(first))

    def describe(self, address: int) -> str:
        """'byte 4096 of C (4096 bytes)', or why no array is near."""
        owner = self.nearest(address)
        if address < GLOBAL_BASE or owner is None:
            return f"address {address:#x}, which is in no array"
        return f"byte {address - owner.base} of {owner.name} ({owner.nbytes} bytes)"


class BlockMemory:
    """Shared memory of a batch: one row of `nbytes` a block, addressed by byte offset."""

    space = "shared"

    def __init__(self, batch: Batch, nbytes: int) -> None:
        self.batch, self.nbytes = batch, nbytes
        self._storage = np.full(batch.extent + (max(-(-nbytes // 16), 1) * 16,), POISON, np.uint8)

    def _view(self, width: int) -> np.ndarray:
        return self._storage.view(UNITS[width])

    def read(self, batch: Batch, address: np.ndarray, mask: Mask, width: int, fault: FaultHandler) -> np.ndarray:
        index, mask = self._index(address, mask, width, fault)
        if mask is not None:
            index = np.where(mask, index, 0)
        rows = self._view(width)
        if index.shape[:3] == (1, 1, 1):
            return rows.take(index[0, 0, 0], axis=3)
        index = index + self._row_starts(rows)
        return rows.reshape(-1).take(index)

    def write(
        self, batch: Batch, address: np.ndarray, values: np.ndarray, mask: Mask, width: int, fault: FaultHandler
    ) -> None:
        index, mask = self._index(address, mask, width, fault)
        rows = self._view(width)
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
        return starts.reshape(self.batch.extent + (1, 1, 1))

    def _index(self, address: np.ndarray, mask: Mask, width: int, fault: FaultHandler) -> tuple[np.ndarray, Mask]:
        """Unit index of every lane; lanes at fault are reported and taken out of the mask."""
        address = address.astype(np.int64)
        bad = (address & (width - 1)) != 0
        outside = (address < 0) | (address > self.nbytes - width)
        if bad.any() or outside.any():
            active = True if mask is None else mask
            for kind, lanes in (("misaligned", bad & active), ("out-of-bounds", outside & ~bad & active)):
                if lanes.any():
                    full = np.broadcast_to(lanes, self.batch.shape)
                    first = int(np.broadcast_to(address, self.batch.shape)[full][0])
                    where = f"byte {first} of shared memory ({self.nbytes} bytes a block)"
                    fault(Fault(kind, self.space, width, self.batch.flat(lanes), self.batch.flat(address), where))
            mask = active & ~bad & ~outside
            address = np.where(mask, address, 0)
        return address >> (width.bit_length() - 1), mask


class ThreadMemory(BlockMemory):
    """Local memory of a batch: one row of `nbytes` a thread, addressed by byte offset."""

    space = "local"

    def __init__(self, batch: Batch, nbytes: int) -> None:
        self.batch, self.nbytes = batch, nbytes
        self._storage = np.full(batch.shape + (max(-(-nbytes // 16), 1) * 16,), POISON, np.uint8)

    def read(self, batch: Batch, address: np.ndarray, mask: Mask, width: int, fault: FaultHandler) -> np.ndarray:
        index, mask = self._index(address, mask, width, fault)
        if index.size == 1:
            return self._view(width)[..., index.item()].copy()
        if mask is not None:
            index = np.where(mask, index, 0)
        index = np.broadcast_to(index, batch.shape)[..., None]
        return np.take_along_axis(self._view(width), index, axis=RANK)[..., 0]

    def write(
        self, batch: Batch, address: np.ndarray, values: np.ndarray, mask: Mask, width: int, fault: FaultHandler
    ) -> None:
        index, mask = self._index(address, mask, width, fault)
        rows = self._view(width)
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
