"""Run rungs of the ladder and gather all that is known of each: is it right, what it takes, what it moves, its speed.

On the emulator a launch is traced and nothing is timed. On a GPU a result is checked first and only then timed, beside
cuBLAS in the same run; its traffic is what the emulator counts for the same source, at problems of at most 256^3. The
float64 reference is NumPy's, computed once for all rungs.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from gemmlab import backend, emulator, nvrtc, tolerance
from gemmlab.backend import Backend
from gemmlab.cublas import cublas_sgemm
from gemmlab.emulator.instructions import Frame
from gemmlab.emulator.observer import Observer
from gemmlab.environment import architecture, environment
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import Rung, Tile, arguments
from gemmlab.results import Row, Run
from gemmlab.timing import Timing, time_kernel

FAMILY = "uniform"
SAMPLES, BATCH, WARMUP = 20, 5, 3
TRACED_BESIDE_A_GPU = Gemm(256, 256, 256).flops
SECONDS_PER_FLOP = 1e-6  # many times what the emulator takes, so that only an endless loop meets the limit

Progress = Callable[[float], object]


@dataclass(frozen=True)
class _Bench:
    """What the rungs of a climb share: where they run, A, B and C as they are before a launch, the result expected."""

    where: Backend
    problem: Gemm
    inputs: tuple[np.ndarray, np.ndarray, np.ndarray]
    expected: tolerance.Expected


def climb(
    rungs: Sequence[Rung],
    problem: Gemm,
    where: Backend | None = None,
    seed: int = 0,
    tiles: Mapping[str, Tile] = MappingProxyType({}),
    progress: Progress = lambda share: None,
) -> Run:
    """Run rungs, in the order given, on uniform inputs of a seed, and return all that is known of each.

    `where` is the backend, that of the notebooks unless given; `tiles` holds tile parameters by the name of a rung,
    whose defaults stand in for the rest; `progress` is told each share of a rung that was newly done. An interrupt ends
    the climb and leaves the rungs that were done, if any.

    Raises ValueError for a tile, a shape or a GPU that a rung does not take, nvrtc.CompileError for a source that does
    not compile, and AssertionError when cuBLAS itself is wrong.
    """
    where = where or backend.choose(os.environ.get(backend.VARIABLE, ""))
    chosen = [(rung, rung.full_tile(tiles.get(rung.name))) for rung in rungs]
    for rung, tile in chosen:
        _require(rung, tile, problem, architecture(where))
    A, B, C = inputs(problem, FAMILY, seed)
    expected = tolerance.expect(problem, A, B, C)
    bench = _Bench(where, problem, (A, B, tolerance.initial_output(problem, C)), expected)
    rows: list[Row] = []
    try:
        for row in {"emulator": _emulated, "cuda": _measured}[where.name](bench, chosen, progress):
            rows.append(row)
    except KeyboardInterrupt:
        if not rows:
            raise
    cublas = rows[0].cublas if rows else None
    return Run(environment(where, _conditions(problem, seed, cublas)), tuple(rows))


def _require(rung: Rung, tile: Tile, problem: Gemm, arch: str) -> None:
    if not rung.runs_on(arch):
        raise ValueError(
            f"rung {rung.number} ({rung.name}) needs {rung.requires} or newer, but this GPU is {arch}: leave it out"
        )
    rung.geometry(problem, tile)


def _emulated(bench: _Bench, chosen: Sequence[tuple[Rung, Tile]], progress: Progress) -> Iterator[Row]:
    with _time_limit_for(bench.problem):
        for rung, tile in chosen:
            watch = _Watch(progress)
            kernel, C, trace = _trace(bench, rung, tile, (watch,))
            yield _row(bench, rung, tile, kernel, C, tolerance.compare(bench.expected, C), trace)
            progress(1 - watch.done)


def _measured(bench: _Bench, chosen: Sequence[tuple[Rung, Tile]], progress: Progress) -> Iterator[Row]:
    cp, problem = bench.where.cp, bench.problem
    cublas = _time_cublas(bench)
    for rung, tile in chosen:
        A, B, C = map(cp.asarray, bench.inputs)
        kernel = cp.RawKernel(rung.source(), rung.entry, rung.options(tile))
        grid, block, shared_mem = rung.geometry(problem, tile)
        launch = partial(kernel, grid, block, arguments(problem, A, B, C), shared_mem=shared_mem)
        launch()
        result = cp.asnumpy(C)
        verdict = tolerance.compare(bench.expected, result)
        timing = _time(bench, launch) if verdict.correct else None
        trace = _trace(bench, rung, tile)[-1] if problem.flops <= TRACED_BESIDE_A_GPU else None
        yield _row(bench, rung, tile, kernel, result, verdict, trace, timing, cublas)
        progress(1)


def _row(
    bench: _Bench,
    rung: Rung,
    tile: Tile,
    kernel: Any,
    C: np.ndarray,
    verdict: tolerance.Verdict,
    trace: emulator.Trace | None,
    timing: Timing | None = None,
    cublas: Timing | None = None,
) -> Row:
    resources = nvrtc.resources(rung.source(), rung.entry, rung.options(tile), architecture(bench.where))
    return Row(
        rung=rung,
        problem=bench.problem,
        tile=tile,
        backend=bench.where.name,
        verdict=verdict,
        error_bound=float(bench.expected.bound.max()),
        registers=kernel.num_regs,
        spill_bytes=resources.spill_store_bytes + resources.spill_load_bytes,
        shared_bytes=kernel.shared_size_bytes + rung.geometry(bench.problem, tile).shared_mem,
        sha256=hashlib.sha256(C.tobytes()).hexdigest(),
        trace=trace,
        timing=timing,
        cublas=cublas,
    )


def _trace(
    bench: _Bench, rung: Rung, tile: Tile, observers: tuple[Observer, ...] = ()
) -> tuple[emulator.RawKernel, np.ndarray, emulator.Trace]:
    """Return the emulator's kernel, what it left in C, and its trace."""
    A, B, C = map(emulator.asarray, bench.inputs)
    kernel = emulator.RawKernel(rung.source(), rung.entry, rung.options(tile))
    grid, block, shared_mem = rung.geometry(bench.problem, tile)
    trace = emulator.trace(kernel, grid, block, arguments(bench.problem, A, B, C), shared_mem, observers)
    return kernel, emulator.asnumpy(C), trace


