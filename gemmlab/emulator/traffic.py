"""An observer that counts memory traffic by source line: requests, sectors of 32 bytes, shared-memory wavefronts.

What a request costs stands in `wavefronts.py`. PTX is not the machine code: ptxas may merge four adjacent 4-byte shared
loads into one of 16 bytes, and keeps in registers or spills to local memory what PTX does not show.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from .instructions import Frame, Site
from .lanes import WARP, Batch, Mask
from .observer import Observer
from .wavefronts import NOBODY, SECTOR, WAVEFRONT, count, fewest

_REMEMBERED = 4096

_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_{}_op_{}.sum"
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_{}_op_{}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_OWN_WAVEFRONTS = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_INSTRUCTIONS = "smsp__inst_executed_op_{}.sum"


def metrics(op: str, space: str) -> tuple[str, str]:
    """Nsight Compute's names, on an H200, of the requests ('': it has none) and of the sectors or wavefronts.

    Its counter of global loads takes in cp.async, and those of shared loads and stores take in ldmatrix and stmatrix.
    """
    kind = op.split(".")[0]
    if kind == "cp":
        return _INSTRUCTIONS.format("ldgsts"), (
            _OWN_WAVEFRONTS.format("ldgsts") if space == "shared" else _SECTORS.format("global", "ld")
        )
    if space != "shared":
        return _REQUESTS.format(space, kind), _SECTORS.format(space, kind)
    if kind == "ldmatrix":
        return _INSTRUCTIONS.format("ldsm"), _OWN_WAVEFRONTS.format("ldsm")
    if kind == "stmatrix":
        return "", _OWN_WAVEFRONTS.format("stsm")
    kind = "atom" if kind == "red" else kind
    return _INSTRUCTIONS.format(f"shared_{kind}"), _WAVEFRONTS.format(kind)


@dataclass(frozen=True)
class Access:
    """Traffic of one source line and kind of access, summed over the launch.

    `op` is 'ld.global', 'st.shared', 'ldmatrix.x4' and so on, `bytes` the width per lane, `requests` the warp
    instructions, `lanes` their active lanes. `sectors` counts global and local traffic, `wavefronts` shared; the other
    is None. `ideal` is the fewest that could serve the same lanes: every distinct address once, and packed. `metric`
    and `request_metric` are Nsight Compute's names of the two counters.
    """

    line: int
    op: str
    bytes: int
    requests: int
    lanes: int
    sectors: int | None
    wavefronts: int | None
    ideal: int
    metric: str
    request_metric: str
    space: str

    @property
    def units(self) -> int:
        """Sectors or wavefronts, whichever this access is counted in."""
        return self.wavefronts if self.sectors is None else self.sectors

    @property
    def useful_bytes(self) -> int:
        """Bytes that lanes asked for, counting a byte again for every lane that asks."""
        return self.lanes * self.bytes

    @property
    def moved_bytes(self) -> int:
        """Bytes that whole sectors carry, or that whole wavefronts could."""
        return self.units * (WAVEFRONT if self.sectors is None else SECTOR)


@dataclass(frozen=True)
class Total:
    """All traffic of one memory: `space` is 'global', 'shared' or 'local', `units` sectors or (shared) wavefronts."""

    space: str
    requests: int
    units: int
    ideal: int
    useful_bytes: int
    moved_bytes: int


def total(accesses: tuple[Access, ...], space: str) -> Total:
    """The Total of one memory; zeros for one that was not used."""
    fields = ("requests", "units", "ideal", "useful_bytes", "moved_bytes")
    return Total(space, *(sum(getattr(a, name) for a in accesses if a.space == space) for name in fields))


def totals(accesses: tuple[Access, ...]) -> tuple[Total, ...]:
    """One Total a memory that was used, in the order global, shared, local."""
    return tuple(
        total(accesses, space) for space in ("global", "shared", "local") if any(a.space == space for a in accesses)
    )


@dataclass
class _Sum:
    requests: int = 0
    lanes: int = 0
    units: int = 0
    ideal: int = 0


def requests_of(batch: Batch, address: np.ndarray) -> np.ndarray:
    """A lattice of addresses (-1: inactive) as requests (warps, 32). The grid axes reach only as far as the addresses
    vary; the lanes that a last, partial warp lacks are inactive.
    """
    rows = batch.by_thread(address)
    missing = -rows.shape[1] % WARP
    if missing:
        rows = np.pad(rows, ((0, 0), (0, missing)), constant_values=NOBODY)
    return rows.reshape(-1, WARP)


class Traffic(Observer):
    """Sums requests, sectors and wavefronts by source line and kind of access."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, str, int, str], _Sum] = defaultdict(_Sum)
        self._known: dict[tuple[object, ...], tuple[int, int, int, int]] = {}

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        batch = frame.batch
        # a count depends on addresses only up to a multiple of what the banks, or four sectors, span
        if mask is None:
            placed = (address - (address.min() & ~np.uint64(WAVEFRONT - 1))).view(np.int64)
        else:
            lowest = np.where(mask, address, ~np.uint64(0)).min()
            placed = np.where(mask, (address - (lowest & ~np.uint64(WAVEFRONT - 1))).view(np.int64), NOBODY)
        key = (site.op, site.bytes, batch.block, placed.shape, hash(placed.tobytes()))
        found = self._known.get(key)
        if found is None:
            found = _count(site, requests_of(batch, placed))
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = found
        repeats = batch.blocks // (placed.shape[0] * placed.shape[1] * placed.shape[2])
        total = self._sums[site.line, site.op, site.bytes, site.space]
        total.requests += found[0] * repeats
        total.lanes += found[1] * repeats
        total.units += found[2] * repeats
        total.ideal += found[3] * repeats

    def rows(self) -> tuple[Access, ...]:
        """One Access a line and kind of access, in order of line."""
        return tuple(_access(*key, total) for key, total in sorted(self._sums.items()))


def _count(site: Site, requests: np.ndarray) -> tuple[int, int, int, int]:
    """(requests, active lanes, sectors or wavefronts, ideal) over all warps that have an active lane."""
    active = requests >= 0
    requests = requests[active.any(axis=1)]
    units = count(site.op, site.space, site.bytes, requests)
    ideal = fewest(site.op, site.space, site.bytes, requests)
    return len(requests), int(active.sum()), int(units.sum()), int(ideal.sum())


def _access(line: int, op: str, width: int, space: str, total: _Sum) -> Access:
    shared = space == "shared"
    asked, moved = metrics(op, space)
    return Access(
        line=line,
        op=op,
        bytes=width,
        requests=total.requests,
        lanes=total.lanes,
        sectors=None if shared else total.units,
        wavefronts=total.units if shared else None,
        ideal=total.ideal,
        metric=moved,
        request_metric=asked,
        space=space,
    )
