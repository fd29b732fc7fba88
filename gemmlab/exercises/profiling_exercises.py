"""Checks of the exercises on profiles: whose they are, where a conflict is, which metric, and what went wrong.

They answer as `exercises` does. What is shown was counted on a GPU by the shipped fidelity check.
"""

import csv
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from gemmlab import emulator, launch
from gemmlab.emulator.traffic import metrics
from gemmlab.exercises import judge_answers, same, shown
from gemmlab.gemm import Gemm
from gemmlab.ladder import RUNGS, rung
from gemmlab.profiling import captures, counters
from gemmlab.profiling.counters import QUESTIONS
from gemmlab.profiling.nsight_compute import Counts

PROBLEM = Gemm(256, 256, 256)
HIDDEN = ("register_tiles_2d", "naive", "warp_tiles", "coalesced")  # which rung each launch of exercise 1 was
PADDED = "21_padding_declared_not_used"  # exercise 2's kernel, as the fidelity check names it
PADDED_SOURCE = """extern "C" __global__ void row_sums(const float* A, float* y) {
    __shared__ float s[32 * 33];
    int lane = threadIdx.x;
    for (int r = 0; r < 32; ++r)
        s[r * 32 + lane] = A[r * 32 + lane];
    __syncthreads();
    float acc = 0.0f;
    for (int c = 0; c < 32; ++c)
        acc += s[lane * 32 + c];
    y[lane] = acc;
}
"""
ASKED = tuple(
    question.asks
    for question in QUESTIONS
    if question.metric
    in {
        metrics("ld", "global")[1],
        metrics("ld", "shared")[1],
        "dram__bytes_read.sum",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
    }
)
"""The questions of exercise 3, whose metrics are to be chosen."""

CAUSES = ("not installed", "not permitted", "launch failed", "nothing wrong")
LOGS = {
    "A": (
        "==PROF== Connected to process 4242\n"
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on "
        "the target device 0.\n"
        "==PROF== Disconnected from process 4242"
    ),
    "B": "bash: ncu: command not found",
    "C": (
        "==PROF== Connected to process 4242\n"
        "gemm_vectorized: CUDADriverError: CUDA_ERROR_MISALIGNED_ADDRESS: misaligned address\n"
        "==PROF== Disconnected from process 4242\n"
        "==WARNING== No kernels were profiled."
    ),
    "D": (
        "==PROF== Connected to process 4242\n"
        '==PROF== Profiling "gemm_naive" - 0: 0%....50%....100% - 4 passes\n'
        "==PROF== Disconnected from process 4242"
    ),
}
"""What a terminal shows after `ncu ...`, in exercise 4: written for this exercise, in ncu's form."""

_CAUSE = {"A": "not permitted", "B": "not installed", "C": "launch failed", "D": "nothing wrong"}
_TELLS = {
    "A": "ERR_NVGPUCTRPERM is the driver's no to a user who is no administrator; the kernel itself ran",
    "B": "it is the shell that speaks: there is no such program on PATH",
    "C": "the tool connected and was allowed; the kernel faulted, so there was nothing to count",
    "D": "it names the kernel, 100% and the passes in which it was replayed",
}


def hidden_profile() -> str:
    """Return the CSV of exercise 1: four rungs at 256 x 256 x 256, in the form of `ncu --csv`, without their names."""
    counted = captures.fidelity([rung(name) for name in HIDDEN], PROBLEM)
    return _csv({f"launch {i}": one for i, one in enumerate(counted.counts.values())})


def whose(answers: Mapping[str, Any]) -> str:
    """Judge which rung each launch of `hidden_profile` was."""
    counted = captures.fidelity([rung(name) for name in HIDDEN], PROBLEM).counts
    right = {f"launch {i}": name for i, name in enumerate(HIDDEN)}

    def evidence(which: str, said: Any) -> str:
        known = [each.name for each in RUNGS]
        if not any(same(said, name) for name in known):
            return f"{which}: there is no rung {shown(said)}; the names are {', '.join(known)}"
        traced = counters.counts(launch.trace(launch.of(rung(said)), PROBLEM).accesses)
        return f"{which}: {_signature(counted[right[which]])}; {said} on the emulator: {_signature(traced)}"

    return _judge(
        answers,
        right,
        evidence,
        "Sectors a request tell how lanes stand in global memory, the number of requests what a tile saves, and "
        "wavefronts a shared load how wide and how ordered the loads are. Next: exercise 2.",
    )


