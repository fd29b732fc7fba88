"""Timing, with events and a clock that a test can read instead of a GPU's."""

import subprocess
import sys
from types import SimpleNamespace

import fake_nvml
import pytest

from gemmlab import timing
from gemmlab.sensors import Reading
from gemmlab.timing import (
    COPIED,
    END_TO_END,
    FLUSHED,
    GRAPH,
    WARM,
    LaunchFailed,
    Timing,
    time_end_to_end,
    time_graph,
    time_kernel,
)

L2 = 60 << 20


class FakeCuda:
    """Stands for cupy.cuda on one stream: every launch takes the next of `launch_ms`, or the last again and again.

    All that happens is in `log`. `fails_at`, a number of a launch from 1, makes its event raise when it is waited for.
    """

    def __init__(self, *launch_ms, fails_at=None):
        self.log = []
        self.now = 0.0
        self.launches = self.records = self.waited = 0
        self.capturing = None
        self._ms = list(launch_ms)
        self._fails_at = fails_at
        self.Event = lambda: FakeEvent(self)
        self.Stream = lambda: FakeStream(self)
        self.Device = lambda: SimpleNamespace(attributes={"L2CacheSize": L2})
        self.alloc = lambda size: SimpleNamespace(memset_async=self.memset_async)
        self.runtime = SimpleNamespace(getDevice=lambda: 0, deviceGetPCIBusId=lambda device: fake_nvml.BUS_ID)

    def launch(self):
        if self.capturing is not None:
            self.capturing.append(self.launch)
            return
        self.log.append("launch")
        self.launches += 1
        self.now += self._ms.pop(0) if len(self._ms) > 1 else self._ms[0]

    def memset_async(self, value, size):
        assert size == 2 * L2
        self.log.append("flush")
        self.now += 1000.0

    @property
    def broken(self):
        return self._fails_at is not None and self.launches >= self._fails_at

    def get_elapsed_time(self, start, stop):
        assert stop.number <= self.waited, "the stop event was read before it, or one after it, was waited for"
        return stop.time - start.time


class FakeEvent:
    def __init__(self, cuda):
        self.cuda = cuda

    def record(self):
        self.cuda.log.append("record")
        self.cuda.records += 1
        self.number = self.cuda.records
        self.time = self.cuda.now

    def synchronize(self):
        self.cuda.log.append("wait")
        if self.cuda.broken:
            raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")
        self.cuda.waited = self.number


class FakeStream:
    def __init__(self, cuda):
        self.cuda = cuda

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def begin_capture(self):
        self.cuda.capturing = []

    def end_capture(self):
        captured, self.cuda.capturing = self.cuda.capturing, None

        def launch():
            self.cuda.log.append("graph")
            for each in captured:
                each()

        return SimpleNamespace(launch=launch)


WARM_UP = ["record", "launch", "record", "wait"]


@pytest.fixture(autouse=True)
def nvml(monkeypatch):
    return fake_nvml.install(monkeypatch)


# A sample.


def test_a_sample_is_the_time_between_two_events_divided_by_the_batch():
    cuda = FakeCuda(99, 1, 2, 3, 4)
    assert time_kernel(cuda.launch, batch=2, samples=2, warmup=1, cuda=cuda).samples_ms == (1.5, 3.5)


def test_launches_stand_between_the_events_and_the_stop_event_is_waited_for():
    cuda = FakeCuda(1)
    time_kernel(cuda.launch, batch=3, samples=1, warmup=1, cuda=cuda)
    assert cuda.log == [*WARM_UP, "record", "launch", "launch", "launch", "record", "wait"]


def test_each_launch_that_warms_up_is_waited_for():
    cuda = FakeCuda(1)
    time_kernel(cuda.launch, batch=1, samples=1, warmup=3, cuda=cuda)
    assert cuda.log == 4 * WARM_UP


