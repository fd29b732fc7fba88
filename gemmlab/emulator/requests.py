"""One request of one warp, in full: which lane asked for which address, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from . import limits
from .arguments import Passed
from .device import REPORTS, RawKernel, launch
from .faults import Hazard, Index, KernelFault
from .instructions import Frame, Site
from .lanes import WARP, Mask
from .memory import Place
from .observer import Observer
from .wavefronts import BANKS, NOBODY, SECTOR, WORD, count, fewest, interleaved, passes


@dataclass(frozen=True)
class Request:
    """What the 32 lanes of a warp asked for at once. A lane that took no part has None wherever lanes are listed.

    `op` and `bytes` (a lane) are as in Access; `block` is (x, y, z), `warp` counts within the block, and this is the
    `iteration`-th of the `total` requests that the warp made in this way, from 0. `addresses` are the emulator's,
    `start` the address at which `array` begins, and `elements` what stands there, such as 'A[1, 0]' ('' if unknown).
    """

    line: int
    op: str
    space: str
    bytes: int
    block: Index
    warp: int
    iteration: int
    total: int
    array: str
    start: int
    addresses: tuple[int | None, ...]
    elements: tuple[str | None, ...]

    @property
    def offsets(self) -> tuple[int | None, ...]:
        """Bytes from the start of the array."""
        return tuple(None if a is None else a - self.start for a in self.addresses)

    @property
    def sectors(self) -> tuple[tuple[int, ...], ...]:
        """By lane, the numbers of the 32-byte sectors that it touches, from the start of the array; negative ones lie
        before it, out of its bounds or in another. In local memory they are sectors of the warp, where the words of
        its lanes stand side by side.
        """
        row = np.array([0 if offset is None else offset for offset in self.offsets], np.int64)
        if self.space == "local":
            row = interleaved(row, self.bytes)
        by_lane = (row // SECTOR).reshape(WARP, -1)
        return tuple(
            () if address is None else tuple(dict.fromkeys(lane.tolist()))
            for address, lane in zip(self.addresses, by_lane, strict=True)
        )

    @property
    def banks(self) -> tuple[tuple[int, ...], ...]:
        """By lane, the banks of shared memory, 0 to 31, that its words lie in."""
        words = max(1, self.bytes // WORD)
        return tuple(
            () if a is None else tuple((a // WORD + word) % BANKS for word in range(words)) for a in self.addresses
        )

    @property
    def passes(self) -> tuple[tuple[int, ...], ...]:
        """Lanes of shared memory's passes: those whose words are served together, if no two of them want different
        words of one bank.
        """
        return tuple(tuple(lanes) for lanes in passes(self.op, self.bytes, self._row))

    @property
    def count(self) -> int:
        """Sectors of global and local memory, wavefronts of shared memory."""
        return int(count(self.op, self.space, self.bytes, self._row)[0])

    @property
    def ideal(self) -> int:
        """The fewest that could serve the same lanes."""
        return int(fewest(self.op, self.space, self.bytes, self._row)[0])

    @property
    def _row(self) -> np.ndarray:
        return np.array([[NOBODY if a is None else a for a in self.addresses]], np.int64)


def request(
    kernel: RawKernel,
    grid: object,
    block: object,
    args: tuple[object, ...],
    line: int,
    *,
    warp: int = 0,
    of_block: Index = (0, 0, 0),
    iteration: int = 0,
    array: str | None = None,
    op: str | None = None,
    shared_mem: int = 0,
) -> Request:
    """Launch a kernel and return one request that a warp made on a source line.

    `warp` counts within the block `of_block`, (x, y, z); `iteration` counts the warp's requests on that line, from 0.
    Where the line makes several kinds of request, `array` ('A', 'As') or `op` ('ld.global') says which is meant. The
    launch runs to its end and, as in `trace`, hazards do not stop it. Raises ValueError when there is no such request,
    TypeError for numbers that are none, and what a plain launch raises for its own arguments.
    """
    line, warp, iteration = _number(line, "line"), _number(warp, "warp"), _number(iteration, "iteration")
    of_block = _block(of_block)
    for what, name, example in (("array", array, "A"), ("op", op, "ld.global")):
        if not isinstance(name, str | None):
            raise TypeError(f"{what} is {name!r:.80}, but must be a string, such as '{example}'")
    _require_place(limits.extent(grid, "grid"), limits.extent(block, "block"), of_block, warp)
    recorder, hazards = _Recorder(line, of_block, warp), []
    try:
        launch(kernel, grid, block, args, shared_mem, hazards.append, (recorder,))
        stopped = None if recorder.begun else hazards[0]
    except KernelFault as fault:
        stopped = fault.hazard
    except REPORTS as refused:
        raise refused.with_traceback(None) from None
    seen = recorder.requests()
    chosen = [r for r in seen if array in (None, r.array) and op in (None, r.op)]
    kinds = dict.fromkeys((r.op, r.array) for r in chosen)
    if not chosen:
        raise ValueError(_nothing(recorder, array, op, seen, stopped))
    if len(kinds) > 1:
        raise ValueError(f"line {line} makes several kinds of request ({_list(kinds)}): say which with array= or op=")
    if not 0 <= iteration < len(chosen):
        raise ValueError(
            f"iteration is {iteration}, but {recorder.who} makes {_count(len(chosen), 'request')} on line {line}, "
            f"{_list(kinds)}: numbered from 0"
        )
    return chosen[iteration]


def _number(value: object, what: str) -> int:
    """A line, a warp or an iteration; TypeError for what is no int."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} is {value!r:.80}, but must be an int")
    return value.__index__()


