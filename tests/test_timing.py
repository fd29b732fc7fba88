"""Timing, with events and a clock that a test can read instead of a GPU's."""

import statistics
import subprocess
import sys
from pathlib import Path

import fake_nvml
import pytest
from fake_cuda import FakeCuda, FakeEvent, FakeStream

from gemmlab import context, timing
from gemmlab.context import ContextLost
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


@pytest.fixture(autouse=True)
def nvml(monkeypatch):
    monkeypatch.setattr(context, "_ended", [])
    return fake_nvml.install(monkeypatch)


# A sample.


def test_a_sample_is_the_time_between_two_events_divided_by_the_batch():
    cuda = FakeCuda(99, 1, 2, 3, 4)
    assert time_kernel(cuda.launch, batch=2, samples=2, warmup=1, cuda=cuda).samples_ms == (1.5, 3.5)


def test_launches_stand_between_the_events_and_the_stop_event_is_waited_for():
    cuda = FakeCuda(1)
    time_kernel(cuda.launch, batch=3, samples=1, warmup=1, cuda=cuda)
    assert cuda.log == ["launch", "record", "launch", "launch", "launch", "record", "wait"]


def test_a_flush_of_twice_the_l2_stands_outside_the_events_before_each_launch():
    cuda = FakeCuda(99, 5, 7, 9, 11)
    timed = time_kernel(cuda.launch, cache=FLUSHED, batch=2, samples=2, warmup=1, cuda=cuda)
    assert timed.samples_ms == (6, 10)
    assert cuda.log == ["launch"] + 2 * (2 * ["flush", "record", "launch", "record"] + ["wait"])


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


def test_a_batch_stays_within_its_limit_where_a_launch_takes_next_to_no_time():
    cuda = FakeCuda(1e-6)
    assert time_kernel(cuda.launch, samples=1, cuda=cuda).batch == timing.MAX_BATCH


@pytest.mark.parametrize("milliseconds", [0.0, -1.0, float("nan"), float("inf")])
def test_what_a_clock_gives_and_is_no_time_is_refused(milliseconds):
    cuda = FakeCuda(milliseconds)
    with pytest.raises(ValueError, match=r"a sample is .* ms, which is no time"):
        time_kernel(cuda.launch, samples=1, cuda=cuda)
    with pytest.raises(ValueError, match="a sample is 0 ms, which is no time"):
        time_end_to_end(lambda: None, clock=lambda: 7.0)


def test_a_figure_of_no_samples_is_refused():
    with pytest.raises(ValueError, match="there are no samples"):
        Timing((), batch=1, warmup=1, cache=WARM)


# Other figures, under other names.


def test_a_captured_batch_is_launched_by_one_call():
    cuda = FakeCuda(0.5)
    timed = time_graph(cuda.launch, batch=3, samples=2, warmup=1, cuda=cuda)
    assert (timed.samples_ms, timed.batch, timed.boundary, timed.cache) == ((0.5, 0.5), 3, GRAPH, WARM)
    replay = ["record", "graph", "launch", "launch", "launch", "record", "wait"]
    assert cuda.log == ["launch", "graph", "launch", "launch", "launch"] + 2 * replay


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


def test_an_end_of_capture_that_fails_too_does_not_hide_the_launch_that_was_refused():
    cuda = FakeCuda(1)
    stream = FakeStream(cuda)

    def end_capture():
        raise RuntimeError("cudaErrorStreamCaptureInvalidated")

    def launch():
        if cuda.capturing is not None:
            raise RuntimeError("invalid argument")
        cuda.launch()

    stream.end_capture, cuda.Stream = end_capture, lambda: stream
    with pytest.raises(LaunchFailed, match="mine could not be launched: invalid argument"):
        time_graph(launch, batch=1, name="mine", cuda=cuda)


def test_a_capture_that_fails_at_its_end_is_told_as_that_of_the_launch_and_not_as_a_bare_error_of_cuda():
    cuda = FakeCuda(1)
    stream = FakeStream(cuda)

    def end_capture():
        cuda.capturing = None
        raise RuntimeError("cudaErrorStreamCaptureUnjoined")

    stream.end_capture, cuda.Stream = end_capture, lambda: stream
    with pytest.raises(LaunchFailed, match=r"mine could not be captured in a CUDA graph: cudaErrorStreamCaptureUnjoi"):
        time_graph(cuda.launch, batch=1, name="mine", cuda=cuda)


