"""Time of kernels on a GPU, by CUDA events, with every sample kept.

What a sample holds: an event is recorded, a fixed batch of launches is submitted to the same stream, a second event is
recorded and waited for; the time between the events, divided by the batch. Allocation, copies and compilation stay
outside. The work counted for a speed is 2*M*N*K.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BOUNDARY = "CUDA events around a batch of launches on one stream"
WARM = "warm L2"
FLUSHED = "flushed L2"


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one launch, sample by sample, and the conditions under which they were taken.

    `batch` launches make a sample, `warmup` launches came before the first; `cache` is 'warm L2' (each launch finds
    what the last one left) or 'flushed L2' (each launch starts with none of its data there).
    """

    samples_ms: tuple[float, ...]
    batch: int
    warmup: int
    cache: str
    boundary: str = BOUNDARY

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

    def __str__(self) -> str:
        return (
            f"{self.median_ms:.4g} ms (median of {len(self.samples_ms)} samples, {self.min_ms:.4g} to "
            f"{self.max_ms:.4g}; {self.batch} launches a sample after {self.warmup}, {self.cache})"
        )


def time_kernel(
    launch: Callable[[], None], *, batch: int = 5, samples: int = 10, warmup: int = 3, cuda: Any = None
) -> Timing:
    """Time `launch`, which submits one kernel to the current stream, again and again on the same buffers: warm L2.

    `cuda` stands for `cupy.cuda`, of which `Event` and `get_elapsed_time` are used. An error of a launch raises from
    `launch`, an error of its execution when the stop event is waited for. Raises ValueError for a count that is too
    small.
    """
    _check_counts(batch=batch, samples=samples, warmup=warmup)
    cuda = cuda or _cupy_cuda()
    for _ in range(warmup):
        launch()
    times = tuple(_elapsed_ms(launch, batch, cuda) / batch for _ in range(samples))
    return Timing(times, batch, warmup, WARM)


def time_kernel_flushed(
    launch: Callable[[], None], flush: Callable[[], None], *, samples: int = 50, warmup: int = 3, cuda: Any = None
) -> Timing:
    """Time single launches of `launch`, each after `flush` has pushed its data out of L2, outside the events.

    `flush` submits to the same stream; `l2_flush()` makes one. The rest is as for `time_kernel`.
    """
    _check_counts(samples=samples, warmup=warmup)
    cuda = cuda or _cupy_cuda()
    for _ in range(warmup):
        launch()

    def sample() -> float:
        flush()
        return _elapsed_ms(launch, 1, cuda)

    return Timing(tuple(sample() for _ in range(samples)), 1, warmup, FLUSHED)


def l2_flush() -> Callable[[], None]:
    """Return a function that overwrites twice the current GPU's L2, so that nothing older is left in it."""
    import cupy

    ballast = cupy.empty(2 * cupy.cuda.Device().attributes["L2CacheSize"], cupy.uint8)
    return lambda: ballast.fill(0)


def _elapsed_ms(launch: Callable[[], None], batch: int, cuda: Any) -> float:
    start, stop = cuda.Event(), cuda.Event()
    start.record()
    for _ in range(batch):
        launch()
    stop.record()
    stop.synchronize()
    return cuda.get_elapsed_time(start, stop)


def _cupy_cuda() -> Any:
    import cupy

    return cupy.cuda


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} is {count}, but must be at least 1")
