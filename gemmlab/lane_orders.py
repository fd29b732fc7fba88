"""Where a warp and its lanes stand in a block's tile: rung 6's kernel with other orders of lanes or any mapping."""

import re

from gemmlab.ladder import rung
from gemmlab.quoting import MOST_SHOWN

WARP_TILES = rung("warp_tiles")
MAPPING = ("warp_row", "warp_col", "tx", "ty")
ORDERS = {
    "row by row": ("lane % (WN / TN)", "lane / (WN / TN)"),
    "column by column": ("lane / (WM / TM)", "lane % (WM / TM)"),
    "zigzag": ("lane % (2 * WN / TN) / 2", "lane / (2 * WN / TN) * 2 + lane % 2"),
}
"""By name, which column tx and which row ty of a warp's WM / TM rows of WN / TN lanes a lane takes."""


def ordered(order: str, source: str | None = None) -> str:
    """Return rung 6's source, or another one like it, with its lanes in one of ORDERS."""
    return _with(dict(zip(("tx", "ty"), ORDERS[order], strict=True)), source)


def mapped(statements: str, source: str | None = None) -> str:
    """Return the source with the four statements of MAPPING in place of its own, such as `const int tx = ...;`.

    Raises ValueError for statements that leave one out, name another, or say more.
    """
    found = dict(re.findall(r"const int (\w+) = ([^;]*);", re.sub(r"//[^\n]*", "", statements)))
    rest = re.sub(r"//[^\n]*|const int \w+ = [^;]*;|\s+", "", statements)
    if set(found) != set(MAPPING) or rest:
        raise ValueError(
            f"a mapping is one statement 'const int NAME = ...;' for each of {', '.join(MAPPING)}, not "
            f"{', '.join(found) or 'none'}{' and ' + rest[:MOST_SHOWN] if rest else ''}"
        )
    return _with(found, source)


def own(source: str | None = None) -> str:
    """Return the four statements of MAPPING as they stand in the source, without what follows them on a line."""
    text = source or WARP_TILES.source()
    return "\n".join(re.search(_statement(name), text)[0] for name in MAPPING)


def _with(expressions: dict[str, str], source: str | None) -> str:
    text = source or WARP_TILES.source()
    for name, expression in expressions.items():
        statement = f"const int {name} = {expression};"
        text, times = re.subn(_statement(name), lambda _, statement=statement: statement, text)
        if times != 1:
            raise ValueError(f"the source sets {name} {times} times, not once: start from rung 6's own")
    return text


def _statement(name: str) -> str:
    return rf"const int {name} = [^;]*;"
