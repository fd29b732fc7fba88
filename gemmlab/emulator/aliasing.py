"""Two names for one piece of shared memory: legal, and hardly ever meant."""

from __future__ import annotations

import re

from .faults import Hazard
from .layout import SharedLayout


def aliased_arrays(layout: SharedLayout, source: str) -> Hazard | None:
    """Finding where a kernel uses several `extern __shared__` arrays: they all start at the same address."""
    first, *others = layout.dynamic_names or ("",)
    if not others:
        return None
    lines = [_declared_at(source, name) for name in (first, *others)]
    names = " and ".join([", ".join([first, *others[:-1]]), others[-1]])
    return Hazard(
        "aliasing",
        lines[1],
        f"{names} are more than one extern __shared__ array in a kernel, and all of them start at the same address",
        lines=tuple(line for line in lines if line and line != lines[1]),
        cure=f"declare {first} alone and place the others behind it, as in: float* {others[0]} = {first} + length",
        space="shared",
        array=others[0],
        offset=0,
    )


def _declared_at(source: str, name: str) -> int:
    """Line of an array's declaration; 0 where it is not to be found."""
    match = re.search(rf"extern\s+__shared__[^;]*\b{re.escape(name)}\s*\[", source)
    return source.count("\n", 0, match.end()) + 1 if match else 0
