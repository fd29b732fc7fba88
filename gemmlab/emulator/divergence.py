"""An observer that finds barriers which part of a block does not reach, by where they stand: a kernel whose threads
meet at two different barriers, or after some have left, is wrong even when it runs through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .barriers import Left, Wait
from .faults import Hazard
from .instructions import Frame
from .lanes import WARP, Batch, Mask, warps_of
from .observer import Observer


class Divergence(Observer):
    """Compares where the threads of a block stand when barriers are to let them go. Barriers with a thread count join
    parts of a block on purpose, from wherever they come; of those a warp that stands at two at once is at fault, and
    threads that wait at one of them for different numbers of threads. Warps' instructions must name who executes them.
    """

    def __init__(self, report: Callable[[Hazard], None], source: Mapping[int, str]) -> None:
        self._report, self._source = report, source
        self._seen: dict[tuple[object, ...], set[tuple[int, int, int]]] = {}

    def stopped(self, frame: Frame, waits: list[Wait], left: list[Left]) -> None:
        batch = frame.batch
        places = [(wait, batch.flat(wait.mask)) for wait in waits]
        gone = [(each.line, batch.flat(each.mask)) for each in left]
        for i, (wait, lanes) in enumerate(places):
            for other, others in places[i + 1 :]:
                if other.number == wait.number and _threads(batch, other) != _threads(batch, wait):
                    self._counted_apart(batch, wait, lanes, other, others)
                elif other.barrier is not wait.barrier and wait.barrier.aligned and other.barrier.aligned:
                    self._apart(batch, wait, lanes, other, others)
            if wait.count == 0:
                self._left_behind(batch, wait, lanes, gone)

    def unnamed(self, frame: Frame, line: int, form: str, mask: Mask) -> None:
        lanes = frame.batch.active(mask)
        row, thread = (int(i[0]) for i in np.nonzero(lanes))
        block, first = frame.batch.block_index(row), frame.batch.thread_index(thread)
        what = f"thread {first} of block {block} executes {form} with a mask that does not name it"
        cure = "let the mask name every lane that gets here, such as 0xffffffff where the whole warp does"
        self._report(Hazard("divergent-barrier", line, what, block, (first,), int(lanes.sum()), cure=cure))

    def _apart(self, batch: Batch, wait: Wait, lanes: np.ndarray, other: Wait, others: np.ndarray) -> None:
        counted = wait.count or other.count or wait.number != other.number
        blocks = _warps(lanes, others) if counted else lanes.any(axis=1) & others.any(axis=1)
        row = self._first(batch, blocks, ("apart", wait.barrier, other.barrier))
        if row is None:
            return
        part = "warp" if counted else "block"
        what = (
            f"{int(lanes[row].sum())} of {batch.threads} threads of block {batch.block_index(row)} wait at this "
            f"barrier while {int(others[row].sum())} wait at another one on line {other.line}"
        )
        cure = f"every thread of a {part} must reach the same barrier: take it out of the branch"
        self._found(batch, wait.line, other.line, row, lanes, others, what, cure, int(others[row].sum()))

    def _counted_apart(self, batch: Batch, wait: Wait, lanes: np.ndarray, other: Wait, others: np.ndarray) -> None:
        blocks = lanes.any(axis=1) & others.any(axis=1)
        row = self._first(batch, blocks, ("counts", wait.barrier, other.barrier, wait.count, other.count))
        if row is None:
            return
        what = (
            f"{int(lanes[row].sum())} of {batch.threads} threads of block {batch.block_index(row)} wait at barrier "
            f"{wait.number} for {_threads(batch, wait)} threads while {int(others[row].sum())} wait at it for "
            f"{_threads(batch, other)} on line {other.line}"
        )
        cure = "give all who meet at a barrier one thread count, and groups apart from each other numbers of their own"
        self._found(batch, wait.line, other.line, row, lanes, others, what, cure, int(others[row].sum()))

    def _left_behind(self, batch: Batch, wait: Wait, lanes: np.ndarray, gone: list[tuple[int, np.ndarray]]) -> None:
        for line in sorted({line for line, _ in gone}):
            away = np.logical_or.reduce([each for at, each in gone if at == line])
            blocks = lanes.any(axis=1) & away.any(axis=1)
            new = self._new(batch, blocks, ("left", wait.barrier, line))
            if not new.any():
                continue
            row = int(new.argmax())
            who = f"{int(away[row].sum())} of {batch.threads} threads of block {batch.block_index(row)}"
            if any("return" in self._source.get(at, "") for at in (line, line + 1)):  # it may stand under its condition
                what = f"{who} returned at line {line} and never reach this barrier"
                cure = "keep every thread alive to the last barrier and guard only the loads and the store"
            else:
                what = f"{who} went round this barrier and ended at line {line}"
                cure = "every thread must reach it, equally often: take it out of the branch or loop that some skip"
            self._found(batch, wait.line, line, row, lanes, away, what, cure, int(away[new].sum()))

    def _first(self, batch: Batch, blocks: np.ndarray, key: tuple[object, ...]) -> int | None:
        new = self._new(batch, blocks, key)
        return int(new.argmax()) if new.any() else None

    def _new(self, batch: Batch, blocks: np.ndarray, key: tuple[object, ...]) -> np.ndarray:
        """Blocks that were not seen at fault in this way before: a barrier in a loop counts once."""
        seen = self._seen.setdefault(key, set())
        new = blocks.copy()
        for row in np.flatnonzero(blocks):
            index = batch.block_index(int(row))
            new[row] = index not in seen
            seen.add(index)
        return new

    def _found(
        self,
        batch: Batch,
        line: int,
        other_line: int,
        row: int,
        lanes: np.ndarray,
        others: np.ndarray,
        what: str,
        cure: str,
        count: int,
    ) -> None:
        threads = (batch.thread_index(int(lanes[row].argmax())), batch.thread_index(int(others[row].argmax())))
        block = batch.block_index(row)
        self._report(Hazard("divergent-barrier", line, what, block, threads, count, (other_line,), cure=cure))


def _threads(batch: Batch, wait: Wait) -> int:
    """Threads that a barrier wants; whole warps are counted."""
    return wait.count or -(-batch.threads // WARP) * WARP


def _warps(lanes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Blocks in which one warp has lanes in both."""
    return (warps_of(lanes) & warps_of(others)).any(axis=1)
