"""Which block of threads a tile makes, and which tiles a kernel does not work with: the rules that rungs share."""

import math
from collections.abc import Callable, Mapping

from gemmlab import roofline

QUAD = 4  # floats of a 16-byte access

Extent = tuple[int, int, int]
Tile = Mapping[str, int]


def written(tile: Tile) -> str:
    """Return a tile in words, such as 'BM = 64, BN = 128'."""
    return ", ".join(f"{name} = {value}" for name, value in tile.items())


def shared_bytes(tile: Tile) -> int:
    """Return the bytes of shared memory that a block declares for its BM x BK and BK x BN tiles, A's rows padded."""
    return roofline.shared_bytes(tile["BM"] + tile.get("PAD", 0), tile["BN"], tile["BK"])


def register_tiles(tile: Tile) -> Extent:
    """A block with a thread for every TM x TN of its BM x BN outputs, or for every TM x 1 where there is no TN."""
    for whole, part in (("BM", "TM"), ("BN", "TN")):
        if tile[whole] % tile.get(part, 1):
            raise ValueError(
                f"{whole} = {tile[whole]} is not a multiple of {part} = {tile[part]}, the outputs of a thread along "
                "that side of the block's tile"
            )
    return tile["BN"] // tile.get("TN", 1), tile["BM"] // tile["TM"], 1


def equal_loads(tile: Tile) -> None:
    """Every thread of a register-tile kernel loads as many elements of each tile as the others."""
    threads = math.prod(register_tiles(tile))
    for matrix, side in (("A", "BM"), ("B", "BN")):
        elements = tile[side] * tile["BK"]
        if elements % threads:
            raise ValueError(
                f"{written(tile)} makes a tile of {matrix} of {side} * BK = {elements} elements, not a multiple of "
                f"the block's {threads} threads: each must load as many as the others"
            )


def warp_tiles(tile: Tile) -> Extent:
    """A block, in one line, with a warp for every WM x WN of its outputs and a thread for every TM x TN of those."""
    for whole, part, owner in (
        ("BM", "WM", "warp"),
        ("BN", "WN", "warp"),
        ("WM", "TM", "thread"),
        ("WN", "TN", "thread"),
    ):
        if tile[whole] % tile[part]:
            raise ValueError(
                f"{whole} = {tile[whole]} is not a multiple of {part} = {tile[part]}, the outputs of a "
                f"{owner} along that side"
            )
    lanes = (tile["WM"] // tile["TM"]) * (tile["WN"] // tile["TN"])
    if lanes != 32:
        raise ValueError(f"{written(tile)} cuts a warp's tile into {lanes} tiles of threads, but a warp has 32 lanes")
    if tile["WM"] // tile["TM"] % 2:
        raise ValueError(
            f"WM = {tile['WM']} and TM = {tile['TM']} make {tile['WM'] // tile['TM']} rows of lanes, but lanes stand "
            "in pairs of rows"
        )
    return 32 * (tile["BM"] // tile["WM"]) * (tile["BN"] // tile["WN"]), 1, 1


def vector_loads(block: Callable[[Tile], Extent]) -> Callable[[Tile], None]:
    """The rule of a kernel that moves four floats at a time, and whose threads load whole rows of each tile evenly."""

    def rule(tile: Tile) -> None:
        for name in ("BK", "TM", "TN", "PAD"):
            if tile[name] % QUAD:
                raise ValueError(f"{name} = {tile[name]} is not a multiple of {QUAD}, the floats of a 16-byte access")
        threads = math.prod(block(tile))
        for matrix, rows, row in (("A", "BM", "BK"), ("B", "BK", "BN")):
            quads = tile[row] // QUAD
            if threads % quads:
                raise ValueError(
                    f"{written(tile)} makes {threads} threads, not a multiple of the {quads} that load a row of "
                    f"{matrix}'s tile, {row} = {tile[row]} floats, {QUAD} each: they must load whole rows"
                )
            at_a_time = threads // quads
            if tile[rows] % at_a_time:
                raise ValueError(
                    f"{written(tile)} makes {threads} threads, which load {at_a_time} rows of {matrix}'s "
                    f"tile at a time, but {rows} = {tile[rows]} is not a multiple of that"
                )

    return rule
