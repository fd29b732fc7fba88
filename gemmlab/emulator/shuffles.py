"""Shuffles: which lane each lane asks, what it gets, and which ask in vain.

PTX ISA, "Data Movement and Conversion Instructions: shfl.sync".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .lanes import WARP

LANE = np.arange(WARP, dtype=np.int64)

Ask = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From the last two operands of a shuffle to the lane that each lane asks, and whether it lies within its segment."""

_SOURCES: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
    "up": lambda lane, step, least, most, keep: (lane - step, lane - step >= most),
    "down": lambda lane, step, least, most, keep: (lane + step, lane + step <= most),
    "bfly": lambda lane, step, least, most, keep: (lane ^ step, lane ^ step <= most),
    "idx": lambda lane, step, least, most, keep: (least | (step & keep), least | (step & keep) <= most),
}
"""The lane that each lane asks, and whether it lies within its segment."""


def asking(kind: str) -> Ask:
    """PTX ISA, "shfl.sync": c holds the segment's mask in bits 8 to 12 and the clamp in bits 0 to 4. A lane whose
    source lies outside its segment asks itself.
    """
    source_of = _SOURCES[kind]

    def ask(b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        step, clamp, segment = (v.astype(np.int64) & 31 for v in (b, c, c >> np.uint32(8)))
        source, inside = source_of(LANE, step, LANE & segment, (LANE & segment) | (clamp & ~segment), ~segment)
        return np.where(inside, source, LANE), inside

    return ask


def shuffle(ask: Ask, here: np.ndarray, value: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, ...]:
    """What each lane gets, 0 from one that is not here, and whether the lane that it asked lies within its segment."""
    source, inside = ask(b, c)
    source = np.broadcast_to(source, value.shape)
    there = np.take_along_axis(np.broadcast_to(here, value.shape), source, axis=-1)
    return np.where(there, np.take_along_axis(value, source, axis=-1), np.uint32(0)), inside


def absent_lanes(here: np.ndarray, members: np.ndarray, source: np.ndarray) -> np.ndarray:
    """The lanes that are here and ask one that is not, or that their mask does not name."""
    here, members = (np.broadcast_to(v, source.shape) for v in (here, members))
    named = members >> source.astype(np.uint32) & 1 != 0
    return here & ~(named & np.take_along_axis(here, source, axis=-1))