@pytest.mark.parametrize(
    ("launch_ms", "taken"),
    [
        (60_000.0, 3),  # three in any case
        (7_000.0, 8),  # 56 s; nine would take 63 s
        (3_000.0, 20),  # 60 s, which is not more than 60 s
        (100.0, 20),
    ],
)
def test_samples_end_within_a_minute_but_for_the_least_three_and_the_remarks_tell(launch_ms, taken):
    cuda = FakeCuda(launch_ms)
    timed = time_kernel(cuda.launch, samples=20, warmup=1, cuda=cuda)
    assert len(timed.samples_ms) == len(timed.readings) == taken
    said = f"{taken} samples were taken, as one more might have passed the 60 s for all"
    assert timed.remarks == ((said,) if launch_ms >= 3000 else ())


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
    assert seen == [1950, 1930, 1910]


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


# Milliseconds of one launch at 256^3, twenty batches of five: `climb` on an NVIDIA H200, driver 580.159.04, 2026-11-30.
CUBLAS_256 = (
    *(0.04435, 0.03736, 0.0346, 0.03571, 0.03612, 0.0359, 0.03502, 0.03643, 0.041, 0.03887),
    *(0.03685, 0.03449, 0.03533, 0.03528, 0.03589, 0.0414, 0.03585, 0.03584, 0.037, 0.03628),
)
RUNG_2_256 = (
    *(0.01418, 0.01386, 0.01288, 0.01406, 0.01256, 0.01678, 0.01341, 0.01286, 0.01382, 0.01283),
    *(0.01771, 0.01297, 0.01325, 0.0135, 0.01227, 0.0136, 0.01252, 0.01644, 0.01388, 0.01261),
)


def test_what_a_submission_may_take_is_the_median_of_cublas_in_the_run_that_it_names():
    assert round(statistics.median(CUBLAS_256), 3) == timing.SUBMISSION_MS
    assert round(statistics.median(RUNG_2_256), 4) == 0.0135 and "0.0135" in Path(timing.__file__).read_text()


def test_resolution_and_one_submission_are_less_than_half_a_percent_of_the_shortest_batch():
    # 0.0005 ms is what the manual of the CUDA Driver API gives for cuEventElapsedTime.
    assert (0.0005 + timing.SUBMISSION_MS) / timing.MIN_SAMPLE_MS < 0.005


# Errors.


def test_a_refused_launch_is_told_at_the_launch_under_its_name():
    def launch():
        raise RuntimeError("CUDA_ERROR_INVALID_VALUE: invalid argument")

    with pytest.raises(LaunchFailed, match="rung 6 could not be launched: CUDA_ERROR_INVALID_VALUE") as caught:
        time_kernel(launch, name="rung 6", cuda=FakeCuda(1))
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("fails_at", [1, 3])
def test_a_launch_that_fails_while_it_runs_is_told_at_the_wait_under_its_name(fails_at):
    cuda = FakeCuda(20, fails_at=fails_at)
    with pytest.raises(ContextLost, match=r"(?is)^rung 6 ended .*cudaErrorIllegalAddress.*restart"):
        time_kernel(cuda.launch, name="rung 6", batch=1, samples=2, warmup=2, cuda=cuda)
    assert cuda.launches == max(2, fails_at), "nothing is launched after the wait"


def test_a_context_that_an_earlier_launch_has_ended_is_not_laid_at_this_ones_door():
    cuda = FakeCuda(20, fails_at=0)
    with pytest.raises(ContextLost, match=r"(?i)^a launch before rung 6 ended"):
        time_kernel(cuda.launch, name="rung 6", cuda=cuda)
    assert cuda.launches == 0


@pytest.mark.parametrize("count", ["batch", "samples", "warmup"])
@pytest.mark.parametrize("value", [0, -1, 2.5, "5"])
def test_a_count_that_is_none_is_refused_by_name(count, value):
    for time in (time_kernel, time_graph):
        with pytest.raises(ValueError, match=f"{count} is {value!r}, but must be an integer of at least 1"):
            time(lambda: None, **{count: value}, cuda=FakeCuda(1))


def test_another_cache_policy_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="cache is 'cold', but must be one of 'warm L2', 'flushed L2'"):
        time_kernel(lambda: None, cache="cold", cuda=FakeCuda(1))


def test_the_module_needs_no_cupy_to_be_imported():
    code = "import sys; sys.modules['cupy'] = None; import gemmlab.timing, gemmlab.cublas"
    subprocess.run([sys.executable, "-c", code], check=True)
