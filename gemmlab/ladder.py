"""The rungs of the ladder: for each its source, entry, tile parameters, launch geometry and what it asks of the GPU."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from gemmlab import roofline, tile_rules
from gemmlab.gemm import Gemm, require_operands
from gemmlab.gpus import architecture
from gemmlab.quoting import shown
from gemmlab.tile_rules import Extent, Tile, written

LARGEST_INT = 2**31 - 1  # kernels compute in 32 bits
PACKAGE = Path(__file__).parent
# An installed package carries the kernels inside itself; a checkout keeps them beside it.
KERNEL_FOLDERS = (PACKAGE / "kernels", PACKAGE.parent / "kernels")


class Geometry(NamedTuple):
    """A launch: blocks in the grid, threads in a block, both (x, y, z), and bytes of dynamic shared memory."""

    grid: Extent
    block: Extent
    shared_mem: int


@dataclass(frozen=True)
class Rung:
    """One kernel of the ladder, and how to launch it.

    `tile` holds the macros that size its tiles, with their defaults; `requires` is the oldest architecture that runs
    it; `block` and `grid` are its launch geometry, and `shared_bytes` the shared memory that its block declares, from a
    full tile; `rule` raises ValueError for a full tile that the kernel does not work with.
    """

    number: int
    name: str
    idea: str
    entry: str
    tile: Tile = field(hash=False)  # a mapping has no hash; equality still compares it
    block: Callable[[Tile], Extent]
    grid: Callable[[Gemm, Tile], Extent]
    requires: str = "sm_75"
    rule: Callable[[Tile], None] = lambda tile: None
    shared_bytes: Callable[[Tile], int] = lambda tile: 0

    @property
    def source_file(self) -> str:
        """The name of the kernel's file, which the rung's notebook shares."""
        return f"{self.number:02d}_{self.name}.cu"

    def source(self) -> str:
        """Return the CUDA C++ source. Raises FileNotFoundError that names the places where it was looked for."""
        for folder in KERNEL_FOLDERS:
            path = folder / self.source_file
            if path.is_file():
                return path.read_text(encoding="utf-8")
        raise FileNotFoundError(
            f"{self.source_file} is in none of {', '.join(map(str, KERNEL_FOLDERS))}: install gemmlab again"
        )

    def full_tile(self, tile: Tile | None = None) -> dict[str, int]:
        """Return every tile parameter: those given, and this rung's defaults for the rest.

        Raises ValueError, with the rule and both numbers, for an unknown or non-positive parameter, a block that no
        GPU launches, a tile that breaks this rung's own rule, or more shared memory than a kernel may declare.
        """
        given = dict(tile or {})
        for name, value in given.items():
            if name not in self.tile:
                raise ValueError(
                    f"rung {self.number} ({self.name}) has no tile parameter {shown(name)}; it has "
                    f"{', '.join(self.tile)}"
                )
            if not isinstance(value, int | np.integer) or value < 1:
                raise ValueError(f"{name} is {shown(value)}, but must be an integer of at least 1")
            if value > LARGEST_INT:
                raise ValueError(
                    f"{name} is {shown(value)}, but a 32-bit int ends at {LARGEST_INT}: choose a smaller one"
                )
        full = {name: int(given.get(name, default)) for name, default in self.tile.items()}
        self._check_block(full)
        self.rule(full)
        self._check_shared_memory(full)
        return full

    def options(self, tile: Tile | None = None) -> tuple[str, ...]:
        """Return the compiler options that set the tile, such as ('-DBX=32', '-DBY=32'). Raises as full_tile does."""
        return tuple(f"-D{name}={value}" for name, value in self.full_tile(tile).items())

    def geometry(self, problem: Gemm, tile: Tile | None = None) -> Geometry:
        """Return the launch that covers every output of `problem`.

        Raises ValueError as full_tile does, and for a grid larger than a GPU takes.
        """
        full = self.full_tile(tile)
        grid = self.grid(problem, full)
        for axis, blocks, most in zip("xyz", grid, architecture(self.requires).max_grid, strict=True):
            if blocks > most:
                raise ValueError(
                    f"{written(full)} makes a grid of {blocks} blocks along {axis}, but a GPU takes at "
                    f"most {most}: choose a larger tile or a smaller C than {problem.M} x {problem.N}"
                )
        return Geometry(grid, self.block(full), shared_mem=0)

    def runs_on(self, arch: str) -> bool:
        """Say whether an architecture such as 'sm_90' is at least the one that this rung requires."""
        return _generation(arch) >= _generation(self.requires)

    def _check_block(self, tile: Tile) -> None:
        limits = architecture(self.requires)
        block = self.block(tile)
        for axis, threads, most in zip("xyz", block, limits.max_block, strict=True):
            if threads > most:
                raise ValueError(
                    f"{written(tile)} makes a block of {threads} threads along {axis}, but a GPU takes at most {most}: "
                    "choose a tile of fewer threads"
                )
        threads = math.prod(block)
        if threads > limits.max_threads_per_block:
            raise ValueError(
                f"{written(tile)} makes a block of {threads} threads, but a GPU takes at most "
                f"{limits.max_threads_per_block}: choose a tile of fewer threads"
            )

    def _check_shared_memory(self, tile: Tile) -> None:
        declared, most = self.shared_bytes(tile), architecture(self.requires).shared_bytes_per_block
        if declared > most:
            raise ValueError(
                f"{written(tile)} makes tiles of {declared} bytes of shared memory, but a kernel may declare at most "
                f"{most} for a block: choose a smaller tile"
            )


def arguments(problem: Gemm, A: Any, B: Any, C: Any) -> tuple[Any, ...]:
    """Return a launch's arguments in the order that all rungs share, (M, N, K, alpha, A, B, beta, C).

    A, B and C are device arrays. The factors are float32 scalars, because a Python float reaches a kernel's `float`
    parameter as the first half of a double, which for most values reads as 0.0. Raises TypeError or ValueError as
    `gemm.require_operands` does.
    """
    require_operands(problem, A, B, C)
    M, N, K = np.int32(problem.M), np.int32(problem.N), np.int32(problem.K)
    return M, N, K, np.float32(problem.alpha), A, B, np.float32(problem.beta), C


def rung(which: int | str) -> Rung:
    """Return a rung by number or by name. Raises ValueError that lists the known rungs."""
    for candidate in RUNGS:
        if which in (candidate.number, str(candidate.number), candidate.name):
            return candidate
    known = ", ".join(f"{candidate.number} ({candidate.name})" for candidate in RUNGS)
    raise ValueError(f"there is no rung {shown(which)}; known: {known}")


def rungs(selection: str) -> tuple[Rung, ...]:
    """Return the rungs of a selection such as '0-1' or '0,coalesced', in the order given.

    Raises ValueError for an unknown rung, an empty part, or a range that runs backwards.
    """
    return tuple(chosen for part in selection.split(",") for chosen in _range(part.strip(), selection))


def _range(part: str, selection: str) -> tuple[Rung, ...]:
    if not part:
        raise ValueError(f"{shown(selection)} selects no rung before or after a comma: write, say, 0-1 or 0,1")
    first, dash, last = part.partition("-")
    if dash and not (first and last):
        raise ValueError(f"{shown(part)} is no range: write both ends, such as 0-1")
    low = rung(first)
    high = rung(last) if dash else low
    if low.number > high.number:
        raise ValueError(f"{shown(part)} runs backwards: write {high.number}-{low.number}")
    return tuple(known for known in RUNGS if low.number <= known.number <= high.number)


def _generation(arch: str) -> int:
    # A card newer than any in gpus.py runs the rungs too, so the number is read from the name.
    number = re.fullmatch(r"sm_(\d+)[a-z]?", arch)
    if not number:
        raise ValueError(f"{shown(arch)} is no architecture: write it as 'sm_90'")
    return int(number[1])


def _blocks(outputs: int, tile: int) -> int:
    blocks = -(-outputs // tile)
    if blocks * tile > LARGEST_INT + 1:
        raise ValueError(
            f"{blocks} blocks of {tile} cover {blocks * tile} rows or columns, but a 32-bit int ends at "
            f"{LARGEST_INT}: choose a tile that is a power of two"
        )
    return blocks


RUNGS: tuple[Rung, ...] = (
    Rung(
        number=0,
        name="naive",
        idea="one thread computes one output; the lanes of a warp stand in 32 rows",
        entry="gemm_naive",
        tile=MappingProxyType({"BX": 32, "BY": 4}),
        block=lambda tile: (tile["BX"], tile["BY"], 1),
        grid=lambda problem, tile: (_blocks(problem.M, tile["BX"]), _blocks(problem.N, tile["BY"]), 1),
    ),
    Rung(
        number=1,
        name="coalesced",
        idea="the lanes of a warp stand in 32 columns, so that what they read of B and write to C lies side by side",
        entry="gemm_coalesced",
        tile=MappingProxyType({"BX": 32, "BY": 16}),
        block=lambda tile: (tile["BX"], tile["BY"], 1),
        grid=lambda problem, tile: (_blocks(problem.M, tile["BY"]), _blocks(problem.N, tile["BX"]), 1),
    ),
    Rung(
        number=2,
        name="shared_tiles",
        idea="a block keeps a tile of C, and its threads share each tile of A and B that they load",
        entry="gemm_shared_tiles",
        tile=MappingProxyType({"TILE": 32}),
        block=lambda tile: (tile["TILE"], tile["TILE"], 1),
        grid=lambda problem, tile: (_blocks(problem.N, tile["TILE"]), _blocks(problem.M, tile["TILE"]), 1),
        shared_bytes=lambda tile: roofline.shared_bytes(tile["TILE"], tile["TILE"], tile["TILE"]),
    ),
    Rung(
        number=3,
        name="register_tiles_1d",
        idea="a thread computes a column of TM outputs in registers, for which it reads each value of B once",
        entry="gemm_register_tiles_1d",
        tile=MappingProxyType({"BM": 64, "BN": 64, "BK": 8, "TM": 8}),
        block=tile_rules.register_tiles,
        grid=lambda problem, tile: (_blocks(problem.N, tile["BN"]), _blocks(problem.M, tile["BM"]), 1),
        rule=tile_rules.equal_loads,
        shared_bytes=tile_rules.shared_bytes,
    ),
    Rung(
        number=4,
        name="register_tiles_2d",
        idea="a thread computes TM x TN outputs in registers, an outer product of TM values of A and TN of B",
        entry="gemm_register_tiles_2d",
        tile=MappingProxyType({"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}),
        block=tile_rules.register_tiles,
        grid=lambda problem, tile: (_blocks(problem.N, tile["BN"]), _blocks(problem.M, tile["BM"]), 1),
        rule=tile_rules.equal_loads,
        shared_bytes=tile_rules.shared_bytes,
    ),
    Rung(
        number=5,
        name="vectorized",
        idea="four floats travel in one access, and A's tile lies transposed so that a thread's values are neighbours",
        entry="gemm_vectorized",
        tile=MappingProxyType({"BM": 64, "BN": 128, "BK": 16, "TM": 8, "TN": 8, "PAD": 4}),
        block=tile_rules.register_tiles,
        grid=lambda problem, tile: (_blocks(problem.N, tile["BN"]), _blocks(problem.M, tile["BM"]), 1),
        rule=tile_rules.vector_loads(tile_rules.register_tiles),
        shared_bytes=tile_rules.shared_bytes,
    ),
    Rung(
        number=6,
        name="warp_tiles",
        idea="a warp owns a tile of the block's tile, near a square, so that it reads fewer different values",
        entry="gemm_warp_tiles",
        tile=MappingProxyType({"BM": 64, "BN": 128, "BK": 16, "WM": 32, "WN": 64, "TM": 8, "TN": 8, "PAD": 4}),
        block=tile_rules.warp_tiles,
        grid=lambda problem, tile: (_blocks(problem.N, tile["BN"]), _blocks(problem.M, tile["BM"]), 1),
        rule=tile_rules.vector_loads(tile_rules.warp_tiles),
        shared_bytes=tile_rules.shared_bytes,
    ),
)
