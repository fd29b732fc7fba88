"""Whether a row of samples can be summed up by its median: throttling, a clock that moved, a drift; in words."""

import statistics
from collections.abc import Sequence

from gemmlab.sensors import Reading

NOISE, DRIFT = 3.0, 0.01  # a drift exceeds so many median absolute deviations, and this share of the median
STEADY = 0.01  # by which share the clock may differ between samples and still be called steady


def remarks(samples_ms: Sequence[float], readings: Sequence[Reading | None]) -> tuple[str, ...]:
    """Return all that was noticed about samples and about what the GPU reported during each; often nothing."""
    return tuple(filter(None, (throttling(readings), clock_change(readings), drift(samples_ms))))


def throttling(readings: Sequence[Reading | None]) -> str | None:
    """Say in how many samples the GPU held its clocks down, and why; None where it reported none."""
    slowed = [reading for reading in readings if reading and reading.slowed_by]
    if not slowed:
        return None
    reasons = dict.fromkeys(reason for reading in slowed for reason in reading.slowed_by)
    return f"throttled in {len(slowed)} of {len(readings)} samples: {', '.join(reasons)}"


def clock_change(readings: Sequence[Reading | None]) -> str | None:
    """Say between which values the multiprocessors' clock moved; None where it was steady or not read."""
    clocks = [reading.sm_mhz for reading in readings if reading and reading.sm_mhz]
    if not clocks or max(clocks) - min(clocks) <= STEADY * max(clocks):
        return None
    return f"the clock moved between {min(clocks)} and {max(clocks)} MHz"


def shift(samples_ms: Sequence[float]) -> float | None:
    """Return by which share the median of the last third of the samples exceeds that of the first; None for fewer than
    six samples, which show none.
    """
    third = len(samples_ms) // 3
    if third < 2:
        return None
    return statistics.median(samples_ms[-third:]) / statistics.median(samples_ms[:third]) - 1


def drift(samples_ms: Sequence[float]) -> str | None:
    """Say how far the median of the last third of the samples lies from that of the first; None within the noise.

    Noise is NOISE median absolute deviations of either third, and DRIFT of the median at least.
    """
    moved, third = shift(samples_ms), len(samples_ms) // 3
    if moved is None:
        return None
    first, last = samples_ms[:third], samples_ms[-third:]
    before = statistics.median(first)
    if abs(moved) * before <= max(NOISE * _deviation(first), NOISE * _deviation(last), DRIFT * before):
        return None
    return f"the samples drift: {moved:+.1%} from the first third to the last"


def _deviation(samples: Sequence[float]) -> float:
    """The median absolute deviation from the median."""
    middle = statistics.median(samples)
    return statistics.median(abs(sample - middle) for sample in samples)
