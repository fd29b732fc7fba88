"""An observer that finds reads of bytes that nobody wrote, and outputs that a kernel left unwritten.

Shared and local memory start empty with every block. An array from `empty` is empty until the host or a kernel fills
it; what a launch without a trace stored is not known byte by byte, so such an array then counts as filled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .arguments import Passed
from .asynchronous import FETCH
from .faults import Hazard, verb
from .instructions import Frame, Site
from .lanes import Batch, Mask
from .memory import UNITS, Allocation, Place
from .observer import Observer
from .onchip import BlockMemory, ThreadMemory
from .touches import Touch, Touches

FLAGS = {width: np.ones(width, np.uint8).view(unit) for width, unit in UNITS.items()}
"""The flags of all bytes of an access, each 1, as one unit."""


@dataclass(frozen=True)
class Output:
    """An array that a kernel may write: its elements, how many of them the kernel did not write, and the first."""

    array: str
    elements: int
    unwritten: int
    first_unwritten: str


class Initialized(Observer):
    """Flags each byte that was written, and reports reads of those that were not."""

    def __init__(self, report: Callable[[Hazard], None], touches: Touches) -> None:
        self._report, self._touches = report, touches
        self._arrays: dict[int, Passed] = {}
        self._written: dict[int, np.ndarray] = {}
        self._lines: dict[int, int] = {}
        self._current: set[int] = set()
        self.outputs: tuple[Output, ...] = ()

    def begin(self, arrays: tuple[Passed, ...]) -> None:
        self._arrays = {a.allocation.base: a for a in arrays if not a.constant}
        self._written = {base: np.zeros(a.allocation.nbytes, bool) for base, a in self._arrays.items()}

    def start(self, frame: Frame) -> None:
        batch = frame.batch
        one = Batch(batch.grid, batch.block, batch.origin, (1, 1, 1))
        self._shared = BlockMemory(one, frame.shared.regions, fill=0)
        self._shared_full = not frame.shared.regions
        self._local = ThreadMemory(batch, frame.local.nbytes, fill=0)

    def finish(self, frame: Frame) -> None:
        del self._shared, self._local

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        if site.op != FETCH and not (site.space == "shared" and self._shared_full):
            self.fetched(site, frame, address, mask)

    def fetched(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        does = verb(site.op)
        for touch in self._touches.of(site, frame, address, mask):
            if touch.owner is not None:
                self._global(site, frame, touch, does)
            elif site.space == "shared":
                memory = self._shared_flags(frame.batch, touch)
                self._own(site, frame, memory, touch, does)
                self._shared_full = does != "read" and all(
                    memory.view(1)[..., r.start : r.end].all() for r in memory.regions
                )
            else:
                self._own(site, frame, self._local, touch, does)

    def _shared_flags(self, batch: Batch, touch: Touch) -> BlockMemory:
        """Flags of shared memory: one row for all blocks, until one does otherwise than the rest."""
        alike = touch.address.shape[:3] == (1, 1, 1) and (touch.mask is None or touch.mask.shape[:3] == (1, 1, 1))
        if not alike and self._shared.batch is not batch:
            rows = BlockMemory(batch, self._shared.regions, fill=0)
            rows.view(1)[...] = self._shared.view(1)
            self._shared = rows
        return self._shared

    def _own(self, site: Site, frame: Frame, memory: BlockMemory, touch: Touch, does: str) -> None:
        if does != "write":
            units = memory.read(memory.batch, touch.address, touch.mask, site.bytes, _ignore)
            source = frame.shared if site.space == "shared" else frame.local
            rows = memory.view(1).reshape(-1, memory.view(1).shape[-1])

            def flags(row: int, thread: int, offset: int) -> np.ndarray:
                return rows[row if site.space == "shared" else row * memory.batch.threads + thread, offset:]

            self._look(site, frame.batch, memory.batch, touch, units, 0, flags, source.place)
        if does != "read":
            memory.write(memory.batch, touch.address, FLAGS[site.bytes], touch.mask, site.bytes, _ignore)

    def _global(self, site: Site, frame: Frame, touch: Touch, does: str) -> None:
        owner, width = touch.owner, site.bytes
        if owner.base not in self._current:
            self._current.add(owner.base)
            owner.initialized = None if owner.stores != owner.flagged else owner.initialized
        index = (touch.address - np.uint64(owner.base)).view(np.int64) // width
        initialized = owner.initialized
        if does != "write" and initialized is not None:
            units = _units(initialized, width)[index if touch.mask is None else np.where(touch.mask, index, 0)]
            batch = frame.batch
            flags = lambda row, thread, at: initialized[at:]  # noqa: E731
            self._look(site, batch, batch, touch, units, owner.base, flags, owner.place)
        if does != "read":
            self._lines[owner.base] = site.line
            lanes = _active(index, touch.mask)
            for flags in (initialized, self._written.get(owner.base)):
                if flags is not None:
                    _units(flags, width)[lanes] = FLAGS[width]

    def _look(
        self,
        site: Site,
        batch: Batch,
        rows: Batch,
        touch: Touch,
        units: np.ndarray,
        base: int,
        flags: Callable[[int, int, int], np.ndarray],
        place: Callable[[int], Place],
    ) -> None:
        """Report the lanes whose `units` of flags are not all set; `rows` is the batch that the lattices stand for."""
        missing = units.view(np.uint64).reshape(*units.shape, 2) != 0x0101010101010101 if site.bytes == 16 else units
        missing = missing.any(axis=-1) if site.bytes == 16 else units != FLAGS[site.bytes]
        missing = missing if touch.mask is None else missing & touch.mask
        if not missing.any():
            return
        lanes = rows.flat(missing)
        row, thread = (int(i[0]) for i in np.nonzero(lanes))
        offset = int(rows.flat(touch.address)[row, thread]) - base
        offset += int((flags(row, thread, offset)[: site.bytes] == 0).argmax())
        where = place(offset)
        block, first = batch.block_index(row), batch.thread_index(thread)
        self._report(
            Hazard(
                "uninitialized",
                site.line,
                f"thread {first} of block {block} reads {where}, which nobody has written",
                block,
                (first,),
                int(lanes.sum()) * (batch.blocks // rows.blocks),
                cure=_CURES[site.space],
                counted="accesses",
                space=site.space,
                array=where.array,
                offset=where.offset,
                bytes=site.bytes,
            )
        )

    def end(self) -> None:
        self.outputs = tuple(self._output(a, self._written[base]) for base, a in self._arrays.items())
        for passed in self._arrays.values():
            allocation = passed.allocation
            allocation.flagged = allocation.stores
            if allocation.initialized is not None:
                self._never_written(passed)

    def _output(self, passed: Passed, written: np.ndarray) -> Output:
        missing = _elements_missing(written, passed.allocation)
        first = _first_missing(missing, passed.allocation).element if missing.any() else ""
        return Output(passed.name, missing.size, int(missing.sum()), first)

    def _never_written(self, passed: Passed) -> None:
        allocation = passed.allocation
        missing = _elements_missing(allocation.initialized, allocation)
        if not missing.any():
            allocation.initialized = None
            return
        place = _first_missing(missing, allocation)
        count = int(missing.sum())
        self._report(
            Hazard(
                "uninitialized",
                self._lines.get(allocation.base, 0),
                f"{count:,} of {missing.size:,} elements of {passed.name} were never written, the first is "
                f"{place.element}",
                count=count,
                cure="let the grid cover the whole array, and check how each thread finds its row and column",
                space="global",
                array=passed.name,
                offset=place.offset,
                bytes=allocation.dtype.itemsize,
            )
        )


_CURES = {
    "shared": "store to it first, and let the block meet at __syncthreads() before others read it",
    "local": "give the variable a value first",
    "global": "fill the array first, with cp.zeros or a kernel; BLAS does not read C when beta is 0",
}


def _ignore(found: object) -> None:
    """Faults are reported by the access itself."""


def _units(flags: np.ndarray, width: int) -> np.ndarray:
    """Flags of bytes as units of `width`, as many as fit whole."""
    return flags[: flags.size // width * width].view(UNITS[width])


def _active(index: np.ndarray, mask: Mask) -> np.ndarray:
    """Values of the lanes of a mask."""
    if mask is None:
        return index
    shape = np.broadcast_shapes(index.shape, mask.shape)
    return np.broadcast_to(index, shape)[np.broadcast_to(mask, shape)]


def _elements_missing(flags: np.ndarray, allocation: Allocation) -> np.ndarray:
    """Which elements of an array have a byte that is not flagged."""
    size = allocation.dtype.itemsize
    return ~flags[: flags.size // size * size].reshape(-1, size).all(axis=1)


def _first_missing(missing: np.ndarray, allocation: Allocation) -> Place:
    return allocation.place(int(missing.argmax()) * allocation.dtype.itemsize)
