"""What the warps of one block own and read: outputs of C, and words of the shared tiles, watched on the emulator."""

from dataclasses import dataclass

import numpy as np

from gemmlab import launch
from gemmlab.emulator.instructions import Frame, Site
from gemmlab.emulator.lanes import WARP, Mask
from gemmlab.emulator.observer import Observer
from gemmlab.gemm import Gemm, inputs
from gemmlab.launch import Kernel
from gemmlab.roofline import FLOAT_BYTES

NOBODY = -1


@dataclass(frozen=True)
class Read:
    """One load from a shared array by all threads of a block: `words`, (threads, width), of the array, or NOBODY."""

    array: str
    words: np.ndarray


@dataclass(frozen=True, eq=False)
class BlockWork:
    """`owner` says which thread of the block writes each output, (M, N); `reads` are those of one step of k, in order.

    Threads are numbered as in a warp: 32 to a warp, x running fastest.
    """

    problem: Gemm
    owner: np.ndarray
    reads: tuple[Read, ...]

    @property
    def warps(self) -> int:
        """How many warps the block has."""
        return int(self.owner.max()) // WARP + 1

    def outputs(self, warp: int) -> np.ndarray:
        """Return (row, column) of each output of a warp, (outputs, 2)."""
        return np.argwhere(self.owner // WARP == warp)

    def lane(self, thread: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows and the columns of C that a thread owns outputs in."""
        rows, columns = np.nonzero(self.owner == thread)
        return np.unique(rows), np.unique(columns)

    def values(self, warp: int, array: str) -> int:
        """Return how many different values of a shared array the warp reads in a step of k."""
        lanes = slice(WARP * warp, WARP * (warp + 1))
        words = [read.words[lanes].ravel() for read in self.reads if read.array == array]
        return len(np.unique(np.concatenate(words))) if words else 0

    def rows(self, warp: int) -> tuple[int, ...]:
        """Return the rows of C that the warp owns outputs in."""
        return tuple(np.unique(self.outputs(warp)[:, 0]).tolist())

    def columns(self, warp: int) -> tuple[int, ...]:
        """Return the columns of C that the warp owns outputs in."""
        return tuple(np.unique(self.outputs(warp)[:, 1]).tolist())


def watch(kernel: Kernel, problem: Gemm) -> BlockWork:
    """Return the work of the one block that `problem` takes, whose K steps must all be alike.

    Raises ValueError where there is more than one block, or an output that no thread or more than one writes; and
    what a launch raises.
    """
    submission = launch.submission(kernel, problem, inputs(problem))
    grid, *_ = submission.geometry
    if grid != (1, 1, 1):
        raise ValueError(f"{problem} takes {grid} blocks: choose one that a single block finishes")
    watcher = _Watcher(submission.C.address, problem)
    submission.watch(watcher)
    if (watcher.writes != 1).any():
        row, column = np.argwhere(watcher.writes != 1)[0]
        raise ValueError(f"C[{row}, {column}] has {watcher.writes[row, column]} writers, not one")
    steps = problem.K
    return BlockWork(problem, watcher.owner, tuple(watcher.reads[: len(watcher.reads) // steps]))


class _Watcher(Observer):
    """Notes every load from shared memory, and who stores what to C."""

    def __init__(self, C: int, problem: Gemm) -> None:
        self._C, self._row_length = C, problem.N
        self.owner = np.full(problem.shapes["C"], NOBODY)
        self.writes = np.zeros(problem.shapes["C"], int)
        self.reads: list[Read] = []

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        """Note the access by thread."""
        if site.op not in ("ld.shared", "st.global"):
            return
        batch = frame.batch
        first = np.broadcast_to(address, batch.shape).reshape(-1).astype(np.int64)
        active = np.ones(len(first), bool) if mask is None else np.broadcast_to(mask, batch.shape).reshape(-1)
        steps = np.arange(site.bytes // FLOAT_BYTES)
        if site.op == "st.global":
            words = (first[active, None] - self._C) // FLOAT_BYTES + steps
            rows, columns = np.divmod(words, self._row_length)
            self.owner[rows, columns] = np.flatnonzero(active)[:, None]
            np.add.at(self.writes, (rows, columns), 1)
            return
        found = frame.shared.place(int(first[active][0]))
        start = int(first[active][0]) - found.offset
        words = (first[:, None] - start) // FLOAT_BYTES + steps
        self.reads.append(Read(found.array, np.where(active[:, None], words, NOBODY)))
