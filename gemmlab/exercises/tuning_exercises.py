"""Checks of the exercises on tuning: a restriction that admits exactly the legal tiles, and a tile under a budget.

They answer as `exercises` does.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from gemmlab import sweep_replay, sweeps, tuned
from gemmlab.exercises import NOT_ATTEMPTED, Refused, shown
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung, written
from gemmlab.tuning_cache import Measurement

RUNG6 = rung("warp_tiles")
SPACE: Mapping[str, Sequence[int]] = MappingProxyType(
    {
        "BM": (32, 64, 96, 128, 256),
        "BN": (32, 64, 128, 256),
        "BK": (8, 16, 32),
        "WM": (16, 32, 64, 128),
        "WN": (16, 32, 64, 128, 256),
        "TM": (2, 4, 8, 16),
        "TN": (2, 4, 8, 16),
    }
)
SIZE = 4096
BUDGETS = (128, 124, 80)


def legal(**values: int) -> bool:
    """Say whether rung 6's own rules admit a tile: what an attempt at the first exercise is held against."""
    return _rule(values) is None


def restriction(attempt: Callable[..., Any]) -> str:
    """Judge a restriction(BM, BN, BK, WM, WN, TM, TN) that says whether rung 6 takes a tile, with the PAD that is its
    default, over all of SPACE.
    """
    admitted, wrongly_admitted, wrongly_refused = 0, [], []
    for values in itertools.product(*SPACE.values()):
        tile = dict(zip(SPACE, values, strict=True))
        try:
            answer = attempt(**tile)
        except Exception as error:
            raise Refused(f"at {written(tile)} it raised {type(error).__name__}: {error}") from None
        if answer is ...:
            return f"{NOT_ATTEMPTED}: return True or False in place of the dots"
        if not isinstance(answer, bool | np.bool_):
            raise Refused(f"at {written(tile)} it returned {shown(answer)}, but must return True or False")
        rule = _rule(tile)
        admitted += rule is None
        if answer and rule is not None:
            wrongly_admitted.append((tile, rule))
        elif not answer and rule is None:
            wrongly_refused.append(tile)
    if wrongly_admitted:
        tile, rule = wrongly_admitted[0]
        raise Refused(
            f"it admits {len(wrongly_admitted)} tiles that are illegal and refuses {len(wrongly_refused)} that are "
            f"legal. It admits {written(tile)}: {rule}"
        )
    if wrongly_refused:
        raise Refused(
            f"it admits no illegal tile, but refuses {len(wrongly_refused)} of {admitted} legal ones, such as "
            f"{written(wrongly_refused[0])}"
        )
    return (
        f"accepted: {admitted} of {math.prod(map(len, SPACE.values())):,} combinations, exactly the legal ones. "
        "What spills, and what no multiprocessor holds, is still among them. Next: exercise 2."
    )


def timed() -> list[Measurement]:
    """Return the shipped sweep of rung 6 that the second exercise is about."""
    data = sweeps.shipped(tuned.H200)
    found = sweep_replay.fullest(data, RUNG6, SIZE)
    return sweep_replay.measurements(found, RUNG6, SIZE, data["environment"]["card"])


def under_budget(attempt: Callable[[Sequence[Measurement], int], Any]) -> str:
    """Judge a best(found, registers) that returns the tile of the fastest measurement with at most so many registers.

    It is tried on the shipped sweep, whole and in parts: with times missing, as after a failure, and registers unknown.
    """
    for found, budget, what in _cases():
        fitting = [
            each
            for each in found
            if each.milliseconds is not None and each.registers is not None and each.registers <= budget
        ]
        want = min(fitting, key=lambda each: each.milliseconds).tile if fitting else None
        try:
            got = attempt(list(found), budget)
        except Exception as error:
            raise Refused(f"{what}, {budget} registers: it raised {type(error).__name__}: {error}") from None
        if got is ...:
            return f"{NOT_ATTEMPTED}: return a tile in place of the dots"
        if got is not None and not isinstance(got, Mapping):
            raise Refused(f"{what}, {budget} registers: it returned {shown(got)}, which is no tile and not None")
        if got != want:
            raise Refused(f"{what}, {budget} registers: {_shown(got, found)}, but {_shown(want, found)}")
    return (
        "accepted: the fastest of those that fit, and None where nothing does. A budget is a choice of occupancy: the "
        "sweep says what it costs. Next: the quiz."
    )


def _cases() -> list[tuple[list[Measurement], int, str]]:
    found = timed()
    failed = Measurement(RUNG6.full_tile({"PAD": 8}), None, registers=100, error="its process died")
    unknown = Measurement(RUNG6.full_tile({"PAD": 12}), 0.5, registers=None)
    return [
        *((found, budget, "the whole sweep") for budget in BUDGETS),
        (found, min(found, key=lambda each: each.milliseconds).registers, "a budget of just what the fastest takes"),
        ([failed, *found], BUDGETS[0], "with a setting that failed"),
        ([unknown, *found], BUDGETS[0], "with a setting whose registers are not known"),
        (found[::-1], BUDGETS[1], "in another order"),
        (found, 64, "the whole sweep"),
    ]


def _rule(tile: Mapping[str, int]) -> str | None:
    try:
        RUNG6.full_tile(tile)
    except ValueError as error:
        return str(error)
    return None


def _shown(tile: Any, found: Sequence[Measurement]) -> str:
    known = next((each for each in found if each.tile == tile), None)
    if known is None:
        return "nothing fits (None)" if tile is None else f"{shown(tile)} is no tile of the sweep"
    if known.milliseconds is None:
        return f"{written(known.tile)} has no time"
    speed = sweep_replay.tflops(known, Gemm(SIZE, SIZE, SIZE))
    return f"{written(known.tile)} takes {known.registers or 'unknown'} registers at {speed:.2f} TFLOP/s"
