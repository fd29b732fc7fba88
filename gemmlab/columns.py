"""Tables as plain text whose columns stand in groups, under a line that says where the figures of each are from."""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

GAP = "  "
WIDTH = 100  # characters of a line, which JupyterLab shows on a laptop without breaking it
WIDEST_LABEL, WIDEST_HEADER = 30, 22  # characters of a row's name and of a column's, which are folded beyond


class Column(NamedTuple):
    """One column: `source` says where its figures come from, `text` writes the figure of a row."""

    source: str
    header: str
    text: Callable[[Any], str]


def lines(columns: Sequence[Column], rows: Sequence[Any]) -> list[str]:
    """Return a table's lines: sources, headers, and one line a row. Neighbours of one source stand under it together.

    A group whose source is wider than its columns is widened.
    """
    cells = [[column.header, *(column.text(row) for row in rows)] for column in columns]
    widths = [max(map(len, column)) for column in cells]
    groups = [list(group) for _, group in groupby(range(len(columns)), key=lambda i: columns[i].source)]
    for group in groups:
        missing = len(columns[group[0]].source) - _width(widths, group)
        widths[group[0]] += max(0, missing)
    body = (
        GAP.join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in zip(*cells, strict=True)
    )
    return [GAP.join(_over(columns[group[0]].source, _width(widths, group)) for group in groups), *body]


def folded(columns: Sequence[Column], rows: Sequence[Any], width: int) -> list[str]:
    """Return a table's lines as `lines` does, its groups under one another where they do not fit into `width`.

    Each part begins with the first column, which names the row. A group that is too wide alone keeps its width.
    """
    first, *rest = columns
    parts, part = [], [first]
    for group in (list(members) for _, members in groupby(rest, key=lambda column: column.source)):
        if len(part) > 1 and len(lines([*part, *group], rows)[-1]) > width:
            parts.append(part)
            part = [first]
        part += group
    written = [lines(each, rows) for each in [*parts, part]]
    return [line for number, each in enumerate(written) for line in (["", *each] if number else each)]


def grouped(headers: Sequence[str], groups: Sequence[tuple[str, Sequence[Sequence[str]]]]) -> list[str]:
    """Return a table's lines, its rows under the names of their groups: a header, and for each group a name and rows.

    The first cell of a row names it and stands at the left; long ones and long headers are folded, so that a table of
    few columns stays narrow.
    """
    head = [_folded(header, WIDEST_HEADER) for header in headers]
    bodies = [
        (name, [[_folded(row[0], WIDEST_LABEL), *([cell] for cell in row[1:])] for row in rows])
        for name, rows in groups
    ]
    cells = [head, *(row for _, rows in bodies for row in rows)]
    widths = [max(len(line) for cell in column for line in cell) for column in zip(*cells, strict=True)]
    lines = [*_row(head, widths)]
    for name, rows in bodies:
        lines += [name, *(line for row in rows for line in _row(row, widths))]
    return lines


def known(figure: float | None, form: str) -> str:
    """Return a figure as text, or a dash for what nobody counted or measured."""
    return "-" if figure is None else format(figure, form)


def significant(figure: float | None, digits: int = 3, decimals: int = 9) -> str:
    """Return a figure with some significant digits, zeros among them ('30.0', '8.90', '2,922'), or a dash for None.

    All digits before the point are written. `decimals` is the most behind it, for a figure that was noted to no more.
    """
    if figure is None:
        return "-"
    exponent = int(f"{figure:.{digits - 1}e}".split("e")[1])
    return f"{figure:,.{min(decimals, max(0, digits - 1 - exponent))}f}"


def _folded(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width) or [""]


def _row(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """The lines of a row whose cells may have several, and end on the last."""
    height = max(map(len, cells))
    for name, *figures in zip(*([*[""] * (height - len(cell)), *cell] for cell in cells), strict=True):
        yield (GAP + GAP.join([name.ljust(widths[0]), *map(str.rjust, figures, widths[1:])])).rstrip()


def _width(widths: Sequence[int], group: Sequence[int]) -> int:
    return len(GAP.join(" " * widths[i] for i in group))


def _over(source: str, width: int) -> str:
    return source.center(width, "-" if source else " ")
