"""Sweep the tiles of rungs 3 to 6 on a GPU within a budget of seconds, and go on where it was stopped.

    python benchmarks/sweep.py --seconds 900 --json FILE --caches FOLDER [--rungs 6,5,4,3] [--sizes 4096,1024,2048]

1. Processes compile the legal tiles in a shuffled order, for a third of a rung's time at most: for their cost, and into
   CuPy's cache on disk. What spills, or holds fewer warps than LEAST_OCCUPANCY, goes no further.
2. One process checks and times the rest at the first size, a rung's own tile first. A tile that kills the process loses
   only its own time. Each rung has an equal share of the time that is left.
3. The BEST of each rung, and its own tile, are timed at the other sizes too.

FOLDER holds a kernel_tuner cache for each rung and size, written after every tile; the same command again goes on. FILE
is what gemmlab.sweeps loads, written after every stage. Nothing else should run on the GPU.
"""

import argparse
import functools
import json
import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tqdm import tqdm

from gemmlab import backend, climb, costs, launch, nvrtc, roofline, schema, sweeps, timing, tuning, tuning_cache
from gemmlab.costs import Cost
from gemmlab.environment import environment
from gemmlab.gemm import Gemm
from gemmlab.ladder import Rung, Tile, rung
from gemmlab.sweep_replay import tflops
from gemmlab.tuning_cache import Measurement

LEAST_OCCUPANCY = 1 / 8
BEST = 6
CONDITIONS = (
    f"TFLOP/s, medians of {tuning.SAMPLES} samples; {timing.BOUNDARY}, "
    f"each batch at least {timing.MIN_SAMPLE_MS:g} ms; {timing.WARM}; {tuning.WARMUP} launches to warm up"
)
SPAWN = multiprocessing.get_context("spawn")  # a CUDA context does not survive a fork

compilers: Callable[[], Executor] = functools.partial(ProcessPoolExecutor, mp_context=SPAWN)
one_process: Callable[[], Executor] = functools.partial(ProcessPoolExecutor, 1, mp_context=SPAWN)


class TimeIsUp(Exception):
    """The deadline has passed; what was measured is kept."""


# What the processes do.


def prepare(number: int, tile: Tile, arch: str) -> Cost | None:
    """Return what a tile costs where it is worth timing, and then leave it compiled in CuPy's cache; else None."""
    kernel = launch.of(rung(number), tile)
    try:
        cost = costs.cost(kernel, arch)
    except nvrtc.CompileError:
        return None
    if cost.spilled_bytes or cost.occupancy.fraction < LEAST_OCCUPANCY:
        return None
    backend.choose("cuda").cp.RawKernel(kernel.source, kernel.entry, kernel.options).compile()
    return cost


def describe() -> dict[str, Any]:
    """Return the environment of this GPU."""
    return environment(backend.choose("cuda"), {})


def time_cublas(size: int) -> float:
    """Return cuBLAS's TFLOP/s at N = `size`, checked and timed as in a climb."""
    problem = Gemm(size, size, size)
    return roofline.throughput(problem.flops, climb.bench(problem, backend.choose("cuda")).cublas.median_ms) / 1e12


# What the program does.


def worth_timing(of_rung: Rung, arch: str, folder: Path, seconds: float) -> list[Tile]:
    """Return the tiles of a rung that passed `prepare` within some seconds, or before; its own first, then shuffled."""
    legal = {",".join(map(str, tile.values())): tile for tile in tuning.tiles(of_rung, tuning.CHOICES[of_rung.number])}
    order = random.Random(0).sample(list(legal), len(legal))
    path = folder / f"{of_rung.name}_compiled_{arch}.json"
    passed = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    wanted = [key for key in order if key not in passed]
    with compilers() as pool, tqdm(desc=f"compile {of_rung.name}", total=len(wanted), unit="tile") as bar:
        asked = {pool.submit(prepare, of_rung.number, legal[key], arch): key for key in wanted}
        try:
            for future in as_completed(asked, timeout=seconds):
                bar.update()
                if future.exception() is None:
                    passed[asked[future]] = future.result() is not None
                else:
                    tqdm.write(f"not compiled: {legal[asked[future]]}: {future.exception()!r}")
        except TimeoutError:
            tqdm.write(f"{of_rung.name}: time was up after {bar.n} of {len(wanted)} tiles were compiled")
        finally:
            for future in asked:
                future.cancel()
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(passed), encoding="utf-8")
    own = of_rung.full_tile()
    return [own, *(legal[key] for key in order if passed.get(key) and legal[key] != own)]


