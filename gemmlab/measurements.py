"""Measurements of how measuring itself behaves, as JSON: those shipped with gemmlab, and writing new ones.

A file is {"environment": {...}, "measurements": [...]}, with every field of the schema below and no other.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmlab import columns, records, schema
from gemmlab.columns import Column
from gemmlab.gemm import Gemm
from gemmlab.schema import Nullable
from gemmlab.sensors import Reading
from gemmlab.timing import Timing

SHIPPED = Path(__file__).parent / "data" / "measuring"
COMMAND = "python benchmarks/measuring.py gemmlab/data/measuring/CARD.json"

READING = {
    "sm_mhz": Nullable(int),
    "memory_mhz": Nullable(int),
    "celsius": Nullable(int),
    "watts": Nullable(float),
    "slowed_by": [str],
}
MEASUREMENT = {
    "experiment": str,
    "kernel": str,
    "label": str,  # what differs within the experiment
    "shape": [int],  # M, N, K
    "samples_ms": [float],  # every sample, as time of one launch
    "batch": int,
    "warmup": int,
    "cache": str,
    "boundary": str,
    "readings": [Nullable(READING)],  # one a sample, or none
}
RUN = {
    "environment": records.ENVIRONMENT | {"conditions": {"clocks": Nullable(str)}},
    "measurements": [MEASUREMENT],
}


@dataclass(frozen=True)
class Measurement:
    """One timing of an experiment; `label` says what differs from the others."""

    experiment: str
    kernel: str
    label: str
    problem: Gemm
    timing: Timing


@dataclass(frozen=True)
class Findings:
    """Measurements of one run, and its environment as RUN describes it."""

    environment: Mapping[str, Any]
    measurements: tuple[Measurement, ...]

    @property
    def label(self) -> str:
        """The card and the date, as a figure names a run."""
        return f"{self.environment['card']}, {self.environment['date']}"

    def of(self, experiment: str) -> tuple[Measurement, ...]:
        """Return the measurements of one experiment."""
        return tuple(each for each in self.measurements if each.experiment == experiment)


def save(findings: Findings, path: Path) -> None:
    """Write findings to a JSON file, making its folder if need be. Raises ValueError that names a field at fault."""
    rows = [_as_data(each) for each in findings.measurements]
    run = {"environment": dict(findings.environment), "measurements": rows}
    schema.check(run, RUN)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(run, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def load(path: Path) -> Findings:
    """Read findings from a JSON file. Raises ValueError that names the file and the field at fault."""
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
        schema.check(run, RUN)
    except ValueError as error:
        raise ValueError(f"{path} holds no measurements: {error}") from None
    return Findings(run["environment"], tuple(map(_from_data, run["measurements"])))


def newest(experiment: str, folder: Path) -> Findings | None:
    """Return the newest findings in a folder that hold an experiment, or None."""
    found = [each for each in map(load, sorted(folder.glob("*.json"))) if each.of(experiment)]
    return max(found, key=lambda each: each.environment["date"], default=None)


def table(findings: Findings | None, experiment: str) -> str:
    """Return an experiment as text, a line a measurement; where there is none, a dash and the command that makes it."""
    if findings is None or not findings.of(experiment):
        return f"{experiment}: -\nNobody has measured this here. On a machine with an NVIDIA GPU:\n{COMMAND}"
    seen = findings.environment
    rows = findings.of(experiment)
    remarks = [f"{each.kernel}, {each.label}: {remark}" for each in rows for remark in each.timing.remarks]
    title = f"measured: {findings.label}, driver {seen['driver']}, CUDA {seen['cuda']}"
    return "\n".join([title, *columns.lines(COLUMNS, rows), *remarks])


def samples(findings: Findings, experiment: str) -> dict[str, Sequence[float]]:
    """Return the samples in milliseconds of each measurement of an experiment, by kernel, size and label."""
    return {
        f"{each.kernel}, {_size(each.problem)}\n{each.label}": each.timing.samples_ms
        for each in findings.of(experiment)
    }


def _as_data(measurement: Measurement) -> dict[str, Any]:
    problem, timing = measurement.problem, measurement.timing
    head = {name: getattr(measurement, name) for name in ("experiment", "kernel", "label")}
    data = head | {"shape": [problem.M, problem.N, problem.K]} | dataclasses.asdict(timing)
    # As JSON has no tuples, and a check of the data should see what a reader will.
    return json.loads(json.dumps(data))


def _from_data(data: Mapping[str, Any]) -> Measurement:
    readings = tuple(_reading(each) for each in data["readings"])
    timing = Timing(tuple(data["samples_ms"]), data["batch"], data["warmup"], data["cache"], data["boundary"], readings)
    return Measurement(data["experiment"], data["kernel"], data["label"], Gemm(*data["shape"]), timing)


def _reading(data: Mapping[str, Any] | None) -> Reading | None:
    return None if data is None else Reading(**data | {"slowed_by": tuple(data["slowed_by"])})


def _size(problem: Gemm) -> str:
    return f"{problem.M} x {problem.N} x {problem.K}"


def _clocks(measurement: Measurement) -> str:
    clocks = [each.sm_mhz for each in measurement.timing.readings if each and each.sm_mhz is not None]
    return f"{min(clocks)} to {max(clocks)}" if clocks else "-"


def _watts(measurement: Measurement) -> str:
    watts = [each.watts for each in measurement.timing.readings if each and each.watts is not None]
    return f"{max(watts):.0f}" if watts else "-"


COLUMNS = (
    Column("", "kernel", lambda row: row.kernel),
    Column("", "M x N x K", lambda row: _size(row.problem)),
    Column("", "label", lambda row: row.label),
    Column(" measured ", "median ms", lambda row: f"{row.timing.median_ms:.4g}"),
    Column(" measured ", "min to max ms", lambda row: f"{row.timing.min_ms:.4g} to {row.timing.max_ms:.4g}"),
    Column(" measured ", "SM clock MHz", _clocks),
    Column(" measured ", "most watts", _watts),
)
