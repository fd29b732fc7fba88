"""The form of a record's data, field by field, and what is refused in data that somebody else wrote or changed."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gemmlab import records, schema
from gemmlab.gemm import FAMILIES, Gemm
from gemmlab.schema import Count, Nullable

PROBLEM = {"M": int, "N": int, "K": int, "alpha": float, "beta": float}
LAUNCH = {"grid": [int], "block": [int], "shared_mem": int}  # (x, y, z) twice, and bytes of dynamic shared memory
VERDICT = {
    "outputs": Count,
    "unwritten": Count,
    "nan": Count,
    "wrong": Count,
    "worst": [Count],  # row, column
    "max_abs_error": Nullable(float),
    "max_rel_error": Nullable(float),
    "message": str,
}
READING = {
    "sm_mhz": Nullable(int),
    "memory_mhz": Nullable(int),
    "celsius": Nullable(int),
    "watts": Nullable(float),
    "slowed_by": [str],
}
TIMING = {
    "samples_ms": [float],  # every one, as time of one launch
    "batch": Count,
    "warmup": Count,
    "cache": str,
    "boundary": str,
    "readings": [Nullable(READING)],  # of the GPU during each sample
}
RUN = {
    "kernel": str,
    "problem": PROBLEM,
    "launch": LAUNCH,
    "failure": Nullable(str),  # why there is no result: refused by the compiler, or at the launch, or by the GPU
    "verdict": Nullable(VERDICT),
    "error_bound": Nullable(float),  # the largest allowed at any output
    "registers": Nullable(Count),
    "spill_bytes": Nullable(Count),
    "shared_bytes": Nullable(Count),
    "accesses": Nullable([dict]),  # of records.ACCESS; null where no trace was taken
    "hazards": Nullable([records.HAZARD]),
    "sha256": Nullable(str),  # of C's bytes
    "timing": Nullable(TIMING),
    "cublas": Nullable(TIMING),
}
KERNEL = {
    "name": str,
    "entry": str,
    "options": [str],
    "parameters": dict,  # macros that the options set, by name
    "sha256": str,  # of sources/<name>.cu
    "expected": Nullable(str),  # in words, from before the first run
}
CHECK = {
    "problem": PROBLEM,
    "launch": LAUNCH,
    "family": str,
    "verdict": Nullable(VERDICT),  # null for the launch that faulted and those after it
    "causes": [str],  # what would explain a wrong result
}
EXAMINATION = {
    "kernel": str,
    "trace": {"problem": PROBLEM, "launch": LAUNCH, "hazards": [records.HAZARD]},  # on the emulator
    "seed": Count,  # of the checks
    "fault": Nullable(str),
    "diagnosis": Nullable(str),
    "checks": [CHECK],
}
PROFILE = {
    "tool": str,
    "version": str,
    "label": str,  # card, date and releases of the profiled run
    "clock_control": str,
    "metrics": [str],
    "problem": PROBLEM,
    "counts": dict,  # numbers or null, by metric, by kernel
}
ENVIRONMENT = {
    **{name: kind for name, kind in records.ENVIRONMENT.items() if name != "conditions"},
    "clocks": Nullable(str),
    "backend": str,
    "gemmlab": Nullable(str),
}
RECORD = {
    "ended": Nullable(str),  # what ended the recording before every run was done, such as an interrupt
    "note": str,
    "environment": ENVIRONMENT,
    "inputs": {"family": str, "seed": Count},
    "tolerance": str,
    "profile": Nullable(PROFILE),
    "kernels": [KERNEL],
    "runs": [RUN],
    "examinations": [EXAMINATION],
}
DECISION = {
    "date": str,
    "kernel": str,
    "against": Nullable(str),  # the kernel that it should improve on
    "expected": Nullable(str),
    "observed": [str],  # worked out from the record
    "stops": [str],  # kinds of finding that end a branch
    "despite": [str],  # those of them that `why` explains
    "verdict": str,
    "why": str,
}
VERDICTS = ("kept", "dropped")
_FAMILIES = ", ".join(FAMILIES)
NAME = re.compile(r"(?!(?i:con|prn|aux|nul|com\d|lpt\d)$)[A-Za-z0-9_-]{1,64}")  # Windows keeps those for devices


def digest(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def require_names(names: Iterable[str]) -> None:
    """Raise ValueError unless every name can be a file's on any system, and no two differ in case alone."""
    seen: dict[str, str] = {}
    for name in names:
        if not (isinstance(name, str) and NAME.fullmatch(name)):
            raise ValueError(
                f"a kernel is called {name!r}, but its name becomes that of a file: use 1 to 64 letters, digits, _ or -"
                ", and no name that Windows keeps for a device, such as CON"
            )
        if name.lower() in seen:
            raise ValueError(f"two kernels are called {seen[name.lower()]!r} and {name!r}: files need different names")
        seen[name.lower()] = name


def check(data: Any, sources: Mapping[str, str]) -> None:
    """Raise ValueError, with the field, its value and what is expected, unless `data` is a record of `sources`."""
    schema.check(data, RECORD)
    schema.check_date(data["environment"]["date"], "environment.date")
    if data["inputs"]["family"] not in FAMILIES:
        raise ValueError(f"inputs.family is {data['inputs']['family']!r}, but must be one of {_FAMILIES}")
    require_names(kernel["name"] for kernel in data["kernels"])
    for position, kernel in enumerate(data["kernels"]):
        _check_source(kernel, sources, f"kernels[{position}]")
    names = {kernel["name"] for kernel in data["kernels"]}
    _check_backend(data["environment"])
    if not data["runs"]:
        raise ValueError("runs is [], but a record holds a run at least")
    for position, run in enumerate(data["runs"]):
        _check_kernel(run, names, f"runs[{position}]")
        _check_run(run, data["environment"]["card"], f"runs[{position}]")
    if data["profile"] is not None:
        _check_profile(data["profile"], names)
    _check_different([(run["kernel"], Gemm(**run["problem"])) for run in data["runs"]], "runs")
    for position, examination in enumerate(data["examinations"]):
        _check_examination(examination, names, f"examinations[{position}]")
    _check_different([examination["kernel"] for examination in data["examinations"]], "examinations")


