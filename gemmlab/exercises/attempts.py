"""Attempts in CUDA: told as such where they are no source, have gaps, never end or are wrong; none floods the page."""

import contextlib
import io
import re
import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TextIO

from gemmlab import correctness, emulator, launch, nvrtc, roofline
from gemmlab.exercises.judging import NOT_ATTEMPTED, Refused, shown
from gemmlab.gemm import Gemm
from gemmlab.launch import Kernel

TRACED = Gemm(33, 31, 9)
# Each array has more elements in one of them than 16 bits tell apart.
LARGE = (Gemm(4097, 17, 17), correctness.DISCRIMINATING), (Gemm(17, 4097, 17), correctness.DISCRIMINATING)
SECONDS = 25.0  # for all launches of an attempt; a right one takes one to three on a core of a Xeon
LOADS = ("ld.global", "cp.async.global")
MOST_PRINTED = 2000  # characters that an attempt's printf shows
_QUOTED = re.compile(r'"(?:\\.|[^"\\\n])*"')


def of_source(judge: Callable[[str], str]) -> Callable[[Any], str]:
    """Return a judge of CUDA sources that answers 'not attempted' to gaps, marked by dots, and raises Refused also for
    what is no source, defines no such kernel, faults, or has not ended after SECONDS.

    It raises nvrtc.CompileError in the compiler's words, and shows MOST_PRINTED characters of what attempts print.
    """

    @wraps(judge)
    def judged(source: Any) -> str:
        source = "..." if source is ... else source
        if not isinstance(source, str) or re.search("[\0\ud800-\udfff]", source):
            raise Refused(f"{shown(source)} is no CUDA source: put the text of a kernel between triple quotes")
        if not source.strip() or "..." in bare(_QUOTED.sub("", source)):
            return f"{NOT_ATTEMPTED}: put code in place of the dots"
        with emulator.time_budget(SECONDS), contextlib.redirect_stdout(_Excerpt(sys.stdout)):
            try:
                return judge(source)
            except (emulator.KernelFault, emulator.UnsupportedInstruction, nvrtc.KernelNotFound) as error:
                raise Refused(str(error)) from None

    return judged


def require_right(attempt: Kernel) -> None:
    """Raise Refused with what its examination says, the one at LARGE too, or with the first hazards of an attempt whose
    results are right.
    """
    for examination in (correctness.examine, partial(correctness.judge, planned=LARGE)):
        if not (examined := examination(attempt)).correct:
            raise Refused(examined.message)
    traced = launch.trace(attempt, TRACED)
    if traced.hazards:
        raise Refused("right here, but by luck: " + "\n".join(map(str, traced.hazards)))


def require_tiled(attempt: Kernel, problem: Gemm, side: int) -> None:
    """Raise Refused where a launch loads more of A and B from global memory than tiles of `side` x `side` need."""
    loaded, tiled = loaded_bytes(launch.trace(attempt, problem)), roofline.requests(problem, side, side)
    needed = roofline.FLOAT_BYTES * (tiled.A + tiled.B)
    if loaded > needed:
        raise Refused(
            f"right, but at {launch.written(problem)} it loads {loaded:,} bytes of A and B from global memory, where "
            f"tiles of {side} x {side} need {needed:,}: bring each tile into shared memory once"
        )


def loaded_bytes(traced: emulator.Trace) -> int:
    """Return the bytes that lanes ask global memory for by loads."""
    return sum(access.useful_bytes for access in traced.accesses if access.op in LOADS)


def bare(source: str) -> str:
    """A CUDA source without comments and white space."""
    return re.sub(r"//[^\n]*|/\*.*?\*/|\s+", "", source, flags=re.S)


class _Excerpt(io.TextIOBase):
    """Passes on the first MOST_PRINTED characters that are written to it."""

    def __init__(self, out: TextIO) -> None:
        self._out, self._left = out, MOST_PRINTED

    def write(self, text: str) -> int:
        if self._left >= 0:
            self._out.write(text[: self._left])
            if len(text) > self._left:
                self._out.write("\n(more of what the attempt prints is left out: launch it yourself)\n")
        self._left -= len(text)
        return len(text)
