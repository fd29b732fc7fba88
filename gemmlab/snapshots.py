"""What a block's shared arrays hold each time its threads wait at a barrier, watched on the emulator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gemmlab import launch
from gemmlab.emulator.barriers import Left, Wait
from gemmlab.emulator.instructions import Frame
from gemmlab.emulator.observer import Observer
from gemmlab.gemm import Gemm
from gemmlab.launch import Kernel

Extent = tuple[int, int, int]
FLOAT = 4  # bytes
EXACT = 2**24  # from here on float32 skips integers


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One stop of a block at the barrier on source line `line`: its shared arrays then, flat, float32, by name.

    A word that nobody has written is NaN.
    """

    line: int
    arrays: Mapping[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Tile:
    """What a shared array of `rows` x `columns` holds of a matrix: `matrix` is 'A' or 'B', and the arrays say of each
    word which element it is. Where `filled` is False, the word holds the zero that stands for no element.
    """

    matrix: str
    row: np.ndarray
    column: np.ndarray
    filled: np.ndarray

    @property
    def valid(self) -> tuple[int, int]:
        """How many rows and how many columns of the tile hold an element somewhere."""
        return int(self.filled.any(axis=1).sum()), int(self.filled.any(axis=0).sum())

    @property
    def corner(self) -> tuple[int, int]:
        """(row, column) of the matrix's first element in the tile."""
        return int(self.row[self.filled].min()), int(self.column[self.filled].min())


def at_barriers(
    kernel: Kernel, problem: Gemm, matrices: Sequence[np.ndarray], block: Extent = (0, 0, 0)
) -> tuple[Snapshot, ...]:
    """Return a snapshot for every stop of one block, (x, y, z), at a barrier, in order.

    Raises ValueError for a block that the launch does not have, and what a launch raises.
    """
    submission = launch.submission(kernel, problem, matrices)
    grid, *_ = submission.geometry
    if any(not 0 <= index < extent for index, extent in zip(block, grid, strict=True)):
        raise ValueError(f"there is no block {block} in a launch of {grid} blocks")
    watcher = _Watcher(block)
    submission.watch(watcher)
    return tuple(watcher.snapshots)


def chunks(
    kernel: Kernel, problem: Gemm, shapes: Mapping[str, tuple[int, int]], block: Extent = (0, 0, 0)
) -> tuple[dict[str, Tile], ...]:
    """Return, for every chunk of a block's walk along K, which elements of A and B its shared arrays hold.

    `shapes` gives rows and columns of each array, such as {'As': (16, 16), 'Bs': (16, 16)}. The kernel runs on matrices
    whose elements are all different, so that what a word holds says where it comes from. A stop at which a word is not
    written yet shows no chunk. Raises ValueError for an array that the kernel does not have, and where A and B are too
    large to number.
    """
    elements = problem.M * problem.K + problem.K * problem.N
    if elements >= EXACT:
        raise ValueError(f"A and B have {elements} elements, but float32 tells fewer than {EXACT} apart")
    numbered = np.arange(1, elements + 1, dtype=np.float32)
    A = numbered[: problem.M * problem.K].reshape(problem.shapes["A"])
    B = numbered[problem.M * problem.K :].reshape(problem.shapes["B"])
    seen: dict[bytes, dict[str, Tile]] = {}
    for stop in at_barriers(kernel, problem, (A, B, np.zeros(problem.shapes["C"], np.float32)), block):
        words = {name: _words(stop, name, shape) for name, shape in shapes.items()}
        if not any(np.isnan(each).any() for each in words.values()):
            held = b"".join(each.tobytes() for each in words.values())
            seen.setdefault(held, {name: _tile(each, problem) for name, each in words.items()})
    return tuple(seen.values())


def _words(stop: Snapshot, name: str, shape: tuple[int, int]) -> np.ndarray:
    if name not in stop.arrays:
        raise ValueError(f"the kernel has no shared array {name}; it has {', '.join(stop.arrays) or 'none'}")
    return stop.arrays[name].reshape(shape)


def _tile(words: np.ndarray, problem: Gemm) -> Tile:
    number = words.astype(np.int64) - 1
    filled, in_A = number >= 0, problem.M * problem.K
    matrix = "B" if filled.any() and number[filled][0] >= in_A else "A"
    row, column = np.divmod(number - (in_A if matrix == "B" else 0), problem.shapes[matrix][1])
    return Tile(matrix, row, column, filled)


class _Watcher(Observer):
    """Copies one block's shared arrays whenever its threads wait at a barrier."""

    def __init__(self, block: Extent) -> None:
        self._block = block
        self.snapshots: list[Snapshot] = []

    def stopped(self, frame: Frame, waits: list[Wait], left: list[Left]) -> None:
        """Keep a snapshot if the block is in this batch and waits."""
        batch = frame.batch
        z, y, x = (i - start for i, start in zip(self._block[::-1], batch.origin, strict=True))
        if any(not 0 <= i < extent for i, extent in zip((z, y, x), batch.extent, strict=True)):
            return
        here = [wait for wait in waits if np.broadcast_to(wait.mask, batch.shape)[z, y, x].any()]
        if here:
            words = frame.shared.view(FLOAT)[z, y, x].view(np.float32)
            arrays = {
                region.name: words[region.start // FLOAT : region.end // FLOAT].copy()
                for region in frame.shared.regions
            }
            self.snapshots.append(Snapshot(here[0].line, arrays))
