"""Running what a record is made of: kernels on problems, each launched, traced, timed on a GPU, and examined."""

import importlib.metadata
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gemmlab import climb, context, correctness, emulator, launch, nvrtc, tolerance
from gemmlab.backend import Backend, architecture
from gemmlab.context import ContextLost
from gemmlab.environment import AFTER_SAMPLES, clocks, environment
from gemmlab.launch import Kernel
from gemmlab.profiling.counters import Counted
from gemmlab.profiling.nsight_compute import CLOCK_CONTROL
from gemmlab.record import form as record_form
from gemmlab.record.plan import Plan
from gemmlab.record.recorded import Record
from gemmlab.results import Result, access_data, hazard_data
from gemmlab.timing import LaunchFailed
from gemmlab.tolerance import Verdict

EXAMINED_SEED = 0  # of launch.checked
REFUSED = (nvrtc.CompileError, nvrtc.KernelNotFound, emulator.UnsupportedInstruction, ValueError)  # of an empty source
# CuPy's errors are RuntimeErrors, a wrong cuBLAS is an AssertionError, a sum without a bound a ValueError.
ENDS = (KeyboardInterrupt, RuntimeError, MemoryError, OSError, AssertionError, ValueError)
ENDING = ("out-of-bounds", "misaligned", "timeout")  # hazards that a GPU's context does not survive
FOLDERS = re.compile(r"(?<![\w./])(?:[A-Za-z]:[\\/]|/)(?:[^\s\\/:\"'<>|]+[\\/])+")

Progress = Callable[[float], object]


def carry_out(plan: Plan, where: Backend, progress: Progress = lambda share: None) -> Record:
    """Run a plan on a backend and return what was found, without decisions.

    What ends it, out of ENDS, such as an interrupt, a lost context, a lack of memory or a wrong cuBLAS, leaves what was
    done; where that is nothing, it is raised. A kernel that fails alone ends nothing: its run says why.
    """
    context.require_alive(where.cp, "this recording")
    seen, clocked = environment(where, {}), None  # before anything runs, as a GPU may not answer afterwards
    runs: list[dict[str, Any]] = []
    examinations: list[dict[str, Any]] = []
    try:
        traces = dict(_traces(plan))
        for run in _runs(plan, traces, where, progress):
            runs.append(run)
            clocked = clocks(where, AFTER_SAMPLES) if run["timing"] else clocked
        for name, trace in traces.items():
            failures = [run["failure"] for run in runs if run["kernel"] == name and run["failure"] is not None]
            examinations.append(_examination(plan, name, trace, failures, where))
            progress(1)
        ended = None
    except ENDS as error:
        if not runs:
            raise
        ended = ": ".join(filter(None, (type(error).__name__, _without_folders(error))))
    data = {
        "ended": ended,
        "note": plan.note,
        "environment": {name: value for name, value in seen.items() if name != "conditions"}
        | {"clocks": clocked, "backend": where.name, "gemmlab": release()},
        "inputs": {"family": climb.FAMILY, "seed": plan.seed},
        "tolerance": tolerance.POLICY,
        "profile": plan.profile and _profile(plan.profile),
        "kernels": [_kernel(name, kernel, plan.expected.get(name)) for name, kernel in plan.kernels.items()],
        "runs": runs,
        "examinations": examinations,
    }
    return Record(json.loads(json.dumps(data, allow_nan=False)), {name: k.source for name, k in plan.kernels.items()})


def _traces(plan: Plan) -> Iterator[tuple[str, emulator.Trace]]:
    """Yield the trace of each kernel that the emulator runs."""
    for name, problem in plan.traced.items():
        try:
            yield name, launch.trace(plan.kernels[name], problem)
        except (*REFUSED, MemoryError):
            continue  # the runs say so


def _runs(
    plan: Plan, traces: Mapping[str, emulator.Trace], where: Backend, progress: Progress
) -> Iterator[dict[str, Any]]:
    for problem in dict.fromkeys(problem for _, problem in plan.runs):
        bench = climb.bench(problem, where, plan.seed)
        for name in (name for name, other in plan.runs if other == problem):
            kernel = plan.kernels[name]
            asked = {"kernel": name, "problem": asdict(problem), "launch": launch.geometry(kernel, problem)._asdict()}
            try:
                if where.name == "cuda":
                    _require_harmless(traces.get(name))
                yield asked | _found(_run(bench, kernel, progress))
            except ContextLost as lost:
                yield asked | _failed(lost)
                raise
            except nvrtc.CompilerUnavailable:
                raise
            except (*REFUSED, RuntimeError) as error:
                yield asked | _failed(error)
                progress(1)


