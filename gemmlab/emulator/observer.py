"""What the machine tells those who watch a launch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .arguments import Passed
from .barriers import Left, Meeting, Wait
from .instructions import Frame, Site
from .lanes import RANK, WARP, Mask
from .warps import WarpWait, members_of

WHOLE_WARP = 0xFFFFFFFF


class Observer:
    """What the machine tells; each method does nothing here, and an observer overrides those that it cares for."""

    def begin(self, arrays: tuple[Passed, ...]) -> None:
        """A launch begins, with these arrays as arguments."""

    def start(self, frame: Frame) -> None:
        """A batch begins."""

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        """A request is about to be carried out."""

    def fetched(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        """Lanes read the source of an asynchronous copy, told as an access before: the bytes of its size, no others."""

    def landed(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        """Bytes that an asynchronous copy brings have arrived, since the lanes of the mask waited for them."""

    def stopped(self, frame: Frame, waits: list[Wait], left: list[Left]) -> None:
        """Lanes wait at one barrier or at several, and others have left; who does neither may come yet."""

    def arrived(self, frame: Frame, arrivals: list[Wait]) -> None:
        """Lanes arrived at barriers for which they do not wait."""

    def met(self, frame: Frame, meeting: Meeting | None) -> None:
        """Threads met at a barrier and go on; None: all threads of every block."""

    def warp_met(self, frame: Frame, line: int, mask: Mask) -> None:
        """Lanes of each warp met at a warp-level barrier or in an instruction of the whole warp, all of one mask."""

    def unnamed(self, frame: Frame, line: int, form: str, mask: Mask) -> None:
        """Lanes executed such an instruction with a mask that does not name them."""

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


def tell_of_warps(frame: Frame, waits: Sequence[WarpWait], lanes: Mask) -> None:
    """Tell observers of lanes that met in a warp-wide instruction, those of each mask apart, and of lanes that the mask
    they gave does not name.
    """
    if not frame.observers:
        return
    members, line, unnamed = members_of(frame, waits), waits[0].line, None
    if (members == WHOLE_WARP).all():
        groups = [lanes]
    else:
        here, members = np.broadcast_arrays(np.ones((1,) * RANK, bool) if lanes is None else lanes, members)
        groups = [here & (members == mask) for mask in np.unique(members[here])]
        unnamed = here & ((members >> (frame.batch.linear_thread % WARP)) & 1 == 0)
    for observer in frame.observers:
        for group in groups:
            observer.warp_met(frame, line, group)
        if unnamed is not None and unnamed.any():
            observer.unnamed(frame, line, waits[0].exchange.form, unnamed)
