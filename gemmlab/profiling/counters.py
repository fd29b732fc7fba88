"""Nsight Compute's counters beside the counts of the emulator: which metric answers which question, and their sums."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gemmlab.columns import WIDTH
from gemmlab.emulator import Access
from gemmlab.emulator.traffic import metrics
from gemmlab.gemm import Gemm
from gemmlab.profiling.nsight_compute import Counts

COUNTERS = {
    metric: f"{space} {op} {what}"
    for op, space, units in (
        ("ld", "global", "sectors"),
        ("st", "global", "sectors"),
        ("atom", "global", "sectors"),
        ("red", "global", "sectors"),
        ("ld", "local", "sectors"),
        ("st", "local", "sectors"),
        ("ld", "shared", "wavefronts"),
        ("st", "shared", "wavefronts"),
        ("atom", "shared", "wavefronts"),
    )
    for metric, what in zip(metrics(op, space), ("requests", units), strict=True)
}
"""Counters of memory requests and of what they cost, with what they count in words."""

# Nsight Compute's counters of shared loads and stores take in what these count apart.
TAKEN_IN = {
    metrics("ldmatrix", "shared")[1]: metrics("ld", "shared")[1],
    metrics("stmatrix", "shared")[1]: metrics("st", "shared")[1],
}


@dataclass(frozen=True)
class Question:
    """A question about a launch, the metric that answers it, the section of Nsight Compute's report that shows it, and
    what of gemmlab says the same without a GPU ('': nothing does).
    """

    asks: str
    metric: str
    section: str
    here: str = ""


_MEMORY, _SHARED = "Memory Workload Analysis", "Memory Workload Analysis: Shared Memory"
_LOADED, _STORED = metrics("ld", "global"), metrics("st", "global")
_READ, _WRITTEN = metrics("ld", "shared"), metrics("st", "shared")
_CONFLICTS = "compare access.wavefronts, access.ideal"

QUESTIONS = (
    Question("How many global loads did warps make?", _LOADED[0], f"{_MEMORY}: L1/TEX", "access.requests"),
    Question("How many sectors did global loads take?", _LOADED[1], f"{_MEMORY}: L1/TEX", "access.sectors"),
    Question("How many sectors did global stores take?", _STORED[1], f"{_MEMORY}: L1/TEX", "access.sectors"),
    Question("How many shared loads did warps make?", _READ[0], _SHARED, "access.requests"),
    Question("How many wavefronts did shared loads take?", _READ[1], _SHARED, "access.wavefronts"),
    Question("How many wavefronts did shared stores take?", _WRITTEN[1], _SHARED, "access.wavefronts"),
    Question(
        "How many of those wavefronts of loads were conflicts?",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        _SHARED,
        _CONFLICTS,
    ),
    Question(
        "How many of those wavefronts of stores were conflicts?",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        _SHARED,
        _CONFLICTS,
    ),
    Question(
        "How many registers does a thread have?", "launch__registers_per_thread", "Launch Statistics", "kernel.num_regs"
    ),
    Question(
        "How many sectors did spilled loads take?",
        metrics("ld", "local")[1],
        f"{_MEMORY}: L1/TEX",
        "nvrtc.resources, spills",
    ),
    Question(
        "How many sectors did spilled stores take?",
        metrics("st", "local")[1],
        f"{_MEMORY}: L1/TEX",
        "nvrtc.resources, spills",
    ),
    Question(
        "How many of the possible warps were resident, in %?",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "Occupancy",
        "resources.occupancy, as a limit",
    ),
    Question("How many bytes came from DRAM?", "dram__bytes_read.sum", _MEMORY),
    Question("How many bytes went to DRAM?", "dram__bytes_write.sum", _MEMORY),
    Question("How much of what reached L2 did it have, in %?", "lts__t_sector_hit_rate.pct", _MEMORY),
    Question("How much of what reached L1 did it have, in %?", "l1tex__t_sector_hit_rate.pct", _MEMORY),
    Question(
        "How many instructions does a scheduler start in a cycle?",
        "smsp__issue_active.avg.per_cycle_active",
        "Scheduler Statistics",
    ),
    *(
        Question(
            f"How many warps wait {what}, per instruction?",
            f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio",
            "Warp State Statistics",
        )
        for reason, what in (
            ("long_scoreboard", "for global or local memory"),
            ("short_scoreboard", "for shared memory"),
            ("mio_throttle", "for a place in shared memory's queue"),
            ("lg_throttle", "for a place in global memory's queue"),
            ("barrier", "at a barrier"),
            ("math_pipe_throttle", "for the units of arithmetic"),
            ("not_selected", "though ready, for another warp's turn"),
        )
    ),
)
"""What one asks of a GEMM, in the order of the way from the warp to DRAM and back to what the warp waits for."""


@dataclass(frozen=True)
class Counted:
    """What a GPU's counters showed of launches, by name; `label` says where, when and by which Nsight Compute.

    `problem` and `release` are those of a profile made here, with Nsight Compute's version; None for one that was read.
    """

    label: str
    counts: Mapping[str, Counts]
    problem: Gemm | None = None
    release: str | None = None


def counts(accesses: Iterable[Access]) -> dict[str, int]:
    """Return a trace's accesses summed by Nsight Compute's metrics."""
    total: dict[str, int] = defaultdict(int)
    for access in accesses:
        # An asynchronous copy is one instruction, seen at both of its ends.
        if access.request_metric and not (access.op.startswith("cp.async") and access.space == "shared"):
            total[access.request_metric] += access.requests
        for metric in (access.metric, TAKEN_IN.get(access.metric)):
            if metric:
                total[metric] += access.units
    return dict(total)


def answers(launch: Counts) -> str:
    """Return a launch's counts as text, under the questions that they answer; what was not counted is a dash."""
    width = max(len(question.asks) for question in QUESTIONS)
    return "\n".join(f"{each.asks:<{width}}{written(launch.get(each.metric)):>14}" for each in QUESTIONS)


def hardware_only(launch: Counts) -> str:
    """Return as text what a launch's counts answer of the questions that nothing else does, and which have no count."""
    asked = [each for each in QUESTIONS if not each.here]
    width = max(len(each.asks) for each in asked)
    lines = [f"{each.asks:<{width}}{written(launch[each.metric]):>14}" for each in asked if each.metric in launch]
    if len(lines) < len(asked):
        lines.append(f"not counted: {len(asked) - len(lines)} of the {len(asked)} figures that only hardware has")
    return "\n".join(lines)


def mapping_table() -> str:
    """Return the questions as text, by the section that shows them: each with what answers it here, and its metric."""
    sections: dict[str, list[Question]] = defaultdict(list)
    for each in QUESTIONS:
        sections[each.section].append(each)
    lines = []
    for section, questions in sections.items():
        lines += ["", section]
        for each in questions:
            lines += [f"  {each.asks}{each.here or '-':>{WIDTH - 2 - len(each.asks)}}", f"      {each.metric}"]
    return "\n".join(lines[1:])


def written(count: int | float | None) -> str:
    """Return a count as text: '1,048,576', '97.09', or a dash where nothing was counted."""
    if count is None:
        return "-"
    return f"{count:,}" if isinstance(count, int) else f"{count:,.4g}"
