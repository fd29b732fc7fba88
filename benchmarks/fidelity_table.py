"""What a GPU and the emulator made of the same kernels, side by side: as one table, and as a record in JSON."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fidelity_cases import Case, Seen

from gemmlab.profiling.counters import COUNTERS
from gemmlab.profiling.nsight_compute import Counts


@dataclass(frozen=True)
class Row:
    """A case, and what both backends made of it; the GPU's half is None where it did not run or was not counted."""

    case: Case
    emulator: Seen
    gpu: Seen | None
    emulated_counts: Counts | None
    gpu_counts: Counts | None

    @property
    def equal_bits(self) -> bool:
        """Whether both came to the same end and, where both ran, to the same bits."""
        if self.gpu is None:
            return True
        same_end = self.emulator.outcome == self.gpu.outcome
        return same_end and (self.gpu.output is None or not differing(self.emulator.output, self.gpu.output))

    @property
    def figures(self) -> dict[str, tuple[int | None, int | None]]:
        """Resources and counts, (emulator's, GPU's), with counts that both have at zero left out."""
        names = ("registers", "shared_bytes", "local_bytes")
        pairs = {name: (getattr(self.emulator, name), getattr(self.gpu, name, None)) for name in names}
        if self.emulated_counts is not None:
            theirs = self.gpu_counts or {}
            for metric in dict.fromkeys((*COUNTERS, *self.emulated_counts, *theirs)):
                pairs[metric] = self.emulated_counts.get(metric, 0), theirs.get(metric)
        return {name: pair for name, pair in pairs.items() if pair != (None, None) and (any(pair) or "__" not in name)}


def differing(ours: np.ndarray, theirs: np.ndarray) -> int:
    """Return the number of elements whose bits are not the same."""
    bits = np.dtype(f"u{ours.itemsize}")
    return int((ours.view(bits) != theirs.view(bits)).sum())


def largest_difference(ours: np.ndarray, theirs: np.ndarray) -> float | None:
    """Return the largest |ours - theirs| over elements that are finite in both, or None where none is."""
    finite = np.isfinite(ours) & np.isfinite(theirs)
    if not finite.any():
        return None
    return float(np.abs(ours[finite].astype(np.float64) - theirs[finite].astype(np.float64)).max())


def table(rows: Sequence[Row]) -> str:
    """Return rows as text, and under it why kernels were not launched or were refused."""
    cells = [("kernel", "result", "registers", "shared bytes", "local bytes", "counts")]
    for row in rows:
        figures = row.figures
        resources = (_pair(figures.get(name)) for name in ("registers", "shared_bytes", "local_bytes"))
        cells.append((row.case.name, _result(row), *resources, _counts(figures)))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
    remarks = [
        f"{row.case.name}, {where}: {seen.message}"
        for row in rows
        for where, seen in (("emulator", row.emulator), ("GPU", row.gpu))
        if seen is not None and seen.message and (where == "GPU" or row.gpu is None or seen.message != row.gpu.message)
    ]
    return "\n".join([*lines, "", *remarks])


def summary(rows: Sequence[Row]) -> str:
    """Return how many results of launches and how many figures are equal, in a sentence."""
    launched = [row for row in rows if row.gpu is not None and row.gpu.outcome != "compiled"]
    pairs = [pair for row in rows for pair in row.figures.values() if pair[1] is not None]
    return (
        f"{sum(row.equal_bits for row in launched)} of {len(launched)} results and "
        f"{sum(ours == theirs for ours, theirs in pairs)} of {len(pairs)} figures are equal"
    )


def save(path: Path, environment: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Write a record: {"environment": {...}, "kernels": [...]}, a kernel a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kernels = ",\n".join(f"  {json.dumps(_entry(row), allow_nan=False)}" for row in rows)
    text = f'{{"environment": {json.dumps(environment)},\n "kernels": [\n{kernels}\n ]}}\n'
    path.write_text(text, encoding="utf-8")


def _result(row: Row) -> str:
    if row.gpu is None:
        return row.emulator.outcome
    if row.emulator.outcome != row.gpu.outcome:
        return f"{row.emulator.outcome} != {row.gpu.outcome}"
    if row.gpu.outcome != "ran":
        return {"refused": "both refuse it", "compiled": "not launched"}[row.gpu.outcome]
    ours, theirs = row.emulator.output, row.gpu.output
    unequal = differing(ours, theirs)
    if not unequal:
        return "equal bits"
    apart = largest_difference(ours, theirs)
    return f"{unequal:,} of {ours.size:,} differ" + ("" if apart is None else f" by at most {apart:.2g}")


def _counts(figures: Mapping[str, tuple[int | None, int | None]]) -> str:
    counted = {name: pair for name, pair in figures.items() if "__" in name}
    if not counted:
        return "-"
    compared = {name: pair for name, pair in counted.items() if pair[1] is not None}
    if not compared:
        return f"{len(counted)} of the emulator's"
    unequal = [f"{COUNTERS.get(name, name)} {_pair(pair)}" for name, pair in compared.items() if pair[0] != pair[1]]
    return "; ".join([f"{len(compared) - len(unequal)} of {len(compared)} equal", *unequal])


def _pair(pair: tuple[int | None, int | None] | None) -> str:
    if pair is None:
        return "-"
    ours, theirs = ("none" if value is None else f"{value:,}" for value in pair)
    return ours if pair[1] is None or pair[0] == pair[1] else f"{ours} != {theirs}"


def _entry(row: Row) -> dict[str, Any]:
    case = row.case
    return {
        "kernel": case.name,
        "entry": case.entry,
        "options": list(case.options),
        "grid": list(case.grid),
        "block": list(case.block),
        "shared_mem": case.shared_mem,
        "emulator": _end(row.emulator),
        "gpu": _end(row.gpu),
        **_compared(row),
        "figures": {name: list(pair) for name, pair in row.figures.items()},
    }


def _end(seen: Seen | None) -> dict[str, str | None] | None:
    if seen is None:
        return None
    sha256 = None if seen.output is None else hashlib.sha256(seen.output.tobytes()).hexdigest()
    return {"outcome": seen.outcome, "message": seen.message, "sha256": sha256}


def _compared(row: Row) -> dict[str, int | float | None]:
    outputs = row.emulator.output, row.gpu.output if row.gpu else None
    if any(output is None for output in outputs):
        return dict.fromkeys(("elements", "differing", "largest_difference"))
    return {
        "elements": outputs[0].size,
        "differing": differing(*outputs),
        "largest_difference": largest_difference(*outputs),
    }
