"""Checks of the exercises on measuring: a stopwatch, samples that were throttled, and work that 2*M*N*K does not count.

They answer as `exercises` does. The stopwatch is tried on the model of a stream, which knows how long its kernel takes;
the samples of the second exercise are made up for it, from a number of cycles and a clock. Nothing here is measured.
"""

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

from gemmlab import exercises, roofline
from gemmlab.exercises import NOT_ATTEMPTED, Refused, shown
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung
from gemmlab.sensors import Reading
from gemmlab.stream_model import Stream

Stopwatch = Callable[[Callable[[], None], Stream, Callable[[], float]], Any]

ALLOWED = 0.05  # by which share a stopwatch may differ from the kernel's own time
KERNELS_MS = (5.0, 0.5)
SUBMIT_MS, COMPILE_MS, EARLIER_MS = 0.01, 300.0, 8.0
TILED = Gemm(130, 130, 20)  # two rows and columns beyond a tile of rung 6, four steps beyond a chunk

CYCLES = 5_940_000  # of the made-up kernel: 3 ms at 1980 MHz
FULL_MHZ = 1980
CLOCKS = {
    0: (1485, (), "GpuIdle"),  # taken before the clock had risen
    5: (1650, ("power cap",), "SwPowerCap"),
    6: (1760, ("power cap",), "SwPowerCap"),
    9: (1320, ("temperature, by the driver",), "SwThermalSlowdown"),
}
"""The clock in MHz of samples that were not at full clock, what it is slowed by, and NVML's name of the reason."""
FULL = (FULL_MHZ, (), "None")
DISTURBED = {3: 0.9}  # milliseconds that another program took from a sample, at full clock
SAMPLES = 12


def stopwatch(attempt: Stopwatch) -> str:
    """Judge a stopwatch(launch, cuda, clock) that returns the milliseconds of one launch.

    It is tried on kernels of KERNELS_MS, of which one has not been launched before, while the device is still busy with
    something else.
    """
    if attempt is ...:
        return f"{NOT_ATTEMPTED}: write a function in place of the dots"
    if not callable(attempt):
        raise Refused(f"{shown(attempt)} is no function: write def stopwatch(launch, cuda, clock)")
    for kernel_ms in KERNELS_MS:
        stream = Stream(kernel_ms, SUBMIT_MS, COMPILE_MS)
        stream.submit("earlier kernel", EARLIER_MS)
        try:
            found = attempt(stream.launch, stream, stream.clock)
        except Exception as error:
            raise Refused(f"it raised {type(error).__name__}: {error}") from None
        if found is ...:
            return f"{NOT_ATTEMPTED}: return milliseconds in place of the dots"
        _require_time(found, kernel_ms, stream)
    return (
        f"accepted: within {ALLOWED:.0%} of {' and '.join(f'{ms:g} ms' for ms in KERNELS_MS)}, kernels that the model "
        "knows, the first launch and earlier work left out. timing.time_kernel does the same, many times over. "
        "Next: exercise 2."
    )


def samples() -> tuple[tuple[float, Reading], ...]:
    """Return the made-up samples: milliseconds of one launch, and what the GPU reported during each."""
    return tuple(_sample(number) for number in range(SAMPLES))


def samples_table() -> str:
    """Return the made-up samples as text, a line each, with the clock and NVML's reason for it."""
    rows = [f"{'sample':>6}  {'ms':>6}  {'clock MHz':>9}  reason for the clock (all made up)"]
    rows += [
        f"{number:>6}  {ms:>6.3f}  {reading.sm_mhz:>9}  {CLOCKS.get(number, FULL)[2]}"
        for number, (ms, reading) in enumerate(samples())
    ]
    return "\n".join(rows)


def throttled(answer: Any) -> str:
    """Judge which of the made-up samples were throttled, by their numbers."""
    if answer is ...:
        return f"{NOT_ATTEMPTED}: put numbers of samples in place of the dots"
    try:
        named = set(answer)
    except TypeError:
        raise Refused(f"{shown(answer)} is no collection of numbers: write, say, {{1, 2}}") from None
    odd = [each for each in named if isinstance(each, bool) or not isinstance(each, Integral)]
    if isinstance(answer, str | bytes) or odd:
        raise Refused(f"{shown(answer)} holds what is no integer: write the numbers of samples, say {{1, 2}}")
    right = {number for number, (_, reading) in enumerate(samples()) if reading.slowed_by}
    wrong = [f"sample {_written(number)}: {_evidence(number)}" for number in sorted(named - right)]
    if wrong:
        raise Refused("not throttled, though named\n" + "\n".join(wrong))
    if named != right:
        raise Refused(f"{len(right - named)} of {len(right)} throttled samples are missing: read what the GPU reported")
    return (
        f"accepted: {len(right)} of {SAMPLES}. A slow sample is not throttled for that, and a low clock is not either: "
        "the GPU says so itself. Next: exercise 3."
    )


def work(predicted: Mapping[str, Any]) -> str:
    """Judge predictions of FLOPs at TILED: by the convention, exactly, and as rung 6 executes them with its tile."""
    tile = rung("warp_tiles").tile
    counted = {
        "2 M N K": TILED.flops,
        "exactly": roofline.exact_flops(TILED),
        "executed by rung 6": roofline.padded_flops(TILED, tile["BM"], tile["BN"], tile["BK"]),
    }
    share = TILED.flops / counted["executed by rung 6"]
    return exercises.judge_numbers(
        exercises.answers_to(counted, predicted),
        counted,
        f"{share:.0%} of what is executed is counted here: the same kernel at the same speed of the hardware gets a "
        "lower figure just beyond an edge. Next: the quiz.",
        "arithmetic on the shape and the tile gives",
    )


def _require_time(found: Any, kernel_ms: float, stream: Stream) -> None:
    if isinstance(found, bool) or not isinstance(found, Real) or not _finite(found):
        raise Refused(f"it returned {shown(found)}, which is no number of milliseconds")
    found = float(found)
    if abs(found - kernel_ms) <= ALLOWED * kernel_ms:
        return
    launches = sum(span.what == "kernel" for span in stream.spans)
    raise Refused(
        f"it returned {found:.4g} ms for a kernel that takes {kernel_ms:g} ms in the model. There, a submission takes "
        f"the host {SUBMIT_MS:g} ms, the first launch {COMPILE_MS:g} ms more; the device was busy with something else "
        f"for {EARLIER_MS:g} ms, and the kernel was launched {launches} times"
    )


def _finite(number: Real) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # of an integer beyond all floats
        return False


def _sample(number: int) -> tuple[float, Reading]:
    mhz, slowed_by, _ = CLOCKS.get(number, FULL)
    return CYCLES / mhz / 1e3 + DISTURBED.get(number, 0.0), Reading(mhz, 3201, 60, None, slowed_by)


def _written(number: int) -> str:
    return shown(int(number))  # which NumPy's integers would else be told as


def _evidence(number: Any) -> str:
    if number not in range(SAMPLES):
        return f"there is none, only 0 to {SAMPLES - 1}"
    ms, reading = samples()[number]
    return f"{ms:.3f} ms, {reading}; nothing is reported that holds the clock down"