def cache_of(folder: Path, of_rung: Rung, size: int) -> Path:
    """Return where the times of a rung at a size are kept."""
    return folder / f"{of_rung.name}_{size}.json"


def measure(of_rung: Rung, size: int, tiles: Sequence[Tile], folder: Path, deadline: float) -> list[Measurement]:
    """Measure tiles in a process of their own until the deadline, and return what is known. Ctrl-C is passed on."""
    with tqdm(desc=f"{of_rung.name} at {size}", total=len(tiles), unit="tile") as bar:

        def progress(done: int) -> None:
            bar.update(done)
            if time.monotonic() > deadline:
                raise TimeIsUp

        problem = Gemm(size, size, size)
        path = cache_of(folder, of_rung, size)
        try:
            found = tuning.sweep(of_rung, problem, tiles, path, one_process, tuning.time_tile, progress)
        except TimeIsUp:
            tqdm.write(f"{of_rung.name} at {size}: time was up after {bar.n} of {len(tiles)} tiles")
            return [each for each in tuning_cache.load(path, of_rung, problem) if each.tile in tiles]
    if len(found) < len(tiles):
        raise KeyboardInterrupt  # which ended the sweep, and was answered by what it had found
    return found


def fastest(of_rung: Rung, found: Sequence[Measurement]) -> list[Tile]:
    """Return the tiles to time at other sizes: the rung's own, and the BEST."""
    timed = sorted((each for each in found if each.milliseconds is not None), key=lambda each: each.milliseconds)
    own = of_rung.full_tile()
    return [own, *(each.tile for each in timed[:BEST] if each.tile != own)]


def rows(of_rung: Rung, sizes: Sequence[int], folder: Path) -> list[dict[str, Any]]:
    """Return all that is known of a rung, a row a tile, as sweeps.ROW describes it."""
    found: dict[tuple[int, ...], dict[str, Any]] = {}
    for size in sizes:
        problem = Gemm(size, size, size)
        for each in tuning_cache.load(cache_of(folder, of_rung, size), of_rung, problem):
            if each.milliseconds is None:
                continue
            row = found.setdefault(
                tuple(each.tile.values()),
                {
                    "rung": of_rung.name,
                    "tile": dict(each.tile),
                    "settings": {},
                    "registers": each.registers,
                    "local_bytes": each.local_bytes,
                    "timed": [],
                },
            )
            slowest, quickest = max(each.samples_ms), min(each.samples_ms)
            row["timed"].append(
                {
                    "size": size,
                    "tflops": round(tflops(each, problem), 3),
                    "min": round(roofline.throughput(problem.flops, slowest) / 1e12, 3),
                    "max": round(roofline.throughput(problem.flops, quickest) / 1e12, 3),
                }
            )
    return list(found.values())


