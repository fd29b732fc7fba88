"""Figures of what warps ask memory for: who computes which output, what a request wants, and what moves with it."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gemmlab.figures.style import COLOURS, STYLE
from gemmlab.gemm import Gemm
from gemmlab.gpus import SECTOR_BYTES
from gemmlab.roofline import FLOAT_BYTES
from gemmlab.warp import INACTIVE, WARP, Request

SECTOR_FLOATS = SECTOR_BYTES // FLOAT_BYTES
WANTED, MOVED = COLOURS[2], COLOURS[9]
GAP = 2  # cells between the pictures of two matrices


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
