"""An observer that finds what a kernel may not do even where the answer comes out right: barriers that part of a
block does not reach."""

from __future__ import annotations

import numpy as np

from .faults import Hazard
from .instructions import Frame
from .machine import Left, Observer, Wait

NAMED_THREADS = 4


class Hazards(Observer):
    """Collects findings, one for each kind and set of lines; the first block and threads stand for the others."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], Hazard] = {}

    @property
    def rows(self) -> tuple[Hazard, ...]:
        return tuple(self._found.values())

    def report(self, hazard: Hazard) -> None:
        """Keep a finding; one that was already seen at this line only adds to its count."""
        key = (hazard.kind, hazard.line, hazard.lines)
        seen = self._found.get(key)
        if seen is None:
            self._found[key] = hazard
        else:
            self._found[key] = seen.with_count(seen.count + hazard.count)

    def barrier(self, frame: Frame, waits: list[Wait], left: list[Left]) -> None:
        batch = frame.batch
        places = [(w.line, batch.flat(w.mask)) for w in waits]
        gone = [(g.line, batch.flat(g.mask)) for g in left]
        for i, (line, lanes) in enumerate(places):
            here = lanes.any(axis=1)
            for other_line, others in places[i + 1 :]:
                self._diverged(frame, line, lanes, other_line, others, here & others.any(axis=1), "wait")
            for exit_line, exited in gone:
                self._diverged(frame, line, lanes, exit_line, exited, here & exited.any(axis=1), "returned")

    def _diverged(
        self,
        frame: Frame,
        line: int,
        lanes: np.ndarray,
        other_line: int,
        others: np.ndarray,
        blocks: np.ndarray,
        how: str,
    ) -> None:
        if not blocks.any():
            return
        batch = frame.batch
        row = int(blocks.argmax())
        block, total = batch.block_index(row), batch.threads
        away = int(others[row].sum())
        if how == "wait":
            text = (
                f"line {line}: {int(lanes[row].sum())} of {total} threads of block {block} wait at this barrier while "
                f"{away} wait at the one on line {other_line}; every thread of a block must reach the same barrier, so "
                "take it out of the branch"
            )
        else:
            text = (
                f"line {line}: {away} of {total} threads of block {block} returned at line {other_line} and never reach "
                "this barrier; keep every thread alive to the last barrier and guard only the loads and the store"
            )
        threads = (
            batch.thread_index(int(lanes[row].argmax())),
            batch.thread_index(int(others[row].argmax())),
        )
        self.report(
            Hazard("divergent-barrier", line, text, block, threads, int(others[blocks].sum()), (other_line,))
        )
