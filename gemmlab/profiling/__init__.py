"""Nsight Compute on kernels: what the GPU's own counters show of a launch. A profiled run is not a timed run.

It replays the kernel, once for each few counters, with caches flushed between: its counts are those of a launch, its
duration is not. Clocks are left as they are.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gemmlab import backend, doctor, launch
from gemmlab.backend import Backend
from gemmlab.doctor import Check
from gemmlab.environment import environment
from gemmlab.gemm import Gemm
from gemmlab.launch import Kernel
from gemmlab.profiling import child, child_launch, nsight_compute
from gemmlab.profiling.counters import COUNTERS, QUESTIONS, Counted
from gemmlab.profiling.nsight_compute import Answer, Counts, Launch
from gemmlab.profiling.nvidia_tools import (
    NSIGHT_COMPUTE,
    NoKernel,
    NotPermitted,
    NotUnderstood,
    ToolFailed,
    last_words,
    require_gpu,
    version,
)

SECONDS = 150
METRICS = tuple(dict.fromkeys((*(question.metric for question in QUESTIONS), *COUNTERS)))
"""What is counted unless told: the answers to QUESTIONS, and all that the emulator counts."""
SECTIONS = ("LaunchStats", "Occupancy", "MemoryWorkloadAnalysis_Tables", "SchedulerStats", "WarpStateStats")
"""Sections of the report that a capture keeps as text, by the names that `ncu --list-sections` prints."""

_DENIED = "ERR_NVGPUCTRPERM"  # developer.nvidia.com/ERR_NVGPUCTRPERM
_LOOK = "Run its command in a terminal and read what it prints; another release may print another form"
_LAUNCH = "Launch the kernel alone first: profile what runs, and is right"


def state() -> Check:
    """Say whether Nsight Compute can count here: a check with what was found and, where it cannot, the cure."""
    try:
        require_gpu(NSIGHT_COMPUTE)
        release = version(NSIGHT_COMPUTE.find())
    except ToolFailed as error:
        return Check(NSIGHT_COMPUTE.name, False, error.wrong, error.cure)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return Check(NSIGHT_COMPUTE.name, False, str(error), "Install it again: it comes with the CUDA toolkit")
    allowed = doctor.check_profiler()
    detail = f"{release} is installed, and {allowed.detail}"
    return Check(NSIGHT_COMPUTE.name, allowed.ok, detail, allowed.cure)


def profile(kernels: Mapping[str, Kernel], problem: Gemm, metrics: Iterable[str] = METRICS) -> Counted:
    """Return Nsight Compute's counts of one launch of each kernel, by name; a metric that the GPU lacks is left out.

    Raises NotInstalled, NotPermitted, NoKernel where there is no GPU or a launch fails, and NotUnderstood.
    """
    ncu = _program()
    with tempfile.TemporaryDirectory() as scratch:
        program = child_launch.program(Path(scratch), [(kernel, problem) for kernel in kernels.values()])
        try:
            answer = nsight_compute.count(ncu, program, metrics, Path(scratch, "ncu.csv"), SECONDS)
        except ValueError as error:
            raise NotUnderstood(f"Nsight Compute's answer cannot be read: {error}", _LOOK) from None
    counts = _require_all(kernels, problem, answer)
    here = environment(Backend(backend.name, backend.cp, backend.reason), {})
    release = version(ncu)
    return Counted(label(here, release), counts, problem, release)


def report(kernels: Mapping[str, Kernel], problem: Gemm, sections: Sequence[str] = SECTIONS) -> str:
    """Return Nsight Compute's own report of one launch of each kernel as the text that it prints. Raises as profile."""
    ncu = _program()
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "ncu.txt")
        program = child_launch.program(Path(scratch), [(kernel, problem) for kernel in kernels.values()])
        chosen = [f"--section={section}" for section in sections]
        # The process launches more than it is asked for: gemmlab looks first whether the GPU answers.
        chosen.append(f"--kernel-name=regex:^({'|'.join(kernel.entry for kernel in kernels.values())})$")
        command = [
            ncu,
            f"--clock-control={nsight_compute.CLOCK_CONTROL}",
            "--target-processes=all",
            f"--log-file={log}",
            *chosen,
            *program,
        ]
        wrong = child.run(command, SECONDS)
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    _require_counters(said)
    # Remarks of ncu itself begin with ==, and the process that a report is of stands in brackets.
    text = "\n".join(line.rstrip() for line in said.splitlines() if not re.match(r"==|\[\d+\]", line))
    if wrong or not text.strip():
        raise NoKernel(f"Nsight Compute reports no kernel: {wrong or last_words(said)}", _LAUNCH)
    return text


def label(environment: Mapping[str, Any], release: str) -> str:
    """Return what a figure calls a profile: the card, the date, and the releases of Nsight Compute and of NVRTC."""
    return f"{environment['card']}, {environment['date']}, Nsight Compute {release}, NVRTC {environment['nvrtc']}"


def _program() -> str:
    """The path of ncu, once it can be expected to count."""
    require_gpu(NSIGHT_COMPUTE)
    return NSIGHT_COMPUTE.find()


def _require_counters(said: str) -> None:
    if _DENIED in said:
        raise NotPermitted(f"Nsight Compute may not read this GPU's counters ({_DENIED})", doctor.PERMIT)


def _require_all(kernels: Mapping[str, Kernel], problem: Gemm, answer: Answer) -> dict[str, Counts]:
    """The counts of every kernel. Raises NotPermitted, NoKernel or NotUnderstood where some are missing."""
    _require_counters(answer.said)
    counted = nsight_compute.assign(
        {name: _launch(kernel, problem) for name, kernel in kernels.items()}, answer.launches
    )
    missing = ", ".join(name for name in kernels if name not in counted)
    if missing and answer.wrong:
        raise NoKernel(f"Nsight Compute did not see {missing} run: {answer.wrong}", _LAUNCH)
    if missing:
        raise NotUnderstood(f"Nsight Compute's answer has no counts of {missing}: {last_words(answer.said)}", _LOOK)
    return counted


def _launch(kernel: Kernel, problem: Gemm) -> Launch:
    grid, block, _ = launch.geometry(kernel, problem)
    return kernel.entry, grid, block
