"""Step-through pictures: a Play control over the steps of a kernel, and the walk of a block's tiles along K.

What a walk shows was watched on the emulator. `play` steps through any picture; other rungs bring theirs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ipywidgets
import matplotlib.pyplot as plt
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from gemmlab.gemm import Gemm
from gemmlab.plotting import COLOURS, STYLE
from gemmlab.snapshots import Tile

MILLISECONDS = 1500  # a step, long enough to find what changed
LOAD, FIRST, COMPUTE, SECOND = PHASES = ("load", "barrier 1", "compute", "barrier 2")
SAYS = {
    LOAD: "each thread brings one value of A and one of B into shared memory",
    FIRST: "nobody reads a tile before all of it is written",
    COMPUTE: "each thread takes its steps of k from shared memory: the marked one reads a row of As, a column of Bs",
    SECOND: "nobody overwrites a tile that somebody still reads",
}
LENGTHS = {LOAD: 1.0, FIRST: 0.3, COMPUTE: 1.6, SECOND: 0.3}  # in the time line; no measurement
LOOKS = {"A": COLOURS[0], "B": COLOURS[1], "C": COLOURS[4]}
BARRIER = COLOURS[2]
MATRIX, NOTHING = "0.93", "white"
HATCH = "////"
MOST_LABELLED = 64  # cells of a tile that have room for the numbers of their element
THREAD = (1, 2)  # (tx, ty) of the thread whose reads are marked


@dataclass(frozen=True, eq=False)
class Walk:
    """A block's walk along K: the first (row, column) of its tile of C, and what As and Bs hold in each chunk."""

    problem: Gemm
    corner: tuple[int, int]
    chunks: Sequence[Mapping[str, Tile]]

    @property
    def steps(self) -> int:
        """How many pictures the walk has: four phases for each chunk."""
        return len(PHASES) * len(self.chunks)


def play(draw: Callable[[int], Figure], steps: int) -> ipywidgets.Widget:
    """Return a Play control and a slider over `steps` pictures; `draw` makes the figure of a step, from 0."""
    control = ipywidgets.Play(min=0, max=steps - 1, interval=MILLISECONDS)
    slider = ipywidgets.IntSlider(min=0, max=steps - 1, description="step", continuous_update=False)
    ipywidgets.link((control, "value"), (slider, "value"))
    shown = ipywidgets.interactive_output(lambda step: _show(draw(step)), {"step": slider})
    return ipywidgets.VBox([ipywidgets.HBox([control, slider]), shown])


def walk(of: Walk, step: int) -> Figure:
    """Return the picture of a step: the matrices with the block's tiles, its shared memory, and the time line."""
    chunk, phase = step // len(PHASES), PHASES[step % len(PHASES)]
    with plt.rc_context(STYLE | {"hatch.linewidth": 0.6}):
        figure = plt.figure(figsize=(10, 6.2), layout="constrained")
        cells = figure.add_gridspec(2, 2, width_ratios=(2, 1), height_ratios=(9, 1))
        _draw_matrices(figure.add_subplot(cells[0, 0]), of, chunk, phase)
        _draw_shared(figure.add_subplot(cells[0, 1]), of.chunks[chunk], phase)
        _draw_time(figure.add_subplot(cells[1, :]), len(of.chunks), step)
        first = of.chunks[chunk]["As"].corner[1]
        last = first + of.chunks[chunk]["As"].valid[1] - 1
        title = f"chunk {chunk + 1} of {len(of.chunks)}, k = {first} to {last}. {phase}: {SAYS[phase]}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
        looks = [Patch(facecolor=LOOKS[name], label=f"tile of {name}") for name in "ABC"]
        looks.append(Patch(facecolor=NOTHING, edgecolor="0.4", hatch=HATCH, label="past the edge: zero"))
        figure.legend(handles=looks, loc="outside lower center", ncols=len(looks), frameon=False)
    return figure


def _show(figure: Figure) -> None:
    display(figure)
    plt.close(figure)


def _draw_matrices(axis: Axes, of: Walk, chunk: int, phase: str) -> None:
    """A left of C and B above it, so that an output stands where its row of A meets its column of B."""
    problem, (As, Bs) = of.problem, of.chunks[chunk].values()
    rows, (depth, columns) = As.filled.shape[0], Bs.filled.shape
    aside = problem.K + depth  # leaves room for a tile that reaches past the edge
    corners = {"A": (0, aside), "B": (aside, 0), "C": (aside, aside)}
    for name, (left, top) in corners.items():
        height, width = problem.shapes[name]
        axis.add_patch(Rectangle((left, top), width, height, facecolor=MATRIX, edgecolor="0.6"))
        axis.text(left - 0.3, top, name, ha="right", va="top", fontsize=12, weight="bold")
    for tile in (As, Bs):
        (left, top), (row, column) = corners[tile.matrix], tile.corner
        _draw_tile(axis, tile, left + column, top + row, 1.0 if phase == LOAD else 0.4)
    row, column = of.corner
    _draw_outputs(axis, of, chunk, phase, aside + column, aside + row)
    axis.set(aspect="equal", xlim=(-1.2, aside + column + columns + 0.3), ylim=(aside + row + rows + 0.3, -0.3))
    axis.axis("off")