def _time_cublas(bench: _Bench) -> Timing:
    A, B, C = map(bench.where.cp.asarray, bench.inputs)
    launch = partial(cublas_sgemm, bench.problem, A, B, C)
    launch()
    verdict = tolerance.compare(bench.expected, bench.where.cp.asnumpy(C))
    if not verdict.correct:
        raise AssertionError(f"cuBLAS, the yardstick, is {verdict.message}")
    return _time(bench, launch)


def _time(bench: _Bench, launch: Callable[[], None]) -> Timing:
    return time_kernel(launch, batch=BATCH, samples=SAMPLES, warmup=WARMUP, cuda=bench.where.cp.cuda)


class _Watch(Observer):
    """Tells of progress, by the share of a launch's blocks that have ended."""

    def __init__(self, progress: Progress) -> None:
        self.done, self._progress = 0.0, progress

    def finish(self, frame: Frame) -> None:
        share = frame.batch.blocks / prod(frame.batch.grid)
        self.done += share
        self._progress(share)


@contextmanager
def _time_limit_for(problem: Gemm) -> Iterator[None]:
    before = emulator.time_limit()
    emulator.time_limit(max(before, problem.flops * SECONDS_PER_FLOP))
    try:
        yield
    finally:
        emulator.time_limit(before)


def _conditions(problem: Gemm, seed: int, cublas: Timing | None) -> dict[str, Any]:
    return {
        "family": FAMILY,
        "seed": seed,
        "alpha": problem.alpha,
        "beta": problem.beta,
        "boundary": cublas.boundary if cublas else None,
        "warmup": cublas.warmup if cublas else None,
        "batch": cublas.batch if cublas else None,
        "samples": len(cublas.samples_ms) if cublas else None,
        "cache": cublas.cache if cublas else None,
        "cublas_milliseconds": list(cublas.samples_ms) if cublas else None,
    }
