"""Figures of timings."""

import statistics
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from gemmlab.figures.style import COLOURS, STYLE


def samples(milliseconds: Mapping[str, Sequence[float]], run: str) -> Figure:
    """Return every sample of each kernel's timing as a dot, in milliseconds a launch, and a bar at the median."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            len(milliseconds), 1, figsize=(10, 0.5 + 1.1 * len(milliseconds)), squeeze=False, layout="constrained"
        )
        for axis, (name, times), colour in zip(axes[:, 0], milliseconds.items(), COLOURS, strict=False):
            axis.plot(times, [0] * len(times), "o", color=colour, alpha=0.5)
            axis.plot([statistics.median(times)], [0], "|", color="black", markersize=26)
            axis.set(yticks=[0], yticklabels=[name], ylim=(-1, 1))
            axis.ticklabel_format(axis="x", useOffset=False)  # a time reads whole, not as a tick plus a corner's offset
        axes[0, 0].set_title(f"measured: {run}; every sample, and the median")
        axes[-1, 0].set_xlabel("time of one launch (ms)")
    return figure
