"""Checks of the exercises of rungs 3 and 4: what a strip and a micro-tile cost, and writing and choosing one.

They answer as `exercises` does.
"""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from gemmlab import exercises, launch, levels, roofline
from gemmlab.costs import cost
from gemmlab.exercises import NOT_ATTEMPTED, Refused, shown
from gemmlab.exercises.attempts import loaded_bytes, of_source, require_right, require_tiled
from gemmlab.exercises.judging import LONGEST
from gemmlab.gemm import Gemm
from gemmlab.ladder import Geometry, Rung, rung
from gemmlab.launch import Kernel

STRIPS = {
    "64 x 64 x 8, TM = 8": {"BM": 64, "BN": 64, "BK": 8, "TM": 8},
    "32 x 32 x 8, TM = 4": {"BM": 32, "BN": 32, "BK": 8, "TM": 4},
    "128 x 64 x 16, TM = 16": {"BM": 128, "BN": 64, "BK": 16, "TM": 16},
}
MICRO_TILES = {
    "64 x 64 x 8, 4 x 4": {"BM": 64, "BN": 64, "BK": 8, "TM": 4, "TN": 4},
    "128 x 128 x 8, 8 x 4": {"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 4},
    "128 x 64 x 8, 8 x 8": {"BM": 128, "BN": 64, "BK": 8, "TM": 8, "TN": 8},
}
ASKED = ("threads of a block", "FLOP a byte loaded", "shared loads an FMA", "registers")
COUNTED_AT = Gemm(128, 128, 128)
NEAR = {"registers": 0.25, "FLOP a byte loaded": 0.01}  # the compiler's own choice, and what may be no short decimal
ARCHITECTURE = "sm_90"  # for which registers are counted, on every machine
SIDE, HALF = 32, 16  # outputs of a block along each side in exercise 2 of rung 3, and its threads
SQUARE = Gemm(2 * SIDE, 2 * SIDE, 2 * SIDE)
BUDGETS = (100, 220)
CHOICES = (1, 2, 4, 8, 16, 32)


def strips(predicted: Mapping[str, Sequence[Any]]) -> str:
    """Judge predictions for rung 3: by tile of STRIPS, the numbers of ASKED in their order."""
    return _predictions(
        rung("register_tiles_1d"),
        STRIPS,
        predicted,
        "A longer strip saves loads of B alone: an FMA never costs less than one load. Next: exercise 2.",
    )


def micro_tiles(predicted: Mapping[str, Sequence[Any]]) -> str:
    """Judge predictions for rung 4: by tile of MICRO_TILES, the numbers of ASKED in their order."""
    return _predictions(
        rung("register_tiles_2d"),
        MICRO_TILES,
        predicted,
        "The block's tile sets the FLOPs a byte, the thread's the loads and the registers. Next: exercise 2.",
    )


@of_source
def two_by_two(source: str) -> str:
    """Judge a `gemm_two_by_two` for blocks of 16 x 16 threads, each of a 32 x 32 tile of C: right for every shape, no
    hazard, and one shared load an FMA.
    """
    attempt = Kernel(source, "gemm_two_by_two", (), _two_by_two)
    require_right(attempt)
    require_tiled(attempt, SQUARE, SIDE)
    found = levels.shared_loads_per_fma(launch.trace(attempt, SQUARE), SQUARE)
    wanted = roofline.shared_loads_per_fma(2, 2)
    if found > wanted:
        raise Refused(
            f"right, but it makes {found:.4g} shared loads an FMA, where 2 x 2 outputs need {wanted:.4g}: read two "
            "values of A and two of B in a step, and use each twice"
        )
    return (
        "accepted: four loads for four FMAs, where a strip of four needs five. Nothing but arithmetic keeps you "
        "from 8 x 8. Next: the quiz, then rung 4."
    )


def register_budgets(chosen: Mapping[int, Sequence[int]]) -> str:
    """Judge a choice of (TM, TN) for rung 4's 128 x 128 x 8 tile, by budget of BUDGETS: no more registers, no spill,
    and no other choice from CHOICES that fits and makes fewer shared loads an FMA.
    """
    answers = exercises.answers_to(BUDGETS, chosen)
    for budget, pair in answers.items():
        if pair is not ...:
            if not (isinstance(pair, list | tuple) and len(pair) == 2):
                raise Refused(f"{shown(pair)} for {budget} registers is no pair (TM, TN)")
            _require_best(budget, *pair)
    missing = [str(budget) for budget, pair in answers.items() if pair is ...]
    if missing:
        return f"{NOT_ATTEMPTED}: a micro-tile for {' and '.join(missing)} registers"
    return (
        "accepted: each fits, and none that fits makes fewer loads. Near a square, and as large as the registers "
        "allow. Next: the quiz, then rung 5."
    )


def _predictions(
    of: Rung, tiles: Mapping[str, Mapping[str, int]], predicted: Mapping[str, Sequence[Any]], lesson: str
) -> str:
    rows = exercises.answers_to(tiles, predicted)
    for name, row in rows.items():
        if row is not ... and not (isinstance(row, list | tuple) and len(row) <= len(ASKED)):
            raise Refused(f"{name}: {shown(row)} is no row of {len(ASKED)} numbers ({', '.join(ASKED)})")
    rows = {name: () if row is ... else row for name, row in rows.items()}
    if all(guess is ... for row in rows.values() for guess in row):
        return f"{NOT_ATTEMPTED}: put numbers in place of the dots"
    counted, guesses = {}, {}
    for name, tile in tiles.items():
        row = rows[name]
        for i, (what, count) in enumerate(zip(ASKED, _counts(of, tile), strict=True)):
            guess = row[i] if i < len(row) else ...
            known = isinstance(guess, Real) and abs(guess) < LONGEST
            near = known and abs(guess - count) <= NEAR.get(what, 0) * count
            counted[f"{name}: {what}"] = count
            guesses[f"{name}: {what}"] = count if near else guess
    return exercises.judge_numbers(guesses, counted, lesson)


def _counts(of: Rung, tile: Mapping[str, int]) -> tuple[float, ...]:
    kernel = launch.of(of, tile)
    taken, traced = cost(kernel, ARCHITECTURE), launch.trace(kernel, COUNTED_AT)
    return (
        taken.threads,
        roofline.intensity(COUNTED_AT.flops, loaded_bytes(traced)),
        levels.shared_loads_per_fma(traced, COUNTED_AT),
        taken.registers,
    )


def _two_by_two(problem: Gemm) -> Geometry:
    return Geometry((-(-problem.N // SIDE), -(-problem.M // SIDE), 1), (HALF, HALF, 1), 0)


def _require_best(budget: int, TM: int, TN: int) -> None:
    for name, value in (("TM", TM), ("TN", TN)):
        if not any(exercises.same(value, choice) for choice in CHOICES):
            raise Refused(f"{name} is {shown(value)}: choose from {', '.join(map(str, CHOICES))}")
    if problem := _does_not_fit(budget, TM, TN):
        raise Refused(f"{TM} x {TN} for {budget} registers: {problem}")
    mine = roofline.shared_loads_per_fma(TM, TN)
    others = sorted((roofline.shared_loads_per_fma(m, n), m, n) for m in CHOICES for n in CHOICES)
    for loads, m, n in others:
        if loads < mine and not _does_not_fit(budget, m, n):
            raise Refused(
                f"{TM} x {TN} fits {budget} registers, and makes {mine:.4g} shared loads an FMA; another one "
                f"that fits makes {loads:.4g}"
            )


def _does_not_fit(budget: int, TM: int, TN: int) -> str | None:
    """Why a micro-tile of rung 4 does not fit a budget of registers, or None for one that does."""
    least = TM * TN + TM + TN
    if least > budget:
        return f"{TM * TN} sums and {TM} + {TN} values are {least} registers already"
    try:
        taken = cost(launch.of(rung("register_tiles_2d"), {"TM": TM, "TN": TN}), ARCHITECTURE)
    except ValueError as error:
        return str(error)
    if taken.registers > budget or taken.spilled_bytes:
        return f"the compiler takes {taken.registers} registers, and spills {taken.spilled_bytes} bytes"
    return None
