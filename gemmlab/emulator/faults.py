"""What can go wrong in a launch, as data and as an exception."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from .lanes import Batch
from .memory import Fault

KINDS = (
    "out-of-bounds",
    "misaligned",
    "uninitialized",
    "race",
    "divergent-barrier",
    "bad-argument",
    "launch",
    "timeout",
    "trap",
    "aliasing",
)
"""Kinds of findings. All but the last are errors; 'aliasing' is legal and hardly ever meant."""

Index = tuple[int, int, int]


@dataclass(frozen=True)
class Hazard:
    """One finding, the first of its like: `what` is wrong, and the `cure`.

    `kind` is one of KINDS, `line` the source line (0: none, as for a refused launch), `lines` the other lines that
    take part, `block` and `threads` the first it was seen at, (x, y, z) each. `count` says how many `counted` things
    were seen in all. Of memory: `space`, `array`, byte `offset` in it and `bytes` of the access. Of a race: `accesses`
    as (line, what it does, such as 'read', 'write', 'atomic' or 'async write') in the order in which the emulator saw
    them, and `scope`, 'interblock', 'crosswarp', 'samewarp' or 'async'.
    """

    kind: str
    line: int
    what: str
    block: Index | None = None
    threads: tuple[Index, ...] = ()
    count: int = 0
    lines: tuple[int, ...] = ()
    _: KW_ONLY
    cure: str = ""
    counted: str = ""
    space: str = ""
    array: str = ""
    offset: int | None = None
    bytes: int = 0
    accesses: tuple[tuple[int, str], ...] = ()
    scope: str = ""

    @property
    def message(self) -> str:
        """The finding in a sentence, with its line and its cure."""
        line = f"line {self.line}: " if self.line else ""
        total = f" ({self.count:,} {self.counted} in all)" if self.counted and self.count > 1 else ""
        return f"{line}{self.what}{total}{'; ' if self.cure else ''}{self.cure}"

    def with_count(self, count: int) -> Hazard:
        """The same finding, seen this often."""
        return replace(self, count=count)

    def __str__(self) -> str:
        return self.message


class KernelFault(RuntimeError):
    """A launch that was refused or stopped; `hazard` holds the finding."""

    def __init__(self, hazard: Hazard) -> None:
        super().__init__(hazard)
        self.hazard = hazard


def verb(op: str) -> str:
    """What an access does to memory: 'read', 'write' or, of an atomic, 'update'."""
    kind = op.split(".")[0]
    if kind in ("atom", "red"):
        return "update"
    return "write" if kind in ("st", "stmatrix") or op == "cp.async.shared" else "read"


def access_hazard(op: str, line: int, batch: Batch, found: Fault) -> Hazard:
    """Hazard of a request that was outside its array or misaligned."""
    row, thread = (int(i[0]) for i in np.nonzero(found.lanes))
    block, first = batch.block_index(row), batch.thread_index(thread)
    place = found.place
    does = f"thread {first} of block {block} {verb(op)}s {found.bytes} byte{'s' if found.bytes > 1 else ''}"
    if found.kind == "misaligned":
        what = f"{does} at {place}, which is {place.address % found.bytes} past a multiple of {found.bytes}"
        cure = "keep the address a multiple of the width, or use narrower accesses"
        if place.row_bytes % found.bytes:
            cure = (
                f"rows of {place.row} are {place.row_bytes} bytes, no multiple of {found.bytes}: pad them, or use "
                "narrower accesses"
            )
    else:
        begins_inside = place.offset is not None and 0 <= place.offset < place.size
        what = f"{does} at {place}" + (f", which has {place.size} bytes" if begins_inside else "")
        cure = "guard the access with the array's bounds"
        if found.space == "shared" and place.size == 0 and place.array:
            cure = "the launch gave the kernel no dynamic shared memory: pass its bytes, kernel(..., shared_mem=bytes)"
    return Hazard(
        found.kind,
        line,
        what,
        block,
        (first,),
        int(found.lanes.sum()),
        cure=cure,
        counted="accesses",
        space=found.space,
        array=place.array,
        offset=place.offset,
        bytes=found.bytes,
    )
