"""The hierarchical roofline as a figure: one axis, a roof for each level of memory, and the kernel's point on each."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from gemmlab.figures.style import COLOURS, MARKERS, STYLE
from gemmlab.hierarchy import CARRIES, Bounds, Level
from gemmlab.hierarchy_table import Timed
from gemmlab.roofline import attainable, ridge, throughput

SPAN = (2**-8, 2**13)  # FLOP a byte
LOOKS = {
    "DRAM": (COLOURS[0], "-", MARKERS[0]),
    "L2": (COLOURS[6], "--", MARKERS[1]),
    "L1 and shared": (COLOURS[4], "-.", MARKERS[2]),
}
LINE = 0.25  # decades of speed that a line of text takes
NEAR = 12  # times: at intensities closer than this one label stands above the other
WRITTEN_FROM = 0.03  # FLOP a byte, from where on a roof may have its label
WIDE, HIGH = 10, 5.8  # inches
LEFT, RIGHT, BOTTOM, TOP = 0.07, 0.7, 0.17, 0.9  # of the figure; right of the axes stand the labels of speeds


def hierarchy(name: str, bounds: Bounds, timed: Timed | None = None) -> Figure:
    """Return the roofs of a card's levels with a kernel's points: hollow where a level allows it to run at most, filled
    at the same intensities where it was measured.

    The intensity at a level is the kernel's FLOPs for each byte that the level is charged with, a wavefront being 128.
    The roofs on the chip stand where a grid of so many blocks leaves them, at their busy share. A level that is charged
    with nothing has a roof and no point.
    """
    memory = [level for level in bounds.levels if level.unit in CARRIES]
    busy = bounds.levels[-1].busy
    peak = busy * 2 * next(level.rate for level in bounds.levels if level.name == "FMA")
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
            title=f"{name} at {problem.M} x {problem.N} x {problem.K}, FP32\n{_state(bounds)}",
        )
        axis.grid(color="0.92")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_major_formatter("{x:g}")
        for level in memory:
            _draw_roof(axis, level, peak, [_intensity(bounds, each) for each in memory if each.amount])
        _draw_points(axis, bounds, memory, peak, speed)
        _draw_speeds(axis, bounds, peak, speed)
        figure.legend(handles=_legend(memory, timed), loc="lower center", ncols=5, frameon=False)
    return figure


def _state(bounds: Bounds) -> str:
    """What the roofs stand at, and which levels are charged with nothing."""
    unused = [f"{level.name}: nothing to carry" for level in bounds.levels if not level.amount]
    return ", ".join([f"roofs of {bounds.card.name}, {bounds.levels[-1].busy:.1%} busy", *unused])


def _roof(level: Level) -> float:
    """Bytes a second that a level of memory carries to as many multiprocessors as are busy."""
    return level.rate * level.busy * CARRIES[level.unit]


def _intensity(bounds: Bounds, level: Level) -> float:
    return bounds.intensity(level) / CARRIES[level.unit]


def _draw_roof(axis: Axes, level: Level, peak: float, intensities: list[float]) -> None:
    colour, line, _ = LOOKS[level.name]
    x = np.geomspace(*SPAN, 400)
    axis.plot(x, [attainable(each, peak, _roof(level)) / 1e12 for each in x], color=colour, linestyle=line, zorder=2)
    places = np.geomspace(WRITTEN_FROM, ridge(peak, _roof(level)) / 6, 7)
    at = max(places, key=lambda place: min((abs(np.log(place / each)) for each in intensities), default=0))
    wide, high = (np.ptp(np.log10(limits)) for limits in (axis.get_xlim(), axis.get_ylim()))
    steepness = HIGH * (TOP - BOTTOM) / high / (WIDE * (RIGHT - LEFT) / wide)
    axis.text(
        at,
        at * _roof(level) / 1e12,
        f"{level.name}, {_roof(level) / 1e12:.3g} TB/s",
        ha="center",
        va="center",
        rotation=np.degrees(np.arctan(steepness)),
        rotation_mode="anchor",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        zorder=2,
    )


def _draw_points(axis: Axes, bounds: Bounds, memory: list[Level], peak: float, speed: float | None) -> None:
    bottom, before, lines = axis.get_ylim()[0], 0.0, 0
    for level in sorted((each for each in memory if each.amount), key=lambda each: _intensity(bounds, each)):
        colour, _, marker = LOOKS[level.name]
        x, allowed = _intensity(bounds, level), min(peak, bounds.allowed(level))
        look = {"marker": marker, "color": colour, "markersize": 10, "markeredgewidth": 2, "linestyle": ""}
        axis.vlines(x, bottom, allowed / 1e12, color=colour, linewidth=0.8, zorder=1)
        axis.plot(x, allowed / 1e12, markerfacecolor="white", zorder=3, **look)
        if speed:
            axis.plot(x, speed / 1e12, markerfacecolor=colour, zorder=4, **look)
        lines = 1 - lines if x < NEAR * before else 0
        axis.text(x * 1.08, bottom * 10 ** (LINE * (0.3 + 2.2 * lines)), f"{level.name}\n{x:.3g} FLOP/B", va="bottom")
        before = x


def _draw_speeds(axis: Axes, bounds: Bounds, peak: float, speed: float | None) -> None:
    """Horizontal lines at the FMA units' peak, at what issue leaves of it, at the bound and at what was measured, each
    with a label right of the picture.
    """
    left = {level.name: bounds.allowed(level) for level in bounds.levels}
    speeds = {f"FMA {peak / 1e12:.3g}": (peak, "0.25", ":")}
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
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8, "shrinkA": 0, "shrinkB": 0},
        )


def _legend(memory: list[Level], timed: Timed | None) -> list[Line2D]:
    looks: Mapping[str, str] = {"model": "white"} | ({f"measured: {timed.run}": "0.3"} if timed else {})
    return [
        *(
            Line2D(
                [],
                [],
                color=LOOKS[level.name][0],
                linestyle=LOOKS[level.name][1],
                label=f"roof of {level.name}" if level.holds else f"of {level.name}, no bound",
            )
            for level in memory
        ),
        *(
            Line2D([], [], linestyle="", marker="o", color="0.3", markersize=8, markerfacecolor=face, label=label)
            for label, face in looks.items()
        ),
    ]
