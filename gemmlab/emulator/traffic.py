"""An observer that counts memory traffic: 32-byte sectors of global memory, wavefronts of shared memory.

The model is the hardware's as Nsight Compute counts it on an H200; only active lanes count. Global, per warp request:
the distinct 32-byte sectors that the lanes touch. Shared, 4 bytes or fewer a lane: over the 32 banks of 4 bytes, the
most distinct words that lanes want from one bank. Shared, 8 bytes: each half-warp is one such pass; 16 bytes: each
quarter-warp. For loads two neighbouring passes become one when in the whole warp every active pair of lanes i, i^1
(or every pair i, i^2) asks for the same address; stores never merge.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from .instructions import Frame, Site
from .lanes import WARP, Mask
from .machine import Observer

SECTOR = 32
BANKS = 32
BANK_BYTES = 4
_NOWHERE = np.int64(-1)

METRICS = {
    ("global", "ld"): "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    ("global", "st"): "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    ("local", "ld"): "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    ("local", "st"): "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    ("shared", "ld"): "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    ("shared", "st"): "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
}
"""Nsight Compute's name of each counter."""


@dataclass(frozen=True)
class Access:
    """Traffic of one source line and kind of access, summed over the launch.

    `op` is 'ld.global', 'st.shared' and so on, `bytes` the width per lane, `requests` the warp instructions, `lanes`
    their active lanes. `sectors` counts global and local traffic, `wavefronts` shared; the other is None. `ideal` is
    the fewest that could serve the same bytes: every lane's bytes distinct and packed; `metric` is Nsight Compute's name.
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

    @property
    def useful_bytes(self) -> int:
        """Bytes that lanes asked for, counting a byte again for every lane that asks."""
        return self.lanes * self.bytes

    @property
    def moved_bytes(self) -> int | None:
        """Bytes that whole sectors carry; None for shared memory."""
        return None if self.sectors is None else self.sectors * SECTOR


@dataclass
class _Sum:
    requests: int = 0
    lanes: int = 0
    units: int = 0
    ideal: int = 0


def distinct(values: np.ndarray) -> np.ndarray:
    """Distinct non-negative values of each row (last axis); negative ones stand for inactive lanes."""
    ordered = np.sort(values, axis=-1)
    new = np.ones(ordered.shape, bool)
    np.not_equal(ordered[..., 1:], ordered[..., :-1], out=new[..., 1:])
    return (new & (ordered >= 0)).sum(axis=-1)


def sectors(address: np.ndarray, width: int) -> np.ndarray:
    """Sectors of each row of 32 byte addresses; -1 marks an inactive lane. A lane never straddles two sectors, since
    an access is aligned to its width of at most 16 bytes."""
    return distinct(np.where(address < 0, _NOWHERE, address // SECTOR))


def wavefronts(address: np.ndarray, width: int, load: bool) -> np.ndarray:
    """Shared-memory wavefronts of each row of 32 byte addresses; -1 marks an inactive lane."""
    passes = max(1, width // BANK_BYTES)
    group = WARP // passes
    rows = address.reshape(-1, passes, group)
    cost = _busiest_bank(rows, width)
    if load and passes > 1:
        merged = _busiest_bank(rows.reshape(-1, passes // 2, 2 * group), width)
        pairs = _paired(address, 1) | _paired(address, 2)
        return np.where(pairs, merged.sum(axis=1), cost.sum(axis=1))
    return cost.sum(axis=1)


def _paired(address: np.ndarray, step: int) -> np.ndarray:
    """Rows in which lanes i and i ^ step ask for the same address wherever both are active."""
    other = address[:, np.arange(WARP) ^ step]
    return ((address == other) | (address < 0) | (other < 0)).all(axis=1)


def _busiest_bank(address: np.ndarray, width: int) -> np.ndarray:
    """Most distinct words wanted from one bank, over the last axis."""
    words = max(1, width // BANK_BYTES)
    first = np.where(address < 0, _NOWHERE, address // BANK_BYTES)
    word = np.where(first[..., None] < 0, _NOWHERE, first[..., None] + np.arange(words)).reshape(*address.shape[:-1], -1)
    ordered = np.sort(word, axis=-1)
    new = np.ones(ordered.shape, bool)
    np.not_equal(ordered[..., 1:], ordered[..., :-1], out=new[..., 1:])
    new &= ordered >= 0
    flat = new.reshape(-1, new.shape[-1])
    bank = (ordered % BANKS).reshape(flat.shape) + BANKS * np.arange(flat.shape[0])[:, None]
    counts = np.bincount(bank[flat], minlength=BANKS * flat.shape[0])
    return counts.reshape(*address.shape[:-1], BANKS).max(axis=-1)


class Traffic(Observer):
    """Sums requests, sectors and wavefronts by source line and kind of access."""

    def __init__(self) -> None:
        self._sums: dict[Site, _Sum] = defaultdict(_Sum)
        self._known: dict[tuple[Site, tuple[int, ...], int, int], tuple[int, int, int, int]] = {}

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        batch = frame.batch
        shape = np.broadcast_shapes(address.shape, (1,) * 6 if mask is None else mask.shape)
        rows = batch.by_thread(np.broadcast_to(address, shape)).astype(np.int64)
        active = None if mask is None else batch.by_thread(np.broadcast_to(mask, shape))
        repeats = batch.blocks // rows.shape[0]
        # the count depends on addresses only up to a multiple of what a whole set of banks, or four sectors, spans
        rows = rows - (rows[:, :1] & ~np.int64(127))
        key = (site, rows.shape, hash(rows.tobytes()), hash(None if active is None else active.tobytes()))
        found = self._known.get(key)
        if found is None:
            found = self._count(site, rows, active)
            if len(self._known) > 4096:
                self._known.clear()
            self._known[key] = found
        total = self._sums[site]
        total.requests += found[0] * repeats
        total.lanes += found[1] * repeats
        total.units += found[2] * repeats
        total.ideal += found[3] * repeats

    def _count(self, site: Site, rows: np.ndarray, active: np.ndarray | None) -> tuple[int, int, int, int]:
        """(requests, active lanes, sectors or wavefronts, ideal) of one request by every warp in `rows`."""
        threads = rows.shape[1]
        warps = -(-threads // WARP)
        lanes = np.full((rows.shape[0], warps * WARP), False)
        lanes[:, :threads] = True if active is None else active
        address = np.zeros((rows.shape[0], warps * WARP), np.int64)
        address[:, :threads] = rows - min(int(rows.min()), 0) // 128 * 128
        lanes, address = lanes.reshape(-1, WARP), address.reshape(-1, WARP)
        used = lanes.any(axis=1)
        lanes, address = lanes[used], address[used]
        address = np.where(lanes, address, _NOWHERE)
        counts = lanes.sum(axis=1)
        if site.space == "shared":
            units = wavefronts(address, site.bytes, site.op.startswith("ld"))
            span = BANKS * BANK_BYTES
        else:
            units, span = sectors(address, site.bytes), SECTOR
        ideal = -(-distinct(address) * site.bytes // span)
        return int(used.sum()), int(counts.sum()), int(units.sum()), int(ideal.sum())

    def rows(self) -> tuple[Access, ...]:
        """One Access a line and kind of access, in order of line."""
        result = []
        for site, total in sorted(self._sums.items(), key=lambda item: (item[0].line, item[0].op, item[0].bytes)):
            shared = site.space == "shared"
            result.append(
                Access(
                    site.line,
                    site.op,
                    site.bytes,
                    total.requests,
                    total.lanes,
                    None if shared else total.units,
                    total.units if shared else None,
                    total.ideal,
                    METRICS.get((site.space, site.op.split(".")[0]), ""),
                )
            )
        return tuple(result)
