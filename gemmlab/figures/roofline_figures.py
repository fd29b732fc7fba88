"""The roofline as a figure: a card's roofs, with points of models, hollow, and of runs, filled; which a label says."""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from gemmlab.columns import significant
from gemmlab.figures.style import COLOURS, MARKERS, STYLE
from gemmlab.gpus import GPU
from gemmlab.measured import roofs
from gemmlab.roofline import Reading, attainable
from gemmlab.roofline import read as tile_model

POINTS = "offset points"
SIZE, RIM = 10, 9  # points: a marker, and by how much it outgrows another that would hide it
HIDDEN = 0.06  # decades of intensity and of speed within which one does
SPAN = (1 / 32, 4096)  # FLOP a byte
LABEL_GAP = 0.2  # decades of speed that a point's label takes
LABEL_WIDTH = 1.7  # decades of intensity that it takes
CLEAR = 0.14  # decades of speed between the middle of a label and a marker or the flat roof
APART = 1.4  # decades of intensity from which on points have their labels beside them


@dataclass(frozen=True)
class Modelled:
    """A point from arithmetic: intensity in FLOP/byte, speed in FLOP/s."""

    rung: str
    intensity: float
    speed: float


@dataclass(frozen=True)
class Measured:
    """A point from a timed run: intensity in FLOP/byte, speed in FLOP/s; `run` names the card and the date."""

    rung: str
    intensity: float
    speed: float
    run: str


def roofline(card: GPU, points: Sequence[Modelled | Measured]) -> Figure:
    """Return a card's roofs with points under (or over) them; both axes are logarithmic.

    The roofs are the measured ceilings of DRAM, L2 and FP32 where the card has them, else those published for it.
    Raises ValueError for measured points of more than one run.
    """
    roof = roofs(card)
    intensities = np.geomspace(*SPAN, 300)
    lowest = min(intensities[0] * roof.bandwidths["DRAM"], *(point.speed for point in points), roof.peak)
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(10, 5.4), layout="constrained")
        axis.set(
            xscale="log",
            yscale="log",
            xlim=(intensities[0], intensities[-1]),
            ylim=(lowest / 3e12, 200),
            xlabel="arithmetic intensity (FLOP per byte requested)",
            ylabel="speed (TFLOP/s)",
            title=f"{card.name}, FP32: roofs from {roof.kind} ceilings",
        )
        axis.grid(color="0.92")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_major_formatter("{x:g}")
        for bandwidth in roof.bandwidths.values():
            axis.plot(
                intensities, [attainable(each, roof.peak, bandwidth) / 1e12 for each in intensities], color="0.25"
            )
        # The flat roof's label stands left of the ridge, where no kernel does.
        axis.hlines(roof.peak / 1e12, intensities[0], intensities[-1], color="0.7", linestyle=":", zorder=1)
        axis.text(0.04, 1.08 * roof.peak / 1e12, f"FP32, {roof.peak / 1e12:.1f} TFLOP/s", ha="left", va="bottom")
        (low, *higher) = roof.bandwidths.items()
        _label_slope(axis, *low, below=True)
        for level in higher:
            _label_slope(axis, *level, below=False)
        _draw_points(axis, points, roof.peak)
        if points:
            axis.legend(handles=_legend(points), loc="lower right")
    return figure


def reading(name: str, read: Reading) -> Figure:
    """Return the roof that a reading was made under, with the points of its tile and of every power of two up to it:
    larger tiles walk right, and stop rising at the ridge. All points are models.
    """
    problem, bandwidth, peak = read.problem, read.bandwidth, read.peak
    tiles = [2**power for power in range(read.tile.bit_length()) if 2**power < read.tile]
    trail = [tile_model(problem, tile, bandwidth, peak) for tile in tiles]
    x = np.geomspace(min(1 / 8, read.ridge / 64), max(512, 4 * read.intensity, 4 * read.ridge), 400)
    bottom = x[0] * bandwidth / 3
    headroom = max(3, (peak / bottom) ** 0.12)  # of which the peak's label needs a share however much is drawn
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(10, 4.8), layout="constrained")
        axis.set(
            xscale="log",
            yscale="log",
            xlim=(x[0], x[-1]),
            ylim=(bottom / 1e12, headroom * peak / 1e12),
            xlabel="arithmetic intensity (FLOP per byte requested)",
            ylabel="speed (TFLOP/s)",
            title=f"model: {problem.M} x {problem.N} x {problem.K}, T = {read.tile}, ceilings: {name}",
        )
        axis.grid(color="0.92")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.plot(x, [attainable(each, peak, bandwidth) / 1e12 for each in x], color="0.25")
        axis.plot([read.ridge] * 2, [bottom / 1e12, peak / 1e12], color="0.6", linestyle=":")
        axis.annotate(f"{peak / 1e12:,.10g} TFLOP/s", (x[-1], peak / 1e12), (-4, 4), textcoords=POINTS, ha="right")
        # There is room left of the slope and of the ridge, or right of them where no point stands on the slope.
        side, ha, va = (1, "left", "top") if read.ridge < 1 / 8 else (-1, "right", "bottom")
        slope = (read.ridge / 8, peak / 8e12)
        axis.annotate(f"{bandwidth / 1e9:,.10g} GB/s", slope, (8 * side, -6 * side), textcoords=POINTS, ha=ha, va=va)
        foot = (read.ridge, bottom / 1e12)
        axis.annotate(f"ridge, {significant(read.ridge)} FLOP/B", foot, (4 * side, 4), textcoords=POINTS, ha=ha)
        look = {"linestyle": "", "marker": MARKERS[0], "markerfacecolor": "white", "markeredgewidth": 2}
        if trail:
            smaller = tuple(zip(*map(_point, trail), strict=True))
            axis.plot(*smaller, color=COLOURS[3], markersize=6, label="smaller tiles, powers of two", **look)
        said = f"T = {read.tile}: {read.intensity:.3f} FLOP/B, at most {significant(read.speed / 1e12)} TFLOP/s"
        axis.plot(*_point(read), color=COLOURS[2], markersize=11, label=said, **look)
        axis.legend(loc="upper left", reverse=True)
    return figure