def check_decision(entry: Any, names: Iterable[str], where: str) -> None:
    """Raise ValueError, with the field at fault, unless `entry` is a decision on one of the kernels `names`."""
    schema.check(entry, DECISION, where)
    schema.check_date(entry["date"], f"{where}.date")
    if entry["verdict"] not in VERDICTS:
        raise ValueError(f"{where}.verdict is {entry['verdict']!r}, but must be {' or '.join(VERDICTS)}")
    for field in ("kernel", "against"):
        if entry[field] is not None and entry[field] not in names:
            raise ValueError(f"{where}.{field} is {entry[field]!r}, but the record has {', '.join(names)}")


def _check_source(kernel: Mapping[str, Any], sources: Mapping[str, str], where: str) -> None:
    name = kernel["name"]
    if name not in sources:
        raise ValueError(f"{where}.name is {name!r}, but there is no sources/{name}.cu")
    found = digest(sources[name])
    if kernel["sha256"] != found:
        raise ValueError(
            f"{where}.sha256 is {kernel['sha256']!r}, but that of sources/{name}.cu is {found!r}: put back what was "
            "run, or record the edited kernel anew"
        )


def _check_backend(environment: Mapping[str, Any]) -> None:
    backend, card = environment["backend"], environment["card"]
    if (backend, card is None) not in (("emulator", True), ("cuda", False)):
        raise ValueError(
            f"environment.backend is {backend!r} and environment.card {card!r}, but must be 'emulator' without a card, "
            "or 'cuda' with one"
        )


def _check_different(items: Sequence[Any], where: str) -> None:
    for position, item in enumerate(items):
        first = items.index(item)
        if first < position:
            raise ValueError(f"{where}[{position}] repeats {where}[{first}], but each may be there once: {item}")


def _check_kernel(item: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    if item["kernel"] not in names:
        raise ValueError(f"{where}.kernel is {item['kernel']!r}, but must be one of {', '.join(names)}")


def _check_examination(examination: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    _check_kernel(examination, names, where)
    _check_launched(examination["trace"], f"{where}.trace")
    if examination["fault"] is None and None in [checked["verdict"] for checked in examination["checks"]]:
        raise ValueError(f"{where} holds a check without a verdict, but no fault that says why")
    for index, checked in enumerate(examination["checks"]):
        _check_launched(checked, f"{where}.checks[{index}]")
        if checked["verdict"] is not None:
            _check_verdict(checked["verdict"], checked["problem"], f"{where}.checks[{index}].verdict")
        if checked["family"] not in FAMILIES:
            raise ValueError(f"{where}.checks[{index}].family is {checked['family']!r}, but must be one of {_FAMILIES}")


def _check_profile(profile: Mapping[str, Any], names: Iterable[str]) -> None:
    for name, counts in profile["counts"].items():
        _check_kernel({"kernel": name}, names, "profile.counts")
        schema.check(counts, dict.fromkeys(profile["metrics"], Nullable(float)), f"profile.counts.{name}")


def _check_launched(item: Mapping[str, Any], where: str) -> None:
    try:
        Gemm(**item["problem"])
    except ValueError as error:
        raise ValueError(f"{where}.problem is none: {error}") from None
    for field in ("grid", "block"):
        extent = item["launch"][field]
        if len(extent) != 3:  # what they are may be the mistake that is recorded
            raise ValueError(f"{where}.launch.{field} is {extent}, but must be three numbers")


def _check_run(run: Mapping[str, Any], card: str | None, where: str) -> None:
    _check_launched(run, where)
    results = [name for name in RUN.keys() - {"kernel", "problem", "launch", "failure"} if run[name] is not None]
    if run["failure"] is None and run["verdict"] is None:
        raise ValueError(f"{where} must hold a verdict, or a failure that says why there is none")
    if run["failure"] is not None and (results or not run["failure"].strip()):
        raise ValueError(
            f"{where}.failure is {run['failure']!r}, but must say why there is no result, and {where} has "
            f"{', '.join(sorted(results)) or 'none'}"
        )
    if run["verdict"] is not None:
        _check_verdict(run["verdict"], run["problem"], f"{where}.verdict")
    for field in ("timing", "cublas"):
        if run[field] is not None:
            _check_timing(run[field], card, f"{where}.{field}")
    for index, access in enumerate(run["accesses"] or ()):
        records.check_access(access, f"{where}.accesses[{index}]")


def _check_verdict(verdict: Mapping[str, Any], problem: Mapping[str, Any], where: str) -> None:
    outputs = problem["M"] * problem["N"]
    if verdict["outputs"] != outputs:
        raise ValueError(f"{where}.outputs is {verdict['outputs']}, but C has {outputs}")
    if sum(verdict[field] for field in ("unwritten", "nan", "wrong")) > outputs:
        raise ValueError(f"{where} counts more outputs that fail than the {outputs} of C")


def _check_timing(timing: Mapping[str, Any], card: str | None, where: str) -> None:
    records.check_samples(timing["samples_ms"], card, f"{where}.samples_ms")
    samples, readings = len(timing["samples_ms"]), len(timing["readings"])
    if readings not in (0, samples):
        raise ValueError(
            f"{where}.readings holds {readings}, but must hold one of each of the {samples} samples, or none"
        )
