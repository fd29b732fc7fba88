"""What one thread reads from its block's shared tiles and writes to C, watched on the emulator."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gemmlab import launch
from gemmlab.emulator.instructions import Frame, Site
from gemmlab.emulator.lanes import Mask
from gemmlab.emulator.observer import Observer
from gemmlab.gemm import Gemm, inputs
from gemmlab.launch import Kernel
from gemmlab.roofline import FLOAT_BYTES

Extent = tuple[int, int, int]


class Element(NamedTuple):
    """One element of a matrix, or one word of a shared tile, by row and column."""

    array: str
    row: int
    column: int


@dataclass(frozen=True)
class Work:
    """A thread's part of a block: the words of the tiles that it reads, in order, and the elements of C that it writes.

    Reads are in the order of the source: by step of k, and within a step by line.
    """

    problem: Gemm
    thread: tuple[int, int]
    shapes: Mapping[str, tuple[int, int]]
    reads: tuple[Element, ...]
    outputs: tuple[Element, ...]

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows of C that the thread owns outputs in, from the top."""
        return tuple(sorted({output.row for output in self.outputs}))

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns of C that the thread owns outputs in, from the left."""
        return tuple(sorted({output.column for output in self.outputs}))


def watch(kernel: Kernel, problem: Gemm, shapes: Mapping[str, tuple[int, int]], thread: tuple[int, int]) -> Work:
    """Return the work of thread (x, y) of the only block that `problem` takes.

    `shapes` gives rows and columns of the tile of A, whose name comes first, and of that of B. Raises ValueError where
    there is more than one block or more than one step along K, no such thread, or no such tiles; and what a launch
    raises.
    """
    submission = launch.submission(kernel, problem, inputs(problem))
    grid, threads, _ = submission.geometry
    (name_A, shape_A), (name_B, shape_B) = shapes.items()
    if grid != (1, 1, 1) or problem.K > shape_A[1]:
        raise ValueError(
            f"{problem} takes {grid} blocks and {problem.K} steps of k: choose one that a single block "
            f"finishes in the {shape_A[1]} steps of one tile"
        )
    if any(not 0 <= index < extent for index, extent in zip(thread, threads, strict=False)):
        raise ValueError(f"there is no thread {thread} in a block of {threads}")
    watcher = _Watcher(thread, submission.C.address, problem.N, {name_A: shape_A, name_B: shape_B})
    submission.watch(watcher)
    by_source = sorted(
        watcher.reads, key=lambda found: (found[0].column if found[0].array == name_A else found[0].row, found[1])
    )
    return Work(problem, thread, dict(shapes), tuple(read for read, line in by_source), tuple(watcher.outputs))


class _Watcher(Observer):
    """Notes one thread's loads from shared tiles and its stores to C."""

    def __init__(self, thread: tuple[int, int], C: int, N: int, shapes: Mapping[str, tuple[int, int]]) -> None:
        self._thread, self._C, self._N, self._shapes = thread, C, N, shapes
        self.reads: list[tuple[Element, int]] = []  # with its line
        self.outputs: list[Element] = []

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        """Note the element if the thread takes part."""
        if site.op not in ("ld.shared", "st.global"):
            return
        x, y = self._thread
        here = (0, 0, 0, 0, y, x)
        if mask is not None and not np.broadcast_to(mask, frame.batch.shape)[here]:
            return
        place = int(np.broadcast_to(address, frame.batch.shape)[here])
        if site.op == "st.global":
            self.outputs.append(Element("C", *divmod((place - self._C) // FLOAT_BYTES, self._N)))
            return
        found = frame.shared.place(place)
        if found.array not in self._shapes:
            raise ValueError(f"the kernel reads a shared array {found.array}, not one of {', '.join(self._shapes)}")
        for word in range(site.bytes // FLOAT_BYTES):
            row, column = divmod(found.offset // FLOAT_BYTES + word, self._shapes[found.array][1])
            self.reads.append((Element(found.array, row, column), site.line))
