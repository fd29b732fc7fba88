"""What a record is to be made of: kernels, the problems that they run on, and the cases that they are examined on."""

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmlab import correctness, launch, schema
from gemmlab.gemm import Gemm
from gemmlab.ladder import Geometry
from gemmlab.launch import Kernel
from gemmlab.profiling.counters import Counted
from gemmlab.record import form as record_form
from gemmlab.record.recorded import Record, written

INCLUDED = re.compile(r"^\s*#\s*include\s*[\"<]([^\">\n]+)[\">]", re.MULTILINE)
INCLUDING = ("-I", "--include-path", "-include", "--pre-include", "-include-dir")


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
    profile: Counted | None = None


def plan(
    kernels: Mapping[str, Kernel],
    problems: Sequence[Gemm],
    expected: Mapping[str, str],
    note: str,
    seed: int,
    profile: Counted | None,
) -> Plan:
    """Return the plan of a new record. Raises ValueError or TypeError for what cannot enter one."""
    if not isinstance(kernels, Mapping):
        raise TypeError(f"kernels is {type(kernels).__name__}, but must be a dict of launch.Kernel by name")
    if isinstance(problems, Gemm):
        raise TypeError(f"problems is one {problems}, but must be a list of them: [problem]")
    chosen = tuple(dict.fromkeys(problems))
    for problem in chosen:
        if not isinstance(problem, Gemm):
            raise TypeError(f"problems holds {problem!r}, but must hold gemm.Gemm(M, N, K)")
    record_form.require_names(kernels)
    for name, kernel in kernels.items():
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"{name} is {type(kernel).__name__}, but must be a launch.Kernel: launch.of(rung) makes one"
            )
        _require_own(name, kernel)
    if not kernels or not chosen:
        raise ValueError(f"{len(kernels)} kernels on {len(chosen)} problems make no record: give one of each at least")
    for name in expected:
        if name not in kernels:
            raise ValueError(f"something is expected of {name!r}, but the kernels are {', '.join(kernels)}")
    for what, text in {"note": note, **{f"expected[{name!r}]": text for name, text in expected.items()}}.items():
        require_portable(what, text)
    if profile is not None:
        _require_profile(profile, kernels, chosen)
    edges = {name: correctness.edges_of(kernel) for name, kernel in kernels.items()}
    traced = {name: _ragged(of_kernel) for name, of_kernel in edges.items()}
    cases = {name: correctness.cases(of_kernel) for name, of_kernel in edges.items()}
    for name, kernel in kernels.items():
        for problem in (*chosen, traced[name], *(problem for problem, _ in cases[name])):
            launch.geometry(kernel, problem)  # a shape that it refuses should be heard of before hours are spent
    runs = [(name, problem) for problem in chosen for name in kernels]
    return Plan(kernels, runs, traced, cases, expected, note, operator.index(seed), profile)


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


def require_portable(what: str, text: str) -> None:
    """Raise ValueError for what is no text that a file can hold, or holds the path of the home or the working folder of
    this machine.
    """
    schema.check(text, str, what)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} holds {text[error.start]!r}, which is no character: leave it out") from None
    for folder in (Path.home(), Path.cwd()):
        if len(folder.parts) > 1 and str(folder) in text:
            raise ValueError(f"{what} holds {folder}, a path that only this machine has: leave it out")


def _require_own(name: str, kernel: Kernel) -> None:
    require_portable(f"the source of {name!r}", kernel.source)
    require_portable(f"the entry of {name!r}", kernel.entry)
    for file in INCLUDED.findall(kernel.source):
        if Path(file).exists():
            raise ValueError(
                f"the source of {name!r} includes {file}, a file of yours that is no part of a record: paste it in"
            )
    if not isinstance(kernel.options, tuple):
        raise TypeError(f"the options of {name!r} are {kernel.options!r}, but must be a tuple, such as ('-DBX=32',)")
    for option in kernel.options:
        require_portable(f"an option of {name!r}", option)
        if option.startswith(INCLUDING):
            raise ValueError(
                f"{name!r} is compiled with {option}, but files that it includes are no part of a record: paste them "
                "into the source"
            )


def _require_profile(profile: Counted, kernels: Mapping[str, Kernel], problems: Sequence[Gemm]) -> None:
    if not isinstance(profile, Counted) or profile.problem is None or profile.release is None:
        raise TypeError(f"profile is {profile!r}, but must be what profiling.profile(kernels, problem) returns")
    for name in profile.counts:
        if name not in kernels:
            raise ValueError(f"the profile counts {name!r}, but the kernels are {', '.join(kernels)}: profile those")
    if profile.problem not in problems:
        raise ValueError(f"the profile is of {written(profile.problem)}, which is not recorded: profile one that is")


def _ragged(edges: correctness.Edges) -> Gemm:
    """The problem on which hazards are looked for: blocks at every edge of C, and a third, short step along K."""
    return Gemm(edges["M"][-1] + 1, edges["N"][-1] + 1, 2 * edges["K"][-1] + 1)


def _geometry(recorded: Mapping[str, Any]) -> Geometry:
    return Geometry(tuple(recorded["grid"]), tuple(recorded["block"]), recorded["shared_mem"])
