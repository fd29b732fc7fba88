"""Checks of the roofline's exercises: a bound of a bound's levels, and a tile for a thin matrix.

They answer as `exercises` does.
"""

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

from gemmlab import hierarchy, launch, measured
from gemmlab.exercises import NOT_ATTEMPTED, Refused, shown
from gemmlab.exercises.judging import LONGEST
from gemmlab.gemm import Gemm
from gemmlab.gpus import GPUS
from gemmlab.hierarchy import Bounds
from gemmlab.hierarchy_table import against
from gemmlab.ladder import RUNGS, Tile, rung
from gemmlab.records import Record

CARD = GPUS["H200"]
CUBE = Gemm(4096, 4096, 4096)
THIN = Gemm(128, 4096, 4096)
VECTORIZED = rung("vectorized")
ENOUGH = 0.6  # of the default tile's least time


def least_time(attempt: Callable[[Mapping[str, float]], Any]) -> str:
    """Judge a function from the least time of each level that is a bound, in ms by its name, to the kernel's: it must
    hold against every rung of the shipped record at 4096^3, and say no less than the levels do.
    """
    if attempt is ... or attempt is None:
        return f"{NOT_ATTEMPTED}: write a function of the levels"
    if not callable(attempt):
        raise Refused(f"{shown(attempt)} is no function: write def least(levels) and return a number of milliseconds")
    record = shipped()
    for row in against(record):
        levels = {level.name: 1e3 * level.seconds for level in row.bounds.levels if level.holds}
        try:
            said = attempt(levels)
        except KeyError as error:
            raise Refused(f"{row.rung}: there is no level {error}; the keys are {', '.join(levels)}") from None
        except Exception as error:
            raise Refused(f"{row.rung}: it raised {type(error).__name__}: {error}") from None
        if said is ...:
            return f"{NOT_ATTEMPTED}: return a number of milliseconds in place of the dots"
        _require_bound(said, levels, row.rung, row.shortest_ms, record.label)
    return (
        "accepted: no sample of the record is faster, and no level is passed by. Levels work at once, so the slowest "
        "alone counts. Next: exercise 2."
    )


def _require_bound(said: Any, levels: Mapping[str, float], name: str, shortest: float, label: str) -> None:
    if isinstance(said, bool) or not isinstance(said, Real) or abs(said) > LONGEST:
        raise Refused(f"{name}: {shown(said)} is no number of milliseconds")
    said = float(said)
    slowest = max(levels, key=levels.__getitem__)
    if said > shortest:
        raise Refused(
            f"{name}: you say at least {said:.4g} ms, but it was measured at {shortest:.4g} ms ({label}). What a GPU "
            "beats is no lower bound"
        )
    if not said >= levels[slowest] * (1 - 1e-9):
        raise Refused(
            f"{name}: you say at least {said:.4g} ms, but {slowest} alone takes {levels[slowest]:.4g} ms. True, and "
            "less than the levels tell"
        )
    if said > levels[slowest] * (1 + 1e-9):
        raise Refused(
            f"{name}: {said:.4g} ms follows from no level: the slowest, {slowest}, takes {levels[slowest]:.4g}"
        )


def thin_tile(tile: Tile | None) -> str:
    """Judge a tile of rung 5 for C of 128 x 4096: at most 60% of the default tile's least time on an H200."""
    if not (tile is ... or tile is None or isinstance(tile, Mapping)):
        raise Refused(f"{shown(tile)} is no tile: write a dict, such as {{'BM': 64, 'BN': 128}}")
    if tile is ... or not tile or any(value is ... for value in tile.values()):
        return f"{NOT_ATTEMPTED}: name the parameters to change, such as BM and BN, and their values"
    try:
        mine, default = (hierarchy.of(launch.of(VECTORIZED, each), THIN, CARD) for each in (tile, None))
    except ValueError as error:
        raise Refused(str(error)) from None
    told = f"{_told('yours', mine)}; {_told('the default', default)}"
    if mine.seconds > ENOUGH * default.seconds:
        raise Refused(f"{told}. At most {1e3 * ENOUGH * default.seconds:.4g} ms are asked for")
    return (
        f"accepted, by the model: {told}. More blocks fill the multiprocessors, though each reuses less. Only a GPU "
        "can say whether it runs faster. Next: the quiz."
    )


def shipped() -> Record:
    """Return CARD's newest record of all rungs at 4096^3 that comes with gemmlab. Raises ValueError for none."""
    for each in measured.shipped(RUNGS, CUBE):
        if each.card in CARD.device_names:
            return each
    raise ValueError(
        f"this gemmlab ships no record of all {len(RUNGS)} rungs at {CUBE.M} x {CUBE.N} x {CUBE.K} on an {CARD.name}, "
        "which the exercise is judged by: install gemmlab anew, with gemmlab/data/records"
    )


def _told(whose: str, bounds: Bounds) -> str:
    return (
        f"{whose}: at least {1e3 * bounds.seconds:.4g} ms by {bounds.binding.name}, {bounds.levels[-1].busy:.0%} busy"
    )
