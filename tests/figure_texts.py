"""The texts of a figure, and those of them that overlap."""

from collections.abc import Iterator
from itertools import combinations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text


def texts(figure: Figure) -> list[Text]:
    """The texts that are drawn, once the figure is laid out: no labels of ticks past an axis's ends."""
    figure.draw_without_rendering()
    hidden = {id(label) for axis in figure.axes for label in _hidden(axis)}
    return [
        text
        for text in figure.findobj(Text)
        if text.get_text().strip() and text.get_visible() and id(text) not in hidden
    ]


def _hidden(axis: Axes) -> Iterator[Text]:
    for line, (low, high) in ((axis.xaxis, axis.get_xlim()), (axis.yaxis, axis.get_ylim())):
        for tick in (*line.get_major_ticks(), *line.get_minor_ticks()):
            if not (axis.axison and min(low, high) <= tick.get_loc() <= max(low, high)):
                yield from (tick.label1, tick.label2)


def overlapping(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes overlap; a turned one is left to the eye, for its box is larger than it.

    An annotation counts as its text alone, without the line that leads to it.
    """
    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in texts(figure) if text.get_rotation() % 90 == 0]
    return [(a, b) for (a, box), (b, other) in combinations(boxes, 2) if box.overlaps(other)]


def outside(figure: Figure) -> list[str]:
    """Texts that reach past the figure's edge."""
    edge = figure.bbox.padded(1)
    found = [(text.get_text(), Text.get_window_extent(text)) for text in texts(figure)]
    return [name for name, box in found if not all(edge.contains(*corner) for corner in box.corners())]
