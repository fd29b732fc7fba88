"""An observer that finds shuffles which ask a lane that takes no part: one that has returned, that never was, or that
the mask does not name. PTX ISA, "shfl.sync", leaves open what they bring. A right kernel may ask so and throw away what
comes, so such a launch is repeated with other values there, as `unset` does it, and is at fault if its results differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .code import Program
from .faults import Hazard
from .instructions import Frame
from .observer import Observer
from .unset import Suspect

CURE = (
    "let every lane that is asked reach the shuffle, and name it in the mask; one that has no value can give a neutral "
    "one, such as 0 for a sum"
)


class Absent(Observer):
    """Remembers, by source line, the first lane that asked in vain, and how many did."""

    def __init__(self) -> None:
        self._found: dict[int, Hazard] = {}

    def absent(self, frame: Frame, line: int, lanes: np.ndarray, source: np.ndarray) -> None:
        batch = frame.batch
        asking, asked = batch.flat(lanes), batch.flat(source)
        row, thread = (int(i[0]) for i in np.nonzero(asking))
        first, block = batch.thread_index(thread), batch.block_index(row)
        what = (
            f"thread {first} of block {block} asks lane {int(asked[row, thread])} of its warp for a value, but that "
            "lane takes no part, and the results depend on what comes"
        )
        hazard = Hazard("uninitialized", line, what, block, (first,), 0, cure=CURE, counted="lanes that ask so")
        known = self._found.setdefault(line, hazard)
        self._found[line] = known.with_count(known.count + int(asking.sum()))

    def suspects(self, program: Program) -> tuple[Suspect, ...]:
        """What is to be repeated to find out whether results depend on what absent lanes were asked for, by line."""

        def filled(line: int) -> Callable[[int], Program]:
            return lambda fill: replace(program, kernel=program.kernel.answered_with(line, fill))

        return tuple(Suspect(filled(line), (hazard,)) for line, hazard in self._found.items())
