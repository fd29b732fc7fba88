"""Step-through pictures: a Play control over the steps of a kernel, and the walk of a block's tiles along K.

What a walk shows was watched on the emulator. `play` steps through any picture; other rungs bring theirs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import ipywidgets
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from gemmlab.figures import controls
from gemmlab.figures.style import COLOURS, STYLE
from gemmlab.gemm import Gemm
from gemmlab.snapshots import Tile

MILLISECONDS = 1500  # a step, long enough to find what changed
READ, WRITTEN = "read before overwritten", "written before read"  # what the two barriers see to
LOAD, STORE, COMPUTE = "load", "store", "compute"
PHASES = (LOAD, READ, STORE, WRITTEN, COMPUTE)
SAYS = {
    LOAD: "each thread loads one value of A and one of B, and keeps them",
    READ: "barrier: nobody overwrites a tile that somebody still reads",
    STORE: "each thread puts its two values into shared memory",
    WRITTEN: "barrier: nobody reads a tile before all of it is written",
    COMPUTE: "each thread takes its steps of k; the marked one reads a row of As, a column of Bs",
}
STATES = {STORE: "being written", WRITTEN: "whole", COMPUTE: "whole"}
LENGTHS = {LOAD: 1.0, READ: 0.3, STORE: 0.7, WRITTEN: 0.3, COMPUTE: 1.6}  # in the time line; no measurement
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
        """How many pictures the walk has: five phases for each chunk."""
        return len(PHASES) * len(self.chunks)


def play(draw: Callable[[int], Figure], steps: int) -> ipywidgets.Widget:
    """Return a Play control and a slider over `steps` pictures; `draw` makes the figure of a step, from 0, once."""
    player = ipywidgets.Play(min=0, max=steps - 1, interval=MILLISECONDS)
    slider = ipywidgets.IntSlider(min=0, max=steps - 1, description="step", continuous_update=False)
    ipywidgets.link((player, "value"), (slider, "value"))
    picture = cache(lambda step: controls.png(draw(step)))
    return ipywidgets.VBox([player, controls.over({"step": slider}, lambda step: ("", picture(step)))])


def walk(of: Walk, step: int) -> Figure:
    """Return the picture of a step: the matrices with the block's tiles, its shared memory, and the time line."""
    chunk, phase = step // len(PHASES), PHASES[step % len(PHASES)]
    with plt.rc_context(STYLE | {"hatch.linewidth": 0.6}):
        figure = plt.figure(figsize=(10, 6.2), layout="constrained")
        cells = figure.add_gridspec(2, 2, width_ratios=(2, 1), height_ratios=(9, 1))
        _draw_matrices(figure.add_subplot(cells[0, 0]), of, chunk, phase)
        _draw_shared(figure.add_subplot(cells[0, 1]), of, chunk, phase)
        _draw_time(figure.add_subplot(cells[1, :]), len(of.chunks), step)
        first = of.chunks[chunk]["As"].corner[1]
        last = first + of.chunks[chunk]["As"].valid[1] - 1
        title = f"chunk {chunk + 1} of {len(of.chunks)}, k = {first} to {last}: {SAYS[phase]}"
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
        looks = [Patch(facecolor=LOOKS[name], label=f"tile of {name}") for name in "ABC"]
        looks.append(Patch(facecolor=NOTHING, edgecolor="0.4", hatch=HATCH, label="past the edge: zero"))
        figure.legend(handles=looks, loc="outside lower center", ncols=len(looks), frameon=False)
    return figure


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
    computed = chunk + (phase == COMPUTE)
    done = sum(tiles["As"].valid[1] for tiles in of.chunks[:computed])
    shade = 0.15 + 0.85 * done / of.problem.K
    axis.add_patch(Rectangle((left, top), Bs.valid[1], As.valid[0], facecolor=LOOKS["C"], alpha=shade))
    _outline(axis, left, top, Bs.filled.shape[1], As.filled.shape[0])
    if phase == COMPUTE:
        axis.add_patch(Rectangle((left + THREAD[0], top + THREAD[1]), 1, 1, facecolor="black"))
    axis.text(left, top - 0.2, f"{done} of {of.problem.K} terms", ha="left", va="bottom", fontsize=9)


def _draw_shared(axis: Axes, of: Walk, chunk: int, phase: str) -> None:
    """As over Bs, each word with the element that it holds; up to the stores, those of the chunk before."""
    before = phase in (LOAD, READ)
    state = ("not written yet" if chunk == 0 else "may still be read") if before else STATES[phase]
    top = 0.0
    for name, tile in of.chunks[max(0, chunk - before)].items():
        rows, columns = tile.filled.shape
        line = columns / 4  # a line of text, in cells: the panel is as wide as a tile
        axis.text(0, top - line / 8, f"{name}: {state}", ha="left", va="bottom")
        if before and chunk == 0:
            _outline(axis, 0, top, columns, rows)
        else:
            _draw_tile(axis, tile, 0, top, 0.4 if phase == STORE else 1.0, labelled=rows * columns <= MOST_LABELLED)
        if phase == COMPUTE and name == "As":
            _outline(axis, 0, top + THREAD[1], columns, 1, 3)
        elif phase == COMPUTE:
            _outline(axis, THREAD[0], top, 1, rows, 3)
        top += rows + 1.2 * line
    axis.set(aspect="equal", xlim=(-line / 8, columns + line / 8), ylim=(top - line, -line), title="shared memory")
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
                box = None if tile.filled[row, column] else {"facecolor": NOTHING, "edgecolor": "none", "pad": 1}
                axis.text(place[0] + 0.5, place[1] + 0.5, text, ha="center", va="center", fontsize=8, bbox=box)
    _outline(axis, left, top, columns, rows)


def _outline(axis: Axes, left: float, top: float, width: float, height: float, line: float = 1.5) -> None:
    axis.add_patch(Rectangle((left, top), width, height, fill=False, edgecolor="black", linewidth=line))


def _draw_time(axis: Axes, chunks: int, step: int) -> None:
    """What comes after what: the phases of all chunks in a row, that of this step in full colour."""
    left = 0.0
    for at in range(chunks * len(PHASES)):
        phase = PHASES[at % len(PHASES)]
        now, barrier = at == step, phase in (READ, WRITTEN)
        colour = BARRIER if barrier else LOOKS["C"] if phase == COMPUTE else "0.6"
        axis.add_patch(Rectangle((left, 0), LENGTHS[phase], 1, facecolor=colour, alpha=1.0 if now else 0.3))
        if now:
            _outline(axis, left, 0, LENGTHS[phase], 1, 2)
        if not barrier:
            axis.text(left + LENGTHS[phase] / 2, 0.5, phase, ha="center", va="center", fontsize=9)
        left += LENGTHS[phase]
    axis.set(xlim=(-0.05, left + 0.05), ylim=(-0.15, 1.15), title="the block's time; red: a barrier")
    axis.axis("off")