def padded_profile() -> str:
    """Return the CSV of exercise 2."""
    return _csv({"row_sums": _padded_counts()})


def conflict(answers: Mapping[str, Any]) -> str:
    """Judge the line of PADDED_SOURCE that conflicts, its wavefronts a request, and how many loads became one."""
    loads, wavefronts = (_padded_counts()[metric] for metric in metrics("ld", "shared"))
    shared = [one for one in _trace_padded().accesses if one.wavefronts]
    line, made = next((one.line, one.requests) for one in shared if one.op == "ld.shared")
    seen = "; ".join(
        f"line {one.line} {one.op}, {one.requests} requests, {one.wavefronts} wavefronts" for one in shared
    )
    evidence = {
        "line": f"on the emulator, which counts by line: {seen}",
        "wavefronts of one load": f"the profile has {loads} shared loads and {wavefronts} wavefronts of them",
        "loads in the source for one load": f"a lane makes {made} loads in the source's loop, the profile has {loads}",
    }
    right = dict(zip(evidence, (line, wavefronts // loads, made // loads), strict=True))
    return _judge(
        answers,
        right,
        lambda name, said: f"{name} is not {shown(said)}: {evidence[name]}",
        "Its row stride is 32 words, so a column lies in one bank: the array has 33 a row, the index does not. The "
        "merged load is 16 bytes wide and takes 32 wavefronts where 4 would do. Next: exercise 3.",
    )


def choose(answers: Mapping[str, Any]) -> str:
    """Judge the metrics chosen for the questions ASKED."""
    right = {question.asks: question.metric for question in QUESTIONS if question.asks in ASKED}

    def evidence(asked: str, said: Any) -> str:
        other = next((question.asks for question in QUESTIONS if same(said, question.metric)), None)
        return f"{asked} {shown(said)} " + (f"answers: {other}" if other else "is no metric of section 4")

    return _judge(
        answers,
        right,
        evidence,
        "The unit comes first (l1tex, lts, dram, smsp), then what it counts, then how it is summed. Next: exercise 4.",
    )


def diagnose(answers: Mapping[str, Any]) -> str:
    """Judge the cause, one of CAUSES, of what each of LOGS shows."""

    def evidence(log: str, said: Any) -> str:
        if not any(same(said, cause) for cause in CAUSES):
            return f"{log}: {shown(said)} is none of {', '.join(CAUSES)}"
        return f"{log} is not {said!r}: {_TELLS[log]}"

    return _judge(
        answers,
        _CAUSE,
        evidence,
        "Each has its own cure: install, ask the administrator or read the emulator, mend the kernel, read the counts. "
        "Next: the quiz.",
    )


def _judge(given: Any, right: Mapping[str, Any], evidence: Callable[[str, Any], str], lesson: str) -> str:
    """How far answers got, held against the right ones; `evidence` speaks against one that is wrong."""
    return judge_answers(
        given, list(right), lambda name, said: None if same(said, right[name]) else evidence(name, said), lesson
    )


def _signature(counts: Counts) -> str:
    """What tells a rung in its counts: global loads, their sectors a request, and wavefronts of a shared load."""
    (loads, sectors), (shared, wavefronts) = (
        [counts.get(metric, 0) for metric in metrics("ld", space)] for space in ("global", "shared")
    )
    each = f"{wavefronts / shared:.3g} wavefronts a shared load" if shared else "no shared load"
    return f"{loads:,} global loads of {sectors / loads:.3g} sectors, {each}"


def _csv(launches: Mapping[str, Counts]) -> str:
    """Counts in the form of `ncu --csv`, of whose columns some are left out."""
    text = io.StringIO()
    rows = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    rows.writerow(("ID", "Kernel Name", "Metric Name", "Metric Value"))
    for number, (name, counts) in enumerate(launches.items()):
        for metric, count in sorted(counts.items()):
            rows.writerow((number, name, metric, f"{count:,}"))
    return text.getvalue()


def _padded_counts() -> Counts:
    data = json.loads(captures.FIDELITY.read_text(encoding="utf-8"))
    figures = next(kernel["figures"] for kernel in data["kernels"] if kernel["kernel"] == PADDED)
    return {metric: pair[1] for metric, pair in figures.items() if "__" in metric}


def _trace_padded() -> emulator.Trace:
    kernel = emulator.RawKernel(PADDED_SOURCE, "row_sums")
    arrays = emulator.zeros((32, 32), dtype="float32"), emulator.zeros(32, dtype="float32")
    return emulator.trace(kernel, (1, 1, 1), (32, 1, 1), arrays)
