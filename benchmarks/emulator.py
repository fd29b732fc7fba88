"""How fast the emulator is, beside NumPy and Numba's CUDA simulator; what takes its time, and how much memory it needs.

    python benchmarks/emulator.py [--repeats 5]

Needs the extra `bench` (pip install --editable '.[bench]'); most of the time is Numba's. Prints medians with the
fastest and the slowest of the repeats, ratios of the fastest, and exits with status 1 when a limit below is missed.
"""

import argparse
import cProfile
import importlib.util
import json
import os
import platform
import pstats
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gemmlab import emulator
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import RUNGS, arguments
from gemmlab.tolerance import initial_output, verdict

# Limits, on two cores.
SECONDS = {(256, "plain"): 0.5, (256, "traced"): 3.0, (512, "plain"): 5.0}
TIMES_NUMBA = {64: {"naive": 100, "shared tile": 500}, 128: {"shared tile": 1000}}
MEBIBYTES = 2048

SHARED_TILE = """
#define TILE 32
extern "C" __global__ void shared_tile(int M, int N, int K, float alpha, const float* A, const float* B, float beta,
                                       float* C)
{
    __shared__ float a[TILE][TILE], b[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int start = 0; start < K; start += TILE) {
        a[y][x] = row < M && start + x < K ? A[row * K + start + x] : 0.0f;
        b[y][x] = start + y < K && col < N ? B[(start + y) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; ++k)
            sum = fmaf(a[y][k], b[k][x], sum);
        __syncthreads();
    }
    if (row < M && col < N)
        C[row * N + col] = alpha * sum + (beta != 0.0f ? beta * C[row * N + col] : 0.0f);
}
"""

# Modules of the emulator by what they do; NumPy's own time counts for the module that called it.
WORK = {
    "loads and stores": ("memory", "onchip", "loadstore", "parameters", "asynchronous", "atomics"),
    "branches, masks and barriers": ("machine", "standing", "lanes", "code", "barriers", "warps"),
    "counting traffic": ("traffic", "wavefronts"),
    "looking for hazards": (
        "touches", "initialized", "footprint", "ordering", "shadow", "watched", "conflict", "races", "divergence"
    ),
    "launching": ("device", "trace", "arrays", "arguments", "limits", "hazards", "faults", "aliasing"),
}  # fmt: skip
ARITHMETIC = "arithmetic"  # the other modules of the emulator


@dataclass(frozen=True)
class Kernel:
    """A kernel under test: its name, and how to make its launch for a problem, plain or traced."""

    name: str
    compiled: emulator.RawKernel
    geometry: Callable[[Gemm], tuple[tuple[int, ...], tuple[int, ...], int]]

    def launch(self, problem: Gemm, run: Callable[..., object]) -> Callable[[], object]:
        """Return a launch by `run`, plain or traced, whose result has been found right."""
        A, B, C = inputs(problem)
        output = emulator.asarray(initial_output(problem, C))
        args = arguments(problem, emulator.asarray(A), emulator.asarray(B), output)
        grid, block, shared_mem = self.geometry(problem)
        run(self.compiled, grid, block, args, shared_mem=shared_mem)
        verdict(problem, A, B, C, output.get()).require()
        return lambda: run(self.compiled, grid, block, args, shared_mem=shared_mem)


def plain(kernel: emulator.RawKernel, *launch: object, **options: int) -> None:
    """Launch with no observer."""
    kernel(*launch, **options)


HOW = {"plain": plain, "traced": emulator.trace}