def test_a_flush_of_twice_the_l2_stands_outside_the_events_before_each_launch():
    cuda = FakeCuda(99, 5, 7, 9, 11)
    timed = time_kernel(cuda.launch, cache=FLUSHED, batch=2, samples=2, warmup=1, cuda=cuda)
    assert timed.samples_ms == (6, 10)
    assert cuda.log == WARM_UP + 2 * (2 * ["flush", "record", "launch", "record"] + ["wait"])


def test_a_timing_carries_its_conditions():
    cuda = FakeCuda(1.0)
    warm = time_kernel(cuda.launch, batch=2, samples=3, warmup=4, cuda=cuda)
    assert (warm.batch, len(warm.samples_ms), warm.warmup, warm.cache) == (2, 3, 4, WARM)
    flushed = time_kernel(cuda.launch, cache=FLUSHED, batch=1, samples=2, warmup=1, cuda=cuda)
    assert (flushed.batch, flushed.warmup, flushed.cache) == (1, 1, FLUSHED)
    assert warm.boundary != flushed.boundary


# The batch.


@pytest.mark.parametrize(
    ("launch_ms", "batch"),
    [
        (275.0, 1),
        (10.0, 1),
        (2.5, 4),
        (0.0078125, 1280),  # 10 / 2^-7
    ],
)
def test_a_batch_lasts_ten_milliseconds_at_least(launch_ms, batch):
    cuda = FakeCuda(launch_ms)
    timed = time_kernel(cuda.launch, samples=2, cuda=cuda)
    assert (timed.batch, timed.median_ms) == (batch, launch_ms)
    assert timed.batch * timed.median_ms >= timing.MIN_SAMPLE_MS == 10


def test_a_first_trial_that_was_slow_does_not_leave_the_batch_too_short():
    cuda = FakeCuda(1, 9.0, 1.0)  # the trial of one launch takes nine times as long as every later one
    assert time_kernel(cuda.launch, samples=1, warmup=1, cuda=cuda).batch >= 10


def test_a_batch_of_flushed_launches_is_sized_by_their_time_alone():
    cuda = FakeCuda(2.5)
    assert time_kernel(cuda.launch, cache=FLUSHED, samples=1, cuda=cuda).batch == 4


def test_a_batch_stays_within_its_limit_where_a_launch_takes_no_time():
    cuda = FakeCuda(0.0)
    assert time_kernel(cuda.launch, samples=1, cuda=cuda).batch == timing.MAX_BATCH


# Other figures, under other names.


def test_a_captured_batch_is_launched_by_one_call():
    cuda = FakeCuda(0.5)
    timed = time_graph(cuda.launch, batch=3, samples=2, warmup=1, cuda=cuda)
    assert (timed.samples_ms, timed.batch, timed.boundary, timed.cache) == ((0.5, 0.5), 3, GRAPH, WARM)
    replay = ["record", "graph", "launch", "launch", "launch", "record", "wait"]
    assert cuda.log == WARM_UP + 3 * replay  # the first warms the graph up


def test_a_captured_batch_is_sized_as_any_other():
    cuda = FakeCuda(2.5)
    assert time_graph(cuda.launch, samples=1, cuda=cuda).batch == 4


def test_capture_ends_where_a_launch_is_refused():
    cuda = FakeCuda(1)

    def launch():
        if cuda.capturing is not None:
            raise NotImplementedError("calling cuBLAS API during stream capture is currently unsupported")
        cuda.launch()

    with pytest.raises(LaunchFailed, match="sgemm could not be launched: calling cuBLAS"):
        time_graph(launch, batch=1, name="sgemm", cuda=cuda)
    assert cuda.capturing is None


def test_end_to_end_is_the_hosts_time_of_a_whole_run_and_is_named_so():
    ticks = iter([10.0, 10.25, 20.0, 20.5])  # seconds
    runs = []
    timed = time_end_to_end(lambda: runs.append(1), samples=2, warmup=1, clock=lambda: next(ticks))
    assert timed.samples_ms == (250.0, 500.0)
    assert (timed.boundary, timed.cache, timed.batch, timed.warmup, len(runs)) == (END_TO_END, COPIED, 1, 1, 3)


