"""Running what a record is made of: kernels on problems, each launched, traced, timed on a GPU, and examined."""

import importlib.metadata
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gemmlab import climb, context, correctness, emulator, launch, nvrtc, record_form
from gemmlab.backend import Backend
from gemmlab.context import ContextLost
from gemmlab.environment import architecture, environment
from gemmlab.gemm import Gemm
from gemmlab.ladder import Geometry
from gemmlab.launch import Kernel
from gemmlab.recorded import Record
from gemmlab.results import Result, access_data, hazard_data
from gemmlab.timing import LaunchFailed
from gemmlab.tolerance import Verdict

TOLERANCE = (
    "|C - R| <= gamma(K + 2) |alpha| (|A| @ |B|) + gamma(2) |beta C| + (K |alpha| + 2) 2^-149 at every output, R in "
    "float64, gamma(n) = n u / (1 - n u) and u = 2^-24; NaN never passes; where beta is 0, C is filled with a NaN first"
)
EXAMINED_SEED = 0  # of launch.checked
INCLUDING = ("-I", "--include-path", "-include", "--pre-include", "-include-dir")
ENDING = ("out-of-bounds", "misaligned", "timeout")  # hazards that a GPU's context does not survive
FOLDERS = re.compile(r"(?<![\w./])(?:[A-Za-z]:[\\/]|/)(?:[^\s\\/:\"'<>|]+[\\/])+")

Progress = Callable[[float], object]


@dataclass(frozen=True)
class Profile:
    """How a profiler was set: its name and version, the metrics it counted, and what it did with the clocks."""

    tool: str
    version: str
    metrics: tuple[str, ...]
    clock_control: str


@dataclass(frozen=True)
class Plan:
    """What is to be run, by the kernels' names, and what was said of it before.

    `runs` are recorded whole. An examination looks for hazards on the problem `traced`, and judges the results of
    `cases`, which are problems and families of inputs.
    """

    kernels: Mapping[str, Kernel]
    runs: Sequence[tuple[str, Gemm]]
    traced: Mapping[str, Gemm]
    cases: Mapping[str, Sequence[tuple[Gemm, str]]]
    expected: Mapping[str, str | None]
    note: str = ""
    seed: int = 0
    profile: Profile | None = None


def plan(
    kernels: Mapping[str, Kernel],
    problems: Sequence[Gemm],
    expected: Mapping[str, str],
    note: str,
    seed: int,
    profile: Profile | None,
) -> Plan:
    """Return the plan of a new record. Raises ValueError for what cannot enter one, and TypeError for no kernel."""
    record_form.require_names(kernels)
    for name, kernel in kernels.items():
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"{name} is {type(kernel).__name__}, but must be a launch.Kernel: launch.of(rung) makes one"
            )
        _require_own(name, kernel)
    if not kernels or not problems:
        raise ValueError(
            f"{len(kernels)} kernels on {len(problems)} problems make no record: give one of each at least"
        )
    for name in expected:
        if name not in kernels:
            raise ValueError(f"something is expected of {name!r}, but the kernels are {', '.join(kernels)}")
    for what, text in {"note": note, **{f"expected[{name!r}]": text for name, text in expected.items()}}.items():
        require_portable(what, text)
    chosen = tuple(dict.fromkeys(problems))
    edges = {name: correctness.edges_of(kernel) for name, kernel in kernels.items()}
    traced = {name: _ragged(of_kernel) for name, of_kernel in edges.items()}
    cases = {name: correctness.cases(of_kernel) for name, of_kernel in edges.items()}
    for name, kernel in kernels.items():
        for problem in (*chosen, traced[name], *(problem for problem, _ in cases[name])):
            kernel.geometry(problem)  # a shape that it refuses should be heard of before hours are spent
    runs = [(name, problem) for problem in chosen for name in kernels]
    return Plan(kernels, runs, traced, cases, expected, note, seed, profile)


def repetition(record: Record) -> Plan:
    """Return the plan that repeats a record. Raises ValueError for one that has no sources."""
    if not record.sources:
        raise ValueError(f"{record.label} is a climb without sources, so it cannot be run again: climb here instead")
    launches: dict[str, dict[Gemm, Geometry]] = {name: {} for name in record.kernels}
    for run in record.data["runs"]:
        launches[run["kernel"]][Gemm(**run["problem"])] = _geometry(run["launch"])
    for examination in record.data["examinations"]:
        for check in (examination["trace"], *examination["checks"]):
            launches[examination["kernel"]][Gemm(**check["problem"])] = _geometry(check["launch"])
    return Plan(
        kernels={
            name: Kernel(record.sources[name], kernel["entry"], tuple(kernel["options"]), launches[name].__getitem__)
            for name, kernel in record.kernels.items()
        },
        runs=list(record.runs),
        traced={each["kernel"]: Gemm(**each["trace"]["problem"]) for each in record.data["examinations"]},
        cases={
            each["kernel"]: [(Gemm(**check["problem"]), check["family"]) for check in each["checks"]]
            for each in record.data["examinations"]
        },
        expected={name: kernel["expected"] for name, kernel in record.kernels.items()},
        seed=record.data["inputs"]["seed"],
    )


