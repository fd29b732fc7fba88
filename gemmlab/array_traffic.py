"""Traffic of a launch by array and kind of access, however many source lines share it.

A trace counts by source line. Where a line stands in a function that loads from several arrays, or several lines serve
one array, this says which array paid.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gemmlab import launch
from gemmlab.emulator.instructions import Frame, Site
from gemmlab.emulator.lanes import Mask
from gemmlab.emulator.observer import Observer
from gemmlab.emulator.traffic import Access, Traffic
from gemmlab.gemm import Gemm, inputs
from gemmlab.launch import Kernel

LOCAL = "local memory"


@dataclass(frozen=True)
class ArrayTraffic:
    """All accesses of one kind to one array: `op` is 'ld.shared', 'st.global' and so on, `bytes` the width a lane.

    `units` are sectors of global and local memory, wavefronts of shared memory; `ideal` is the fewest that could do.
    `lines` are the source lines that the accesses stand on.
    """

    array: str
    op: str
    bytes: int
    requests: int
    lanes: int
    units: int
    ideal: int
    lines: tuple[int, ...]

    @property
    def a_request(self) -> float:
        """Sectors or wavefronts of a request, on average."""
        return self.units / self.requests

    @property
    def conflicts(self) -> bool:
        """Whether it takes more than the fewest possible."""
        return self.units > self.ideal


def count(kernel: Kernel, problem: Gemm) -> tuple[ArrayTraffic, ...]:
    """Return the traffic of one launch on the emulator, a row for each array and kind of access, in alphabetical order.

    Raises what a launch raises.
    """
    watcher = _Watcher()
    launch.submission(kernel, problem, inputs(problem)).watch(watcher)
    return watcher.rows()


def of(rows: Sequence[ArrayTraffic], array: str, op: str) -> ArrayTraffic:
    """Return the only row of an array and a kind of access, such as 'As' and 'ld.shared'.

    Raises ValueError, with the rows that there are, where there is none or more than one.
    """
    found = [row for row in rows if (row.array, row.op) == (array, op)]
    if len(found) != 1:
        known = ", ".join(f"{row.op} of {row.array}, {row.bytes} bytes" for row in rows)
        raise ValueError(f"{len(found)} kinds of access are {op} of {array}, not one; there are: {known}")
    return found[0]


def table(rows: Sequence[ArrayTraffic]) -> str:
    """Return rows as text: for each array and kind of access the requests, what one of them costs, and all together."""
    columns = zip(("array", "access"), *((row.array, row.op) for row in rows), strict=True)
    arrays, ops = (max(map(len, column)) for column in columns)
    lines = [
        f"{'array':<{arrays}}  {'access':<{ops}}  {'bytes a lane':>12}{'requests':>10}{'a request':>11}{'at best':>9}"
        f"{'in all':>10}"
    ]
    for row in rows:
        unit = "wavefronts" if row.op.endswith("shared") else "sectors"
        lines.append(
            f"{row.array:<{arrays}}  {row.op:<{ops}}  {row.bytes:>12}{row.requests:>10,}{row.a_request:>11.3g}"
            f"{row.ideal / row.requests:>9.3g}{row.units:>10,} {unit}"
        )
    return "\n".join(lines)


class _Watcher(Observer):
    """Counts the traffic of each array apart, as `Traffic` counts that of a launch."""

    def __init__(self) -> None:
        self._of: dict[str, Traffic] = defaultdict(Traffic)

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        """Count the access with those of the array that its first active lane touches."""
        if mask is None:
            first = address.reshape(-1)[0]
        else:
            active = np.broadcast_to(mask, frame.batch.shape)
            if not active.any():
                return
            first = np.broadcast_to(address, frame.batch.shape)[active][0]
        memory = {"global": frame.memory, "shared": frame.shared}.get(site.space)
        name = memory.place(int(first)).array if memory else LOCAL
        self._of[name].access(site, frame, address, mask)

    def rows(self) -> tuple[ArrayTraffic, ...]:
        """The sums over all lines."""
        found: dict[tuple[str, str, int], list[Access]] = defaultdict(list)
        for array, traffic in self._of.items():
            for access in traffic.rows():
                found[array, access.op, access.bytes].append(access)
        return tuple(ArrayTraffic(*kind, *_sums(found[kind])) for kind in sorted(found))


def _sums(accesses: Sequence[Access]) -> tuple[int, int, int, int, tuple[int, ...]]:
    requests, lanes, units, ideal = (
        sum(getattr(access, name) for access in accesses) for name in ("requests", "lanes", "units", "ideal")
    )
    return requests, lanes, units, ideal, tuple(access.line for access in accesses)
