"""Sweeps over tile parameters, shipped as data: which tiles of which rungs were timed on a card, and how fast each was.

A file is {"environment": {...}, "sweeps": [...]}, with every field of the schema below and no other. A sweep timed one
text of each kernel in one run, so only rows of the same sweep are held against each other: another text, or another
run, differs by more than its tile. `kernels` says in words which text that was, and `settings` holds its macros that
are no tile parameters.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gemmlab import schema
from gemmlab.ladder import Rung, Tile
from gemmlab.schema import Nullable

FOLDER = Path(__file__).parent / "data" / "sweeps"
# Rungs 3 to 6 at 2048 and 4096, in a sweep and in a climb of one day on an H200, differed by 0.1% to 0.6%.
NOISE = 0.02

ENVIRONMENT = {
    "card": str,  # as the driver names it
    "architecture": str,
    "date": str,
    "driver": str,
    "cuda": str,
    "cupy": str,
    "nvrtc": str,
}
TIMED = {
    "size": int,  # N of a product of N x N matrices
    "tflops": float,  # of the median time
    "min": Nullable(float),
    "max": Nullable(float),
}
ROW = {
    "rung": str,
    "tile": dict,
    "settings": dict,
    "registers": int,
    "local_bytes": int,  # of a thread: spills, and arrays that found no registers
    "timed": [TIMED],
}
SWEEP = {
    "kernels": str,
    "conditions": str,
    "clocks": Nullable([str]),  # with temperature and power, while the sweep ran
    "cublas": [{"size": int, "tflops": [float]}],  # medians, spread over the run
    "rows": [ROW],
}
FILE = {"environment": ENVIRONMENT, "sweeps": [SWEEP]}

Row = Mapping[str, Any]


def load(path: str | Path) -> Mapping[str, Any]:
    """Read a file of sweeps. Raises ValueError that names the file and the field at fault."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        schema.check(data, FILE)
        schema.check_date(data["environment"]["date"], "environment.date")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no file of sweeps: {error}") from None
    return data


def shipped(name: str) -> Mapping[str, Any]:
    """Return a file that comes with gemmlab, by its name. Raises FileNotFoundError, and as `load` does."""
    return load(FOLDER / name)


def speed(row: Row, size: int) -> float | None:
    """Return the TFLOP/s of a row at a size, or None where it was not timed there."""
    return next((timed["tflops"] for timed in row["timed"] if timed["size"] == size), None)


def timed_with(data: Mapping[str, Any], rung: Rung, tile: Tile, size: int) -> Iterator[tuple[float, list[Row]]]:
    """Yield, for each sweep that timed a tile of a rung at a size, its best TFLOP/s there and all rows of that rung."""
    for sweep in data["sweeps"]:
        rows = [row for row in sweep["rows"] if row["rung"] == rung.name and speed(row, size) is not None]
        own = [speed(row, size) for row in rows if row["tile"] == tile]
        if own:
            yield max(own), rows


def faster(data: Mapping[str, Any], rung: Rung, tile: Tile, size: int) -> list[Row]:
    """Return the rows that beat a tile in its own sweeps at a size by more than NOISE, the fastest first.

    Only tiles count that the rung's kernel takes, and that need no local memory.
    """
    found = [
        row
        for best, rows in timed_with(data, rung, tile, size)
        for row in rows
        if speed(row, size) > (1 + NOISE) * best and not row["local_bytes"] and _takes(rung, row["tile"])
    ]
    return sorted(found, key=lambda row: speed(row, size), reverse=True)


def _takes(rung: Rung, tile: Tile) -> bool:
    try:
        rung.full_tile(tile)
    except ValueError:
        return False
    return True
