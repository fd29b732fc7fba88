"""Time of kernels on a GPU, with every sample kept, and what came over the GPU meanwhile.

The policy. Buffers are allocated and filled before. Launches to warm up come first: they compile, load and fill caches,
and are waited for. Then the batch is sized, so that in a trial it lasted MIN_SAMPLE_MS: an event resolves about half a
microsecond, according to the manual of the CUDA Driver API (cuEventElapsedTime), and the first launch of a batch waits
for one submission; with SUBMISSION_MS both are less than half a percent. A sample is the time of a batch over its
launches. While each sample runs, the GPU's clocks are read. The work counted for a speed is 2*M*N*K.

Three figures have names of their own, in a Timing's boundary: launches one by one on resident inputs, a batch captured
in a CUDA graph (where the host no longer limits launches shorter than their submission), and end to end with copies.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from numbers import Integral
from types import SimpleNamespace
from typing import Any

from gemmlab import context, sensors, steadiness
from gemmlab.context import ContextLost
from gemmlab.quoting import shown
from gemmlab.sensors import Reading

BOUNDARY = "CUDA events around a batch of launches on one stream"
EACH_LAUNCH = "CUDA events around each launch of a batch on one stream"
GRAPH = "CUDA events around a batch of launches captured in a CUDA graph"
END_TO_END = "host clock around copies in, launch and copies out"
WARM = "warm L2"  # each launch finds what the last one left
FLUSHED = "flushed L2"  # each launch comes after a flush outside the events, and finds none of its data
COPIED = "L2 as copies leave it"
SUBMISSION_MS = 0.036
"""What submitting one launch may take the host: cuBLAS at 256^3, NVIDIA H200, driver 580.159.04, 2026-11-30; the median
of twenty batches of five. The kernel needs a fraction of it: rung 2, called in fewer steps, took 0.0135 ms in that run.
"""
MIN_SAMPLE_MS = 10.0
MAX_BATCH = 10_000
BUDGET_S, LEAST_SAMPLES = 60.0, 3  # for how long samples are taken, and how many in any case


class LaunchFailed(RuntimeError):
    """A launch that was refused; the message names it. One that fails while it runs raises ContextLost."""


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one launch, sample by sample, and the conditions under which they were taken.

    `batch` launches make a sample, `warmup` launches came before; `cache` is WARM, FLUSHED or COPIED; `boundary` says
    what a sample includes. `readings` holds what the GPU reported during each sample, or nothing. Raises ValueError
    unless every sample is a time above 0, and there is one.
    """

    samples_ms: tuple[float, ...]
    batch: int
    warmup: int
    cache: str
    boundary: str = BOUNDARY
    readings: tuple[Reading | None, ...] = ()

    def __post_init__(self):
        if not self.samples_ms:
            raise ValueError("there are no samples: take one at least")
        for ms in self.samples_ms:
            if not 0.0 < ms < math.inf:
                raise ValueError(
                    f"a sample is {ms:g} ms, which is no time: see that the clock runs and that work is done"
                )

    @property
    def median_ms(self) -> float:
        """The middle sample: the figure to report."""
        return statistics.median(self.samples_ms)

    @property
    def min_ms(self) -> float:
        """The fastest sample."""
        return min(self.samples_ms)

    @property
    def max_ms(self) -> float:
        """The slowest sample."""
        return max(self.samples_ms)

    @property
    def spread(self) -> float:
        """(max - min) / median: how far the samples lie apart, as a share of the figure reported."""
        return (self.max_ms - self.min_ms) / self.median_ms

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to know before trusting the median: few samples, throttling, an unsteady clock, a drift; in words."""
        spent = _is_spent([self.batch * ms for ms in self.samples_ms])
        said = f"{len(self.samples_ms)} samples were taken, as one more might have passed the {BUDGET_S:g} s for all"
        return *((said,) if spent else ()), *steadiness.remarks(self.samples_ms, self.readings)

    def __str__(self) -> str:
        figures = (
            f"{self.median_ms:.4g} ms (median of {len(self.samples_ms)} samples, {self.min_ms:.4g} to "
            f"{self.max_ms:.4g}; {self.batch} launches a sample after {self.warmup}, {self.cache})"
        )
        return "; ".join([figures, *self.remarks])


def time_kernel(
    launch: Callable[[], None],
    *,
    cache: str = WARM,
    batch: int | None = None,
    samples: int = 20,
    warmup: int = 3,
    name: str = "the kernel",
    cuda: Any = None,
) -> Timing:
    """Time `launch`, which submits one kernel to the current stream, again and again on the same buffers.

    With WARM, events stand around the whole batch; with FLUSHED, around each launch, after twice the L2 has been
    overwritten on the same stream, and the flush hides the submission. `batch` is sized to MIN_SAMPLE_MS unless given.
    Of `samples`, those are taken that fit into BUDGET_S, LEAST_SAMPLES at least. `cuda` stands for `cupy.cuda`.

    Raises ValueError for another cache policy or a count below 1; LaunchFailed, which calls the kernel `name`, when
    `launch` raises; and ContextLost, which names the launch too, when waiting for it does.
    """
    policies = {WARM: (BOUNDARY, lambda cuda: _submit), FLUSHED: (EACH_LAUNCH, _submit_after_flushes)}
    if cache not in policies:
        raise ValueError(f"cache is {shown(cache)}, but must be one of {', '.join(map(repr, policies))}")
    _check_counts(batch=batch, samples=samples, warmup=warmup)
    cuda = cuda or import_module("cupy").cuda
    submission = _Submission(launch, name, cuda)
    _warm_up(submission, warmup)
    boundary, policy = policies[cache]
    submit = policy(cuda)
    batch = batch or _sized_batch(lambda count: submission.wait(submit(submission, count)))
    times, readings = _sample(lambda: submit(submission, batch), submission, samples)
    return Timing(tuple(ms / batch for ms in times), batch, warmup, cache, boundary, readings)


def time_graph(
    launch: Callable[[], None],
    *,
    batch: int | None = None,
    samples: int = 20,
    warmup: int = 3,
    name: str = "the kernel",
    cuda: Any = None,
) -> Timing:
    """Time a batch of `launch` captured once in a CUDA graph, which the host submits by a single call: warm L2.

    For launches shorter than their submission, which may take SUBMISSION_MS. CuPy refuses to capture cuBLAS. Raises
    LaunchFailed also for a batch that cannot be captured; the rest is as for `time_kernel`.
    """
    _check_counts(batch=batch, samples=samples, warmup=warmup)
    cuda = cuda or import_module("cupy").cuda
    submission = _Submission(launch, name, cuda)
    with cuda.Stream() as stream:  # the default stream cannot be captured
        _warm_up(submission, warmup)
        batch = batch or _sized_batch(lambda count: submission.wait(_submit(submission, count)))
        replay = _Submission(_captured(submission, batch, stream).launch, f"the graph of {name}", cuda)
        _warm_up(replay, 1)
        times, readings = _sample(lambda: _submit(replay, 1), replay, samples)
    return Timing(tuple(ms / batch for ms in times), batch, warmup, WARM, GRAPH, readings)


def time_end_to_end(
    run: Callable[[], object],
    *,
    samples: int = 10,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Time `run`, which copies its inputs in, launches, and returns once its result has been copied out.

    `clock` gives seconds on the host. Raises ValueError for a count below 1, and what `run` raises.
    """
    _check_counts(samples=samples, warmup=warmup)

    def sample() -> float:
        begin = clock()
        run()
        return (clock() - begin) * 1e3

    for _ in range(warmup):
        run()
    return Timing(_within_budget(sample, samples), 1, warmup, COPIED, END_TO_END)


