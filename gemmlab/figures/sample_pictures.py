"""Pictures of samples in the order in which they were taken, so that a drift shows and not only a spread."""

import statistics
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from gemmlab.figures.style import COLOURS, MARKERS, STYLE
from gemmlab.timing import Timing


def in_order(milliseconds: Mapping[str, Sequence[float]], run: str) -> Figure:
    """Return each kernel's samples by their number, over their median, and bars at the medians of the outer thirds.

    Each has a scale of its own, as the noise of one may be a hundred times that of another.
    """
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, len(milliseconds), figsize=(10, 3.4), squeeze=False, layout="constrained")
        for axis, (name, times), colour, marker in zip(axes[0], milliseconds.items(), COLOURS, MARKERS, strict=False):
            median, third = statistics.median(times), len(times) // 3
            axis.plot(range(len(times)), [100 * (ms / median - 1) for ms in times], marker, color=colour, alpha=0.7)
            for start in (0, len(times) - third) if third else ():
                height = 100 * (statistics.median(times[start : start + third]) / median - 1)
                axis.plot([start, start + third - 1], [height, height], color="black", linewidth=2)
            axis.set(title=f"{name}\nmedian {median:.4g} ms", xlabel="sample, in order")
            axis.grid(color="0.92")
        axes[0, 0].set_ylabel("difference from the median (%)")
        title = f"measured: {run}; each on a scale of its own; bars: medians of the first and the last third"
        figure.suptitle(title, fontsize=10)
    return figure


def with_power(timings: Mapping[str, Timing], run: str) -> Figure:
    """Return each kernel's samples by their number, over their median, and below them the power that the GPU reported.

    All have one scale. Samples in which the GPU held its clock down are drawn as crosses.
    """
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            2, len(timings), figsize=(10, 4.6), sharex=True, sharey="row", squeeze=False, layout="constrained"
        )
        for (above, below), (name, timing) in zip(axes.T, timings.items(), strict=True):
            readings = timing.readings or (None,) * len(timing.samples_ms)
            shares = [100 * (ms / timing.median_ms - 1) for ms in timing.samples_ms]
            held = [bool(reading and reading.slowed_by) for reading in readings]
            for slowed, marker, colour in ((False, ".", COLOURS[0]), (True, "x", COLOURS[2])):
                chosen = [number for number, each in enumerate(held) if each is slowed]
                above.plot(chosen, [shares[number] for number in chosen], marker, color=colour)
            watts = {number: each.watts for number, each in enumerate(readings) if each and each.watts is not None}
            below.plot(watts.keys(), watts.values(), color="black")
            above.set_title(f"{name}\nmedian {timing.median_ms:.4g} ms")
            below.set_xlabel("sample, in order")
            for axis in (above, below):
                axis.grid(color="0.92")
        axes[0, 0].set_ylabel("difference from\nthe median (%)")
        axes[1, 0].set_ylabel("power (W)")
        axes[1, 0].set_ylim(0, None)
        figure.suptitle(f"measured: {run}; crosses: the GPU held its clock down", fontsize=10)
    return figure
