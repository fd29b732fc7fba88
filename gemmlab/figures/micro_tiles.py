"""Step-through pictures of one thread's outputs: what each value that it reads from shared memory is used for.

Which words the thread reads, and which outputs it writes, was watched on the emulator.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from gemmlab.figures.request_figures import GAP
from gemmlab.figures.stepping import LOOKS
from gemmlab.figures.style import STYLE
from gemmlab.operands import Element, Work

LABELS = {"A": "values of A read in this step of k", "B": "values of B", "C": "the thread's sums; darker: more terms"}
EMPTY, GRID = "0.95", "0.82"
FEWEST_CELLS = 3  # across and down, so that a strip is not drawn larger than a square


@dataclass(frozen=True)
class State:
    """What a thread has done after some reads: the step of k, the rows of A and columns of B that it holds for it, the
    FMAs that the last read allowed as (row, column) of C, and how many reads and FMAs there were in all.
    """

    k: int
    last: Element
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    fed: tuple[tuple[int, int], ...]
    loads: int
    fmas: int


def state(work: Work, step: int) -> State:
    """Return where a thread stands after read number `step`, from 0: an FMA is done once both its values are there.

    Raises IndexError for a step that the thread does not make.
    """
    if not 0 <= step < len(work.reads):
        raise IndexError(f"there is no step {step}: the thread makes {len(work.reads)} reads, from 0")
    name_A, _ = work.shapes
    rows: list[int] = []
    columns: list[int] = []
    k, fmas = -1, 0
    for read in work.reads[: step + 1]:
        of_A = read.array == name_A
        now = read.column if of_A else read.row
        if now != k:
            k, rows, columns = now, [], []
        if of_A:
            rows.append(read.row)
            fed = tuple((read.row, column) for column in columns)
        else:
            columns.append(read.column)
            fed = tuple((row, read.column) for row in rows)
        fmas += len(fed)
    return State(k, read, tuple(rows), tuple(columns), fed, step + 1, fmas)


def picture(work: Work, step: int) -> Figure:
    """Return the picture of a read: the block's tiles with what the thread reads and owns, and the thread's registers.

    Raises IndexError as `state` does.
    """
    at = state(work, step)
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(10, 5.6), layout="constrained")
        cells = figure.add_gridspec(1, 2, width_ratios=(1, 1))
        _draw_block(figure.add_subplot(cells[0, 0]), work, at)
        _draw_registers(figure.add_subplot(cells[0, 1]), work, at)
        figure.suptitle(f"{_says(at)}\n{_counts(at)}", x=0.01, ha="left", fontsize=10)
        looks = [Patch(facecolor=LOOKS[name], label=label) for name, label in LABELS.items()]
        figure.legend(handles=looks, loc="outside lower center", ncols=len(looks), frameon=False)
    return figure


def _says(at: State) -> str:
    fed = "nothing yet" if not at.fed else f"{len(at.fed)} FMA{'s' if len(at.fed) > 1 else ''}"
    return f"k = {at.k}: {_written(at.last)} is read, and feeds {fed}"


def _counts(at: State) -> str:
    return f"so far {at.loads} shared loads for {at.fmas} FMAs; the plain tile makes {2 * at.fmas} for as many"


def _written(element: Element) -> str:
    return f"{element.array}[{element.row}][{element.column}]"


def _draw_block(axis: Axes, work: Work, at: State) -> None:
    """The tile of A left of that of C, the tile of B above it."""
    (rows, depth), (_, columns) = work.shapes.values()
    aside = depth + GAP
    corners = dict(zip((*work.shapes, "C"), ((0, aside), (aside, 0), (aside, aside)), strict=True))
    extents = {**work.shapes, "C": (rows, columns)}
    for name, (left, top) in corners.items():
        height, width = extents[name]
        axis.add_patch(Rectangle((left, top), width, height, facecolor=EMPTY, edgecolor="0.6"))
        axis.text(left, top - 0.2, name, ha="left", va="bottom", fontsize=11, weight="bold")
    name_A, name_B = work.shapes
    for name, colour, held in (
        (name_A, LOOKS["A"], [(row, at.k) for row in at.rows]),
        (name_B, LOOKS["B"], [(at.k, column) for column in at.columns]),
    ):
        left, top = corners[name]
        for row, column in held:
            _cell(axis, left + column, top + row, colour, 1.0, bold=(row, column) == at.last[1:])
    left, top = corners["C"]
    for row in work.rows:
        for column in work.columns:
            shade = _shade(at, work, row, column)
            _cell(axis, left + column, top + row, LOOKS["C"], shade, bold=(row, column) in at.fed)
    axis.set(aspect="equal", xlim=(-0.3, aside + columns + 0.3), ylim=(aside + rows + 0.3, -1.4))
    axis.set_title(f"the block's tiles; thread {work.thread}")
    axis.axis("off")


def _draw_registers(axis: Axes, work: Work, at: State) -> None:
    """Values of A down the left, values of B across the top, and between them the sums that they feed."""
    name_A, name_B = work.shapes
    for i, row in enumerate(work.rows, start=1):
        _draw_value(axis, 0, i, LOOKS["A"], Element(name_A, row, at.k), row in at.rows, at)
    for j, column in enumerate(work.columns, start=1):
        _draw_value(axis, j, 0, LOOKS["B"], Element(name_B, at.k, column), column in at.columns, at)
    for i, row in enumerate(work.rows, start=1):
        for j, column in enumerate(work.columns, start=1):
            shade = _shade(at, work, row, column)
            _cell(axis, j, i, LOOKS["C"], shade, bold=(row, column) in at.fed)
            text = f"C[{row}][{column}]\n{_terms(at, row, column)} of {work.problem.K}"
            _write(axis, j, i, text, "white" if shade > 0.6 else "black")
    down, across = len(work.rows), len(work.columns)
    axis.set(aspect="equal", xlim=(-0.1, max(across, FEWEST_CELLS) + 1.1), ylim=(max(down, FEWEST_CELLS) + 1.1, -0.1))
    axis.set_title("the thread's registers")
    axis.axis("off")


def _draw_value(axis: Axes, left: float, top: float, colour: str, value: Element, read: bool, at: State) -> None:
    if read:
        _cell(axis, left, top, colour, 1.0, bold=value == at.last)
        _write(axis, left, top, _written(value), "black")
    else:
        axis.add_patch(Rectangle((left, top), 1, 1, facecolor="white", edgecolor=GRID, linestyle=":"))


def _terms(at: State, row: int, column: int) -> int:
    """How many products the sum of an output holds."""
    return at.k + (row in at.rows and column in at.columns)


def _shade(at: State, work: Work, row: int, column: int) -> float:
    return 0.1 + 0.8 * _terms(at, row, column) / work.problem.K


def _cell(axis: Axes, left: float, top: float, colour: str, alpha: float, bold: bool) -> None:
    axis.add_patch(Rectangle((left, top), 1, 1, facecolor=colour, alpha=alpha, linewidth=0))
    look = {"edgecolor": "black", "linewidth": 2.5, "zorder": 3} if bold else {"edgecolor": GRID, "linewidth": 0.8}
    axis.add_patch(Rectangle((left, top), 1, 1, fill=False, **look))


def _write(axis: Axes, left: float, top: float, text: str, ink: str) -> None:
    axis.text(left + 0.5, top + 0.5, text, ha="center", va="center", fontsize=8, color=ink)
