"""The model of a stream: what it says follows from its three rules by hand."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_rgba

from gemmlab import stream_model
from gemmlab.figures import stream_pictures
from gemmlab.stream_model import DEVICE, HOST, NotReady, Span, Stream
from gemmlab.timing import time_kernel


def test_a_launch_returns_after_its_submission_and_runs_when_the_last_has_ended():
    stream = Stream(kernel_ms=2.0, submit_ms=0.5)
    stream.launch()
    stream.launch()
    assert stream.clock() == 1.0e-3
    assert [span for span in stream.spans if span.where == DEVICE] == [
        Span(DEVICE, "kernel", 0.5, 2.5),
        Span(DEVICE, "kernel", 2.5, 4.5),
    ]


def test_a_short_kernel_starts_when_it_has_been_submitted():
    stream = Stream(kernel_ms=0.25, submit_ms=0.5)
    stream.launch()
    stream.launch()
    assert [span.begin for span in stream.spans if span.where == DEVICE] == [0.5, 1.0]


def test_a_host_that_does_not_wait_is_drawn_without_a_wait():
    at_once, waiting, _ = stream_model.stories(kernel_ms=3.0, submit_ms=0.5)
    assert "wait" not in [span.what for span in at_once.spans] and "wait" in [span.what for span in waiting.spans]


def test_waiting_holds_the_host_until_the_device_is_done():
    stream = Stream(kernel_ms=2.0, submit_ms=0.5)
    stream.launch()
    stream.synchronize()
    assert stream.clock() == 2.5e-3
    assert stream.spans[-1] == Span(HOST, "wait", 0.5, 2.5)
    stream.synchronize()
    assert stream.clock() == 2.5e-3, "there is nothing more to wait for"


def test_the_first_launch_alone_compiles():
    stream = Stream(kernel_ms=1.0, submit_ms=0.5, compile_ms=100.0)
    stream.launch()
    assert stream.clock() == 100.5e-3
    stream.launch()
    assert stream.clock() == 101.0e-3


def test_an_event_has_the_devices_time_of_its_place_in_the_stream():
    stream = Stream(kernel_ms=2.0, submit_ms=0.5)
    start, stop = stream.Event(), stream.Event()
    stream.submit("earlier kernel", 8.0)
    start.record()
    stream.launch()
    stop.record()
    stop.synchronize()
    assert (start.moment, stop.moment) == (8.5, 10.5)
    assert stream.get_elapsed_time(start, stop) == 2.0


def test_an_event_that_nobody_waited_for_or_recorded_cannot_be_read():
    stream = Stream(kernel_ms=2.0)
    start, stop = stream.Event(), stream.Event()
    start.record()
    stream.launch()
    with pytest.raises(NotReady, match="stop event was never recorded"):
        stream.get_elapsed_time(start, stop)
    stop.record()
    with pytest.raises(NotReady, match="stop event has not been reached: wait for it first"):
        stream.get_elapsed_time(start, stop)
    with pytest.raises(NotReady, match="never recorded"):
        stream.Event().synchronize()


def test_every_way_of_cupy_to_wait_waits():
    for wait in (
        lambda stream: stream.Device().synchronize(),
        lambda stream: stream.get_current_stream().synchronize(),
        lambda stream: stream.Stream.null.synchronize(),
        lambda stream: stream.runtime.deviceSynchronize(),
    ):
        stream = Stream(kernel_ms=2.0, submit_ms=0.5)
        stream.launch()
        wait(stream)
        assert stream.clock() == 2.5e-3


def test_a_loop_without_end_is_ended():
    stream = Stream(kernel_ms=1.0)
    with pytest.raises(RuntimeError, match="more than 100,000 calls"):
        while True:
            stream.clock()


def test_a_duration_below_zero_or_that_is_no_number_is_refused():
    for value in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="submit_ms is"):
            Stream(1.0, submit_ms=value)


def test_three_stopwatches_count_submission_all_that_was_queued_and_the_kernel():
    at_once, waiting, events = stream_model.stories(kernel_ms=2.0, submit_ms=0.25)
    assert (at_once.counted_ms, waiting.counted_ms, events.counted_ms) == (0.25, 4.0, 2.0)


@pytest.mark.parametrize(
    ("kernel_ms", "submit_ms", "counted"),
    [
        # On an idle device the first launch waits for its submission; then the slower of the two sets the pace.
        (2.0, 0.5, 0.5 + 4 * 2.0),
        (0.25, 0.5, 4 * 0.5 + 0.25),
    ],
)
def test_a_batch_goes_at_the_pace_of_the_slower_of_kernel_and_submission(kernel_ms, submit_ms, counted):
    assert stream_model.batch(kernel_ms, 4, submit_ms).counted_ms == counted


def test_a_batch_of_none_is_refused():
    with pytest.raises(ValueError, match="launches is 0, but must be at least 1"):
        stream_model.batch(1.0, 0, 0.01)


def test_what_times_kernels_finds_the_models_time_behind_compilation_and_earlier_work(monkeypatch):
    class Cuda(Stream):
        """With what timing asks of cupy.cuda besides."""

        def __init__(self, *durations):
            super().__init__(*durations)
            self.runtime.getDevice = lambda: 0
            self.runtime.deviceGetPCIBusId = lambda device: "0000:99:00.0"

    stream = Cuda(2.0, 0.01, 300.0)
    stream.submit("earlier kernel", 50.0)
    timed = time_kernel(stream.launch, samples=3, cuda=stream)
    # The first launch of a batch waits for its submission: 0.01 ms over a batch of 10 ms or more.
    assert timed.batch >= 5
    assert timed.samples_ms == pytest.approx([2.0 + 0.01 / timed.batch] * 3)


# Pictures.


def test_a_time_line_shows_every_span_says_what_is_counted_and_that_nothing_is_measured():
    stories = stream_model.stories()
    figure = stream_pictures.timelines(stories)
    figure.canvas.draw()
    for axis, story in zip(figure.axes, stories, strict=True):
        assert len(axis.patches) >= len(story.spans)
        assert axis.get_title(loc="left") == story.title
        assert f"counted: {story.counted_ms:g} ms" in axis.texts[-1].get_text()
    assert "not measured" in figure.axes[-1].get_xlabel()
    assert figure.get_facecolor() == to_rgba("white")
    plt.close(figure)


def test_a_move_of_the_player_says_what_a_launch_takes_beside_the_kernel():
    text, png = stream_pictures.batch_view(kernel_ms=0.002, submit_ms=0.01, launches=5)
    # (5 x 0.01 + 0.002) / 5
    assert text == "in the model, a launch takes 0.0104 ms by the batch, and the kernel 0.002 ms: 5.2 times as long"
    assert png.startswith(b"\x89PNG")


def test_the_player_moves():
    player = stream_pictures.batch_player()
    kernel, _, launches = player.children[:3]
    before = player.children[3].value
    kernel.value, launches.value = 0.1, 20
    # 0.01 once, and twenty kernels
    assert "takes 0.1005 ms" in player.children[3].value != before
