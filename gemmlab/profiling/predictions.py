"""Predictions of the emulator's counts, held against a GPU's own counters: confirmed, or refuted and why."""

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gemmlab.columns import WIDTH
from gemmlab.emulator import Trace
from gemmlab.emulator.traffic import metrics
from gemmlab.profiling.counters import COUNTERS, Counted, written
from gemmlab.profiling.nsight_compute import Counts

LOAD_SECTORS = metrics("ld", "global")[1]
SHARED_LOADS, LOAD_WAVEFRONTS = metrics("ld", "shared")
STORE_WAVEFRONTS = metrics("st", "shared")[1]
STORE_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"


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
    "the addresses ask for no more, requests are equal, and at smaller shapes wavefronts are too. The surplus changes "
    "from run to run, so no instruction makes it. L1 shares its banks with shared memory: with loads that go past L1, "
    "or none, the same stores have no surplus (benchmarks/store_wavefronts.py)"
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

    @property
    def word(self) -> str:
        """The verdict: 'confirmed', 'refuted' or 'not counted'."""
        return {None: "not counted", True: "confirmed", False: "refuted"}[self.confirmed]

    @property
    def times(self) -> str:
        """How many times as many the hardware counted: '0.6250', or '-' where it did not count."""
        return "-" if self.hardware is None else f"{self.hardware / self.emulated:.4f}"

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
    lines = [f"hardware: {counted.label}", f"{'':<45}{'yours':>18}{'emulator':>12}{'hardware':>12}  verdict"]
    known = {(one.rung, one.metric): one for one in verdicts(emulated, counted)}
    for each in PREDICTIONS:
        verdict = known[each.rung, each.metric]
        hardware = "-" if verdict.hardware is None else f"{verdict.hardware:,}"
        yours = _yours(predicted.get(each.rung, ...), verdict)
        lines.append(f"{each.rung:<18}{each.what:<27}{yours:>18}{verdict.emulated:>12,}{hardware:>12}  {verdict.word}")
    lines.append("yours: (e) as the emulator counted, (h) as the hardware did, (e, h) as both, (no) as neither")
    asked = [known[each.rung, each.metric] for each in PREDICTIONS]
    return "\n".join([*lines, *_reasons((f"{one.rung}, {one.times} times as many", one) for one in asked)])


def summary(found: tuple[Verdict, ...]) -> str:
    """Return how many counts are confirmed, then each that is not, with both figures and the reason."""
    counted = [one for one in found if one.confirmed is not None]
    refuted = [one for one in counted if not one.confirmed]
    lines = [
        f"{len(counted) - len(refuted)} of {len(counted)} counts confirmed; {len(found) - len(counted)} not counted"
    ]
    for one in refuted:
        lines.append(
            f"{one.rung:<19}{COUNTERS.get(one.metric, one.metric):<24}{one.emulated:>10,} != {one.hardware:<10,}"
            f"{one.word}: {one.times} times as many"
        )
    return "\n".join([*lines, *_reasons((one.rung, one) for one in refuted)])


def shared_stores(traces: Mapping[str, Trace], counted: Counted, again: Counted) -> str:
    """Return as text, for every rung that stores to shared memory, the wavefronts of its stores by the emulator and in
    two runs of hardware, and those of them that are bank conflicts, by the emulator and in the first run.
    """
    lines = [
        f"{'':<18}{'wavefronts of shared stores':^40}{'of them conflicts':>26}",
        f"{'':<18}{'emulator':>12}{'hardware':>12}{'another run':>14}{'emulator':>14}{'hardware':>12}",
    ]
    for rung, trace in traces.items():
        stores = [access for access in trace.accesses if access.op == "st.shared"]
        if not stores:
            continue
        ours = sum(access.wavefronts for access in stores)
        first, second = counted.counts.get(rung, {}), again.counts.get(rung, {})
        row = (
            f"{ours:,}",
            written(first.get(STORE_WAVEFRONTS)),
            written(second.get(STORE_WAVEFRONTS)),
            f"{ours - sum(access.ideal for access in stores):,}",
            written(first.get(STORE_CONFLICTS)),
        )
        lines.append(f"{rung:<18}" + "".join(f"{cell:>{w}}" for cell, w in zip(row, (12, 12, 14, 14, 12), strict=True)))
    return "\n".join(lines)


def _reasons(named: Iterable[tuple[str, Verdict]]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for name, one in named:
        if one.confirmed is False:
            reasons.setdefault(one.why, []).append(name)
    return [
        textwrap.fill(f"{', '.join(dict.fromkeys(names))}: {why}.", WIDTH, initial_indent="\n", subsequent_indent="  ")
        for why, names in reasons.items()
    ]


def _yours(guess: Any, verdict: Verdict) -> str:
    if guess is ...:
        return "not attempted"
    if not isinstance(guess, int | float):
        return "no number"
    met = [sign for sign, count in (("e", verdict.emulated), ("h", verdict.hardware)) if guess == count]
    return f"{guess:,.10g} ({', '.join(met) or 'no'})"
