"""A model of one CUDA stream and the host that feeds it: in which order things happen. Nothing in it is measured.

Three rules, of the CUDA C++ Programming Guide's asynchronous execution: a call that submits work returns at once, after
it has taken the host a little; the device does what a stream was given in order, each thing when it has been submitted
and the last has ended; waiting holds the host until the device is done. All durations are given, in milliseconds.

A Stream answers as `cupy.cuda` does, so code that times a kernel can be tried on it: what is wrong with a stopwatch
then shows in its figure, since the model knows the answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

HOST, DEVICE = "host", "device"
MOST_CALLS = 100_000


class Span(NamedTuple):
    """What the host or the device was busy with, from `begin` to `end` in milliseconds of the model."""

    where: str
    what: str
    begin: float
    end: float


class NotReady(RuntimeError):
    """CUDA's cudaErrorNotReady: an event was read that the device has not come to yet, or that nobody recorded."""


class Stream:
    """A stream on which each launch of one kernel runs for `kernel_ms`, and takes the host `submit_ms` to submit.

    The first launch takes the host `compile_ms` more: CuPy compiles a kernel when it is first called. `spans` holds all
    that happened. Raises ValueError for a duration below zero.
    """

    def __init__(self, kernel_ms: float, submit_ms: float = 0.01, compile_ms: float = 0.0):
        durations = {"kernel_ms": kernel_ms, "submit_ms": submit_ms, "compile_ms": compile_ms}
        for name, value in durations.items():
            if not value >= 0:
                raise ValueError(f"{name} is {value}, but a duration is 0 or more")
        self.kernel_ms, self.submit_ms = kernel_ms, submit_ms
        self.spans: list[Span] = []
        self._host_now = self._device_free = 0.0
        self._compile_ms, self._calls = compile_ms, 0
        # The names under which CuPy has them.
        self.Event = lambda: Event(self)
        self.Device = self.get_current_stream = lambda: SimpleNamespace(synchronize=self.synchronize)
        self.Stream = SimpleNamespace(null=SimpleNamespace(synchronize=self.synchronize))
        self.runtime = SimpleNamespace(deviceSynchronize=self.synchronize)

    def clock(self) -> float:
        """Return the host's time in seconds, as time.perf_counter does."""
        self._count_call()
        return self._host_now / 1e3

    def launch(self) -> None:
        """Submit the kernel; the host goes on while the device runs it."""
        if self._compile_ms:
            self._busy_host("compile", self._compile_ms)
            self._compile_ms = 0.0
        self.submit("kernel", self.kernel_ms)

    def submit(self, what: str, milliseconds: float) -> None:
        """Submit work that takes the device so long."""
        self._count_call()
        self._busy_host("submit", self.submit_ms)
        begin = max(self._host_now, self._device_free)
        self._device_free = begin + milliseconds
        self.spans.append(Span(DEVICE, what, begin, self._device_free))

    def synchronize(self) -> None:
        """Hold the host until the device has done all that it was given."""
        self.wait_until(self._device_free)

    def wait_until(self, moment: float) -> None:
        """Hold the host until a moment in milliseconds, or not at all if that is past."""
        self._count_call()
        if moment > self._host_now:
            self.spans.append(Span(HOST, "wait", self._host_now, moment))
            self._host_now = moment

    def get_elapsed_time(self, start: "Event", stop: "Event") -> float:
        """Return the milliseconds from one event to another. Raises NotReady while the device has not come to both."""
        for name, event in (("start", start), ("stop", stop)):
            if event.moment is None or event.moment > self._host_now:
                raise NotReady(
                    f"cudaErrorNotReady: the {name} event "
                    + ("was never recorded" if event.moment is None else "has not been reached: wait for it first")
                )
        return stop.moment - start.moment

    def stamp(self) -> float:
        """Return when the device will have come to this place of the stream."""
        self._count_call()
        return max(self._host_now, self._device_free)

    def _busy_host(self, what: str, milliseconds: float) -> None:
        self.spans.append(Span(HOST, what, self._host_now, self._host_now + milliseconds))
        self._host_now += milliseconds

    def _count_call(self) -> None:
        self._calls += 1
        if self._calls > MOST_CALLS:
            raise RuntimeError(f"the stopwatch made more than {MOST_CALLS:,} calls: does a loop of it ever end?")


class Event:
    """A mark in a stream, as cupy.cuda.Event: the device notes the time when it comes to it."""

    def __init__(self, stream: Stream):
        self._stream = stream
        self.moment: float | None = None

    def record(self, stream: object = None) -> None:
        """Put the mark behind all that was submitted so far."""
        self.moment = self._stream.stamp()

    def synchronize(self) -> None:
        """Hold the host until the device has come to the mark. Raises NotReady where none was put."""
        if self.moment is None:
            raise NotReady("cudaErrorNotReady: the event was never recorded")
        self._stream.wait_until(self.moment)


@dataclass(frozen=True)
class Story:
    """Launches timed on the model: what was busy when, and what counted as their time, from `begin` to `end`."""

    title: str
    spans: Sequence[Span]
    begin: float
    end: float

    @property
    def counted_ms(self) -> float:
        """The time that this way of timing reports for all launches together."""
        return self.end - self.begin


def stories(kernel_ms: float = 2.0, submit_ms: float = 0.25) -> tuple[Story, ...]:
    """Return three ways to time one launch behind an earlier one: a host's clock read at once or after waiting, events.

    The default submission is far longer than it is, to be seen in a picture.
    """
    at_once, waiting, events = streams = [Stream(kernel_ms, submit_ms) for _ in range(3)]
    for stream in streams:
        stream.submit("earlier kernel", kernel_ms)
    return (
        _on_the_host("host clock, read when the call returns", at_once, lambda: None),
        _on_the_host("host clock, read after waiting", waiting, waiting.synchronize),
        _by_events("two events", events, 1),
    )


def batch(kernel_ms: float, launches: int, submit_ms: float) -> Story:
    """Return a batch of launches between two events on an idle device. Raises ValueError for none, or below zero."""
    if launches < 1:
        raise ValueError(f"launches is {launches}, but must be at least 1")
    return _by_events(f"{launches} launches between two events", Stream(kernel_ms, submit_ms), launches)


def _on_the_host(title: str, stream: Stream, wait: Callable[[], None]) -> Story:
    begin = stream.clock()
    stream.launch()
    wait()
    end = stream.clock()
    return Story(title, tuple(stream.spans), begin * 1e3, end * 1e3)


def _by_events(title: str, stream: Stream, launches: int) -> Story:
    start, stop = stream.Event(), stream.Event()
    start.record()
    for _ in range(launches):
        stream.launch()
    stop.record()
    stop.synchronize()
    return Story(title, tuple(stream.spans), start.moment, stop.moment)
