"""Pictures of a block's warps: who owns which outputs, and which values of A and B a warp reads for its own.

Who owns and who reads what was watched on the emulator.
"""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from gemmlab.block_work import NOBODY, BlockWork
from gemmlab.emulator.lanes import WARP
from gemmlab.figures.stepping import LOOKS
from gemmlab.figures.style import COLOURS, STYLE
from gemmlab.tile_rules import QUAD

GROUP = 8  # lanes of a quarter-warp, whose quads fill a wavefront
STRIP = 6  # width of the strips that stand for a step's values of A and B, in outputs
SHORTEST = 3.0  # inches of a picture's height


def hierarchy(views: Mapping[str, BlockWork], lane: int = 0) -> Figure:
    """Return a panel a view: the block's outputs by warp, and in the first warp those of one lane, black."""
    with plt.rc_context(STYLE):
        figure, axes = _panels(views)
        most = max(work.warps for work in views.values())
        for axis, (title, work) in zip(axes, views.items(), strict=True):
            for warp in range(work.warps):
                _fill(axis, work.owner // WARP == warp, COLOURS[warp % len(COLOURS)], 0.55)
            _fill(axis, work.owner == lane, "black", 1.0)
            axis.set_title(f"{title}: {work.warps} warps")
            _frame(axis, work)
        looks = [Patch(facecolor=COLOURS[warp], alpha=0.55, label=f"warp {warp}") for warp in range(min(most, 8))]
        looks.append(Patch(facecolor="black", label=f"lane {lane} of warp 0"))
        figure.legend(handles=looks, loc="outside lower center", ncols=len(looks), frameon=False)
    return figure


def operands(views: Mapping[str, BlockWork], warp: int) -> Figure:
    """Return a panel a view: one warp's outputs, the rows of A and columns of B that it reads in a step of k, and how
    many values that makes.
    """
    with plt.rc_context(STYLE):
        figure, axes = _panels(views)
        for axis, (title, work) in zip(axes, views.items(), strict=True):
            _fill(axis, work.owner // WARP == warp, LOOKS["C"], 0.6)
            for row in work.rows(warp):
                axis.add_patch(Rectangle((-STRIP - 2, row), STRIP, 1, facecolor=LOOKS["A"], linewidth=0))
            for column in work.columns(warp):
                axis.add_patch(Rectangle((column, -STRIP - 2), 1, STRIP, facecolor=LOOKS["B"], linewidth=0))
            A, B, C = (*(work.values(warp, name) for name in ("As", "Bs")), len(work.outputs(warp)))
            axis.set_title(f"{title}, warp {warp}\n{A} + {B} = {A + B} values for {C:,} FMAs")
            _frame(axis, work)
        looks = [
            Patch(facecolor=LOOKS["A"], label="values of A read in a step of k"),
            Patch(facecolor=LOOKS["B"], label="values of B"),
            Patch(facecolor=LOOKS["C"], alpha=0.6, label="the warp's outputs"),
        ]
        figure.legend(handles=looks, loc="outside lower center", ncols=len(looks), frameon=False)
    return figure


def piece(work: BlockWork, warp: int, step: int) -> Figure:
    """Return one piece of a warp's tile, from 0: the outputs that its lanes feed from one quad of A's values each and
    one quad of B's. In each step of k a warp goes through all of its pieces, of which `pieces` is the number.

    Raises IndexError for a piece that there is not.
    """
    if not 0 <= step < pieces(work):
        raise IndexError(f"there is no piece {step}: a warp has {pieces(work)}, from 0")
    _, columns = work.lane(WARP * warp)
    down, across = divmod(step, len(columns) // QUAD)
    numbers = np.full(work.owner.shape, NOBODY)
    for lane in range(WARP):
        rows, columns = work.lane(WARP * warp + lane)
        numbers[np.ix_(rows[QUAD * down :][:QUAD], columns[QUAD * across :][:QUAD])] = lane
    with plt.rc_context(STYLE):
        figure, (whole, near) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
        _fill(whole, work.owner // WARP == warp, LOOKS["C"], 0.25)
        _fill(whole, numbers != NOBODY, LOOKS["C"], 0.9)
        _frame(whole, work)
        whole.set_title(f"the block's tile; pale: warp {warp}'s")
        _draw_lanes(near, numbers)
        title = f"piece {step + 1} of {pieces(work)}: quad {down} of each lane's values of A, quad {across} of B's"
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
    return figure


def pieces(work: BlockWork) -> int:
    """Return into how many pieces of a quad by a quad a lane's outputs fall."""
    rows, columns = work.lane(0)
    return len(rows) // QUAD * (len(columns) // QUAD)


def _draw_lanes(axis: Axes, numbers: np.ndarray) -> None:
    """A piece from near: a cell for the four by four outputs of a lane, with its number; lanes 0 to 7 in colour."""
    rows, columns = (np.unique(index) for index in np.nonzero(numbers != NOBODY))
    near = numbers[np.ix_(rows, columns)][::QUAD, ::QUAD]
    for (down, across), lane in np.ndenumerate(near):
        colour = LOOKS["C"] if lane < GROUP else "0.85"
        axis.add_patch(Rectangle((across, down), 1, 1, facecolor=colour, edgecolor="white"))
        ink = "white" if lane < GROUP else "black"
        axis.text(across + 0.5, down + 0.5, str(lane), ha="center", va="center", color=ink, fontsize=8)
    axis.set(aspect="equal", xlim=(0, near.shape[1]), ylim=(near.shape[0], 0), xticks=(), yticks=())
    axis.set_xticks(range(near.shape[1] + 1), [*columns[::QUAD], columns[-1] + 1], fontsize=8)
    axis.set_yticks(range(near.shape[0] + 1), [*rows[::QUAD], rows[-1] + 1], fontsize=8)
    axis.set(xlabel="column", ylabel="row", title="the lanes on it; lanes 0 to 7 are served together")


def _panels(views: Mapping[str, BlockWork]) -> tuple[Figure, np.ndarray]:
    rows, columns = map(max, zip(*(work.owner.shape for work in views.values()), strict=True))
    height = max(SHORTEST, 10 / len(views) * (rows + STRIP) / (columns + STRIP) + 1.2)
    figure, axes = plt.subplots(1, len(views), figsize=(10, height), squeeze=False, layout="constrained")
    return figure, axes[0]


def _fill(axis: Axes, cells: np.ndarray, colour: str, alpha: float) -> None:
    """Colour the cells, as few rectangles as their rows need."""
    for row, line in enumerate(cells):
        edges = np.flatnonzero(np.diff(np.r_[0, line.astype(int), 0]))
        for left, right in edges.reshape(-1, 2):
            axis.add_patch(Rectangle((left, row), right - left, 1, facecolor=colour, alpha=alpha, linewidth=0))


def _frame(axis: Axes, work: BlockWork) -> None:
    rows, columns = work.owner.shape
    axis.add_patch(Rectangle((0, 0), columns, rows, fill=False, edgecolor="0.4"))
    axis.set(aspect="equal", xlim=(-STRIP - 3, columns + 1), ylim=(rows + 1, -STRIP - 3))
    axis.set(xticks=range(0, columns + 1, 32), yticks=range(0, rows + 1, 32), xlabel="column", ylabel="row")
    for side in axis.spines.values():
        side.set_visible(False)
