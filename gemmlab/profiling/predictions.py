"""Predictions of the emulator's counts, held against a GPU's own counters: confirmed, or refuted and why."""

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gemmlab.emulator.traffic import metrics
from gemmlab.profiling.counters import COUNTERS, Counted
from gemmlab.profiling.nsight_compute import Counts

LOAD_SECTORS = metrics("ld", "global")[1]
SHARED_LOADS, LOAD_WAVEFRONTS = metrics("ld", "shared")
STORE_WAVEFRONTS = metrics("st", "shared")[1]
WIDTH = 110  # characters of a line


@dataclass(frozen=True)
class Prediction:
    """What is predicted of a rung, in words, and the metric that decides it."""

    rung: str
    what: str
    metric: str


PREDICTIONS = (
    Prediction("naive", "sectors of global loads", LOAD_SECTORS),
    Prediction("coalesced", "sectors of global loads", LOAD_SECTORS),
    Prediction("shared_tiles", "shared loads of warps", SHARED_LOADS),
    Prediction("register_tiles_1d", "shared loads of warps", SHARED_LOADS),
    Prediction("register_tiles_2d", "wavefronts of shared stores", STORE_WAVEFRONTS),
    Prediction("vectorized", "wavefronts of shared loads", LOAD_WAVEFRONTS),
    Prediction("warp_tiles", "wavefronts of shared loads", LOAD_WAVEFRONTS),
)
"""One of each rung; the seven rungs have the tiles that they come with."""

_BY_FOUR = (
    "ptxas merges four loads of neighbours in a row of As into one of 16 bytes. Of the 64 loads that a warp makes for "
    "a tile, 32 become 8; and a broadcast of 16 bytes takes two wavefronts, so 64 wavefronts become 48"
)
_BY_TWO = (
    "the source's #pragma unroll 2 has NVRTC lay two steps side by side, and ptxas merges two loads of neighbours in a "
    "row of As into one of 8 bytes: of the 72 loads that a warp makes for a chunk, 64 are of As and become 32"
)
_OTHERS = (
    "the addresses ask for no more, requests are equal, and at shapes with fewer blocks wavefronts are too. So it is "
    "no instruction. L1 shares its banks with shared memory, and its traffic may be counted here; that is not proved"
)
WHY = {
    ("shared_tiles", SHARED_LOADS): (40 / 64, 40 / 64, _BY_FOUR),
    ("shared_tiles", LOAD_WAVEFRONTS): (48 / 64, 48 / 64, _BY_FOUR),
    ("register_tiles_1d", SHARED_LOADS): (40 / 72, 40 / 72, _BY_TWO),
    ("register_tiles_1d", LOAD_WAVEFRONTS): (40 / 72, 40 / 72, _BY_TWO),
    ("register_tiles_1d", STORE_WAVEFRONTS): (1, 1.1, _OTHERS),
    ("register_tiles_2d", STORE_WAVEFRONTS): (1, 1.1, _OTHERS),
}
"""Why an H200 refuted a count, by rung and metric, with the least and the largest hardware / emulator that it explains;
read from the machine code for sm_90.
"""

UNEXPLAINED = "not explained here: look at the machine code, and at what else the metric counts"


@dataclass(frozen=True)
class Verdict:
    """The emulator's count of a metric and the hardware's, None where it was not counted."""

    rung: str
    metric: str
    emulated: int
    hardware: int | float | None

    @property
    def confirmed(self) -> bool | None:
        """Whether the two are equal; None where the hardware's is missing."""
        return None if self.hardware is None else self.emulated == self.hardware

    def __str__(self) -> str:
        if self.confirmed is None:
            return "not counted"
        return "confirmed" if self.confirmed else f"refuted: {self.hardware / self.emulated:.4f} times as many"

    @property
    def why(self) -> str:
        """Why the hardware differs, as far as it is known."""
        least, largest, reason = WHY.get((self.rung, self.metric), (0, 0, UNEXPLAINED))
        return reason if least <= self.hardware / self.emulated <= largest else UNEXPLAINED


def verdicts(emulated: Mapping[str, Counts], counted: Counted) -> tuple[Verdict, ...]:
    """Return a verdict for every count of every rung, in the order of the emulator's."""
    return tuple(
        Verdict(rung, metric, count, counted.counts.get(rung, {}).get(metric))
        for rung, counts in emulated.items()
        for metric, count in counts.items()
    )


def one_a_rung(predicted: Mapping[str, Any], emulated: Mapping[str, Counts], counted: Counted) -> str:
    """Return PREDICTIONS as text: yours, which may be `...`, the emulator's count, the hardware's, the verdict and why.

    `predicted` and `emulated` are by the rung's name.
    """
    lines = [f"hardware: {counted.label}", f"{'':<47}{'yours':>18}{'emulator':>14}{'hardware':>14}  verdict"]
    known = {(one.rung, one.metric): one for one in verdicts(emulated, counted)}
    for each in PREDICTIONS:
        verdict = known[each.rung, each.metric]
        hardware = "-" if verdict.hardware is None else f"{verdict.hardware:,}"
        yours = _yours(predicted.get(each.rung, ...), verdict)
        lines.append(
            f"{each.rung:<19}{each.what:<28}{yours:>18}{verdict.emulated:>14,}{hardware:>14}  {verdict}".rstrip()
        )
    lines.append("yours: (e) as the emulator counted, (h) as the hardware did, (e, h) as both, (no) as neither")
    return "\n".join([*lines, *_reasons(known[each.rung, each.metric] for each in PREDICTIONS)])


def summary(found: tuple[Verdict, ...]) -> str:
    """Return how many counts are confirmed, then each that is not, with both figures and the reason."""
    counted = [one for one in found if one.confirmed is not None]
    refuted = [one for one in counted if not one.confirmed]
    lines = [
        f"{len(counted) - len(refuted)} of {len(counted)} counts confirmed; {len(found) - len(counted)} not counted"
    ]
    for one in refuted:
        lines.append(
            f"{one.rung:<19}{COUNTERS.get(one.metric, one.metric):<24}{one.emulated:>10,} != {one.hardware:<10,}{one}"
        )
    return "\n".join([*lines, *_reasons(refuted)])


def _reasons(found: Iterable[Verdict]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for one in found:
        if one.confirmed is False:
            reasons.setdefault(one.why, []).append(one.rung)
    return [
        textwrap.fill(f"{', '.join(dict.fromkeys(rungs))}: {why}.", WIDTH, initial_indent="\n", subsequent_indent="  ")
        for why, rungs in reasons.items()
    ]


def _yours(guess: Any, verdict: Verdict) -> str:
    if guess is ...:
        return "not attempted"
    if not isinstance(guess, int | float):
        return "no number"
    met = [sign for sign, count in (("e", verdict.emulated), ("h", verdict.hardware)) if guess == count]
    return f"{guess:,.10g} ({', '.join(met) or 'no'})"
