"""Lanes as a lattice: every value is an array of six axes (grid z, y, x, block z, y, x), each of full extent or 1.

A register that depends only on threadIdx.x is stored with extent 1 on the five other axes, a loop counter with extent
1 on all six. NumPy's broadcasting then does for the emulator what uniform registers do for the hardware: nothing is
computed more often than it differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

RANK = 6
WARP = 32
Mask = np.ndarray | None
"""Active lanes as a boolean lattice; None stands for all."""

# glibc gives freed memory back past a threshold, and getting it again for the next value can cost more than computing
# that value does. Freeing one large block raises the threshold (mallopt(3), M_MMAP_THRESHOLD).
np.empty(1 << 24, np.uint8)


def uniform(value: object, dtype: np.dtype | type) -> np.ndarray:
    """A value that is the same on every lane."""
    return np.full((1,) * RANK, value, dtype)


def select(mask: Mask, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """`new` on active lanes, `old` on the others (same itemsize; the bits are kept whatever the type)."""
    if mask is None:
        return new
    return np.where(mask, new, old if old.dtype == new.dtype else old.view(new.dtype))


def both(a: Mask, b: Mask) -> Mask:
    """Lanes active in a and in b."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


@dataclass(frozen=True)
class Batch:
    """A box of blocks that run together: `origin` and `extent` in blocks, all triples in (z, y, x) order."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    origin: tuple[int, int, int]
    extent: tuple[int, int, int]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return self.extent + self.block

    @property
    def blocks(self) -> int:
        return prod(self.extent)

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return prod(self.block)

    def index(self, axis: int) -> np.ndarray:
        """The blockIdx (axes 0 to 2) or threadIdx (axes 3 to 5) as u32, varying along its own axis only."""
        shape = [1] * RANK
        shape[axis] = self.shape[axis]
        start = self.origin[axis] if axis < 3 else 0
        return np.arange(start, start + self.shape[axis], dtype=np.uint32).reshape(shape)

    @cached_property
    def linear_thread(self) -> np.ndarray:
        """Thread number within its block, x fastest, as a u32 lattice (CUDA C++ Programming Guide, 'Thread
        Hierarchy'); 32 consecutive numbers are a warp.
        """
        z, y, x = self.index(3), self.index(4), self.index(5)
        return (z * np.uint32(self.block[1]) + y) * np.uint32(self.block[2]) + x

    def by_thread(self, value: np.ndarray) -> np.ndarray:
        """Lattice as (block rows, threads): thread axes in full, grid axes only as far as the value varies over them.
        Each row stands for `blocks / rows` blocks.
        """
        grid = value.shape[:3]
        return np.broadcast_to(value, grid + self.block).reshape(prod(grid), self.threads)

    def flat(self, value: np.ndarray) -> np.ndarray:
        """Lattice as (blocks, threads), both in full."""
        return np.broadcast_to(value, self.shape).reshape(self.blocks, self.threads)

    def active(self, mask: Mask) -> np.ndarray:
        """Mask as (blocks, threads) booleans."""
        return np.ones((self.blocks, self.threads), bool) if mask is None else self.flat(mask)

    def block_index(self, row: int) -> tuple[int, int, int]:
        """(x, y, z) of the block in a row of `flat`."""
        z, y, x = np.unravel_index(row, self.extent)
        return (int(x) + self.origin[2], int(y) + self.origin[1], int(z) + self.origin[0])

    def thread_index(self, thread: int) -> tuple[int, int, int]:
        """(x, y, z) of a thread by its number within the block."""
        z, y, x = np.unravel_index(thread, self.block)
        return (int(x), int(y), int(z))


def warps_of(lanes: np.ndarray) -> np.ndarray:
    """Which warps have a lane here: (rows, threads) as (rows, warps)."""
    return np.logical_or.reduceat(lanes, np.arange(0, lanes.shape[1], WARP), axis=1)


def batches(grid: tuple[int, int, int], block: tuple[int, int, int], lanes: int) -> Iterator[Batch]:
    """Cut a grid, (z, y, x), into boxes of at most `lanes` lanes each (one block at least), in launch order. A grid may
    have 2^63 blocks, so each box is made when it is asked for.
    """
    room = max(1, lanes // prod(block))
    x = min(grid[2], room)
    y = min(grid[1], max(1, room // grid[2])) if x == grid[2] else 1
    z = min(grid[0], max(1, room // (grid[2] * grid[1]))) if y == grid[1] and x == grid[2] else 1
    return (
        Batch(grid, block, (oz, oy, ox), (min(z, grid[0] - oz), min(y, grid[1] - oy), min(x, grid[2] - ox)))
        for oz in range(0, grid[0], z)
        for oy in range(0, grid[1], y)
        for ox in range(0, grid[2], x)
    )
