"""What one request of a warp costs: 32-byte sectors of global and local memory, wavefronts of shared memory.

A request is a row of 32 byte addresses, one a lane, -1 where the lane takes no part. The rules are those of the
hardware as Nsight Compute counted it on an H200 (tests/data/memory_patterns*.json):

- global: the distinct sectors that the lanes touch;
- local: 4-byte words of one offset stand side by side, a lane each (CUDA C++ Programming Guide, "Local Memory"), so a
  lane's word w is word 32 w + lane of the warp; then as global;
- shared, up to 4 bytes a lane: over the 32 banks of 4 bytes, the most distinct words that lanes want from one bank;
- shared, 8 bytes: each half-warp is one such pass; 16 bytes: each quarter-warp. Loads make one pass of two neighbouring
  ones where in the whole warp every pair of active lanes i, i^1 (or every pair i, i^2) asks for one address;
- ldmatrix and stmatrix: each 8 row addresses are a pass of 16-byte rows;
- cp.async into shared memory: 4 and 8 bytes a lane as a store; 16 bytes (.cg) one wavefront for each quarter-warp,
  whatever the addresses;
- atomics: lanes that update one address take turns. Global: a sector counts once for each turn that it sees. Shared:
  over the banks, the most lanes that want one bank. (32-bit integers: wider ones and compare-and-swap loops in shared
  memory cost more, as the machine code tries them again.)
"""

from __future__ import annotations

import numpy as np

from gemmlab.gpus import SECTOR_BYTES as SECTOR

from .lanes import WARP

BANKS = 32
WORD = 4
WAVEFRONT = BANKS * WORD
"""Bytes that a wavefront can carry: a word from every bank."""

NOBODY = np.int64(-1)


def is_atomic(op: str) -> bool:
    """Whether lanes that name one address take turns."""
    return op.startswith(("atom", "red"))


def count(op: str, space: str, width: int, address: np.ndarray) -> np.ndarray:
    """Sectors (global and local memory) or wavefronts (shared) of each request: `address` is (requests, 32), `width`
    the bytes a lane moves, `op` 'ld.global', 'st.shared', 'ldmatrix.x4' and so on.
    """
    if space == "local":
        return sectors(interleaved(address, width))
    if space == "global":
        return _turns(address) if is_atomic(op) else sectors(address)
    if op == "cp.async.shared" and width == 16:
        return (_passes(address, width) >= 0).any(axis=2).sum(axis=1)
    if is_atomic(op):
        return _most_lanes(_passes(address, width), width).sum(axis=1)
    return wavefronts(address, width, op.startswith("ld."))


