"""Runs of the ladder as JSON: reading the measured ones shipped with gemmlab, and writing new ones.

A run is {"environment": {...}, "rungs": [...]}, with every field of the schema below and no other; a figure that nobody
measured is null.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmlab import schema
from gemmlab.schema import Count, Nullable

SHORTEST_MS, LONGEST_MS = 1e-9, 1e9  # far beyond what any clock tells and any reader waits for
SHIPPED = Path(__file__).parent / "data" / "records"

CONDITIONS = {
    "family": str,  # of the inputs, as gemm.inputs names it
    "seed": Count,
    "alpha": float,
    "beta": float,
    "boundary": Nullable(str),  # what a time includes
    "warmup": Nullable(Count),  # launches before the first sample
    "batch": Nullable(Count),  # launches that share a sample of cuBLAS
    "samples": Nullable(Count),
    "cache": Nullable(str),  # 'warm L2' or 'flushed L2'
    "clocks": Nullable(str),  # and the temperature, in words
    "cublas_milliseconds": Nullable([float]),  # every sample of the yardstick, at the shape of the rungs
}
ENVIRONMENT = {
    "card": Nullable(str),  # as the driver names it; null where no GPU ran
    "architecture": str,
    "date": str,
    "driver": Nullable(str),
    "cuda": Nullable(str),
    "python": str,
    "numpy": str,
    "cupy": Nullable(str),
    "nvrtc": str,
    "conditions": CONDITIONS,
}
HAZARD = {
    "kind": str,
    "line": int,
    "block": Nullable([int]),
    "threads": [[int]],
    "message": str,
}
ACCESS = {"line": Count, "op": str, "bytes": Count, "requests": Count, "ideal": Count}  # and sectors or wavefronts
RUNG = {
    "rung": int,
    "name": str,
    "entry": str,
    "shape": [int],  # M, N, K
    "tile": dict,
    "backend": str,
    "correct": bool,
    "max_abs_error": Nullable(float),
    "error_bound": float,  # the largest allowed at any output
    "registers": Nullable(Count),
    "spill_bytes": Nullable(Count),
    "shared_bytes": Nullable(Count),
    "accesses": Nullable([dict]),  # of ACCESS; null where no trace was taken
    "hazards": Nullable([HAZARD]),
    "sha256": str,  # of C's bytes
    "milliseconds": Nullable([float]),  # every sample, as time of one launch
    "batch": Nullable(Count),  # launches that share a sample
    "remarks": Nullable([str]),  # on throttling, clocks and drift; null where nobody looked
    "gflops": Nullable(float),
    "percent_of_cublas": Nullable(float),
}
RUN = {"environment": ENVIRONMENT, "rungs": [RUNG]}


@dataclass(frozen=True)
class Record:
    """One run: what it ran on, under which conditions, and a row for each rung, with the fields of the schema."""

    card: str | None
    architecture: str
    date: str
    driver: str | None
    cuda: str | None
    python: str
    numpy: str
    cupy: str | None
    nvrtc: str
    conditions: Mapping[str, Any]
    rungs: tuple[Mapping[str, Any], ...]

    @property
    def label(self) -> str:
        """What a figure calls this run: 'NVIDIA H200, 2026-11-29'."""
        return f"{self.card or f'emulator ({self.architecture})'}, {self.date}"


def save(run: Mapping[str, Any], path: str | Path) -> None:
    """Write a run to a JSON file, making its folder if need be. Raises ValueError that names the field at fault."""
    check(run)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(run, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def load(path: str | Path) -> Record:
    """Read a run from a JSON file. Raises ValueError that names the file and the field at fault."""
    try:
        run = json.loads(Path(path).read_text(encoding="utf-8"))
        check(run)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no record of a run: {error}") from None
    return Record(**run["environment"], rungs=tuple(run["rungs"]))


def climbs() -> tuple[str, ...]:
    """Return the names of the records that come with gemmlab, in their order."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.json")))


def shipped() -> tuple[Record, ...]:
    """Return the records that come with gemmlab, in the order of their file names."""
    return tuple(load(path) for path in sorted(SHIPPED.glob("*.json")))


def check(run: Any) -> None:
    """Raise ValueError, with the field, its value and what is expected, unless `run` has the form of a run."""
    schema.check(run, RUN)
    schema.check_date(run["environment"]["date"], "environment.date")
    card = run["environment"]["card"]
    check_samples(run["environment"]["conditions"]["cublas_milliseconds"], card, "conditions.cublas_milliseconds")
    for position, rung in enumerate(run["rungs"]):
        where = f"rungs[{position}]"
        if len(rung["shape"]) != 3:
            raise ValueError(f"{where}.shape is {rung['shape']}, but must be [M, N, K]")
        check_samples(rung["milliseconds"], card, f"{where}.milliseconds")
        for index, access in enumerate(rung["accesses"] or ()):
            check_access(access, f"{where}.accesses[{index}]")


def check_samples(samples_ms: list[float] | None, card: str | None, where: str) -> None:
    """Raise ValueError unless samples are None, or times that a GPU can have taken."""
    if samples_ms is None:
        return
    if card is None:
        raise ValueError(f"{where} holds samples, but environment.card is null, and only a GPU is timed")
    if not samples_ms or min(samples_ms) < SHORTEST_MS or max(samples_ms) > LONGEST_MS:
        raise ValueError(f"{where} is {samples_ms}, but must hold times of {SHORTEST_MS:g} to {LONGEST_MS:g} ms")


def check_access(access: Any, where: str) -> None:
    """Raise ValueError, with the field at fault, unless `access` holds the traffic of a line and kind of access."""
    counted = "wavefronts" if isinstance(access, dict) and "wavefronts" in access else "sectors"
    schema.check(access, ACCESS | {counted: Count}, where)
