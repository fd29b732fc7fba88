"""Run rungs of the ladder, or any kernel, and gather all that is known: is it right, what it takes, moves, its speed.

On the emulator a launch is traced and nothing is timed. On a GPU a result is checked, then timed beside cuBLAS in the
same run, and checked again; its traffic is what the emulator counts for the same source, at problems of at most 256^3.
The float64 reference is NumPy's, computed once for all kernels.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from gemmlab import backend, correctness, emulator, launch, nvrtc, tolerance, tuned
from gemmlab.backend import Backend, architecture
from gemmlab.context import ContextLost, require_alive, watched
from gemmlab.cublas import cublas_sgemm, require_float32
from gemmlab.emulator.instructions import Frame, Site
from gemmlab.emulator.lanes import Mask
from gemmlab.emulator.observer import Observer
from gemmlab.environment import AFTER_SAMPLES, card_name, clocks, environment
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import Rung, Tile
from gemmlab.launch import Kernel, Submission
from gemmlab.results import Result, Row, Run
from gemmlab.timing import Timing, time_kernel

FAMILY = "uniform"
SAMPLES, WARMUP = 20, 3
TRACED_BESIDE_A_GPU = Gemm(256, 256, 256).flops
LIMIT_PER_FLOP = 1e-6  # seconds: many times what the emulator takes, so that only an endless loop meets the limit
EMULATED_PER_FLOP = 6e-9  # seconds: rungs 0, 2, 6 at 1024^3 took 14, 13, 10 s on two cores of a Xeon, 2026-11-30
TOLD_EVERY, MOST_GUESSED = 0.5, 0.95  # seconds between two words of progress; share of a batch that is told unfinished

Progress = Callable[[float], object]


@dataclass(frozen=True)
class Bench:
    """What kernels on one problem share: where they run, A, B and C as they are before a launch, the result expected,
    and on a GPU the time of cuBLAS.
    """

    where: Backend
    problem: Gemm
    inputs: tuple[np.ndarray, np.ndarray, np.ndarray]
    expected: tolerance.Expected
    cublas: Timing | None


def bench(problem: Gemm, where: Backend, seed: int = 0) -> Bench:
    """Return the bench of a problem with uniform inputs of a seed. Raises AssertionError when cuBLAS is wrong."""
    A, B, C = inputs(problem, FAMILY, seed)
    matrices = A, B, tolerance.initial_output(problem, C)
    expected = tolerance.expect(problem, A, B, C)
    return Bench(where, problem, matrices, expected, _time_cublas(where, problem, matrices, expected))


def run(on: Bench, kernel: Kernel, progress: Progress = lambda share: None) -> Result:
    """Run a kernel on a bench and return all that is known of it; `progress` is told each share that was newly done.

    Raises nvrtc.CompileError for a source that does not compile, timing.LaunchFailed for a launch that is refused, and
    ContextLost for one that ends the GPU's context.
    """
    return {"emulator": _emulated, "cuda": _measured}[on.where.name](on, kernel, progress)


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
    whose defaults stand in for the rest; a rung that it does not name runs with its tile for this card, `tuned.tile`.
    `progress` is told each share of a rung that was newly done. An interrupt ends the climb and leaves the rungs that
    were done, if any; so does a launch that ends the GPU's context, which the run then tells of.

    Raises ValueError for a tile, a shape or a GPU that a rung does not take, nvrtc.CompileError for a source that does
    not compile, timing.LaunchFailed for a launch refused while it is timed, AssertionError when cuBLAS itself is
    wrong, and ContextLost when no rung was done before it.
    """
    where = where or backend.choose(os.environ.get(backend.VARIABLE, ""))
    require_alive(where.cp, "this climb")
    card = card_name(where)
    chosen = [(rung, rung.full_tile(tiles.get(rung.name, tuned.tile(rung, card)))) for rung in rungs]
    for rung, tile in chosen:
        _require(rung, tile, problem, architecture(where))
    shared = bench(problem, where, seed)
    # Asked now, as a GPU whose context has ended does not answer.
    before = environment(where, _conditions(problem, seed, shared.cublas))
    rows: list[Row] = []
    try:
        for rung, tile in chosen:
            result = run(shared, launch.of(rung, tile), progress)
            rows.append(Row(rung=rung, tile=tile, **vars(result)))
    except KeyboardInterrupt:
        if not rows:
            raise
    except ContextLost as error:
        if not rows:
            raise
        return Run(before, tuple(rows), stopped=str(error))
    seen = {"clocks": clocks(where, AFTER_SAMPLES)}
    return Run(before | {"conditions": before["conditions"] | seen}, tuple(rows))


def expected_seconds(problem: Gemm) -> float:
    """Return about how long the emulator takes for a kernel on a problem, from its FLOPs: another machine differs."""
    return problem.flops * EMULATED_PER_FLOP


