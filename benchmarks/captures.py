"""What Nsight Compute and compute-sanitizer show of the rungs on this GPU, as one file that notebook 22 reads.

    python benchmarks/captures.py FILE.json [--shape 256 256 256]

Nsight Compute counts `gemmlab.profiling.METRICS` for every rung and prints its report of each. compute-sanitizer runs
memcheck and racecheck on every rung and, on each of `gemmlab.profiling.defects.DEFECTS`, the tool that looks for it.
Both must be installed, and the GPU's counters readable. What is done is kept: the file is written after each run, and a
run of compute-sanitizer that gives no answer is left out and named. On an H200 it took 109 s.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from gemmlab import backend, launch, profiling
from gemmlab.environment import environment
from gemmlab.gemm import Gemm
from gemmlab.ladder import RUNGS
from gemmlab.profiling import captures, sanitizer
from gemmlab.profiling.captures import Capture
from gemmlab.profiling.counters import answers
from gemmlab.profiling.defects import DEFECTS, PROBLEM
from gemmlab.profiling.nvidia_tools import COMPUTE_SANITIZER, NSIGHT_COMPUTE, ToolFailed, version
from gemmlab.profiling.sanitizer_report import CUT

LONGEST = 12000  # characters of a text that are kept


def profiles(problem: Gemm) -> dict[str, dict[str, object]]:
    """Return for every rung its counts by metric, and Nsight Compute's report as text."""
    kernels = {rung.name: launch.of(rung) for rung in RUNGS}
    counted = profiling.profile(kernels, problem)
    reports = {name: profiling.report({name: kernel}, problem) for name, kernel in tqdm(kernels.items(), desc="ncu")}
    return {name: {"counts": dict(counted.counts[name]), "report": shortened(reports[name])} for name in kernels}


def checks() -> Iterator[dict[str, str]]:
    """Yield what compute-sanitizer printed: memcheck and racecheck of every rung, and each defect's own tool."""
    runs = [(name, defect.tool, defect.kernel) for name, defect in DEFECTS.items()]
    runs += [(rung.name, tool, launch.of(rung)) for rung in RUNGS for tool in ("memcheck", "racecheck")]
    for name, tool, kernel in tqdm(runs, desc="compute-sanitizer"):
        try:
            yield {"kernel": name, "tool": tool, "text": shortened(sanitizer.check(kernel, PROBLEM, tool).text)}
        except ToolFailed as error:
            print(f"{tool} of {name}: {error}", file=sys.stderr)


def shortened(text: str) -> str:
    """Return a text, cut between two paragraphs where it is longer than LONGEST."""
    if len(text) <= LONGEST:
        return text
    whole, _, _ = text[:LONGEST].rpartition("\n\n")
    return f"{whole}\n{CUT}\n"


def main() -> int:
    """Make the capture and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="where to write the capture, as JSON")
    parser.add_argument("--shape", type=int, nargs=3, default=(256, 256, 256), metavar=("M", "N", "K"))
    asked = parser.parse_args()
    problem = Gemm(*asked.shape)
    try:
        where = backend.choose("cuda")
        conditions = {
            "nsight_compute": version(NSIGHT_COMPUTE.find()),
            "compute_sanitizer": version(COMPUTE_SANITIZER.find()),
            "family": "uniform",
            "seed": 0,
            "checked_shape": [PROBLEM.M, PROBLEM.N, PROBLEM.K],
        }
        capture = Capture(environment(where, conditions), (problem.M, problem.N, problem.K), profiles(problem), ())
    except (backend.CudaUnavailable, ToolFailed, OSError, ValueError) as error:
        parser.error(str(error))
    captures.save(capture, asked.file)
    for check in checks():
        capture = replace(capture, checks=(*capture.checks, check))
        captures.save(capture, asked.file)
    for name, profile in capture.profiles.items():
        print(f"\n{name}\n{answers(profile['counts'])}")
    for run in capture.checks:
        found = capture.findings(run["kernel"], run["tool"])
        print(f"\n{run['tool']} of {run['kernel']}: " + ("; ".join(map(str, found)) or "nothing found"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
