"""What can go wrong in a launch, as data and as an exception."""

from __future__ import annotations

from dataclasses import dataclass, replace

KINDS = (
    "out-of-bounds",
    "misaligned",
    "uninitialized",
    "race",
    "divergent-barrier",
    "bad-argument",
    "launch",
    "timeout",
)


@dataclass(frozen=True)
class Hazard:
    """One finding: `kind` is one of KINDS, `line` the source line (0: none, as for a refused launch), `block` and
    `threads` the first block and threads it was seen at, (x, y, z) each, `count` how many lanes were at fault, `lines` the other
    source lines that take part."""

    kind: str
    line: int
    message: str
    block: tuple[int, int, int] | None = None
    threads: tuple[tuple[int, int, int], ...] = ()
    count: int = 0
    lines: tuple[int, ...] = ()

    def with_count(self, count: int) -> Hazard:
        return replace(self, count=count)

    def __str__(self) -> str:
        return self.message


class KernelFault(RuntimeError):
    """A launch that was refused or stopped; `hazard` holds the finding."""

    def __init__(self, hazard: Hazard) -> None:
        super().__init__(hazard.message)
        self.hazard = hazard
