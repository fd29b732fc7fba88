"""What one warp asks memory for: which lane wants which element of A, B and C, watched on the emulator."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gemmlab import emulator, launch
from gemmlab.emulator.instructions import Frame, Site
from gemmlab.emulator.lanes import WARP, Mask
from gemmlab.emulator.observer import Observer
from gemmlab.gemm import Gemm, inputs
from gemmlab.gpus import SECTOR_BYTES
from gemmlab.launch import Kernel
from gemmlab.roofline import FLOAT_BYTES

INACTIVE = -1


@dataclass(frozen=True, eq=False)
class Request:
    """One instruction of one warp: `offsets` are the byte offsets in array `array` that its 32 lanes want, (32,).

    A lane that does not take part has INACTIVE. Arrays start at multiples of 256 bytes, so sector 0 is the first 32
    bytes of an array.
    """

    array: str
    line: int
    row_length: int  # of the array, in elements
    offsets: np.ndarray

    @property
    def sectors(self) -> tuple[int, ...]:
        """Numbers of the distinct 32-byte sectors of the array that the request touches, in order."""
        return tuple(int(sector) for sector in np.unique(self._active // SECTOR_BYTES))

    @property
    def elements(self) -> tuple[tuple[int, int], ...]:
        """(row, column) of the element that each active lane wants, in order of lanes."""
        rows, columns = np.divmod(self._active // FLOAT_BYTES, self.row_length)
        return tuple(zip(rows.tolist(), columns.tolist(), strict=True))

    @property
    def extent(self) -> tuple[int, int]:
        """How many rows and how many columns of the array the lanes stand in."""
        rows, columns = map(set, zip(*self.elements, strict=True))
        return len(rows), len(columns)

    @property
    def moved_bytes(self) -> int:
        """Bytes that the touched sectors carry."""
        return SECTOR_BYTES * len(self.sectors)

    @property
    def used_bytes(self) -> int:
        """Bytes of the distinct elements that lanes want: an element that many lanes share counts once."""
        return FLOAT_BYTES * len(set(self.elements))

    @property
    def _active(self) -> np.ndarray:
        return self.offsets[self.offsets != INACTIVE]


def watch(
    kernel: Kernel, problem: Gemm, block: tuple[int, int, int] = (0, 0, 0), warp: int = 0
) -> Mapping[str, tuple[Request, ...]]:
    """Return every request that one warp of one block, (x, y, z), makes to A, B and C, by array and in order.

    A kernel with a loop over k that reads A once a step makes its request of step k at position k. Raises ValueError
    for a block or warp that the launch does not have, and what a launch raises.
    """
    matrices = dict(zip("ABC", map(emulator.asarray, inputs(problem)), strict=True))
    submission = launch.submission(kernel, problem, tuple(matrices.values()))
    grid, threads, _ = submission.geometry
    warps = -(-int(np.prod(threads)) // WARP)
    if any(not 0 <= index < extent for index, extent in zip(block, grid, strict=True)) or not 0 <= warp < warps:
        raise ValueError(f"there is no warp {warp} of block {block} in a launch of {grid} blocks of {warps} warps")
    watcher = _Watcher(block, warp, problem, {name: array.address for name, array in matrices.items()})
    submission.watch(watcher)
    return {name: tuple(requests) for name, requests in watcher.requests.items()}


def one_step(kernel: Kernel, problem: Gemm, k: int) -> dict[str, Request]:
    """Return what the first warp asks of A and of B in step k, and of C in its last request, the store.

    Raises ValueError when it does not ask A and B once a step, and what a launch raises.
    """
    seen = watch(kernel, problem)
    for name in "AB":
        if len(seen[name]) != problem.K or not 0 <= k < problem.K:
            raise ValueError(
                f"there is no step {k}: the first warp asks {name} {len(seen[name])} times, K is {problem.K}"
            )
    return {"A": seen["A"][k], "B": seen["B"][k], "C": seen["C"][-1]}


class _Watcher(Observer):
    """Keeps the lane addresses of one warp's accesses to the problem's arrays."""

    def __init__(self, block: tuple[int, int, int], warp: int, problem: Gemm, bases: Mapping[str, int]):
        self._block, self._lanes = block, slice(WARP * warp, WARP * (warp + 1))
        self._row_lengths = {name: columns for name, (_, columns) in problem.shapes.items()}
        self._bases = dict(sorted(bases.items(), key=lambda item: item[1]))
        self.requests: dict[str, list[Request]] = {name: [] for name in bases}

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        """Keep the request if it is of this block and warp and goes to one of the arrays."""
        batch = frame.batch
        inside = [i - start for i, start in zip(self._block, batch.origin[::-1], strict=True)]
        if site.space != "global" or any(not 0 <= i < n for i, n in zip(inside, batch.extent[::-1], strict=True)):
            return
        x, y, z = inside
        row = (z * batch.extent[1] + y) * batch.extent[2] + x
        active = batch.active(mask)[row, self._lanes]
        wanted = batch.flat(address)[row, self._lanes].astype(np.int64)
        if not active.any():
            return
        array = max((name for name in self._bases if self._bases[name] <= wanted[active][0]), key=self._bases.get)
        offsets = np.full(WARP, INACTIVE, np.int64)
        offsets[: len(wanted)] = np.where(active, wanted - self._bases[array], INACTIVE)
        self.requests[array].append(Request(array, site.line, self._row_lengths[array], offsets))