# The sum of it.


def test_every_sample_is_kept_and_summed_up_by_median_extremes_and_spread():
    timed = Timing((4.0, 2.0, 5.0), batch=1, warmup=1, cache=WARM)
    assert (timed.median_ms, timed.min_ms, timed.max_ms, timed.spread) == (4.0, 2.0, 5.0, 0.75)
    assert str(timed) == "4 ms (median of 3 samples, 2 to 5; 1 launches a sample after 1, warm L2)"


def test_the_gpu_is_read_once_a_sample_while_it_runs(nvml):
    cuda = FakeCuda(1)
    seen = []

    def launch():
        cuda.launch()
        nvml.sm -= 10

    def synchronize(event, wait=FakeEvent.synchronize):
        seen.append(nvml.sm)
        wait(event)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeEvent, "synchronize", synchronize)
        timed = time_kernel(launch, batch=2, samples=3, warmup=1, cuda=cuda)
    assert timed.readings == tuple(Reading(mhz, 3201, 36, 300.0, ()) for mhz in (1950, 1930, 1910))
    assert seen[1:] == [1950, 1930, 1910]


def test_what_was_noticed_stands_beside_the_figure(nvml):
    nvml.reasons = 0x4
    cuda = FakeCuda(20)
    timed = time_kernel(cuda.launch, samples=3, cuda=cuda)
    assert timed.remarks == ("throttled in 3 of 3 samples: power cap",)
    assert str(timed).endswith("warm L2); throttled in 3 of 3 samples: power cap")


def test_a_gpu_that_reports_nothing_is_timed_all_the_same(monkeypatch):
    fake_nvml.remove(monkeypatch)
    cuda = FakeCuda(20)
    timed = time_kernel(cuda.launch, samples=2, cuda=cuda)
    assert (timed.median_ms, timed.readings, timed.remarks) == (20, (None, None), ())


# Errors.


def test_a_refused_launch_is_told_at_the_launch_under_its_name():
    def launch():
        raise RuntimeError("CUDA_ERROR_INVALID_VALUE: invalid argument")

    with pytest.raises(LaunchFailed, match="rung 6 could not be launched: CUDA_ERROR_INVALID_VALUE") as caught:
        time_kernel(launch, name="rung 6", cuda=FakeCuda(1))
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("fails_at", [1, 4])
def test_a_launch_that_fails_while_it_runs_is_told_at_the_wait_with_what_to_do(fails_at):
    cuda = FakeCuda(20, fails_at=fails_at)
    with pytest.raises(LaunchFailed, match="rung 6 failed while it ran: cudaErrorIllegalAddress") as caught:
        time_kernel(cuda.launch, name="rung 6", samples=2, warmup=2, cuda=cuda)
    assert "restart the notebook's kernel" in str(caught.value)
    assert cuda.launches == fails_at, "no launch follows the one that failed"


@pytest.mark.parametrize("count", ["batch", "samples", "warmup"])
def test_a_count_below_one_is_refused_by_name(count):
    for time in (time_kernel, time_graph):
        with pytest.raises(ValueError, match=f"{count} is 0, but must be at least 1"):
            time(lambda: None, **{count: 0}, cuda=FakeCuda(1))


def test_another_cache_policy_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="cache is 'cold', but must be one of 'warm L2', 'flushed L2'"):
        time_kernel(lambda: None, cache="cold", cuda=FakeCuda(1))


def test_the_module_needs_no_cupy_to_be_imported():
    code = "import sys; sys.modules['cupy'] = None; import gemmlab.timing, gemmlab.cublas"
    subprocess.run([sys.executable, "-c", code], check=True)
