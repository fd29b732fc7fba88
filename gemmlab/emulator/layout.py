"""Where a kernel's shared arrays lie: packed as the hardware packs them modulo 128 bytes, with red zones between.

Banks repeat every 128 bytes, so keeping each offset's remainder keeps every bank, while an index that runs out of its
array lands in bytes that belong to none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from .ptx import Variable

PERIOD = 1024
"""Offsets keep their remainder by this many bytes: a multiple of the banks' 128, and of any alignment in use."""

RED_ZONE = 4096
"""Fewest bytes between two shared arrays; a larger array is followed by as many bytes as it has."""

ALIGN_DYNAMIC = 16
DYNAMIC = "dynamic shared memory"


@dataclass(frozen=True)
class Region:
    """Bytes of one array in a block's or a thread's own memory: `start` is the emulator's offset."""

    name: str
    start: int
    bytes: int

    @property
    def end(self) -> int:
        return self.start + self.bytes


@dataclass(frozen=True)
class SharedLayout:
    """`offsets` by PTX name, the static arrays' regions, their packed size on the hardware, and the dynamic arrays:
    their names, as written, and the one offset at which all of them start.
    """

    offsets: dict[str, int]
    arrays: tuple[Region, ...]
    static_bytes: int
    dynamic_names: tuple[str, ...]
    dynamic_start: int

    def regions(self, dynamic_bytes: int) -> tuple[Region, ...]:
        """All arrays of a launch with this much dynamic shared memory; the dynamic one also where it has no bytes."""
        name = self.dynamic_names[0] if len(self.dynamic_names) == 1 else DYNAMIC
        dynamic = (Region(name, self.dynamic_start, dynamic_bytes),) if dynamic_bytes or self.dynamic_names else ()
        return self.arrays + dynamic


def shared_layout(variables: Iterable[Variable]) -> SharedLayout:
    """Layout of a kernel's shared variables: static ones in order of declaration, the dynamic array after them."""
    variables = list(variables)
    static = [v for v in variables if not v.extern]
    dynamic = [v for v in variables if v.extern]
    offsets, arrays, packed, free = {}, [], 0, 0
    for variable in static:
        packed = _up(packed, variable.align)
        start = _matching(free, packed)
        offsets[variable.name] = start
        arrays.append(Region(plain_name(variable.name), start, variable.bytes))
        packed += variable.bytes
        free = start + variable.bytes + max(RED_ZONE, variable.bytes)
    # where there are dynamic arrays the hardware fills up what comes before them (seen on an H200)
    packed = _up(packed, max([ALIGN_DYNAMIC, *(v.align for v in dynamic)])) if dynamic else packed
    start = _matching(free, _up(packed, ALIGN_DYNAMIC))
    offsets.update((v.name, start) for v in dynamic)
    return SharedLayout(offsets, tuple(arrays), packed, tuple(plain_name(v.name) for v in dynamic), start)


def _up(offset: int, align: int) -> int:
    return -(-offset // align) * align


def _matching(free: int, packed: int) -> int:
    """The first offset from `free` on that lies in the same bank as the packed one."""
    return free + (packed - free) % PERIOD


def plain_name(name: str) -> str:
    """A variable's name as written, from one that C++ mangled, such as 'As' from '_ZZ4gemmE2As' (Itanium ABI: the
    length and the name stand last, but for a number that tells namesakes apart).
    """
    if not name.startswith("_Z"):
        return name
    for match in re.finditer(r"(?:E|_ZL?)(\d+)", name):
        rest, length = name[match.end() :], int(match[1])
        if len(rest) >= length and re.fullmatch(r"(_\d*)*", rest[length:]):
            return rest[:length]
    return name
