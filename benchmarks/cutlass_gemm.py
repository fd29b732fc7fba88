"""Time CUTLASS's FP32 SIMT GEMM beside cuBLAS, from its headers by NVRTC, and write a run for gemmlab/data/cutlass.

    python benchmarks/cutlass_gemm.py --json FILE [--sizes 4096,2048,1024] [--settings 0,3,5]

Every result is checked first, at an odd shape with alpha and beta and at the size that is timed; a wrong one has no
time. What was timed is written after each setting, so that a stop loses only what ran.
"""

import argparse
import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from gemmlab import backend, climb, cutlass, launch
from gemmlab.environment import AFTER_SAMPLES, clocks
from gemmlab.gemm import Gemm
from gemmlab.results import Result

ODD = Gemm(193, 259, 77, alpha=-0.5, beta=2.0)


def row(setting: cutlass.Simt, found: Result) -> dict[str, Any]:
    """Return one timed setting as cutlass_runs.ROW describes it."""
    return {
        "version": importlib.metadata.version("nvidia-cutlass"),
        "threadblock": list(setting.threadblock),
        "warp": list(setting.warp),
        "stages": setting.stages,
        "shape": [found.problem.M, found.problem.N, found.problem.K],
        "correct": found.verdict.correct,
        "registers": found.registers,
        "spill_bytes": found.spill_bytes,
        "shared_bytes": found.shared_bytes,
        "milliseconds": list(found.timing.samples_ms) if found.timing else None,
        "cublas_milliseconds": list(found.cublas.samples_ms),
        "remarks": list(found.timing.remarks) if found.timing else None,
        "cublas_remarks": list(found.cublas.remarks),
    }


def main(arguments: list[str] | None = None) -> int:
    """Time the settings; return 1 if any result was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--sizes", default="4096,2048,1024", help="of square matrices, such as 4096,1024")
    parser.add_argument("--settings", default=None, help="positions in cutlass.SETTINGS; all unless given")
    options = parser.parse_args(arguments)
    chosen = range(len(cutlass.SETTINGS)) if options.settings is None else map(int, options.settings.split(","))
    where = backend.choose("cuda")
    generation = int(where.cp.cuda.Device().compute_capability)
    settings = [cutlass.SETTINGS[position] for position in chosen]
    settings = [each for each in settings if int(each.requires.removeprefix("sm_")) <= generation]
    rows: list[dict[str, Any]] = []
    environment = climb.climb((), Gemm(*3 * [int(options.sizes.split(",")[0])]), where).environment
    for size in map(int, options.sizes.split(",")):
        shared = climb.bench(Gemm(size, size, size), where)
        for setting in tqdm(settings, desc=f"{size} x {size} x {size}", unit="setting"):
            kernel = cutlass.kernel(setting)
            launch.require(launch.check(kernel, [ODD], ["uniform"], where.cp))
            found = climb.run(shared, kernel)
            rows.append(row(setting, found))
            speed = (
                f"{found.gflops / 1e3:.2f} TFLOP/s, {found.percent_of_cublas:.1f}% of cuBLAS"
                if found.gflops
                else "WRONG"
            )
            tqdm.write(f"{size}: {setting}: {found.registers} registers, {speed}")
            conditions = environment["conditions"] | {"clocks": clocks(where, AFTER_SAMPLES)}
            run = {"environment": environment | {"conditions": conditions}, "rows": rows}
            options.json.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    return int(not all(each["correct"] for each in rows))


if __name__ == "__main__":
    sys.exit(main())