def _require(rung: Rung, tile: Tile, problem: Gemm, arch: str) -> None:
    if not rung.runs_on(arch):
        raise ValueError(
            f"rung {rung.number} ({rung.name}) needs {rung.requires} or newer, but this GPU is {arch}: leave it out"
        )
    rung.geometry(problem, tile)


def _emulated(on: Bench, kernel: Kernel, progress: Progress) -> Result:
    watch = _Watch(progress, expected_seconds(on.problem))
    with _time_limit_for(on.problem):
        submit = launch.submission(kernel, on.problem, on.inputs)
        trace = submit.trace((watch,))
        progress(1 - watch.done)
    C = emulator.asnumpy(submit.C)
    return _result(on, kernel, submit, C, tolerance.compare(on.expected, C), trace)


def _measured(on: Bench, kernel: Kernel, progress: Progress) -> Result:
    cp = on.where.cp
    submit = launch.submission(kernel, on.problem, on.inputs, cp)
    timing = None
    with watched(cp, launch.named(kernel, on.problem)):
        submit()
        result = cp.asnumpy(submit.C)
        verdict = tolerance.compare(on.expected, result)
        if verdict.correct:
            timing = _time(on.where, submit, kernel.entry)
            again = correctness.recheck(on.expected, submit, submit.C, on.inputs[2])
            verdict, timing = (verdict, timing) if again.correct else (again, None)
    progress(1)
    return _result(on, kernel, submit, result, verdict, _traced_beside_a_gpu(on, kernel), timing)


def _traced_beside_a_gpu(on: Bench, kernel: Kernel) -> emulator.Trace | None:
    """A trace, or None where the problem is too large, or the GPU runs what the emulator does not."""
    if on.problem.flops > TRACED_BESIDE_A_GPU:
        return None
    try:
        return launch.submission(kernel, on.problem, on.inputs).trace()
    except (emulator.UnsupportedInstruction, MemoryError):
        return None


def _result(
    on: Bench,
    kernel: Kernel,
    submit: Submission,
    C: np.ndarray,
    verdict: tolerance.Verdict,
    trace: emulator.Trace | None,
    timing: Timing | None = None,
) -> Result:
    resources = nvrtc.resources(kernel.source, kernel.entry, kernel.options, architecture(on.where))
    return Result(
        kernel=kernel,
        problem=on.problem,
        backend=on.where.name,
        verdict=verdict,
        error_bound=float(on.expected.bound.max()),
        registers=submit.compiled.num_regs,
        spill_bytes=resources.spill_store_bytes + resources.spill_load_bytes,
        shared_bytes=submit.compiled.shared_size_bytes + submit.geometry.shared_mem,
        sha256=hashlib.sha256(C.tobytes()).hexdigest(),
        trace=trace,
        timing=timing,
        cublas=on.cublas,
    )


def _time_cublas(
    where: Backend, problem: Gemm, matrices: Sequence[np.ndarray], expected: tolerance.Expected
) -> Timing | None:
    if where.name != "cuda":
        return None
    A, B, C = map(where.cp.asarray, matrices)
    submit = partial(cublas_sgemm, problem, A, B, C)
    submit()
    verdict = tolerance.compare(expected, where.cp.asnumpy(C))
    if not verdict.correct:
        raise AssertionError(f"cuBLAS, the yardstick, is {verdict.message}")
    require_float32(where.cp, cublas_sgemm)
    return _time(where, submit, "cuBLAS")


def _time(where: Backend, submit: Callable[[], None], name: str) -> Timing:
    return time_kernel(submit, samples=SAMPLES, warmup=WARMUP, name=name, cuda=where.cp.cuda)


class _Watch(Observer):
    """Tells of progress: the share of a launch's blocks that have ended, and of those at work by the time that they are
    expected to take, after the first batch as that one did.
    """

    def __init__(self, progress: Progress, seconds: float) -> None:
        self.done, self._progress, self._seconds = 0.0, progress, seconds
        self._ended, self._spent, self._begun, self._told = 0.0, 0.0, 0.0, 0.0

    def start(self, frame: Frame) -> None:
        self._begun = self._told = time.monotonic()

    def access(self, site: Site, frame: Frame, address: np.ndarray, mask: Mask) -> None:
        now = time.monotonic()
        if now - self._told >= TOLD_EVERY:
            self._told = now
            expected = self._seconds * self._share(frame)
            self._tell(self._ended + self._share(frame) * min((now - self._begun) / expected, MOST_GUESSED))

    def finish(self, frame: Frame) -> None:
        self._ended += self._share(frame)
        self._spent += time.monotonic() - self._begun
        self._seconds = self._spent / self._ended
        self._tell(self._ended)

    def _share(self, frame: Frame) -> float:
        return frame.batch.blocks / prod(frame.batch.grid)

    def _tell(self, reached: float) -> None:
        self._progress(reached - self.done)
        self.done = reached


@contextmanager
def _time_limit_for(problem: Gemm) -> Iterator[None]:
    before = emulator.time_limit()
    emulator.time_limit(max(before, problem.flops * LIMIT_PER_FLOP))
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