def fewest(op: str, space: str, width: int, address: np.ndarray) -> np.ndarray:
    """The fewest sectors or wavefronts that could serve the same lanes: what they ask for, each distinct address once,
    packed; in shared memory also a pass for every group of lanes that the width splits the warp into.
    """
    if space == "local":
        return sectors(interleaved(np.where(address < 0, NOBODY, 0), width))
    packed = -(-distinct(address) * width // (WAVEFRONT if space == "shared" else SECTOR))
    if space != "shared":
        return packed
    passes = _passes(address, width)
    if op.startswith("ld.") and passes.shape[1] > 1:
        passes = passes.reshape(len(passes), -1, 2 * passes.shape[2])
    return np.maximum(packed, (passes >= 0).any(axis=2).sum(axis=1))


def sectors(address: np.ndarray) -> np.ndarray:
    """Distinct sectors of each row of byte addresses. A lane never straddles two: an access is aligned to its width of
    at most 16 bytes.
    """
    return distinct(np.where(address < 0, NOBODY, address // SECTOR))


def interleaved(offset: np.ndarray, width: int) -> np.ndarray:
    """Byte offsets into each thread's local memory as addresses in the warp's, one column a lane and word."""
    lane = np.arange(WARP)[:, None]
    words = np.arange(max(1, width // WORD))
    placed = (offset[..., None] // WORD + words) * (WARP * WORD) + lane * WORD
    return np.where(offset[..., None] < 0, NOBODY, placed).reshape(*offset.shape[:-1], -1)


def wavefronts(address: np.ndarray, width: int, load: bool) -> np.ndarray:
    """Shared-memory wavefronts of each row."""
    rows = _passes(address, width)
    cost = _busiest_bank(rows, width)
    if load and rows.shape[1] > 1:
        merged = _busiest_bank(rows.reshape(len(rows), -1, 2 * rows.shape[2]), width)
        pairs = _paired(address, 1) | _paired(address, 2)
        return np.where(pairs, merged.sum(axis=1), cost.sum(axis=1))
    return cost.sum(axis=1)


def passes(op: str, width: int, address: np.ndarray) -> list[list[int]]:
    """The active lanes of one shared-memory request, (1, 32), in the groups that are served together."""
    groups = np.arange(WARP).reshape(max(1, width // WORD), -1)
    if op.startswith("ld.") and len(groups) > 1 and (_paired(address, 1) | _paired(address, 2))[0]:
        groups = groups.reshape(len(groups) // 2, -1)
    active = [[int(lane) for lane in group if address[0, lane] >= 0] for group in groups]
    return [lanes for lanes in active if lanes]


def distinct(values: np.ndarray) -> np.ndarray:
    """Distinct non-negative values of each row (last axis)."""
    return _first_of_its_kind(np.sort(values, axis=-1)).sum(axis=-1)


def _first_of_its_kind(ordered: np.ndarray) -> np.ndarray:
    """Where a sorted row comes to a new value; negative values stand for nobody."""
    new = ordered >= 0
    new[..., 1:] &= ordered[..., 1:] != ordered[..., :-1]
    return new


def _passes(address: np.ndarray, width: int) -> np.ndarray:
    """Rows cut into the groups of lanes that are served together: (requests, passes, lanes)."""
    passes = max(1, width // WORD)
    return address.reshape(len(address), passes, WARP // passes)


def _paired(address: np.ndarray, step: int) -> np.ndarray:
    """Rows in which lanes i and i ^ step ask for the same address wherever both are active."""
    other = address[:, np.arange(WARP) ^ step]
    return ((address == other) | (address < 0) | (other < 0)).all(axis=1)


def _busiest_bank(address: np.ndarray, width: int) -> np.ndarray:
    """Most distinct words wanted from one bank, over the last axis."""
    ordered = np.sort(_words(address, width), axis=-1)
    return _fullest(ordered, _first_of_its_kind(ordered)).reshape(address.shape[:-1])


def _most_lanes(address: np.ndarray, width: int) -> np.ndarray:
    """Most lanes that want one bank, over the last axis."""
    words = _words(address, width)
    return _fullest(words, words >= 0).reshape(address.shape[:-1])


def _words(address: np.ndarray, width: int) -> np.ndarray:
    """Numbers of the words that lanes want, the axes before the last made one."""
    step = np.arange(max(1, width // WORD))
    word = np.where(address[..., None] < 0, NOBODY, address[..., None] // WORD + step)
    return word.reshape(-1, address.shape[-1] * step.size)


def _fullest(words: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """The most words of each row, among those counted, that lie in one bank."""
    bank = words % BANKS + BANKS * np.arange(len(words))[:, None]
    return np.bincount(bank[counted], minlength=BANKS * len(words)).reshape(-1, BANKS).max(axis=1)


def _turns(address: np.ndarray) -> np.ndarray:
    """Sectors of each row's atomics: over the sectors, the most lanes that share one address."""
    sharing = (address[:, :, None] == address[:, None, :]).sum(axis=2)
    # sorted by sector, and within one by turns, most first: the first entry of a sector holds its count
    key = np.where(address < 0, NOBODY, address // SECTOR * (2 * WARP) + (WARP - sharing))
    ordered = np.sort(key, axis=1)
    first = _first_of_its_kind(ordered // (2 * WARP))
    return np.where(first, WARP - ordered % (2 * WARP), 0).sum(axis=1)
