"""Timing, with events that a test can read instead of a GPU's."""

import subprocess
import sys

import pytest

from gemmlab.timing import FLUSHED, WARM, Timing, time_kernel, time_kernel_flushed


class FakeCuda:
    """Stands for cupy.cuda on one stream: every launch takes `launch_ms`, and all that happens is in `log`."""

    def __init__(self, *launch_ms):
        self.log = []
        self.now = 0.0
        self._launch_ms = iter(launch_ms)
        self.Event = lambda: FakeEvent(self)

    def launch(self):
        self.log.append("launch")
        self.now += next(self._launch_ms)

    def flush(self):
        self.log.append("flush")
        self.now += 1000.0

    def get_elapsed_time(self, start, stop):
        assert stop.synchronized, "the stop event was read before it was waited for"
        return stop.time - start.time


class FakeEvent:
    def __init__(self, cuda):
        self.cuda = cuda
        self.synchronized = False

    def record(self):
        self.cuda.log.append("record")
        self.time = self.cuda.now

    def synchronize(self):
        self.cuda.log.append("synchronize")
        self.synchronized = True


def test_a_sample_is_the_time_between_two_events_divided_by_the_batch():
    cuda = FakeCuda(99, 1, 2, 3, 4)
    timing = time_kernel(cuda.launch, batch=2, samples=2, warmup=1, cuda=cuda)
    assert timing.samples_ms == (1.5, 3.5)


def test_launches_stand_between_the_events_and_the_stop_event_is_waited_for():
    cuda = FakeCuda(1, 1, 1, 1)
    time_kernel(cuda.launch, batch=3, samples=1, warmup=1, cuda=cuda)
    assert cuda.log == ["launch", "record", "launch", "launch", "launch", "record", "synchronize"]


def test_the_flush_stands_outside_the_events_before_each_launch():
    cuda = FakeCuda(99, 5, 7)
    timing = time_kernel_flushed(cuda.launch, cuda.flush, samples=2, warmup=1, cuda=cuda)
    assert timing.samples_ms == (5, 7)
    assert cuda.log == ["launch"] + 2 * ["flush", "record", "launch", "record", "synchronize"]


def test_a_timing_carries_its_conditions():
    cuda = FakeCuda(*[1.0] * 20)
    warm = time_kernel(cuda.launch, batch=2, samples=3, warmup=4, cuda=cuda)
    assert (warm.batch, len(warm.samples_ms), warm.warmup, warm.cache) == (2, 3, 4, WARM)
    flushed = time_kernel_flushed(cuda.launch, cuda.flush, samples=2, warmup=1, cuda=cuda)
    assert (flushed.batch, flushed.warmup, flushed.cache) == (1, 1, FLUSHED)


def test_every_sample_is_kept_and_summed_up_by_median_extremes_and_spread():
    timing = Timing((4.0, 2.0, 5.0), batch=1, warmup=1, cache=WARM)
    assert (timing.median_ms, timing.min_ms, timing.max_ms, timing.spread) == (4.0, 2.0, 5.0, 0.75)
    assert str(timing) == "4 ms (median of 3 samples, 2 to 5; 1 launches a sample after 1, warm L2)"


def test_an_error_of_a_launch_reaches_the_caller():
    def launch():
        raise RuntimeError("invalid configuration")

    with pytest.raises(RuntimeError, match="invalid configuration"):
        time_kernel(launch, cuda=FakeCuda())


@pytest.mark.parametrize("count", ["batch", "samples", "warmup"])
def test_a_count_below_one_is_refused_by_name(count):
    with pytest.raises(ValueError, match=f"{count} is 0, but must be at least 1"):
        time_kernel(lambda: None, **{count: 0}, cuda=FakeCuda())


def test_the_module_needs_no_cupy_to_be_imported():
    code = "import sys; sys.modules['cupy'] = None; import gemmlab.timing, gemmlab.cublas"
    subprocess.run([sys.executable, "-c", code], check=True)