def _draw_outputs(axis: Axes, of: Walk, chunk: int, phase: str, left: float, top: float) -> None:
    """The block's tile of C, darker the more of its sums is there, and the marked thread's output."""
    As, Bs = of.chunks[chunk].values()
    computed = chunk + (phase in (COMPUTE, SECOND))
    done = sum(tiles["As"].valid[1] for tiles in of.chunks[:computed])
    shade = 0.15 + 0.85 * done / of.problem.K
    axis.add_patch(Rectangle((left, top), Bs.valid[1], As.valid[0], facecolor=LOOKS["C"], alpha=shade))
    _outline(axis, left, top, Bs.filled.shape[1], As.filled.shape[0])
    if phase == COMPUTE:
        axis.add_patch(Rectangle((left + THREAD[0], top + THREAD[1]), 1, 1, facecolor="black"))
    axis.text(left, top - 0.2, f"{done} of {of.problem.K} terms", ha="left", va="bottom", fontsize=9)


def _draw_shared(axis: Axes, tiles: Mapping[str, Tile], phase: str) -> None:
    """As over Bs, each word with the element that it holds."""
    top = 0.0
    for name, tile in tiles.items():
        rows, columns = tile.filled.shape
        state = "being written" if phase == LOAD else "whole"
        axis.text(0, top - 0.15, f"{name}, {state}", ha="left", va="bottom", weight="bold")
        _draw_tile(axis, tile, 0, top, 0.4 if phase == LOAD else 1.0, labelled=rows * columns <= MOST_LABELLED)
        if phase == COMPUTE and name == "As":
            _outline(axis, 0, top + THREAD[1], columns, 1, 3)
        elif phase == COMPUTE:
            _outline(axis, THREAD[0], top, 1, rows, 3)
        top += rows + 1.3
    axis.set(aspect="equal", xlim=(-0.1, columns + 0.1), ylim=(top - 0.9, -1.2), title="shared memory")
    axis.axis("off")


def _draw_tile(axis: Axes, tile: Tile, left: float, top: float, alpha: float, labelled: bool = False) -> None:
    """A tile with its zeros hatched; `labelled` writes into each word the row and column of its element."""
    rows, columns = tile.filled.shape
    for row in range(rows):
        for column in range(columns):
            place = (left + column, top + row)
            if tile.filled[row, column]:
                axis.add_patch(Rectangle(place, 1, 1, facecolor=LOOKS[tile.matrix], alpha=alpha, linewidth=0))
                text = f"{tile.row[row, column]},{tile.column[row, column]}"
            else:
                axis.add_patch(Rectangle(place, 1, 1, facecolor=NOTHING, edgecolor="0.4", hatch=HATCH, linewidth=0))
                text = "0"
            if labelled:
                axis.text(place[0] + 0.5, place[1] + 0.5, text, ha="center", va="center", fontsize=8)
    _outline(axis, left, top, columns, rows)


def _outline(axis: Axes, left: float, top: float, width: float, height: float, line: float = 1.5) -> None:
    axis.add_patch(Rectangle((left, top), width, height, fill=False, edgecolor="black", linewidth=line))


def _draw_time(axis: Axes, chunks: int, step: int) -> None:
    """What comes after what: the phases of all chunks in a row, that of this step in full colour."""
    left = 0.0
    for at in range(chunks * len(PHASES)):
        phase = PHASES[at % len(PHASES)]
        now, barrier = at == step, phase in (FIRST, SECOND)
        colour = BARRIER if barrier else LOOKS["C"] if phase == COMPUTE else "0.6"
        axis.add_patch(Rectangle((left, 0), LENGTHS[phase], 1, facecolor=colour, alpha=1.0 if now else 0.3))
        if now:
            _outline(axis, left, 0, LENGTHS[phase], 1, 2)
        if not barrier:
            axis.text(left + LENGTHS[phase] / 2, 0.5, phase, ha="center", va="center", fontsize=9)
        left += LENGTHS[phase]
    axis.set(xlim=(-0.05, left + 0.05), ylim=(-0.15, 1.15), title="the block's time; red: a barrier")
    axis.axis("off")
