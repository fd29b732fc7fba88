"""Global memory: allocations, bounds and alignment.

A request is a lattice of byte addresses, one per lane, all of one width. Every request is checked before a byte
moves: an address outside its allocation, or one that is not a multiple of the width, is reported and never followed.

Generic addresses (PTX ISA, "State Spaces") tell the spaces apart by range: shared and local memory have windows of
their own below every global allocation.
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator
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

CAPACITY = 1 << 32
"""Bytes of the emulated GPU's memory."""

POISON = 0xFF
"""Byte that fills memory nobody wrote: as float32 it reads NaN."""

UNITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
"""NumPy types that carry 1 to 16 bytes of raw bits in one gather."""


@dataclass(frozen=True)
class Place:
    """Where an address lies: `offset` bytes into an array of `size` bytes, or near none ('' and None). `element` is
    the array's element there, such as 'A[1, 0]'; `row` says how long a row of it is, and `row_bytes` in bytes.
    """

    address: int
    array: str = ""
    offset: int | None = None
    size: int = 0
    element: str = ""
    row: str = ""
    row_bytes: int = 0

    def __str__(self) -> str:
        if self.offset is None:
            return f"address {self.address:#x}, which is in no array"
        element = f" ({self.element})" if self.element else ""
        outside = "" if 0 <= self.offset < self.size else f", which has {self.size} bytes"
        return f"byte {self.offset}{element} of {self.array}{outside}"


@dataclass(frozen=True)
class Fault:
    """What a checked access found: lanes at fault as (blocks, threads) booleans and where the first of them points."""

    kind: str
    space: str
    bytes: int
    lanes: np.ndarray
    place: Place


FaultHandler = Callable[[Fault], None]


