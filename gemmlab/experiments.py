"""Experiments on measuring itself, on a GPU: the same kernel timed in several ways, or under several conditions."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from gemmlab import correctness, launch, measurements, roofline, tolerance, tuned
from gemmlab.backend import Backend
from gemmlab.cublas import cublas_sgemm, require_float32
from gemmlab.environment import AFTER_SAMPLES, card_name, clocks, environment
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import arguments, rung
from gemmlab.launch import Kernel
from gemmlab.measurements import Findings, Measurement
from gemmlab.timing import FLUSHED, WARM, Timing, time_end_to_end, time_graph, time_kernel

CALL, CALL_AND_WAIT = "host clock around the call", "host clock around the call and a wait"
LARGE, SMALL = Gemm(4096, 4096, 4096), Gemm(256, 256, 256)
MEDIUM = Gemm(1024, 1024, 1024)
FITTING = 0.75  # of the L2: what A, B and C together may take, as other things pass through it too
CHECKED = Gemm(129, 130, 33)
HOST_SAMPLES = 20
POWER_SAMPLES = 100  # of 10 ms at least, so that a row of them lasts longer than the second that NVML's watts are of
CUBLAS = "cuBLAS"

Matrices = Sequence[np.ndarray]
Found = tuple[str, str, Gemm, Timing]  # kernel, label, problem, timing


@dataclass(frozen=True)
class Submission:
    """A launch on resident matrices: calling it submits it, and C is known that it should leave."""

    submit: Callable[[], Any]
    C: Any
    before: np.ndarray
    expected: tolerance.Expected

    def __call__(self) -> Any:
        return self.submit()

    def require_right(self, name: str) -> None:
        """Raise AssertionError unless what the launches so far have left in C is right."""
        verdict = correctness.recheck(self.expected, self.submit, self.C, self.before)
        if not verdict.correct:
            raise AssertionError(f"{name} at {self.expected.problem} is {verdict.message}")


def measure(names: Sequence[str], where: Backend) -> Findings:
    """Run experiments on the GPU of a backend.

    Raises ValueError for the emulator, where nothing is timed, and for an unknown name; AssertionError when a kernel's
    result is wrong; timing.LaunchFailed and context.ContextLost for a launch that fails.
    """
    if where.name != "cuda":
        raise ValueError(f"nothing is timed on the {where.name}: run this on a machine with an NVIDIA GPU")
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise ValueError(f"no experiment is called {unknown[0]!r}; there are: {', '.join(EXPERIMENTS)}")
    found = [Measurement(name, *each) for name in names for each in EXPERIMENTS[name](where)]
    return Findings(environment(where, {"clocks": clocks(where, AFTER_SAMPLES)}), tuple(found))


def known(name: str, where: Backend) -> Findings | None:
    """Return an experiment's findings: on a GPU measured now; without one, the newest shipped, or None."""
    return measure([name], where) if where.name == "cuda" else measurements.newest(name, measurements.SHIPPED)


def launches(names: Sequence[str], problem: Gemm, matrices: Matrices, where: Backend) -> dict[str, Submission]:
    """Return launches of rungs and of cuBLAS by name, each checked at a small problem; once they are timed, ask each
    whether it was right here too. Raises AssertionError for one that is wrong.
    """
    rungs = {name: _submission(_kernel(name, where), problem, matrices, where) for name in names}
    require_float32(where.cp, cublas_sgemm)
    return rungs | {
        CUBLAS: _resident(lambda A, B, C: partial(cublas_sgemm, problem, A, B, C), problem, matrices, where)
    }


def stopwatches(where: Backend) -> list[Found]:
    """Time one kernel by the host's clock without and with a wait, and by events."""
    kernel = _kernel("warp_tiles", where)
    submit = _submission(kernel, LARGE, inputs(LARGE), where)
    cuda = where.cp.cuda
    wait = cuda.Device().synchronize
    timings = (
        _by_the_host(submit, CALL, wait, lambda: None, warmup=1),
        _by_the_host(submit, CALL_AND_WAIT, wait, wait, warmup=1),
        time_kernel(submit, name=kernel.entry, cuda=cuda),
    )
    submit.require_right("warp_tiles")
    return [("warp_tiles", timing.boundary, LARGE, timing) for timing in timings]


def first_launches(where: Backend) -> list[Found]:
    """Time the first launch of a source that was never compiled before, and those after it, by the host's clock."""
    kernel = _kernel("warp_tiles", where)
    # CuPy keeps what it compiled on disk, by source: a new comment is a new source.
    fresh = Kernel(f"{kernel.source}\n// {uuid.uuid4()}\n", kernel.entry, kernel.options, kernel.geometry)
    submit = _submission(fresh, MEDIUM, inputs(MEDIUM), where)
    wait = where.cp.cuda.Device().synchronize
    first = _by_the_host(submit, CALL_AND_WAIT, wait, wait, count=1)
    later = _by_the_host(submit, CALL_AND_WAIT, wait, wait, warmup=1)
    submit.require_right("warp_tiles")
    return [("warp_tiles", "first launch", MEDIUM, first), ("warp_tiles", "later launches", MEDIUM, later)]


