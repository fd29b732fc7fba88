"""Measurements of how measuring itself behaves, as JSON: those shipped with gemmlab, and writing new ones.

A file is {"environment": {...}, "measurements": [...]}, with every field of the schema below and no other.
"""

import dataclasses
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmlab import columns, records, schema
from gemmlab.columns import WIDTH
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
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} holds no measurements: {error}") from None
    return Findings(run["environment"], tuple(map(_from_data, run["measurements"])))


def newest(experiment: str, folder: Path) -> Findings | None:
    """Return the newest findings in a folder that hold an experiment, or None."""
    found = [each for each in map(load, sorted(folder.glob("*.json"))) if each.of(experiment)]
    return max(found, key=lambda each: each.environment["date"], default=None)


def table(findings: Findings | None, experiment: str) -> str:
    """Return an experiment as text, a row a measurement, under each kernel and size, and how they were timed; where
    there is none, a dash and the command that makes it.
    """
    if findings is None or not findings.of(experiment):
        return f"{experiment}: -\nNobody has measured this here. On a machine with an NVIDIA GPU:\n{COMMAND}"
    seen = findings.environment
    rows = findings.of(experiment)
    title = f"measured: {findings.label}, driver {seen['driver']}, CUDA {seen['cuda']}; float32"
    names = dict.fromkeys(map(_name, rows))
    groups = [(name, [_cells(row) for row in rows if _name(row) == name]) for name in names]
    how = dict.fromkeys([*(_how(row.timing) for row in rows), LEGEND])
    remarks = [f"{_name(row)}, {row.label}: {remark}" for row in rows for remark in row.timing.remarks]
    lines = (textwrap.fill(line, WIDTH, subsequent_indent="  ") for line in (*how, *remarks))
    return "\n".join([title, *columns.grouped(HEADERS, groups), *lines])


def samples(findings: Findings, experiment: str) -> dict[str, Sequence[float]]:
    """Return the samples in milliseconds of each measurement of an experiment, by kernel, size and label."""
    return {f"{_name(each)}\n{each.label}": each.timing.samples_ms for each in findings.of(experiment)}


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


def _name(measurement: Measurement) -> str:
    problem = measurement.problem
    return f"{measurement.kernel}, {problem.M} x {problem.N} x {problem.K}"


LEGEND = "samples: how many, x launches in each; clock of the multiprocessors and most power while they ran"
HEADERS = ("", "median ms", "min to max ms", "samples", "SM MHz", "watts")


def _cells(measurement: Measurement) -> tuple[str, ...]:
    timing = measurement.timing
    readings = [reading for reading in timing.readings if reading]
    clocks = [reading.sm_mhz for reading in readings if reading.sm_mhz is not None]
    watts = [reading.watts for reading in readings if reading.watts is not None]
    median, least, most = (columns.significant(ms, 4) for ms in (timing.median_ms, timing.min_ms, timing.max_ms))
    return (
        measurement.label,
        median,
        f"{least} to {most}",
        f"{len(timing.samples_ms)} x {timing.batch}",
        " to ".join(dict.fromkeys(map(str, (min(clocks), max(clocks))))) if clocks else "-",
        f"{max(watts):.0f}" if watts else "-",
    )


def _how(timing: Timing) -> str:
    before = f"{timing.warmup} {'launch' if timing.warmup == 1 else 'launches'}" if timing.warmup else "no launch"
    return f"timed by {timing.boundary}; {timing.cache}, after {before}"
