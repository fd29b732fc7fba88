"""What NVIDIA's tools showed of the rungs on a GPU: counted now where that is allowed, else as shipped with gemmlab.

A capture is what `benchmarks/captures.py` writes: {"environment": {...}, "shape": [M, N, K], "profiles": {rung:
{"counts": {metric: figure}, "report": text}}, "checks": [{"kernel", "tool", "text"}]}. Without one, the counts are
those of the fidelity check, which are fewer.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmlab import launch, profiling
from gemmlab.gemm import Gemm
from gemmlab.ladder import Rung
from gemmlab.profiling import sanitizer
from gemmlab.profiling.counters import Counted
from gemmlab.profiling.defects import DEFECTS, PROBLEM
from gemmlab.profiling.nvidia_tools import ToolFailed
from gemmlab.profiling.sanitizer_report import Finding, read

_DATA = Path(__file__).parent.parent / "data"
SHIPPED = _DATA / "profiles"
FIDELITY = _DATA / "fidelity" / "nvidia_h200.json"
MAKE = "python benchmarks/captures.py gemmlab/data/profiles/CARD.json"
"""The command that makes a capture, on a machine with a GPU, both tools, and the permission to read counters."""

REGISTERS = "launch__registers_per_thread"


@dataclass(frozen=True)
class Capture:
    """A capture, with the fields that the module describes."""

    environment: Mapping[str, Any]
    shape: tuple[int, int, int]
    profiles: Mapping[str, Mapping[str, Any]]
    checks: Sequence[Mapping[str, str]]

    @property
    def label(self) -> str:
        """Card, date and releases: 'NVIDIA H200, 2026-11-30, Nsight Compute 2025.3.1.0, NVRTC 13.0'."""
        return _label(self.environment)

    @property
    def checked(self) -> str:
        """Card, date and release of the checks: 'NVIDIA H200, 2026-11-30, compute-sanitizer 2025.3.1.0'."""
        release = self.environment["conditions"]["compute_sanitizer"]
        return f"{self.environment['card']}, {self.environment['date']}, compute-sanitizer {release}"

    @property
    def counted(self) -> Counted:
        """The counts of every rung."""
        return Counted(self.label, {name: profile["counts"] for name, profile in self.profiles.items()})

    def report(self, rung: str) -> str:
        """Nsight Compute's own report of a rung. Raises ValueError that lists the rungs which the capture has."""
        if rung not in self.profiles:
            raise ValueError(f"this capture has no rung {rung!r}; it has {', '.join(self.profiles)}")
        return self.profiles[rung]["report"]

    def findings(self, kernel: str, tool: str) -> tuple[Finding, ...] | None:
        """Return what a tool of compute-sanitizer found in a kernel, or None where the capture has no such run."""
        texts = [run["text"] for run in self.checks if (run["kernel"], run["tool"]) == (kernel, tool)]
        return read(texts[0]) if texts else None


def save(capture: Capture, path: Path) -> None:
    """Write a capture, making its folder if need be. Raises ValueError for a figure that is no finite number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {
        "environment": capture.environment,
        "shape": capture.shape,
        "profiles": capture.profiles,
        "checks": capture.checks,
    }
    path.write_text(json.dumps(data, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def load(path: Path) -> Capture:
    """Read a capture. Raises ValueError that names the file and what it lacks."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        capture = Capture(data["environment"], tuple(data["shape"]), data["profiles"], tuple(data["checks"]))
        capture.label, capture.checked, capture.counted  # noqa: B018 - raise here for what is missing, and not in a notebook
        for run in capture.checks:
            read(run["text"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is no capture: {type(error).__name__}: {error}. Make it again: {MAKE}") from None
    return capture


def newest(folder: Path = SHIPPED) -> Capture | None:
    """Return the latest capture in a folder, gemmlab's own unless given, or None where there is none."""
    return max(map(load, sorted(folder.glob("*.json"))), key=lambda one: one.environment["date"], default=None)


def counts(rungs: Sequence[Rung], problem: Gemm) -> tuple[Counted, str]:
    """Return a GPU's counts of rungs, by name, and how they came: counted now, or shipped and why.

    Raises ValueError for a shape that nothing shipped has, where nothing can be counted now.
    """
    try:
        return profiling.profile({rung.name: launch.of(rung) for rung in rungs}, problem), "counted now"
    except ToolFailed as error:
        why = f"shipped, since none can be counted here: {error.wrong}"
    capture = newest()
    if capture is not None and capture.shape == (problem.M, problem.N, problem.K):
        return _completed(capture.counted, rungs, problem), why
    return fidelity(rungs, problem), why


def _completed(counted: Counted, rungs: Sequence[Rung], problem: Gemm) -> Counted:
    """Counts with those that only the fidelity check made on the same card and day, with the same releases."""
    try:
        check = fidelity(rungs, problem)
    except ValueError:
        return counted
    if check.label != counted.label:
        return counted
    return Counted(counted.label, {name: {**check.counts.get(name, {}), **one} for name, one in counted.counts.items()})


def check(defect: str) -> tuple[tuple[Finding, ...] | None, str]:
    """Return what the tool of compute-sanitizer that looks for a defect finds in it, and where it did: now, or shipped.

    The findings are None where the tool cannot run here and nothing is shipped.
    """
    chosen = DEFECTS[defect]
    try:
        return sanitizer.check(chosen.kernel, PROBLEM, chosen.tool).findings, f"{chosen.tool}, now"
    except ToolFailed as error:
        capture = newest()
        if capture is None:
            return None, f"{chosen.tool}: {error.wrong}"
    return capture.findings(defect, chosen.tool), f"{chosen.tool}, {capture.checked}"


def fidelity(rungs: Sequence[Rung], problem: Gemm, path: Path = FIDELITY) -> Counted:
    """Return what the shipped fidelity check counted of rungs on a GPU: requests, sectors, wavefronts, registers.

    Raises ValueError for a shape that it did not run.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    entries = {kernel["kernel"]: kernel["figures"] for kernel in data["kernels"]}
    found = {}
    for rung in rungs:
        name = f"rung{rung.number}_{rung.name}_{problem.M}x{problem.N}x{problem.K}"
        if name not in entries:
            shapes = ", ".join(key.rpartition("_")[2] for key in entries if key.startswith(f"rung{rung.number}_"))
            raise ValueError(f"nothing was counted of {name} on {data['environment']['card']}; its shapes: {shapes}")
        theirs = {figure: pair[1] for figure, pair in entries[name].items() if "__" in figure}
        found[rung.name] = theirs | {REGISTERS: entries[name]["registers"][1]}
    return Counted(_label(data["environment"]), found)


def _label(environment: Mapping[str, Any]) -> str:
    return profiling.label(environment, environment["conditions"]["nsight_compute"])