def caches(where: Backend) -> list[Found]:
    """Time kernels with warm and with flushed L2, where A, B and C fit into this GPU's L2 and at a large size."""
    found = []
    l2 = where.cp.cuda.Device().attributes["L2CacheSize"]
    for problem in (fitting(l2), LARGE):
        fits = "A, B, C fit" if _bytes(problem) <= l2 else "A, B, C do not fit"
        for name, submit in launches(("shared_tiles", "warp_tiles"), problem, inputs(problem), where).items():
            for cache in (WARM, FLUSHED):
                timing = time_kernel(submit, cache=cache, name=name, cuda=where.cp.cuda)
                found.append((name, f"{cache}; {fits} {l2 / 2**20:g} MiB", problem, timing))
            submit.require_right(name)
    return found


def values(where: Backend) -> list[Found]:
    """Time kernels on zeros and on random numbers, each twice in turn, so that an order would show."""
    found = []
    for turn in ("", ", again"):
        for family in ("zeros", "uniform"):
            matrices = inputs(LARGE, family)
            for name, submit in launches(("warp_tiles",), LARGE, matrices, where).items():
                timing = time_kernel(submit, samples=POWER_SAMPLES, name=name, cuda=where.cp.cuda)
                found.append((name, f"{family}{turn}", LARGE, timing))
                submit.require_right(name)
    return found


def submissions(where: Backend) -> list[Found]:
    """Time short kernels launched one by one, and captured in a graph."""
    found = []
    for name in ("shared_tiles", "warp_tiles"):
        submit = _submission(_kernel(name, where), SMALL, inputs(SMALL), where)
        for time_it in (time_kernel, time_graph):
            timing = time_it(submit, name=name, cuda=where.cp.cuda)
            found.append((name, timing.boundary, SMALL, timing))
            submit.require_right(name)
    return found


def ends(where: Backend) -> list[Found]:
    """Time a kernel on resident inputs, and end to end with all copies."""
    kernel, matrices, cp = _kernel("warp_tiles", where), inputs(LARGE), where.cp
    submit = _submission(kernel, LARGE, matrices, where)
    resident = time_kernel(submit, name=kernel.entry, cuda=cp.cuda)
    submit.require_right("warp_tiles")
    compiled = cp.RawKernel(kernel.source, kernel.entry, kernel.options)
    grid, block, shared_mem = kernel.geometry(LARGE)

    def run() -> np.ndarray:
        A, B, C = map(cp.asarray, matrices)
        compiled(grid, block, arguments(LARGE, A, B, C), shared_mem=shared_mem)
        return cp.asnumpy(C)

    return [("warp_tiles", timing.boundary, LARGE, timing) for timing in (resident, time_end_to_end(run))]


EXPERIMENTS: Mapping[str, Callable[[Backend], list[Found]]] = MappingProxyType(
    {
        "stopwatch": stopwatches,
        "first launch": first_launches,
        "L2": caches,
        "values": values,
        "submission": submissions,
        "end to end": ends,
    }
)


def _kernel(name: str, where: Backend) -> Kernel:
    """Return a rung's kernel with the tile of the card, once its result has been checked there."""
    chosen = rung(name)
    kernel = launch.of(chosen, tuned.tile(chosen, card_name(where)))
    launch.require(launch.check(kernel, [CHECKED], ("uniform",), where.cp))
    return kernel


def fitting(l2_bytes: int) -> Gemm:
    """Return the largest square problem, of a power of two, whose A, B and C fit into FITTING of an L2."""
    n = 2
    while _bytes(Gemm(2 * n, 2 * n, 2 * n)) <= FITTING * l2_bytes:
        n *= 2
    return Gemm(n, n, n)


def _bytes(problem: Gemm) -> int:
    return roofline.FLOAT_BYTES * sum(rows * columns for rows, columns in problem.shapes.values())


def _submission(kernel: Kernel, problem: Gemm, matrices: Matrices, where: Backend) -> Submission:
    compiled = where.cp.RawKernel(kernel.source, kernel.entry, kernel.options)
    grid, block, shared_mem = kernel.geometry(problem)
    return _resident(
        lambda *on_device: partial(compiled, grid, block, arguments(problem, *on_device), shared_mem=shared_mem),
        problem,
        matrices,
        where,
    )


def _resident(
    bind: Callable[[Any, Any, Any], Callable[[], Any]], problem: Gemm, matrices: Matrices, where: Backend
) -> Submission:
    """Return the launch that `bind` makes of A, B and C on the device, where C holds no result yet."""
    A, B, C = matrices
    before = tolerance.initial_output(problem, C)
    on_device = tuple(map(where.cp.asarray, (A, B, before)))
    return Submission(bind(*on_device), on_device[2], before, tolerance.expect(problem, A, B, C))


def _by_the_host(
    submit: Callable[[], Any],
    boundary: str,
    settle: Callable[[], None],
    wait: Callable[[], None],
    count: int = HOST_SAMPLES,
    warmup: int = 0,
) -> Timing:
    """Time single launches by the host's clock: `settle` waits for the device before each, `wait` ends each."""
    milliseconds = []
    for _ in range(warmup):
        submit()
    for _ in range(count):
        settle()
        begin = time.perf_counter()
        submit()
        wait()
        milliseconds.append((time.perf_counter() - begin) * 1e3)
    settle()
    return Timing(tuple(milliseconds), 1, warmup, WARM, boundary)