@dataclass(frozen=True)
class _Submission:
    """A launch under its name: what goes wrong with it is told apart by the call that raises."""

    submit: Callable[[], object]
    name: str
    cuda: Any

    def launch(self) -> None:
        try:
            self.submit()
        except Exception as error:
            raise LaunchFailed(f"{self.name} could not be launched: {error}") from error

    def wait(self, spans: Sequence[tuple[Any, Any]]) -> float:
        """Wait for the last event, and return the milliseconds of all spans together."""
        try:
            spans[-1][1].synchronize()
        except Exception as error:
            raise ContextLost(self.name, error) from error
        return sum(self.cuda.get_elapsed_time(start, stop) for start, stop in spans)


def _submit(submission: _Submission, count: int) -> list[tuple[Any, Any]]:
    """Submit launches back to back between two events."""
    start, stop = submission.cuda.Event(), submission.cuda.Event()
    start.record()
    for _ in range(count):
        submission.launch()
    stop.record()
    return [(start, stop)]


def _captured(submission: _Submission, count: int, stream: Any) -> Any:
    """Capture launches in a graph. Raises LaunchFailed, of the launch where one is refused, else of the capture."""
    stream.begin_capture()
    try:
        for _ in range(count):
            submission.launch()
    except BaseException:
        with suppress(Exception):  # it fails too where the launch spoiled the capture, and says less
            stream.end_capture()
        raise
    try:
        return stream.end_capture()
    except Exception as error:
        raise LaunchFailed(f"{submission.name} could not be captured in a CUDA graph: {error}") from error