def _require_harmless(trace: emulator.Trace | None) -> None:
    """Raise LaunchFailed for a kernel that would end the GPU's context, and every recording after it."""
    for hazard in trace.hazards if trace else ():
        if hazard.kind in ENDING:
            raise LaunchFailed(
                f"not launched on the GPU, where it may end the context; on the emulator: {hazard.message}"
            )


def _run(bench: climb.Bench, kernel: Kernel, progress: Progress) -> Result:
    # NVRTC speaks first, because CuPy's error for a source that does not compile is of a kind of its own.
    nvrtc.resources(kernel.source, kernel.entry, kernel.options, architecture(bench.where))
    return climb.run(bench, kernel, progress)


def _found(result: Result) -> dict[str, Any]:
    trace = result.trace
    return {
        "failure": None,
        "verdict": _verdict(result.verdict),
        "error_bound": result.error_bound,
        "registers": result.registers,
        "spill_bytes": result.spill_bytes,
        "shared_bytes": result.shared_bytes,
        "accesses": trace and [access_data(access) for access in trace.accesses],
        "hazards": trace and [hazard_data(hazard) for hazard in trace.hazards],
        "sha256": result.sha256,
        "timing": result.timing and asdict(result.timing),
        "cublas": result.cublas and asdict(result.cublas),
    }


def _failed(error: Exception) -> dict[str, Any]:
    return dict.fromkeys(record_form.RUN.keys() - {"kernel", "problem", "launch"}) | {
        "failure": _without_folders(error) or type(error).__name__
    }


def _examination(
    plan: Plan, name: str, trace: emulator.Trace, failures: Sequence[str], where: Backend
) -> dict[str, Any]:
    kernel, cases, problem = plan.kernels[name], plan.cases[name], plan.traced[name]
    context.require_alive(where.cp, f"the examination of {name!r}")
    seen = correctness.judge(kernel, () if failures else cases, where.cp)
    judged = [*seen.checks, *[None] * (len(cases) - len(seen.checks))]
    return {
        "kernel": name,
        "trace": {
            "problem": asdict(problem),
            "launch": launch.geometry(kernel, problem)._asdict(),
            "hazards": [hazard_data(hazard) for hazard in trace.hazards],
        },
        "seed": EXAMINED_SEED,
        "fault": failures[0] if failures else seen.fault and _without_folders(seen.fault),
        "diagnosis": seen.diagnosis,
        "checks": [
            {
                "problem": asdict(problem),
                "launch": launch.geometry(kernel, problem)._asdict(),
                "family": family,
                "verdict": check and _verdict(check.verdict),
                "causes": [str(cause) for cause in check.causes] if check else [],
            }
            for (problem, family), check in zip(cases, judged, strict=True)
        ],
    }


def _profile(profile: Counted) -> dict[str, Any]:
    metrics = list(dict.fromkeys(metric for counts in profile.counts.values() for metric in counts))
    return {
        "tool": "Nsight Compute",
        "version": profile.release,
        "label": profile.label,
        "clock_control": CLOCK_CONTROL,
        "metrics": metrics,
        "problem": asdict(profile.problem),
        "counts": {name: {each: counts.get(each) for each in metrics} for name, counts in profile.counts.items()},
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    data = {name: getattr(verdict, name) for name in record_form.VERDICT if name != "message"}
    return data | {"message": verdict.message}


def _kernel(name: str, kernel: Kernel, expected: str | None) -> dict[str, Any]:
    macros = (re.fullmatch(r"-D\s*(\w+)(?:=(.*))?", option) for option in kernel.options)
    return {
        "name": name,
        "entry": kernel.entry,
        "options": list(kernel.options),
        "parameters": {macro[1]: macro[2] or "1" for macro in macros if macro},
        "sha256": record_form.digest(kernel.source),
        "expected": expected,
    }


def _without_folders(error: object) -> str:
    """An error in words, with the names of files and not where they lie on this machine."""
    text = str(error).strip()
    for own in (Path.home(), Path.cwd()):  # which may have spaces, where the pattern ends
        text = text.replace(f"{own}{os.sep}", "")
    return FOLDERS.sub("", text)


def release() -> str | None:
    """Return which gemmlab this is; None for one that was not installed."""
    try:
        return importlib.metadata.version("gemmlab")
    except importlib.metadata.PackageNotFoundError:
        return None
