"""compute-sanitizer on kernels: runs one of its four tools on a launch, compiled with -lineinfo for the source lines.

A run under it is many times slower than a launch, and is no timed run.
"""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gemmlab.doctor import Check
from gemmlab.gemm import Gemm
from gemmlab.launch import Kernel
from gemmlab.profiling import child, child_launch
from gemmlab.profiling.nvidia_tools import (
    COMPUTE_SANITIZER,
    NoKernel,
    NotUnderstood,
    ToolFailed,
    last_words,
    require_gpu,
    version,
)
from gemmlab.profiling.sanitizer_report import SUMMARY, Finding, read

SECONDS = 120
PRINTED = 50  # reports that a run prints; races are reported by the byte
FINDINGS_EXIT = 99  # the exit status that stands for findings

# racecheck runs twice: its analysis has every pair of lines, its hazards have threads, for the first PRINTED bytes.
RUNS = {
    # CuPy asks the driver for things that it may lack, and takes no for an answer: such errors are no findings.
    "memcheck": (("--report-api-errors", "no", "--padding", "512"),),
    "racecheck": (("--racecheck-report", "analysis"), ("--racecheck-report", "hazard")),
    "initcheck": ((),),
    "synccheck": ((),),
}
"""The tools, and the options of each of their runs."""

_NO_CALL = "terminated before first instrumented API call"


@dataclass(frozen=True)
class Report:
    """What a tool found in one launch; `text` is what it printed, at most PRINTED reports a run."""

    tool: str
    findings: tuple[Finding, ...]
    text: str


def state() -> Check:
    """Say whether compute-sanitizer can run here: a check with what was found and, where it cannot, the cure."""
    try:
        require_gpu(COMPUTE_SANITIZER)
        return Check(COMPUTE_SANITIZER.name, True, f"{version(COMPUTE_SANITIZER.find())} is installed")
    except ToolFailed as error:
        return Check(COMPUTE_SANITIZER.name, False, error.wrong, error.cure)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return Check(COMPUTE_SANITIZER.name, False, str(error), "Install it again: it comes with the CUDA toolkit")


def check(kernel: Kernel, problem: Gemm, tool: str) -> Report:
    """Run one launch under a tool of RUNS and return what it found.

    Raises ValueError for another tool, NotInstalled, NoKernel where there is no GPU or the launch fails for a reason
    that the tool does not find, and NotUnderstood.
    """
    if tool not in RUNS:
        raise ValueError(f"compute-sanitizer has no tool {tool!r}; it has {', '.join(RUNS)}")
    require_gpu(COMPUTE_SANITIZER)
    program = COMPUTE_SANITIZER.find()
    traceable = replace(kernel, options=(*kernel.options, "-lineinfo"))
    texts = [_run(program, tool, options, traceable, problem) for options in RUNS[tool]]
    return Report(tool, read("\n".join(texts)), "\n\n".join(texts))


def _run(program: str, tool: str, options: Sequence[str], kernel: Kernel, problem: Gemm) -> str:
    """What the tool prints of one launch, its lines bare."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "sanitizer.txt")
        command = [program, "--tool", tool, *options, "--show-backtrace", "no", "--print-limit", str(PRINTED)]
        command += ["--error-exitcode", str(FINDINGS_EXIT), "--log-file", str(log)]
        wrong = child.run([*command, *child_launch.program(Path(scratch), [(kernel, problem)])], SECONDS)
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    summary = SUMMARY.search(said)
    text = "\n".join(re.sub(r"^=+ ?", "", line) for line in said.splitlines())
    cure = "Launch the kernel alone first, and see that the driver is as new as the tool"
    if _NO_CALL in said or (wrong and summary is None):
        raise NoKernel(f"compute-sanitizer saw no launch: {wrong or last_words(said)}", cure)
    if summary is None:
        raise NotUnderstood(
            f"{tool} printed no summary, so it may have found nothing because it did not look: {last_words(said)}", cure
        )
    if (wrong or int(summary[1].replace(",", ""))) and not read(text):
        raise NoKernel(
            f"the launch failed, and {tool} found no reason in the kernel: {wrong or last_words(text)}", cure
        )
    return text
