"""What the machine tells those who watch a launch."""

from __future__ import annotations

import numpy as np

from .arguments import Passed
from .barriers import Left, Meeting, Wait
from .instructions import Frame, Site
from .lanes import Mask


class Observer:
    """What the machine tells; each method does nothing here, and an observer overrides those that it cares for."""

    def begin(self, arrays: tuple[Passed, ...]) -> None:
        """A launch begins, with these arrays as arguments."""

    def start(self, frame: Frame) -> None:
        """A batch begins."""

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        """A request is about to be carried out."""

    def landed(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        """Bytes that an asynchronous copy brings have arrived, since the lanes of the mask waited for them."""

    def stopped(self, frame: Frame, waits: list[Wait], left: list[Left]) -> None:
        """Every lane of the batch has returned or waits, at one barrier or at several."""

    def met(self, frame: Frame, meeting: Meeting | None) -> None:
        """Threads met at a barrier and go on; None: all threads of every block."""

    def warp_met(self, frame: Frame, line: int, mask: Mask) -> None:
        """Lanes of each warp met at a warp-level barrier or in an instruction of the whole warp."""

    def absent(self, frame: Frame, line: int, lanes: np.ndarray, source: np.ndarray) -> None:
        """Lanes of the mask asked lane `source` of their warp in a shuffle, and it takes no part: the ISA leaves open
        what they get.
        """

    def fence(self, frame: Frame, line: int, mask: Mask, wide: bool) -> None:
        """Lanes made what they wrote visible to the rest of their block, or (`wide`) of the GPU."""

    def finish(self, frame: Frame) -> None:
        """A batch has ended."""

    def end(self) -> None:
        """The launch has run to its end."""