def kernels() -> list[Kernel]:
    """Return every rung with its default tile, and a 32x32 shared tile."""
    ladder = [Kernel(r.name, emulator.RawKernel(r.source(), r.entry, r.options()), r.geometry) for r in RUNGS]
    tile = Kernel(
        "shared tile",
        emulator.RawKernel(SHARED_TILE, "shared_tile"),
        lambda problem: ((-(-problem.N // 32), -(-problem.M // 32)), (32, 32), 0),
    )
    return [*ladder, tile]


def seconds(call: Callable[[], object], repeats: int) -> list[float]:
    """Return the seconds of each repeat, after one that is not counted."""
    call()
    samples = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        samples.append(time.perf_counter() - start)
    return samples


def spread(samples: list[float]) -> str:
    """Return 'median (fastest to slowest) ms'."""
    median, low, high = (1e3 * value for value in (statistics.median(samples), min(samples), max(samples)))
    return f"{median:8.1f} ({low:.1f} to {high:.1f}) ms"


def against_numpy(repeats: int) -> bool:
    """Print every kernel's time at the sizes that have limits, beside NumPy's product of the same size."""
    print("Against the fastest A @ B of NumPy in float32")
    met = True
    for (size, how), limit in SECONDS.items():
        problem = cube(size)
        A, B, _ = inputs(problem)
        # Ratios are of the fastest: other work on the machine can slow a product by threads a hundredfold.
        numpy = min(seconds(lambda A=A, B=B: A @ B, 4 * repeats))
        for kernel in kernels():
            samples = seconds(kernel.launch(problem, HOW[how]), max(1, repeats * 256 // size))
            kept = statistics.median(samples) < limit
            met &= kept
            print(
                f"  {kernel.name:<18} {size}^3 {how:<6} {spread(samples):<34} {min(samples) / numpy:8,.0f} times NumPy"
                f"   limit {limit} s: {verb(kept)}"
            )
    return met


def against_numba(size: int, repeats: int) -> bool:
    """Print how many times faster the same kernels run than on Numba's CUDA simulator, fastest to fastest."""
    wanted = TIMES_NUMBA[size]
    script = Path(__file__).with_name("numba_simulator.py")
    command = [sys.executable, str(script), str(size), str(repeats), *wanted]
    simulator = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(f"\nAgainst Numba's CUDA simulator at {size}^3")
    met = True
    for kernel in kernels():
        if kernel.name not in wanted:
            continue
        ours, theirs = seconds(kernel.launch(cube(size), plain), 30), simulator[kernel.name]
        times = min(theirs) / min(ours)
        kept = times >= wanted[kernel.name]
        met &= kept
        print(
            f"  {kernel.name:<18} Numba {spread(theirs):<34} emulator {spread(ours):<28} {times:8,.0f} times faster   "
            f"at least {wanted[kernel.name]}: {verb(kept)}"
        )
    return met


def memory() -> bool:
    """Print the peak memory of this process after launches of growing size; all that ran before counts too."""
    print("\nPeak memory of this process")
    *_, largest = (kernel for kernel in kernels() if kernel.name in {rung.name for rung in RUNGS})
    met = True
    for what, chosen, size, how in (
        ("every kernel", kernels(), 512, "traced"),
        (largest.name, [largest], 1024, "plain"),
    ):
        for kernel in chosen:
            kernel.launch(cube(size), HOW[how])
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # Linux counts in KiB
        kept = peak < MEBIBYTES
        met &= kept
        print(f"  {what:<18} {size}^3 {how:<6} {peak:8,.0f} MiB   limit {MEBIBYTES:,} MiB: {verb(kept)}")
    return met


def cube(size: int) -> Gemm:
    """Return the problem of this size in all three dimensions."""
    return Gemm(size, size, size)


def verb(kept: bool) -> str:
    """Return what happened to a limit."""
    return "met" if kept else "MISSED"


def what_dominates() -> None:
    """Print the share of time that each kind of work takes, by cProfile, which itself slows Python's part down."""
    print("\nWhat takes the time at 256^3, in % under cProfile")
    for kernel in kernels():
        for how, run in HOW.items():
            shares = profile(kernel.launch(cube(256), run))
            written = ", ".join(f"{work} {100 * share:.0f}" for work, share in shares.items() if share >= 0.005)
            print(f"  {kernel.name:<18} {how:<6} {written}")


def profile(call: Callable[[], object]) -> dict[str, float]:
    """Return the share of each kind of WORK in a call's time, largest first."""
    profiler = cProfile.Profile()
    profiler.runcall(call)
    total: dict[str, float] = defaultdict(float)
    for (file, _, _), (_, _, own, _, callers) in pstats.Stats(profiler).stats.items():
        if file == "~" and callers:
            for (calling_file, _, _), (_, _, share, _) in callers.items():
                total[work_of(calling_file)] += share
        else:
            total[work_of(file)] += own
    whole = sum(total.values())
    return {work: total[work] / whole for work in sorted(total, key=total.get, reverse=True)}


def work_of(file: str) -> str:
    """Return the kind of WORK that a module does."""
    path = Path(file)
    if path.parent.name == "emulator":
        return next((work for work, modules in WORK.items() if path.stem in modules), ARITHMETIC)
    return "the rest"


def main() -> int:
    """Run the whole benchmark and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each case (5)")
    repeats = parser.parse_args().repeats
    if importlib.util.find_spec("numba") is None:
        parser.error("Numba is not installed: pip install --editable '.[bench]'")
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, {os.cpu_count()} cores of {platform.machine()}, "
        f"emulator of {emulator.architecture()}; medians (fastest to slowest) of {repeats} repeats\n"
    )
    met = [against_numpy(repeats)]
    what_dominates()
    met.append(memory())
    met.append(against_numba(64, min(repeats, 3)))
    met.append(against_numba(128, 1))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
