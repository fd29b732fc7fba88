"""Does gemmlab time as others do? Rungs 2 and 6 and cuBLAS by its timer, cupyx.profiler's and NVIDIA's cuda-bench.

    pip install --editable '.[bench]'
    python benchmarks/timers.py timers.json [--size 4096]

runs all three in one process, on the same buffers and the same compiled kernels, one timer after another. What each
does, as their sources show (CuPy 14, cuda-bench 0.3, which is NVBench):

cupyx.profiler.benchmark puts two events around each launch, and waits for the second before the next. The device is
idle when the first is recorded, so the submission of one launch is inside. L2 is warm: the last launch used it. It is
held against gemmlab's warm median, which has the submission of one launch in a batch of 10 ms at least.

cuda-bench has two figures. 'Cold' is the median of single launches with L2 flushed before each, and with the stream
held back until all is submitted, so no submission is inside: it is held against gemmlab's flushed median. 'Batch' is
one mean over launches back to back with warm L2, and keeps no samples, so it has no median: it stands against
gemmlab's warm median.

The exit status is 0 when every figure is within 2% of gemmlab's.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmlab import backend, columns, experiments
from gemmlab.backend import Backend
from gemmlab.columns import Column
from gemmlab.environment import AFTER_SAMPLES, clocks, environment
from gemmlab.gemm import Gemm, inputs
from gemmlab.timing import FLUSHED, WARM, Timing, time_kernel

ALLOWED = 0.02
RUNGS = ("shared_tiles", "warp_tiles")
GEMMLAB, CUPY, COLD, BATCH = "gemmlab", "cupyx.profiler", "cuda-bench cold", "cuda-bench batch"
SAMPLES, WARMUP = 20, 3

Launches = Mapping[str, Callable[[], Any]]


@dataclass(frozen=True)
class Figure:
    """The time of one launch of a kernel by a timer, in milliseconds, beside gemmlab's with the same state of L2.

    `samples_ms` are the timer's own, empty where it keeps none; `statistic` is 'median' or 'mean'.
    """

    kernel: str
    timer: str
    cache: str
    statistic: str
    milliseconds: float
    gemmlab_ms: float
    samples_ms: tuple[float, ...]

    @property
    def difference(self) -> float:
        """By which share the timer's figure exceeds gemmlab's."""
        return self.milliseconds / self.gemmlab_ms - 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Time with all three, print a table, write JSON; 0 when they agree, 1 when not or where they cannot run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path, help="write every sample here")
    parser.add_argument("--size", type=int, default=4096, help="N of the N x N matrices")
    options = parser.parse_args(arguments)
    where = backend.choose(os.environ.get(backend.VARIABLE, ""))
    if where.name != "cuda":
        print(f"nothing is timed on the {where.name}: run this on a machine with an NVIDIA GPU", file=sys.stderr)
        return 1
    try:
        from cuda import bench
    except ImportError as error:
        print(f"cuda-bench is missing ({error}): pip install --editable '.[bench]'", file=sys.stderr)
        return 1
    problem = Gemm(options.size, options.size, options.size)
    launches = experiments.launches(RUNGS, problem, inputs(problem), where)
    ours = by_gemmlab(launches, where)
    figures = compared(ours, by_cupy(launches), by_cuda_bench(launches, where, bench))
    for name, submit in launches.items():
        submit.require_right(name)
    print(table(figures))
    options.json.write_text(json.dumps(as_data(figures, ours, where, problem), indent=1) + "\n", encoding="utf-8")
    return int(any(abs(figure.difference) > ALLOWED for figure in figures))


def by_gemmlab(launches: Launches, where: Backend) -> dict[tuple[str, str], Timing]:
    """Return gemmlab's timing of each kernel with each cache policy."""
    return {
        (name, cache): time_kernel(submit, cache=cache, samples=SAMPLES, warmup=WARMUP, name=name, cuda=where.cp.cuda)
        for name, submit in launches.items()
        for cache in (WARM, FLUSHED)
    }


def by_cupy(launches: Launches) -> dict[str, list[float]]:
    """Return the milliseconds of every launch that cupyx.profiler.benchmark timed, by kernel."""
    from cupyx.profiler import benchmark

    times = {}
    for name, submit in launches.items():
        found = benchmark(submit, n_repeat=5 * SAMPLES, n_warmup=WARMUP, name=name)
        times[name] = [1e3 * float(seconds) for seconds in found.gpu_times[0]]
    return times


