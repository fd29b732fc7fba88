"""Figures: what one warp asks memory for, the roofline, the samples of timings. Each is returned; plt.show() shows it.

Modelled points are hollow and measured ones filled, and each label says which it is.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from gemmlab.gemm import Gemm
from gemmlab.gpus import GPU, SECTOR_BYTES
from gemmlab.measured import roofs
from gemmlab.roofline import FLOAT_BYTES, attainable
from gemmlab.warp import INACTIVE, WARP, Request

# The sequence petroff10 (Petroff, "Accessible Color Sequences for Data Visualization", 2021).
COLOURS = ("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
SECTOR_FLOATS = SECTOR_BYTES // FLOAT_BYTES
WANTED, MOVED = COLOURS[2], COLOURS[9]
# Every colour that a dark theme might change is set, and backgrounds are opaque.
INK = ("text.color", "axes.labelcolor", "axes.titlecolor", "axes.edgecolor", "xtick.color", "ytick.color")
PAPER = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
STYLE = dict.fromkeys(INK, "black") | dict.fromkeys(PAPER, "white") | {"savefig.transparent": False, "font.size": 10}
GAP = 2  # cells between the pictures of two matrices
LABEL_GAP = 0.2  # decades of speed that a point's label takes
LABEL_WIDTH = 1.4  # decades of intensity that it takes


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


def mapping(views: Mapping[str, Sequence[Mapping[str, Sequence[Request]]]], problem: Gemm, lane: int) -> Figure:
    """Return a picture a view of who computes what: the outputs of some warps, and all that a lane of the first reads.

    A view is a title and the requests of several warps, as `warp.watch` returns them for each.
    """
    with plt.rc_context(STYLE):
        size = (max(6, 4.9 * len(views)), 1.6 + 4.4 * (problem.M + problem.K) / (problem.N + problem.K))
        figure, axes = plt.subplots(1, len(views), figsize=size, squeeze=False, layout="constrained")
        for axis, (title, warps) in zip(axes[0], views.items(), strict=True):
            _draw_mapping(axis, warps, problem, lane)
            axis.set_title(title)
        handles = [Patch(facecolor=colour, label=f"warp {i}") for i, colour in enumerate(COLOURS[: len(warps)])]
        note = f"numbers: lanes of warp 0, of which lane {lane} reads the marked row of A and column of B"
        figure.legend(handles=handles, title=note, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


def requests(views: Mapping[str, Mapping[str, Request]], problem: Gemm) -> Figure:
    """Return pictures of A, B and C, a row of them a view: the elements that one warp wants, and the sectors that move.

    A view is a title and a request to each of the three, as `warp.watch` returns them.
    """
    with plt.rc_context(STYLE):
        size = (10, 0.4 + 3.7 * len(views))
        figure, axes = plt.subplots(len(views), 3, figsize=size, squeeze=False, layout="constrained")
        for row, (title, view) in zip(axes, views.items(), strict=True):
            for axis, name in zip(row, "ABC", strict=True):
                _draw_request(axis, view[name], problem.shapes[name])
            row[0].set_ylabel(f"{title}\n\nrow", fontsize=11)
        legend = [
            Patch(facecolor=WANTED, label="wanted by a lane"),
            Patch(facecolor=MOVED, label="moved with it, in the same 32-byte sector"),
        ]
        figure.legend(handles=legend, loc="outside lower center", ncols=2, frameon=False)
    return figure


def roofline(card: GPU, points: Sequence[Modelled | Measured]) -> Figure:
    """Return a card's roofs with points under (or over) them; both axes are logarithmic.

    The roofs are the measured ceilings of DRAM, L2 and FP32 where the card has them, else those published for it.
    Raises ValueError for measured points of more than one run.
    """
    roof = roofs(card)
    intensities = np.geomspace(1 / 32, 2048, 300)
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
        _draw_points(axis, points)
        axis.legend(handles=_legend(points), loc="lower right")
    return figure


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


def _draw_mapping(axis: Axes, warps: Sequence[Mapping[str, Sequence[Request]]], problem: Gemm, lane: int) -> None:
    """A left of C and B above it, so that an output stands where its row of A meets its column of B."""
    aside = problem.K + GAP
    corners = {"A": (0, aside), "B": (aside, 0), "C": (aside, aside)}
    cells = {name: np.zeros(shape, int) for name, shape in problem.shapes.items()}
    for name in "AB":
        for request in warps[0][name]:
            cells[name][request.elements[lane]] = 1
    for number, seen in enumerate(warps, start=1):
        cells["C"][tuple(zip(*seen["C"][-1].elements, strict=True))] = number
    for name, (left, top) in corners.items():
        _draw_cells(axis, cells[name], COLOURS[: len(warps)], left, top)
        axis.text(left - 0.5, top - 0.5, name, ha="right", va="bottom", fontsize=12, weight="bold")
    for number in (0, lane, WARP - 1):
        row, column = warps[0]["C"][-1].elements[number]
        axis.text(aside + column + 0.5, aside + row + 0.5, str(number), ha="center", va="center", fontsize=7)
    axis.set(aspect="equal", xlim=(-2, aside + problem.N + 0.5), ylim=(aside + problem.M + 0.5, -2))
    axis.axis("off")


def _draw_request(axis: Axes, request: Request, shape: tuple[int, int]) -> None:
    rows, columns = shape
    cells = np.zeros(rows * columns, int)
    for sector in request.sectors:
        cells[SECTOR_FLOATS * sector : SECTOR_FLOATS * (sector + 1)] = 1
    cells[request.offsets[request.offsets != INACTIVE] // FLOAT_BYTES] = 2
    _draw_cells(axis, cells.reshape(shape), (MOVED, WANTED), -0.5, -0.5)
    axis.set(
        aspect="equal",
        xlim=(-0.5, columns - 0.5),
        ylim=(rows - 0.5, -0.5),
        xlabel="column",
        xticks=range(0, columns, SECTOR_FLOATS),
        yticks=range(0, rows, SECTOR_FLOATS),
    )
    if columns % SECTOR_FLOATS == 0:
        for boundary in range(SECTOR_FLOATS, columns, SECTOR_FLOATS):
            axis.axvline(boundary - 0.5, color="0.55", linewidth=0.8)
    plural = "s" if len(request.sectors) > 1 else ""
    axis.set_title(
        f"{request.array}: {len(request.sectors)} sector{plural}, {request.moved_bytes} bytes moved\n"
        f"for {request.used_bytes} bytes wanted",
        fontsize=10,
    )
    _label_lanes(axis, request.elements, shape)


def _draw_cells(axis: Axes, cells: np.ndarray, colours: Sequence[str], left: float, top: float) -> None:
    """Draw a matrix whose cells hold 0 for white or the position, from 1, of their colour."""
    rows, columns = cells.shape
    axis.pcolormesh(
        np.arange(columns + 1) + left,
        np.arange(rows + 1) + top,
        cells,
        cmap=ListedColormap(["white", *colours]),
        vmin=0,
        vmax=len(colours),
        edgecolors="0.86",
        linewidth=0.3,
    )


def _label_lanes(axis: Axes, elements: Sequence[tuple[int, int]], shape: tuple[int, int]) -> None:
    """Say where the first and the last lane stand: beside their sectors, or under a row that fills the picture."""
    (first_row, first_column), (last_row, last_column) = elements[0], elements[-1]
    count = len(elements)
    if abs(last_row - first_row) > 3:
        _label_cell(axis, elements[0], "lane 0", shape)
        _label_cell(axis, elements[-1], f"lane {count - 1}", shape)
    elif last_column - first_column < shape[1] // 2:
        _label_cell(axis, elements[-1], f"lanes 0 to {count - 1}", shape)
    else:
        axis.text(first_column, first_row + 1.8, "lane 0", ha="left", va="top", fontsize=9)
        axis.text(last_column, last_row + 1.8, f"lane {count - 1}", ha="right", va="top", fontsize=9)


def _label_cell(axis: Axes, element: tuple[int, int], text: str, shape: tuple[int, int]) -> None:
    row, column = element
    sector = column // SECTOR_FLOATS * SECTOR_FLOATS
    fits = sector + 2.5 * SECTOR_FLOATS <= shape[1]
    x, side = (sector + SECTOR_FLOATS, "left") if fits else (sector - 1, "right")
    edge = "top" if row < 2 else "bottom" if row > shape[0] - 3 else "center"
    axis.text(x, row, text, ha=side, va=edge, fontsize=9)


def _label_slope(axis: Axes, level: str, bandwidth: float, below: bool) -> None:
    # Left of 0.25 FLOP/byte, where no kernel stands: from 0.04 on under the line, or up to 0.2 above it.
    x, side, edge, away = (0.04, "left", "top", 1.1) if below else (0.2, "right", "bottom", 1 / 1.1)
    axis.text(x * away, x * bandwidth / 1e12 / away, f"{level}, {bandwidth / 1e12:.2f} TB/s", ha=side, va=edge)


def _draw_points(axis: Axes, points: Sequence[Modelled | Measured]) -> None:
    looks = dict(zip(dict.fromkeys(point.rung for point in points), zip(COLOURS, MARKERS, strict=False), strict=False))
    for point, place in zip(points, _label_places(points), strict=True):
        colour, marker = looks[point.rung]
        hollow = isinstance(point, Modelled)
        axis.plot(
            point.intensity,
            point.speed / 1e12,
            marker,
            color=colour,
            markersize=10,
            markeredgewidth=2,
            markerfacecolor="white" if hollow else colour,
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


def _legend(points: Sequence[Modelled | Measured]) -> list[Line2D]:
    """An entry for models and one for the run that the measured points are of."""
    runs = sorted({point.run for point in points if isinstance(point, Measured)})
    if len(runs) > 1:
        raise ValueError(f"a roofline shows the points of one run, not of {len(runs)}: {'; '.join(runs)}")
    entries = {"model": "white"} | {f"measured: {run}": "0.3" for run in runs}
    return [
        Line2D([], [], linestyle="", marker="o", color="0.3", markersize=8, markerfacecolor=face, label=label)
        for label, face in entries.items()
    ]


def _label_places(points: Sequence[Modelled | Measured]) -> list[tuple[float, float]]:
    """Where each label begins, (FLOP/byte, TFLOP/s): right of the points that stand near, in the order of their speeds,
    at the height of its point or as far below the label over it as a line needs.
    """
    places: dict[int, tuple[float, float]] = {}
    order = sorted(range(len(points)), key=lambda i: points[i].intensity)
    while order:
        near = [order.pop(0)]
        while order and np.log10(points[order[0]].intensity / points[near[-1]].intensity) < LABEL_WIDTH:
            near.append(order.pop(0))
        x = 1.7 * points[near[-1]].intensity
        above = np.inf
        for i in sorted(near, key=lambda i: -points[i].speed):
            above = min(float(np.log10(points[i].speed / 1e12)), above - LABEL_GAP)
            places[i] = (x, 10**above)
    return [places[i] for i in range(len(points))]
