"""The hierarchical roofline as a figure: one axis, a roof for each level of memory, and the kernel's point on each."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gemmlab.figures.roofline_figures import HIDDEN, RIM, SIZE
from gemmlab.figures.style import COLOURS, MARKERS, STYLE
from gemmlab.hierarchy import CARRIES, Bounds, Level
from gemmlab.hierarchy_table import Timed
from gemmlab.roofline import attainable, throughput

SPAN = (2**-8, 2**13)  # FLOP a byte
LOOKS = {
    "DRAM": (COLOURS[0], "-", MARKERS[0]),
    "L2": (COLOURS[6], "--", MARKERS[1]),
    "L1 and shared": (COLOURS[4], "-.", MARKERS[2]),
}
LINE = 0.25  # decades of speed that a line of text takes
NEAR = 12  # times: at intensities closer than this one label stands above the other
WIDE, HIGH = 10, 5.8  # inches
FULL = 0.9995  # the share of its multiprocessors from which on a card counts as busy
LEFT, RIGHT, BOTTOM, TOP = 0.08, 0.68, 0.2, 0.87  # of the figure; right of the axes stand the labels of speeds


def hierarchy(name: str, bounds: Bounds, timed: Timed | None = None) -> Figure:
    """Return the roofs of a card's levels with a kernel's points: hollow where a level allows it to run at most, filled
    at the same intensities where it was measured.

    The intensity at a level is the kernel's FLOPs for each byte that the level is charged with, a wavefront being 128.
    The roofs on the chip stand where a grid of so many blocks leaves them, at their busy share, and their labels say of
    how much. A level that is charged with nothing has a roof and no point.
    """
    memory = [level for level in bounds.levels if level.unit in CARRIES]
    peak = bounds.levels[-1].busy * bounds.card.peak_fp32
    problem, speed = bounds.problem, timed and throughput(bounds.problem.flops, timed.milliseconds)
    lowest = min(SPAN[0] * min(map(_roof, memory)), bounds.speed, speed or bounds.speed)
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(WIDE, HIGH))
        figure.subplots_adjust(LEFT, BOTTOM, RIGHT, TOP)
        axis.set(
            xscale="log",
            yscale="log",
            xlim=SPAN,
            ylim=(lowest / 5e12, peak / 1e12 * 4),
            xlabel="FLOP per byte that the level is charged with",
            ylabel="speed (TFLOP/s)",
        )
        title = f"{name} at {problem.M} x {problem.N} x {problem.K}, FP32, {bounds.card.name}"
        axis.set_title("\n".join([title, *_state(bounds)]), fontsize="medium")
        axis.grid(color="0.92")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_major_formatter("{x:g}")
        for level in memory:
            colour, line, _ = LOOKS[level.name]
            x = np.geomspace(*SPAN, 400)
            y = [attainable(each, peak, _roof(level)) / 1e12 for each in x]
            axis.plot(x, y, color=colour, linestyle=line, zorder=2)
        _draw_points(axis, bounds, memory, peak, speed)
        _draw_speeds(axis, bounds, peak, speed)
        for handles, height in ((_roofs_legend(memory), 0.05), (_points_legend(timed), 0.0)):
            figure.legend(handles=handles, loc="lower center", bbox_to_anchor=(0.5, height), ncols=3, frameon=False)
    return figure


def _state(bounds: Bounds) -> list[str]:
    """What lowers the roofs, and which levels are charged with nothing."""
    busy = bounds.levels[-1].busy
    lowered = f"the blocks keep at most {busy:.1%} of the multiprocessors busy, so roofs on the chip stand that low"
    unused = [f"{level.name} has nothing to carry" for level in bounds.levels if not level.amount]
    return [*([lowered] if busy <= FULL else []), *unused]


def _roof(level: Level) -> float:
    """Bytes a second that a level of memory carries to as many multiprocessors as are busy."""
    return level.rate * level.busy * CARRIES[level.unit]


def _intensity(bounds: Bounds, level: Level) -> float:
    return bounds.intensity(level) / CARRIES[level.unit]


def _draw_points(axis: Axes, bounds: Bounds, memory: list[Level], peak: float, speed: float | None) -> None:
    bottom, before, lines = axis.get_ylim()[0], 0.0, 0
    for level in sorted((each for each in memory if each.amount), key=lambda each: _intensity(bounds, each)):
        colour, _, marker = LOOKS[level.name]
        x, allowed = _intensity(bounds, level), min(peak, bounds.allowed(level))
        look = {"marker": marker, "color": colour, "markeredgewidth": 2, "linestyle": ""}
        under = SIZE + RIM * (speed is not None and abs(np.log10(allowed / speed)) < HIDDEN)
        axis.vlines(x, bottom, allowed / 1e12, color=colour, linewidth=0.8, zorder=1)
        axis.plot(x, allowed / 1e12, markerfacecolor="white", markersize=under, zorder=3, **look)
        if speed:
            axis.plot(x, speed / 1e12, markerfacecolor=colour, markersize=SIZE, zorder=4, **look)
        lines = 1 - lines if x < NEAR * before else 0
        axis.text(x * 1.08, bottom * 10 ** (LINE * (0.3 + 2.2 * lines)), f"{level.name}\n{x:.3g} FLOP/B", va="bottom")
        before = x


def _draw_speeds(axis: Axes, bounds: Bounds, peak: float, speed: float | None) -> None:
    """Horizontal lines at the FMA units' peak, at what issue leaves of it, at the bound and at what was measured, each
    with a label right of the picture.
    """
    left = {level.name: bounds.allowed(level) for level in bounds.levels}
    speeds = {f"FMA {_part(peak, bounds.card.peak_fp32)}": (peak, "0.25", ":")}
    if bounds.binding.name != "issue":
        speeds[f"issue {left['issue'] / 1e12:.3g}"] = (left["issue"], COLOURS[8], (0, (4, 2)))
    speeds[f"model: at most {bounds.speed / 1e12:.3g} ({bounds.binding.name})"] = (bounds.speed, "black", (0, (1, 2)))
    if speed:
        speeds[f"measured: {speed / 1e12:.3g}"] = (speed, "black", "-")
    above = np.inf
    for label, (each, colour, line) in sorted(speeds.items(), key=lambda entry: -entry[1][0]):
        axis.axhline(each / 1e12, color=colour, linestyle=line, linewidth=1.3, zorder=1)
        above = min(np.log10(each / 1e12), above - LINE)
        axis.annotate(
            label,
            (SPAN[1], each / 1e12),
            xytext=(SPAN[1] * 1.5, 10**above),
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.8,
                "shrinkA": 0,
                "shrinkB": 0,
                "relpos": (0, 0.5),  # from its middle a line would cross the label above
            },
        )


def _roofs_legend(memory: list[Level]) -> list[Line2D]:
    return [
        Line2D([], [], color=LOOKS[level.name][0], linestyle=LOOKS[level.name][1], label=_rate(level))
        for level in memory
    ]


def _rate(level: Level) -> str:
    """A level and its roof in TB/s, beside what the whole card does, and whether a run may pass it."""
    roof = _part(_roof(level), level.rate * CARRIES[level.unit])
    return f"{level.name}, {roof} TB/s" + ("" if level.holds else ", no bound")


def _part(lowered: float, whole: float) -> str:
    """A rate in 1e12 a second, and that of the whole card where it is lower than that."""
    return f"{whole / 1e12:.3g}" if lowered > FULL * whole else f"{lowered / 1e12:.3g} of {whole / 1e12:.3g}"


def _points_legend(timed: Timed | None) -> list[Line2D]:
    looks: Mapping[str, str] = {"model": "white"} | ({f"measured: {timed.run}": "0.3"} if timed else {})
    return [
        Line2D([], [], linestyle="", marker="o", color="0.3", markersize=8, markerfacecolor=face, label=label)
        for label, face in looks.items()
    ]