def _point(read: Reading) -> tuple[float, float]:
    return read.intensity, read.speed / 1e12


def _label_slope(axis: Axes, level: str, bandwidth: float, below: bool) -> None:
    # Left of 0.25 FLOP/byte, where no kernel stands: from 0.04 on under the line, or up to 0.2 above it.
    x, side, edge, away = (0.04, "left", "top", 1.1) if below else (0.2, "right", "bottom", 1 / 1.1)
    axis.text(x * away, x * bandwidth / 1e12 / away, f"{level}, {bandwidth / 1e12:.2f} TB/s", ha=side, va=edge)


def _draw_points(axis: Axes, points: Sequence[Modelled | Measured], peak: float) -> None:
    looks = dict(zip(dict.fromkeys(point.rung for point in points), zip(COLOURS, MARKERS, strict=False), strict=False))
    for i, (point, place) in enumerate(zip(points, _label_places(points, peak), strict=True)):
        colour, marker = looks[point.rung]
        hollow = isinstance(point, Modelled)
        axis.plot(
            point.intensity,
            point.speed / 1e12,
            marker,
            color=colour,
            markersize=SIZE + RIM * sum(_hides(point, later) for later in points[i + 1 :]),
            markeredgewidth=2,
            markerfacecolor="white" if hollow else colour,
            path_effects=[withStroke(linewidth=4, foreground="white")],
            zorder=3,
        )
        axis.add_collection(
            LineCollection([[(point.intensity, point.speed / 1e12), place]], colors=colour, linewidths=0.8, zorder=1)
        )
        axis.text(
            *place,
            f"{'model' if hollow else 'measured'}: {point.rung}, {point.speed / 1e12:.3g} TFLOP/s",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            zorder=2,
        )


def _hides(below: Modelled | Measured, above: Modelled | Measured) -> bool:
    """Whether two points stand so close that the marker of the one drawn later would cover the other's."""
    return all(
        abs(np.log10(a / b)) < HIDDEN for a, b in ((below.intensity, above.intensity), (below.speed, above.speed))
    )


def _legend(points: Sequence[Modelled | Measured]) -> list[Line2D]:
    """An entry for models, where there are any, and one for the run that the measured points are of."""
    runs = sorted({point.run for point in points if isinstance(point, Measured)})
    if len(runs) > 1:
        raise ValueError(f"a roofline shows the points of one run, not of {len(runs)}: {'; '.join(runs)}")
    modelled = {"model": "white"} if any(isinstance(point, Modelled) for point in points) else {}
    entries = modelled | {f"measured: {run}": "0.3" for run in runs}
    return [
        Line2D([], [], linestyle="", marker="o", color="0.3", markersize=8, markerfacecolor=face, label=label)
        for label, face in entries.items()
    ]


def _label_places(points: Sequence[Modelled | Measured], peak: float) -> list[tuple[float, float]]:
    """Where each label begins, (FLOP/byte, TFLOP/s): right of the points that stand near, in the order of their speeds,
    at the height of its point or as far below that as a line needs to hide no label, marker or flat roof.
    """
    places: dict[int, tuple[float, float]] = {}
    order = sorted(range(len(points)), key=lambda i: points[i].intensity)
    while order:
        near = [order.pop(0)]
        while order and np.log10(points[order[0]].intensity / points[near[-1]].intensity) < APART:
            near.append(order.pop(0))
        x = 1.7 * points[near[-1]].intensity
        above = np.inf
        for i in sorted(near, key=lambda i: -points[i].speed):
            above = min(float(np.log10(points[i].speed / 1e12)), above - LABEL_GAP)
            beside = [each.speed for each in points if 0 < np.log10(each.intensity / x) < LABEL_WIDTH]
            while any(abs(np.log10(speed / 1e12) - above) < CLEAR for speed in (*beside, peak)):
                above -= CLEAR / 8
            places[i] = (x, 10**above)
    return [places[i] for i in range(len(points))]