def _block(value: object) -> Index:
    if not isinstance(value, tuple | list) or len(value) != 3:
        raise TypeError(f"of_block is {value!r:.80}, but must be the three ints of a block's index, (x, y, z)")
    x, y, z = (_number(each, "an index of of_block") for each in value)
    return x, y, z


def _require_place(grid: Index, block: Index, of_block: Index, warp: int) -> None:
    """Raise ValueError unless a launch has this block and warp."""
    if not all(0 <= number < extent for number, extent in zip(of_block, grid, strict=True)):
        raise ValueError(f"of_block is {of_block}, but the grid has {_shape(grid)} blocks, (x, y, z) numbered from 0")
    warps = -(-prod(block) // WARP)
    if not 0 <= warp < warps:
        raise ValueError(
            f"warp is {warp}, but a block of {_shape(block)} threads has {_count(warps, 'warp')}, numbered from 0"
        )


def _shape(extents: Index) -> str:
    return " x ".join(map(str, extents))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _list(kinds: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{op} of {array}" for op, array in kinds)


def _nothing(
    recorder: _Recorder, array: str | None, op: str | None, seen: list[Request], stopped: Hazard | None
) -> str:
    """Why there is no request to show."""
    line = recorder.line
    who = recorder.who
    if seen:
        wanted = " ".join(filter(None, [op, f"of {array}" if array else None]))
        return f"line {line} makes no request {wanted}; it makes {_list(dict.fromkeys((r.op, r.array) for r in seen))}"
    if stopped is not None:
        return f"{who} made no request on line {line} before the launch was stopped: {stopped.message}"
    if not recorder.lines:
        return f"{who} asks memory for nothing"
    return (
        f"{who} makes no request on line {line}; it makes some on lines {', '.join(map(str, sorted(recorder.lines)))}"
    )


class _Recorder(Observer):
    """Keeps what one warp of one block asks for on one line."""

    def __init__(self, line: int, block: Index, warp: int) -> None:
        self.line, self.block, self.warp = line, block, warp
        self.who = f"warp {warp} of block {block}"
        self.begun = False
        self.lines: set[int] = set()
        self._kept: list[tuple[Site, np.ndarray, Callable[[int], Place]]] = []

    def begin(self, arrays: tuple[Passed, ...]) -> None:
        self.begun = True

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        """Keep the addresses if the request is of this warp and line."""
        batch = frame.batch
        x, y, z = (number - first for number, first in zip(self.block, batch.origin[::-1], strict=True))
        if not all(0 <= n < extent for n, extent in zip((z, y, x), batch.extent, strict=True)):
            return
        lanes = slice(self.warp * WARP, (self.warp + 1) * WARP)
        wanted = np.broadcast_to(address, batch.shape)[z, y, x].reshape(-1)[lanes].astype(np.int64)
        if mask is not None:
            wanted = np.where(np.broadcast_to(mask, batch.shape)[z, y, x].reshape(-1)[lanes], wanted, NOBODY)
        if (wanted < 0).all():
            return
        self.lines.add(site.line)
        if site.line == self.line:
            memory = {"global": frame.memory, "shared": frame.shared, "local": frame.local}[site.space]
            self._kept.append((site, np.pad(wanted, (0, WARP - len(wanted)), constant_values=NOBODY), memory.place))

    def requests(self) -> list[Request]:
        """The requests in order, each numbered among those of its kind."""
        firsts = [place(int(wanted[wanted >= 0][0])) for _, wanted, place in self._kept]
        kinds = [(site.op, site.bytes, first.array) for (site, *_), first in zip(self._kept, firsts, strict=True)]
        numbers: dict[tuple[str, int, str], int] = {}
        result = []
        for (site, wanted, place), first, kind in zip(self._kept, firsts, kinds, strict=True):
            numbers[kind] = numbers.get(kind, -1) + 1
            addresses = [None if a < 0 else int(a) for a in wanted]
            result.append(
                Request(
                    line=site.line,
                    op=site.op,
                    space=site.space,
                    bytes=site.bytes,
                    block=self.block,
                    warp=self.warp,
                    iteration=numbers[kind],
                    total=kinds.count(kind),
                    array=first.array,
                    start=first.address - (first.offset or 0),
                    addresses=tuple(addresses),
                    elements=tuple(None if a is None else place(a).element for a in addresses),
                )
            )
        return result
