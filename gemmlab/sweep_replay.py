"""A shipped sweep as measurements of one rung at one size, and what they say: parameter by parameter, and size by size.

Rows of different sweeps are never mixed, since each timed texts of its own in a run of its own.
"""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gemmlab import roofline, tuning_cache
from gemmlab.gemm import Gemm
from gemmlab.ladder import Rung, written
from gemmlab.sweeps import Row, speed
from gemmlab.tuning_cache import Measurement

Sweep = Mapping[str, Any]


def fullest(data: Mapping[str, Any], of_rung: Rung, size: int) -> Sweep:
    """Return the sweep of a file that timed most tiles of a rung at N = `size`. Raises ValueError where none did."""
    best = max(data["sweeps"], key=lambda sweep: len(_fastest(sweep, of_rung, size)))
    if not _fastest(best, of_rung, size):
        raise ValueError(f"no sweep of {data['environment']['card']} timed rung {of_rung.number} at N = {size}")
    return best


def measurements(sweep: Sweep, of_rung: Rung, size: int, device: str) -> list[Measurement]:
    """Return what a sweep found of a rung at N = `size`, of one tile the fastest row. The time is 2 N^3 over its speed.

    Raises ValueError for a tile that the rung's kernel does not take.
    """
    flops = Gemm(size, size, size).flops
    return [
        Measurement(
            tile=of_rung.full_tile(row["tile"]),
            milliseconds=flops / speed(row, size) / 1e9,
            registers=row["registers"],
            local_bytes=row["local_bytes"],
            device=device,
        )
        for row in _fastest(sweep, of_rung, size).values()
    ]


def write_cache(folder: str | Path, data: Mapping[str, Any], of_rung: Rung, size: int) -> Path:
    """Write the fullest sweep of a rung at N = `size` into a folder, as a kernel_tuner cache, and return its path."""
    device = data["environment"]["card"]
    found = measurements(fullest(data, of_rung, size), of_rung, size, device)
    path = Path(folder) / f"{of_rung.name}_{size}.json"
    tuning_cache.save(path, of_rung, Gemm(size, size, size), found)
    return path


def tflops(found: Measurement, problem: Gemm) -> float:
    """Return the speed of a measurement that has a time, in 10^12 FLOP/s, by the conventional work."""
    return roofline.throughput(problem.flops, found.milliseconds) / 1e12


def effects(found: Sequence[Measurement]) -> dict[str, list[tuple[int, int, float]]]:
    """Return what each parameter does by itself: (value, larger value, how many times as fast with the larger one).

    Every pair of settings counts that differs in that parameter alone. A parameter without such a pair has none.
    """
    timed = [each for each in found if each.milliseconds is not None]
    pairs: dict[str, list[tuple[int, int, float]]] = {name: [] for each in timed[:1] for name in each.tile}
    for one, other in itertools.permutations(timed, 2):
        differing = [name for name in one.tile if one.tile[name] != other.tile[name]]
        if len(differing) == 1 and one.tile[differing[0]] < other.tile[differing[0]]:
            (name,) = differing
            pairs[name].append((one.tile[name], other.tile[name], one.milliseconds / other.milliseconds))
    return pairs


def effects_table(found: Sequence[Measurement]) -> str:
    """Return `effects` as text, a line for each step of a parameter: in how many pairs, and how many times as fast."""
    lines = [f"{'alone changed':<18}{'pairs':>6}   times as fast"]
    for name, pairs in effects(found).items():
        for step in sorted({(low, high) for low, high, _ in pairs}):
            ratios = [ratio for low, high, ratio in pairs if (low, high) == step]
            spread = f"{min(ratios):.3f} to {max(ratios):.3f}" if len(ratios) > 1 else f"{ratios[0]:.3f}"
            lines.append(f"{f'{name}: {step[0]} to {step[1]}':<18}{len(ratios):>6}   {spread}")
        if not pairs:
            lines.append(f"{name:<18}{'none':>6}   -")
    return "\n".join(lines)


def by_size(sweep: Sweep, of_rung: Rung) -> dict[str, dict[int, float]]:
    """Return TFLOP/s by size of the tiles that a sweep timed at more than one, each tile in words."""
    sizes = sorted({timed["size"] for row in sweep["rows"] if row["rung"] == of_rung.name for timed in row["timed"]})
    found: dict[str, dict[int, float]] = {}
    for size in sizes:
        for row in _fastest(sweep, of_rung, size).values():
            found.setdefault(written(of_rung.full_tile(row["tile"])), {})[size] = speed(row, size)
    return {tile: speeds for tile, speeds in found.items() if len(speeds) > 1}


def best_by_size(speeds: Mapping[str, Mapping[int, float]]) -> dict[int, str]:
    """Return the fastest tile at each size, of those in `by_size`."""
    sizes = sorted({size for of_tile in speeds.values() for size in of_tile})
    return {
        size: max((tile for tile in speeds if size in speeds[tile]), key=lambda t: speeds[t][size]) for size in sizes
    }


def best_table(sweep: Sweep, rungs: Sequence[Rung]) -> str:
    """Return the fastest tile of each rung at each size as text: of how many, how far ahead of the next, and beside it
    the speed of the rung's own tile, a dash where that was not timed.
    """
    lines = [f"{'rung':<5}{'N':>5}{'tiles':>7}{'TFLOP/s':>9}{'ahead by':>10}{'own tile':>10}   fastest"]
    for each in rungs:
        speeds = by_size(sweep, each)
        own = speeds.get(written(each.full_tile()), {})
        for size, best in best_by_size(speeds).items():
            first, *others = sorted((found[size] for found in speeds.values() if size in found), reverse=True)
            ahead = f"{first / others[0] - 1:.1%}" if others else "-"
            known = f"{own[size]:.1f}" if size in own else "-"
            lines.append(f"{each.number:<5}{size:>5}{1 + len(others):>7}{first:>9.1f}{ahead:>10}{known:>10}   {best}")
    return "\n".join(lines)


def _fastest(sweep: Sweep, of_rung: Rung, size: int) -> dict[tuple[int, ...], Row]:
    fastest: dict[tuple[int, ...], Row] = {}
    for row in sweep["rows"]:
        if row["rung"] == of_rung.name and speed(row, size) is not None:
            key = tuple(of_rung.full_tile(row["tile"]).values())
            if key not in fastest or speed(row, size) > speed(fastest[key], size):
                fastest[key] = row
    return fastest