def by_cuda_bench(launches: Launches, where: Backend, bench: Any) -> dict[str, dict[str, Any]]:
    """Return cuda-bench's samples with flushed L2 and its mean with warm L2, in milliseconds, by kernel.

    It has one registry a process, and runs once. Raises ValueError when it leaves out a figure.
    """
    from cuda.bench.results import BenchmarkResult

    device = where.cp.cuda.Device().id
    for name, submit in launches.items():
        bench.register(_benchmark(submit, device, where.cp.cuda)).set_name(name).set_min_samples(SAMPLES)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "found.json")
        # The first argument is the program's name. Without --devices it runs on all of them.
        bench.run_all_benchmarks(["timers", "--devices", str(device), "--quiet", "--jsonbin", path])
        result = BenchmarkResult.from_json(path)
    return {name: _figures(name, result[name][0]) for name in launches}


def compared(
    ours: Mapping[tuple[str, str], Timing],
    by_cupy: Mapping[str, Sequence[float]],
    by_cuda_bench: Mapping[str, Mapping[str, Any]],
) -> list[Figure]:
    """Return each figure of the others beside gemmlab's of the same cache policy, kernel by kernel."""
    figures = []
    for name, samples in by_cupy.items():
        warm, flushed = ours[name, WARM].median_ms, ours[name, FLUSHED].median_ms
        cold, mean = by_cuda_bench[name]["samples_ms"], by_cuda_bench[name]["mean_ms"]
        figures += [
            Figure(name, CUPY, WARM, "median", statistics.median(samples), warm, tuple(samples)),
            Figure(name, BATCH, WARM, "mean", mean, warm, ()),
            Figure(name, COLD, FLUSHED, "median", statistics.median(cold), flushed, tuple(cold)),
        ]
    return figures


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as text, a line each, and how many are within what is allowed."""
    within = sum(abs(figure.difference) <= ALLOWED for figure in figures)
    return "\n".join([*columns.lines(COLUMNS, figures), f"{within} of {len(figures)} within {ALLOWED:.0%}"])


def as_data(
    figures: Sequence[Figure], ours: Mapping[tuple[str, str], Timing], where: Backend, problem: Gemm
) -> dict[str, Any]:
    """Return all that was measured, with what it ran on, as JSON takes it."""
    conditions = {"inputs": "uniform", "seed": 0, "warmup": WARMUP, "clocks": clocks(where, AFTER_SAMPLES)}
    return {
        "environment": environment(where, conditions),
        "shape": [problem.M, problem.N, problem.K],
        "allowed": ALLOWED,
        GEMMLAB: [
            {
                "kernel": name,
                "cache": cache,
                "batch": timing.batch,
                "median_ms": timing.median_ms,
                "samples_ms": list(timing.samples_ms),
                "remarks": list(timing.remarks),
            }
            for (name, cache), timing in ours.items()
        ],
        "others": [vars(figure) | {"difference": figure.difference} for figure in figures],
    }


def _benchmark(submit: Callable[[], Any], device: int, cuda: Any) -> Callable[[Any], None]:
    def run(state: Any) -> None:
        def launch(given: Any) -> None:
            with cuda.ExternalStream(given.get_stream().addressof(), device):
                submit()

        state.exec(launch, batched=True)

    return run


def _figures(name: str, state: Any) -> dict[str, Any]:
    mean = state.summaries.get("nv/batch/time/gpu/mean")
    if not state.samples or mean is None:
        raise ValueError(f"cuda-bench has no figures of {name}: {state.skip_reason or 'it gave no reason'}")
    return {"samples_ms": [1e3 * seconds for seconds in state.samples], "mean_ms": 1e3 * mean.value}


COLUMNS = (
    Column("", "kernel", lambda row: row.kernel),
    Column("", "timer", lambda row: row.timer),
    Column("", "L2", lambda row: row.cache),
    Column("", "of", lambda row: row.statistic),
    Column(" measured ", "ms", lambda row: f"{row.milliseconds:.4g}"),
    Column(" measured ", "gemmlab ms", lambda row: f"{row.gemmlab_ms:.4g}"),
    Column(" measured ", "difference", lambda row: f"{row.difference:+.2%}"),
)


if __name__ == "__main__":
    sys.exit(main())
