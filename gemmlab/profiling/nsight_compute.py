"""What Nsight Compute counts of a program's kernels: the command that asks for it, and reading its answer."""

import csv
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gemmlab.profiling import child

Launch = tuple[str, tuple[int, ...], tuple[int, ...]]
"""A kernel's name, its grid and its block."""
Counts = Mapping[str, int | float | None]
"""A launch's figures by metric, such as 'l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum'; None for no number."""

CLOCK_CONTROL = "none"  # the clocks are left as they are
LOOK_FIRST: Mapping[str, Sequence[str]] = {
    "Launch Statistics": (
        "Grid Size",
        "Block Size",
        "Registers Per Thread",
        "Static Shared Memory Per Block",
        "# SMs",
        "Waves Per SM",
    ),
    "Occupancy": (
        "Block Limit Registers",
        "Block Limit Shared Mem",
        "Block Limit Warps",
        "Theoretical Occupancy",
        "Achieved Occupancy",
    ),
    "Scheduler Statistics": (
        "Active Warps Per Scheduler",
        "Eligible Warps Per Scheduler",
        "Issued Warp Per Scheduler",
    ),
    "Warp State Statistics": ("Warp Cycles Per Issued Instruction",),
}
"""Sections of a report, in the order that finds the limit of a kernel soonest, and the figures to look at in each."""


@dataclass(frozen=True)
class Profiled:
    """One launch as Nsight Compute reports it."""

    launch: Launch
    counts: Counts


@dataclass(frozen=True)
class Answer:
    """What a run of Nsight Compute gave: the launches, all that it wrote, and what went wrong in words, or ''."""

    launches: list[Profiled]
    said: str
    wrong: str


def count(ncu: str, program: Sequence[str], metrics: Iterable[str], log: Path, seconds: float) -> Answer:
    """Run a program under Nsight Compute, again without those metrics that the GPU does not have, until it counts."""
    wanted, known = set[str](), set(metrics)
    wrong = said = ""
    while known and known != wanted:
        wanted = known
        log.unlink(missing_ok=True)
        wrong = child.run(command(ncu, wanted, str(log), program), seconds)
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        known = known_metrics(wanted, said)
    return Answer(read(said), said, wrong)


def command(ncu: str, metrics: Iterable[str], log: str, program: Sequence[str]) -> list[str]:
    """Return the command that runs a program under Nsight Compute and writes the counts of every launch to `log`."""
    return [
        ncu,
        f"--clock-control={CLOCK_CONTROL}",
        "--target-processes=all",
        "--csv",
        "--print-units=base",
        f"--log-file={log}",
        f"--metrics={','.join(sorted(metrics))}",
        *program,
    ]


def read(log: str) -> list[Profiled]:
    """Return the launches in the CSV that `--csv` prints, in their order, with the remarks between its lines left out.

    A row is one metric of one launch: "ID", ..., "Kernel Name", ..., "Block Size", "Grid Size", ..., "Metric Name",
    "Metric Unit", "Metric Value", the value with commas between thousands. Raises ValueError, with the line, for a row
    that lacks one of these.
    """
    rows = csv.DictReader(line for line in log.splitlines() if line.startswith('"'))
    launches: dict[tuple[str, str], Launch] = {}
    counts: dict[tuple[str, str], dict[str, int | None]] = defaultdict(dict)
    for row in rows:
        try:
            which = row["Process ID"], row["ID"]
            name = row["Kernel Name"].partition("(")[0].split()[-1]
            launches[which] = name, _extent(row["Grid Size"]), _extent(row["Block Size"])
            counts[which][row["Metric Name"]] = _number(row["Metric Value"])
        except (KeyError, IndexError, AttributeError, TypeError):
            raise ValueError(f"this is no row of Nsight Compute's CSV: {list(row.values())}") from None
    return [Profiled(launch, counts[which]) for which, launch in launches.items()]


def read_report(report: str) -> dict[str, dict[str, str]]:
    """Return the figures in Nsight Compute's report of one launch, with units, by section and name.

    Such as {"Occupancy": {"Achieved Occupancy": "6.25 %"}}. Its advice is passed over, and so are other lines.
    """
    found: dict[str, dict[str, str]] = {}
    section: dict[str, str] = {}
    in_table = False
    for line in map(str.strip, report.splitlines()):
        if line.startswith("Section: "):
            section = found.setdefault(line.removeprefix("Section: "), {})
        elif line.startswith("Metric Name"):
            in_table = True
        elif not line:
            in_table = False
        elif in_table and (row := re.fullmatch(r"(\S.*?) {2,}(?:(\S+) +)?(\S+)", line)) and line[0] != "-":
            name, unit, value = row.groups()
            section[name] = f"{value} {unit or ''}".strip()
    return found


def excerpt(report: str, figures: Mapping[str, Sequence[str]] = LOOK_FIRST) -> str:
    """Return some figures of a report as text, by section and name; what it does not have is a dash."""
    known = read_report(report)
    width = max(len(name) for names in figures.values() for name in names)
    lines = []
    for section, names in figures.items():
        lines += ["", section, *(f"  {name:<{width}}  {known.get(section, {}).get(name, '-')}" for name in names)]
    return "\n".join(lines[1:])


def known_metrics(metrics: Iterable[str], log: str) -> set[str]:
    """Return the metrics less those that Nsight Compute says this GPU does not have; asked for one, it counts none."""
    # It names them as given, or as a pattern: Failed to find metric regex:^smsp__inst_executed_op_x\.(sum|min|...)$
    complaints = [line for line in log.splitlines() if "Failed to find metric" in line]
    unknown = {base for line in complaints for base in re.findall(r"\w+__\w+", line)}
    return {metric for metric in metrics if metric.partition(".")[0] not in unknown}


def assign(launches: Mapping[str, Launch], profiled: Sequence[Profiled]) -> dict[str, Counts]:
    """Return the counts of each launch by its name, given in the order in which they were made.

    Launches that no name stands for are passed over. Of launches that look alike, all are left out if some are missing
    from the report, since it does not say which.
    """
    reported: dict[Launch, list[Profiled]] = defaultdict(list)
    for one in profiled:
        reported[one.launch].append(one)
    made = Counter(launches.values())
    in_turn = {launch: iter(found) for launch, found in reported.items() if len(found) == made[launch]}
    return {name: next(in_turn[launch]).counts for name, launch in launches.items() if launch in in_turn}


def _extent(text: str) -> tuple[int, ...]:
    """'(32, 4, 1)' as numbers."""
    return tuple(map(int, re.findall(r"\d+", text)))


def _number(text: str) -> int | float | None:
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else value