class Allocation:
    """One array's bytes at a device address; `name` is what messages call it, `shape` and `dtype` what it holds, and
    `row_argument` the kernel's argument that gives the length of a row.

    `initialized` flags each byte that somebody wrote; None stands for all. `stores` counts the stores of kernels and
    `flagged` those that the flags know of: where the two differ, the flags are out of date.
    """

    def __init__(self, base: int, nbytes: int, name: str) -> None:
        self.base, self.nbytes, self.name = base, nbytes, name
        self.shape: tuple[int, ...] = (nbytes,)
        self.dtype = np.dtype(np.uint8)
        self.row_argument = ""
        self.initialized: np.ndarray | None = None
        self.stores = self.flagged = 0
        storage = np.full(-(-nbytes // 16) * 16, POISON, np.uint8)
        self.buffer = storage[:nbytes]
        self._storage = storage
        self._views: dict[int, np.ndarray] = {}

    def view(self, width: int) -> np.ndarray:
        """The bytes as units of `width`, as many as fit whole."""
        if width not in self._views:
            self._views[width] = self._storage[: self.nbytes // width * width].view(UNITS[width])
        return self._views[width]

    def place(self, offset: int) -> Place:
        """What lies at a byte offset, inside the array or outside."""
        if not self.shape or 0 in self.shape or offset < 0:
            return Place(self.base + offset, self.name, offset, self.nbytes)
        extents = self.shape[1:]
        index, left = [], offset // self.dtype.itemsize
        for extent in reversed(extents):
            left, at = divmod(left, extent)
            index.insert(0, at)
        element = f"{self.name}[{', '.join(map(str, [left, *index]))}]"
        elements = prod(extents)
        row = f"{self.row_argument + ' = ' if self.row_argument else ''}{elements} elements" if extents else ""
        row_bytes = elements * self.dtype.itemsize if extents else 0
        return Place(self.base + offset, self.name, offset, self.nbytes, element, row, row_bytes)


class GlobalMemory:
    """All live allocations. They are found by address; a lane that points into none of them is a fault."""

    space = "global"

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._next = GLOBAL_BASE
        # Replaced as a whole and never changed, since other threads may launch and the garbage collector may free an
        # array at any moment.
        self._table: tuple[list[int], list[weakref.ref[Allocation]]] = ([], [])

    def allocate(self, nbytes: int, name: str) -> Allocation:
        """A new array of bytes; MemoryError when the emulated GPU has no room for it."""
        with self._turn:
            used = sum(each.nbytes for each in self.allocations())
            if used + nbytes > CAPACITY:
                raise MemoryError(
                    f"cannot allocate {nbytes:,} bytes: the emulated GPU has {CAPACITY:,}, of which {used:,} are in "
                    "use; use smaller arrays, or del those that are no longer needed"
                )
            allocation = Allocation(self._next, nbytes, name)
            self._next += -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT + RED_ZONE
            alive = [*self.allocations(), allocation]
            self._table = [each.base for each in alive], [weakref.ref(each) for each in alive]
        return allocation

    def below(self, address: int) -> Allocation | None:
        """The allocation that starts at or below an address; None also where that is no longer held."""
        bases, held = self._table
        at = bisect_right(bases, address) - 1
        return held[at]() if at >= 0 else None

    def allocations(self) -> Iterator[Allocation]:
        """All that are alive, by address."""
        return filter(None, [each() for each in self._table[1]])

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
        for owner, lanes, where in self.split(batch, np.broadcast_to(address, shape), mask, width, fault):
            result[lanes] = owner.view(width)[where]
        return result

    def write(
        self, batch: Batch, address: np.ndarray, values: np.ndarray, mask: Mask, width: int, fault: FaultHandler
    ) -> None:
        """Store units of `width` bytes; where lanes meet at one address the last lane's value stays. A faulty lane
        writes nothing.
        """
        allocation, index = self._locate(address, mask, width)
        if allocation is not None:
            shape = np.broadcast_shapes(index.shape, values.shape, (1,) * RANK if mask is None else mask.shape)
            index, stored = np.broadcast_to(index, shape), np.broadcast_to(values, shape)
            if mask is not None:
                active = np.broadcast_to(mask, shape)
                index, stored = index[active], stored[active]
            if index.size == 0 or int(index.max()) < allocation.view(width).size:
                allocation.stores += 1
                allocation.view(width)[index] = stored
                return
        shape = np.broadcast_shapes(address.shape, values.shape, (1,) * RANK if mask is None else mask.shape)
        values = np.broadcast_to(values, shape)
        for owner, lanes, where in self.split(batch, np.broadcast_to(address, shape), mask, width, fault):
            owner.stores += 1
            owner.view(width)[where] = values[lanes]

    def _locate(self, address: np.ndarray, mask: Mask, width: int) -> tuple[Allocation | None, np.ndarray]:
        """Allocation of the first active lane and every lane's unit index in it, or None when a lane is misaligned.
        The index of a lane below the allocation wraps to a huge value, so one upper bound checks both ends.
        """
        first = address.flat[0]
        if mask is not None:
            shape = np.broadcast_shapes(address.shape, mask.shape)
            address = np.broadcast_to(address, shape)
            first = address.reshape(-1)[np.broadcast_to(mask, shape).argmax()]
        allocation = self.below(int(first))
        if allocation is None or allocation.nbytes < width:
            return None, address
        offset = address - np.uint64(allocation.base)
        if mask is not None:
            offset = np.where(mask, offset, np.uint64(0))
        if width > 1:
            if (offset & np.uint64(width - 1)).any():
                return None, address
            offset >>= np.uint64(width.bit_length() - 1)
        elif offset.max() >= allocation.nbytes:
            return None, address
        return allocation, offset.view(np.int64)

    def split(
        self, batch: Batch, address: np.ndarray, mask: Mask, width: int, fault: FaultHandler
    ) -> Iterator[tuple[Allocation, np.ndarray, np.ndarray]]:
        """Sort active lanes by allocation and report the faulty ones: yields (allocation, lanes, unit indices)."""
        active = np.ones(address.shape, bool) if mask is None else np.broadcast_to(mask, address.shape)
        crooked = active & (address % np.uint64(width) != 0)
        if crooked.any():
            fault(self._fault("misaligned", batch, crooked, address, width))
        left = active & ~crooked
        alive = list(self.allocations())
        nearest = np.searchsorted(np.array([each.base for each in alive], np.uint64), address, side="right") - 1
        for at in np.unique(nearest[left]):
            if at < 0 or alive[at].nbytes < width:
                continue
            owner = alive[at]
            lanes = left & (nearest == at) & (address <= np.uint64(owner.base + owner.nbytes - width))
            if lanes.any():
                yield owner, lanes, ((address[lanes] - np.uint64(owner.base)) // np.uint64(width)).view(np.int64)
                left = left & ~lanes
        if left.any():
            fault(self._fault("out-of-bounds", batch, left, address, width))

    def _fault(self, kind: str, batch: Batch, lanes: np.ndarray, address: np.ndarray, width: int) -> Fault:
        return Fault(kind, self.space, width, batch.flat(lanes), self.place(int(address[lanes][0])))

    def place(self, address: int) -> Place:
        """The array whose edge an address is nearest to, and where it lies from its start."""
        alive = list(self.allocations())
        at = bisect_right([each.base for each in alive], address)
        below, above = (alive[i] if 0 <= i < len(alive) else None for i in (at - 1, at))
        if below and (above is None or address - below.base - below.nbytes <= above.base - address):
            owner = below
        else:
            owner = above
        if owner is None or not GLOBAL_BASE - RED_ZONE <= address <= self._next + RED_ZONE:
            return Place(address)
        return owner.place(address - owner.base)