def carry_out(plan: Plan, where: Backend, progress: Progress = lambda share: None) -> Record:
    """Run a plan on a backend and return what was found, without decisions.

    An interrupt, and a launch that ends the GPU's context, end it and leave what was done. Raises KeyboardInterrupt
    where that is nothing.
    """
    seen = environment(where, {})  # before anything runs, as a GPU may not answer afterwards
    runs: list[dict[str, Any]] = []
    examinations: list[dict[str, Any]] = []
    try:
        traces = dict(_traces(plan))
        for run in _runs(plan, traces, where, progress):
            runs.append(run)
        for name, trace in traces.items():
            failures = [run["failure"] for run in runs if run["kernel"] == name and run["failure"] is not None]
            examinations.append(_examination(plan, name, trace, failures, where))
            progress(1)
        complete = True
    except (KeyboardInterrupt, ContextLost):
        if not runs:
            raise
        complete = False
    data = {
        "complete": complete,
        "note": plan.note,
        "environment": {name: value for name, value in seen.items() if name != "conditions"}
        | {"clocks": seen["conditions"]["clocks"], "backend": where.name, "gemmlab": _version()},
        "inputs": {"family": climb.FAMILY, "seed": plan.seed},
        "tolerance": TOLERANCE,
        "profile": plan.profile and asdict(plan.profile),
        "kernels": [_kernel(name, kernel, plan.expected.get(name)) for name, kernel in plan.kernels.items()],
        "runs": runs,
        "examinations": examinations,
    }
    return Record(json.loads(json.dumps(data, allow_nan=False)), {name: k.source for name, k in plan.kernels.items()})


def require_portable(what: str, text: str) -> None:
    """Raise ValueError where a text holds the path of the home or the working folder of this machine."""
    for folder in (Path.home(), Path.cwd()):
        if len(folder.parts) > 1 and str(folder) in text:
            raise ValueError(f"{what} holds {folder}, a path that only this machine has: leave it out")


def _require_own(name: str, kernel: Kernel) -> None:
    require_portable(f"the source of {name!r}", kernel.source)
    for option in kernel.options:
        if option.startswith(INCLUDING):
            raise ValueError(
                f"{name!r} is compiled with {option}, but files that it includes are no part of a record: paste them "
                "into the source"
            )


def _ragged(edges: correctness.Edges) -> Gemm:
    """The problem on which hazards are looked for: blocks at every edge of C, and a third, short step along K."""
    return Gemm(edges["M"][-1] + 1, edges["N"][-1] + 1, 2 * edges["K"][-1] + 1)


def _traces(plan: Plan) -> Iterator[tuple[str, emulator.Trace]]:
    """Yield the trace of each kernel that compiles."""
    for name, problem in plan.traced.items():
        try:
            yield name, launch.trace(plan.kernels[name], problem)
        except (nvrtc.CompileError, nvrtc.KernelNotFound):
            continue  # the runs say so


def _runs(
    plan: Plan, traces: Mapping[str, emulator.Trace], where: Backend, progress: Progress
) -> Iterator[dict[str, Any]]:
    for problem in dict.fromkeys(problem for _, problem in plan.runs):
        bench = climb.bench(problem, where, plan.seed)
        for name in (name for name, other in plan.runs if other == problem):
            kernel = plan.kernels[name]
            asked = {"kernel": name, "problem": asdict(problem), "launch": kernel.geometry(problem)._asdict()}
            try:
                if where.name == "cuda":
                    _require_harmless(traces.get(name))
                yield asked | _found(_run(bench, kernel, name, progress))
            except ContextLost as lost:
                yield asked | _failed(lost)
                raise
            except nvrtc.CompilerUnavailable:
                raise
            except (nvrtc.CompileError, nvrtc.KernelNotFound, emulator.KernelFault, RuntimeError) as error:
                yield asked | _failed(error)
                progress(1)


def _require_harmless(trace: emulator.Trace | None) -> None:
    """Raise LaunchFailed for a kernel that would end the GPU's context, and every recording after it."""
    for hazard in trace.hazards if trace else ():
        if hazard.kind in ENDING:
            raise LaunchFailed(
                f"not launched on the GPU, where it may end the context; on the emulator: {hazard.message}"
            )


def _run(bench: climb.Bench, kernel: Kernel, name: str, progress: Progress) -> Result:
    # NVRTC speaks first, because CuPy's error for a source that does not compile is of a kind of its own.
    nvrtc.resources(kernel.source, kernel.entry, kernel.options, architecture(bench.where))
    with context.watched(bench.where.cp, f"{name!r} at {launch.written(bench.problem)}"):
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
        "failure": _without_folders(error)
    }


def _examination(
    plan: Plan, name: str, trace: emulator.Trace, failures: Sequence[str], where: Backend
) -> dict[str, Any]:
    kernel, cases, problem = plan.kernels[name], plan.cases[name], plan.traced[name]
    with context.watched(where.cp, f"the examination of {name!r}"):
        seen = correctness.judge(kernel, () if failures else cases, where.cp)
    judged = [*seen.checks, *[None] * (len(cases) - len(seen.checks))]
    return {
        "kernel": name,
        "trace": {
            "problem": asdict(problem),
            "launch": kernel.geometry(problem)._asdict(),
            "hazards": [hazard_data(hazard) for hazard in trace.hazards],
        },
        "seed": EXAMINED_SEED,
        "fault": failures[0] if failures else seen.fault and _without_folders(seen.fault),
        "diagnosis": seen.diagnosis,
        "checks": [
            {
                "problem": asdict(problem),
                "launch": kernel.geometry(problem)._asdict(),
                "family": family,
                "verdict": check and _verdict(check.verdict),
                "causes": [str(cause) for cause in check.causes] if check else [],
            }
            for (problem, family), check in zip(cases, judged, strict=True)
        ],
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


def _geometry(recorded: Mapping[str, Any]) -> Geometry:
    return Geometry(tuple(recorded["grid"]), tuple(recorded["block"]), recorded["shared_mem"])


def _without_folders(error: object) -> str:
    """An error in words, with the names of files and not where they lie on this machine."""
    return FOLDERS.sub("", str(error).strip()) or type(error).__name__


def _version() -> str | None:
    try:
        return importlib.metadata.version("gemmlab")
    except importlib.metadata.PackageNotFoundError:
        return None
