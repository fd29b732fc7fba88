"""The whole ladder in a figure: each rung's speed as a share of cuBLAS, and all of them under the roofs of a card."""

import json
from collections.abc import Sequence
from hashlib import sha256

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from gemmlab import measured, roofline
from gemmlab.columns import significant
from gemmlab.figures import roofline_figures
from gemmlab.figures.style import COLOURS, MARKERS, STYLE
from gemmlab.gemm import Gemm
from gemmlab.gpus import gpu
from gemmlab.ladder import RUNGS, Rung, Tile
from gemmlab.published import Ladder
from gemmlab.records import Record

LANE = 0.25  # of the distance between two rungs, between the ladders side by side at one of them

Series = tuple[str, dict[str, tuple[float, str]]]  # a label, and % of cuBLAS and TFLOP/s by the name of a rung
LONGEST = 30  # % of cuBLAS up to which a label fits between its point and 100%
LABEL = {"fontsize": 8, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 1}, "zorder": 3}


def shares(runs: Sequence[Record], ladders: Sequence[Ladder]) -> Figure:
    """Return every rung's percentage of cuBLAS, on a logarithmic axis, a row a rung and a marker a ladder.

    Each point is labelled with its share and its TFLOP/s, and each ladder with card, date and size. All are measured,
    so all are filled; the legend says which were published, and which are others' kernels.
    """
    series = _series(runs, ladders)
    names = dict.fromkeys(name for _, points in series for name in points)
    highest = max(percent for _, points in series for percent, _ in points.values())
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(10, 1.4 + (0.2 + 0.22 * len(series)) * len(names)), layout="constrained")
        for number, (label, points) in enumerate(series):
            colour = COLOURS[number]
            lanes = [list(names).index(name) + LANE * (number - (len(series) - 1) / 2) for name in points]
            percents = [percent for percent, _ in points.values()]
            axis.plot(percents, lanes, MARKERS[number], color=colour, markersize=8, label=label, zorder=4)
            axis.hlines(lanes, 0.5, percents, color=colour, linewidth=0.8, alpha=0.5, zorder=1)
            for lane, (percent, tflops) in zip(lanes, points.values(), strict=True):
                # a label right of a point in this range would run through the line at 100%
                x, align = (-8, "right") if LONGEST < percent <= 100 else (8, "left")
                text = f"{percent:.1f}%, {tflops} TFLOP/s"
                axis.annotate(text, (percent, lane), (x, 0), textcoords="offset points", va="center", ha=align, **LABEL)
        axis.axvline(100, color="0.25", linewidth=1, linestyle="--", zorder=0)
        axis.text(100, -0.62, "cuBLAS on the same card", ha="right", va="bottom", fontsize=9)
        for boundary in np.arange(0.5, len(names) - 1):
            axis.axhline(boundary, color="0.9", linewidth=0.8, zorder=0)
        numbers = {rung.name: rung.number for rung in RUNGS}
        axis.set(
            xscale="log",
            xlim=(0.5, 150 if highest <= 100 else 400),
            ylim=(len(names) - 0.4, -0.6),
            yticks=range(len(names)),
            yticklabels=[f"{numbers.get(name, '')} {name.replace('_', ' ')}" for name in names],
            xlabel="speed, % of the speed of cuBLAS on the same card (logarithmic)",
        )
        axis.xaxis.set_major_locator(FixedLocator([1, 2, 5, 10, 20, 50, 100]))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter("{x:g}")
        axis.tick_params(axis="y", length=0)
        figure.legend(loc="outside upper left", frameon=False, fontsize=9)
    return figure


def digest(runs: Sequence[Record], ladders: Sequence[Ladder]) -> str:
    """Return the SHA-256 of all that `shares` draws of these runs and ladders, to tell whether a picture is theirs."""
    return sha256(json.dumps(_series(runs, ladders)).encode()).hexdigest()


def under_roofs(record: Record) -> Figure:
    """Return a record's rungs under the roofs of its card, each at the intensity of what its blocks ask memory for.

    Raises ValueError for a card whose ceilings are not known.
    """
    problem, rows = measured.problem_of(record), measured.timed(record)
    points = [
        roofline_figures.Measured(
            rung.name, modelled_intensity(rung, rows[rung.name]["tile"], problem), speed, measured.label(record)
        )
        for rung in RUNGS
        if rung.name in rows and (speed := rows[rung.name]["gflops"] * 1e9)
    ]
    return roofline_figures.roofline(gpu(record.card or ""), points)


def modelled_intensity(rung: Rung, tile: Tile, problem: Gemm) -> float:
    """Return the FLOPs for each byte that a rung should ask global memory for, by the model of `roofline.requests`."""
    BM, BN = (tile.get(name, tile.get("TILE", 1)) for name in ("BM", "BN"))
    return roofline.intensity(problem.flops, roofline.requests(problem, BM=BM, BN=BN).bytes)


def _series(runs: Sequence[Record], ladders: Sequence[Ladder]) -> list[Series]:
    return [*map(_of_record, runs), *map(_of_ladder, ladders)]


def _of_record(record: Record) -> Series:
    rows = measured.timed(record)
    points = {name: (row["percent_of_cublas"], significant(row["gflops"] / 1e3)) for name, row in rows.items()}
    return f"measured: {measured.label(record)}", points


def _of_ladder(ladder: Ladder) -> Series:
    points = {name: (ladder.percent_of_cublas(name), ladder.tflops(name)) for name in ladder.gflops}
    return ladder.label, points
