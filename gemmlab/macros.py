"""What a CUDA source defines itself, where the compiler's options are to define it."""

import re
from collections.abc import Iterator

from gemmlab.tile_rules import Tile


def require_options(source: str, tile: Tile) -> None:
    """Raise ValueError where a source defines a parameter of the tile itself, as another number: its #define would win
    over the compiler's -D option, and the launch be made for another tile than the code.
    """
    for line, name, value in _defined(source):
        if name in tile and value.strip("() ") != str(tile[name]):
            raise ValueError(
                f"line {line} of the source, '#define {name} {value}', overrides the option -D{name}={tile[name]}, for "
                f"which the launch is made: put it between #ifndef {name} and #endif, and choose {name} where the "
                "kernel is launched"
            )


def _defined(source: str) -> Iterator[tuple[int, str, str]]:
    """Line, name and value of each #define that stands whether its name has a value already or not; none in #if 0."""
    code = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), source, flags=re.DOTALL)
    conditions: list[str] = []
    for number, line in enumerate(code.splitlines(), start=1):
        directive = re.match(r"\s*#\s*(\w+)\s*(.*?)\s*(?://.*)?$", line)
        if directive is None:
            continue
        kind, rest = directive.groups()
        if kind in ("if", "ifdef", "ifndef"):
            conditions.append(f"{kind} {rest}")
        elif kind == "endif" and conditions:
            conditions.pop()
        elif kind == "define":
            name, _, value = rest.partition(" ")
            only_without = re.compile(rf"ifndef {re.escape(name)}$|if .*!\s*defined\s*\(?\s*{re.escape(name)}\b")
            if "if 0" not in conditions and not any(map(only_without.match, conditions)):
                yield number, name, value.strip()
