"""Is resources.occupancy what the driver answers? Asked for random legal settings of rungs 2 to 6 on this GPU.

    python benchmarks/occupancy.py --json FILE [--settings 200] [--seed 0]

A setting's registers and shared memory are those that the driver reports of the compiled kernel, and its blocks are
what cuOccupancyMaxActiveBlocksPerMultiprocessor answers. What NVRTC alone says, with no driver, stands beside them.
Processes compile the kernels into CuPy's cache first.
"""

import argparse
import functools
import json
import math
import multiprocessing
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from tqdm import tqdm

from gemmlab import backend, costs, launch, nvrtc, resources, tuning
from gemmlab.costs import Cost
from gemmlab.environment import environment
from gemmlab.gemm import Gemm
from gemmlab.ladder import RUNGS, Tile, rung

SIDES = {"BM": (16, 32, 64, 128, 256), "BN": (16, 32, 64, 128, 256), "BK": (4, 8, 16, 32)}
CHOICES = {
    "TILE": (1, 2, 4, 5, 8, 12, 16, 20, 24, 27, 31, 32),
    **SIDES,
    "WM": (16, 32, 64, 128),
    "WN": (16, 32, 64, 128),
    "TM": (1, 2, 4, 8, 16),
    "TN": (1, 2, 4, 8, 16),
    "PAD": (4, 8, 12),
}
MOST_SUMS = 128  # of a thread; more compile for many seconds each

compilers: Callable[[], Executor] = functools.partial(
    ProcessPoolExecutor, mp_context=multiprocessing.get_context("spawn")
)


def settings(count: int, seed: int) -> list[tuple[int, Tile]]:
    """Return different legal settings, (rung's number, full tile), the rungs by turns; the same for the same seed.

    Raises ValueError where there are not so many.
    """
    chance = random.Random(seed)
    drawn = {each.number: _shuffled(each.number, chance) for each in RUNGS if each.number >= 2}
    chosen: list[tuple[int, Tile]] = []
    while len(chosen) < count and drawn:
        for number in list(drawn):
            tile = next(drawn[number], None)
            if tile is None:
                del drawn[number]
            elif len(chosen) < count:
                chosen.append((number, tile))
    if len(chosen) < count:
        raise ValueError(f"there are {len(chosen)} legal settings to choose from, fewer than {count}")
    return chosen


def compile_one(number: int, tile: Tile, arch: str) -> Cost | str:
    """Leave a setting compiled in CuPy's cache, and return what it costs by NVRTC alone, or why it does not compile."""
    kernel = launch.of(rung(number), tile)
    try:
        backend.choose("cuda").cp.RawKernel(kernel.source, kernel.entry, kernel.options).compile()
        return costs.cost(kernel, arch)
    except Exception as error:
        return str(error)


def driver_api() -> ModuleType:
    """Return the CUDA driver's interface."""
    from cuda.bindings import driver

    return driver


def asked(number: int, tile: Tile, alone: Cost, arch: str, cp: ModuleType, driver: ModuleType) -> dict[str, Any]:
    """Return what the driver says of a setting, beside what gemmlab says of it, with what it costs by NVRTC `alone`;
    `driver` is cuda.bindings.driver.
    """
    kernel = launch.of(rung(number), tile)
    compiled = cp.RawKernel(kernel.source, kernel.entry, kernel.options)
    compiled.compile()
    _, block, shared_mem = kernel.geometry(Gemm(1, 1, 1))
    threads = math.prod(block)
    status, blocks = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
        driver.CUfunction(compiled.kernel.ptr), threads, shared_mem
    )
    if int(status):
        raise RuntimeError(f"the driver answers {status!r} for {kernel.entry} at {kernel.options}")
    shared_bytes = compiled.shared_size_bytes + shared_mem
    held = resources.occupancy(arch, threads, compiled.num_regs, shared_bytes)
    return {
        "rung": number,
        "tile": dict(tile),
        "threads": threads,
        "registers": compiled.num_regs,
        "shared_bytes": shared_bytes,
        "driver_blocks": int(blocks),
        "gemmlab_blocks": held.blocks,
        "limited_by": list(held.limited_by),
        "nvrtc_registers": alone.registers,
        "nvrtc_blocks": alone.occupancy.blocks,
    }


def differing(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the settings for which the driver's blocks are not those of resources.occupancy."""
    return [row for row in rows if row["driver_blocks"] != row["gemmlab_blocks"]]


def main(arguments: list[str] | None = None) -> int:
    """Compare, write FILE, and return 1 if any setting differs or fewer were compared than asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--settings", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    drawn = settings(options.settings, options.seed)
    where = backend.choose("cuda")
    arch = backend.architecture()
    with compilers() as pool:
        each_arch = [arch] * len(drawn)
        answers = list(
            tqdm(pool.map(compile_one, *zip(*drawn, strict=True), each_arch), total=len(drawn), desc="compile")
        )
    for (number, tile), answer in zip(drawn, answers, strict=True):
        if isinstance(answer, str):
            print(f"not compiled: rung {number}, {tile}: {answer.splitlines()[0]}")
    compiled = [(*setting, answer) for setting, answer in zip(drawn, answers, strict=True) if isinstance(answer, Cost)]
    rows = [
        asked(number, tile, alone, arch, where.cp, driver_api())
        for number, tile, alone in tqdm(compiled, desc="ask the driver")
    ]
    wrong = differing(rows)
    run = {
        "environment": environment(where, {}),
        "nvrtc": ".".join(map(str, nvrtc.version())),
        "seed": options.seed,
        "differing": len(wrong),
        "settings": rows,
    }
    options.json.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    same = sum(row["nvrtc_registers"] == row["registers"] for row in rows)
    print(f"{len(rows) - len(wrong)} of {len(rows)} settings: as many blocks as the driver says, on {arch}")
    print(f"{same} of {len(rows)}: as many registers by NVRTC alone as the driver reports")
    for row in wrong:
        print(row)
    return int(bool(wrong) or len(rows) < options.settings)


def _shuffled(number: int, chance: random.Random) -> Iterator[Tile]:
    """Yield the legal tiles of a rung in a random order."""
    of_rung = rung(number)
    choices = {name: CHOICES[name] for name in of_rung.tile}
    found = [tile for tile in tuning.tiles(of_rung, choices) if tile.get("TM", 1) * tile.get("TN", 1) <= MOST_SUMS]
    yield from chance.sample(found, len(found))


if __name__ == "__main__":
    sys.exit(main())
