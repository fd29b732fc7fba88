"""Measured runs of CUTLASS's SIMT GEMM: the files that come with gemmlab, and the fastest row for a card and a problem.

A file is {"environment": {...}, "rows": [...]}, as benchmarks/cutlass_gemm.py writes it; the environment is a record's.
"""

import json
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gemmlab import roofline
from gemmlab.gemm import Gemm
from gemmlab.records import ENVIRONMENT
from gemmlab.schema import Nullable, check

FOLDER = Path(__file__).parent / "data" / "cutlass"

ROW = {
    "version": str,  # of CUTLASS
    "threadblock": [int],
    "warp": [int],
    "stages": int,
    "shape": [int],  # M, N, K
    "correct": bool,
    "registers": int,
    "spill_bytes": int,
    "shared_bytes": int,
    "milliseconds": Nullable([float]),  # every sample; null for a wrong result
    "cublas_milliseconds": [float],
    "remarks": Nullable([str]),  # on throttling, clocks and drift while it was timed
    "cublas_remarks": [str],
}
RUN = {"environment": ENVIRONMENT, "rows": [ROW]}


def load(path: str | Path) -> Mapping[str, Any]:
    """Read a run from a JSON file. Raises ValueError that names the file and the field at fault."""
    try:
        run = json.loads(Path(path).read_text(encoding="utf-8"))
        check(run, RUN)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no run of CUTLASS: {error}") from None
    return run


def shipped() -> tuple[Mapping[str, Any], ...]:
    """Return the runs that come with gemmlab, in the order of their file names; none where nobody has made one."""
    return tuple(load(path) for path in sorted(FOLDER.glob("*.json")))


def timed(runs: Iterable[Mapping[str, Any]], card: str, problem: Gemm) -> list[Mapping[str, Any]]:
    """Return the right rows of CUTLASS on a card at a problem's shape, of the newest run that has any, each with the
    run's `date` and, as a rung's, its `gflops` and `percent_of_cublas`; none where nobody has timed it.
    """
    shape = [problem.M, problem.N, problem.K]
    dated = sorted(
        (run for run in runs if run["environment"]["card"] == card), key=lambda run: run["environment"]["date"]
    )
    for run in reversed(dated):
        rows = [row for row in run["rows"] if row["shape"] == shape and row["correct"] and row["milliseconds"]]
        if rows:
            return [row | _speed(row, problem) | {"date": run["environment"]["date"]} for row in rows]
    return []


def best(runs: Iterable[Mapping[str, Any]], card: str, problem: Gemm) -> Mapping[str, Any] | None:
    """Return the fastest of the rows that `timed` returns, or None where there are none."""
    return max(timed(runs, card, problem), key=lambda row: row["gflops"], default=None)


def _speed(row: Mapping[str, Any], problem: Gemm) -> dict[str, float]:
    speed, cublas = (
        roofline.throughput(problem.flops, statistics.median(row[name]))
        for name in ("milliseconds", "cublas_milliseconds")
    )
    return {"gflops": speed / 1e9, "percent_of_cublas": roofline.percent_of(speed, cublas)}