def _submit_after_flushes(cuda: Any) -> Callable[[_Submission, int], list[tuple[Any, Any]]]:
    size = 2 * cuda.Device().attributes["L2CacheSize"]
    ballast = cuda.alloc(size)

    def submit(submission: _Submission, count: int) -> list[tuple[Any, Any]]:
        spans = []
        for _ in range(count):
            ballast.memset_async(0, size)
            spans += _submit(submission, 1)
        return spans

    return submit


def _warm_up(submission: _Submission, launches: int) -> None:
    with context.watched(SimpleNamespace(cuda=submission.cuda), submission.name):
        for _ in range(launches):
            submission.launch()


def _sized_batch(trial_ms: Callable[[int], float]) -> int:
    """Return how many launches last MIN_SAMPLE_MS in a trial, at most MAX_BATCH."""
    count = 1
    while (ms := trial_ms(count)) < MIN_SAMPLE_MS and count < MAX_BATCH:
        needed = math.ceil(count * MIN_SAMPLE_MS / ms) if ms > 0 else MAX_BATCH
        count = min(max(2 * count, needed), MAX_BATCH)
    return count


def _sample(
    submit: Callable[[], list[tuple[Any, Any]]], submission: _Submission, samples: int
) -> tuple[tuple[float, ...], tuple[Reading | None, ...]]:
    """Return the milliseconds of each batch, and what the GPU reported while it ran."""
    runtime = submission.cuda.runtime
    read = sensors.reader(runtime.deviceGetPCIBusId(runtime.getDevice()))
    readings = []

    def sample() -> float:
        spans = submit()
        readings.append(read())  # between submission and wait, so that it takes no time of the sample
        return submission.wait(spans)

    return _within_budget(sample, samples), tuple(readings)


def _within_budget(sample: Callable[[], float], samples: int) -> tuple[float, ...]:
    """Take samples in milliseconds until there are enough, or one more would pass BUDGET_S."""
    times: list[float] = []
    while len(times) < samples and not (len(times) >= LEAST_SAMPLES and _is_spent(times)):
        times.append(sample())
    return tuple(times)


def _is_spent(samples_ms: Sequence[float]) -> bool:
    return sum(samples_ms) + max(samples_ms) > BUDGET_S * 1e3


def _check_counts(**counts: int | None) -> None:
    for name, count in counts.items():
        if count is not None and not (isinstance(count, Integral) and count >= 1):
            raise ValueError(f"{name} is {shown(count)}, but must be an integer of at least 1")