def clocks(found: Sequence[Measurement]) -> str | None:
    """Return the ranges of what the GPU reported while tiles were timed, and what slowed it; None for no report."""
    seen = [reading for each in found for reading in each.readings if reading]
    if not seen:
        return None
    ranges = []
    for figure, unit in (("sm_mhz", "MHz"), ("celsius", "C"), ("watts", "W")):
        known = [getattr(reading, figure) for reading in seen if getattr(reading, figure) is not None]
        ranges.append(f"{min(known):g} to {max(known):g} {unit}" if known else f"- {unit}")
    slowed = [reading for reading in seen if reading.slowed_by]
    reasons = ", ".join(sorted({reason for reading in slowed for reason in reading.slowed_by}))
    ranges.append(f"slowed in {len(slowed)} of {len(seen)} samples" + (f" by {reasons}" if slowed else ""))
    return ", ".join(ranges)


def data(
    seen: Mapping[str, Any], cublas: Mapping[int, Sequence[float]], clocks: Sequence[str], found: Sequence[Any]
) -> dict[str, Any]:
    """Return a file of sweeps, checked against sweeps.FILE."""
    file = {
        "environment": {name: seen[name] or "-" for name in sweeps.ENVIRONMENT},
        "sweeps": [
            {
                "kernels": "The kernels' own texts of today.",
                "conditions": CONDITIONS,
                "clocks": list(clocks) or None,
                "cublas": [
                    {"size": size, "tflops": [round(each, 3) for each in speeds]} for size, speeds in cublas.items()
                ],
                "rows": list(found),
            }
        ],
    }
    schema.check(file, sweeps.FILE)
    return file


def main(arguments: list[str] | None = None) -> int:
    """Sweep within the budget, and write what was found; return 1 if any tile failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, required=True, help="of the whole sweep")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--caches", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--rungs", default="6,5,4,3")
    parser.add_argument("--sizes", default="4096,1024,2048,4095,4097", help="the first one is swept whole")
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + options.seconds
    rungs = [rung(int(number)) for number in options.rungs.split(",")]
    first, *others = sizes = [int(size) for size in options.sizes.split(",")]
    with one_process() as pool:
        seen = pool.submit(describe).result()
        cublas = {size: [pool.submit(time_cublas, size).result()] for size in sizes}

    def known(of_rung: Rung, size: int) -> list[Measurement]:
        return tuning_cache.load(cache_of(options.caches, of_rung, size), of_rung, Gemm(size, size, size))

    def write() -> None:
        found = [row for each in rungs for row in rows(each, sizes, options.caches)]
        reported = {f"{each.name} at {size}": clocks(known(each, size)) for each in rungs for size in sizes}
        lines = [f"{what}: {line}" for what, line in reported.items() if line]
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(data(seen, cublas, lines, found), indent=1) + "\n", encoding="utf-8")

    failed: list[Measurement] = []
    remarked: list[Measurement] = []
    try:
        for position, each in enumerate(rungs):
            share = (deadline - time.monotonic()) / (len(rungs) - position)
            swept_by = time.monotonic() + 0.8 * share  # a fifth is for the other sizes
            tiles = worth_timing(each, seen["architecture"], options.caches, share / 3)
            swept = measure(each, first, tiles, options.caches, swept_by)
            chosen = fastest(each, swept)
            for size in others:
                swept += measure(each, size, chosen, options.caches, deadline)
            failed += [one for one in swept if one.milliseconds is None]
            remarked += [one for one in swept if one.remarks]
            write()
        with one_process() as pool:
            cublas[first].append(pool.submit(time_cublas, first).result())
    except KeyboardInterrupt:
        print("interrupted: the same command again goes on")
    write()
    for one in failed:
        print(f"failed: {one.tile}: {one.error}")
    for one in remarked:
        print(f"timed, but {'; '.join(one.remarks)}: {one.tile}")
    for each in rungs:
        at_first = [row for row in rows(each, sizes, options.caches) if sweeps.speed(row, first) is not None]
        for row in sorted(at_first, key=lambda row: -sweeps.speed(row, first))[:3]:
            print(f"{each.name}: {sweeps.speed(row, first):.2f} TFLOP/s at {first}: {row['tile']}")
    print(f"cuBLAS: {statistics.median(cublas[first]):.2f} TFLOP/s at {first}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
