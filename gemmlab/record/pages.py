"""A record as a page of Markdown, which a terminal, JupyterLab and a code host all show.

Counted and measured figures stand in tables of their own, and a dash stands for what nobody counted or measured.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gemmlab.gemm import Gemm
from gemmlab.record import recorded
from gemmlab.record.recorded import COUNTED, DOUBT, MEASURED, Record, written

SETTINGS = ("tool", "version", "clock_control")


def page(record: Record) -> str:
    """Return the page: what was expected, decided and found, then under which conditions, and how to run it again."""
    sections = (
        _title(record),
        _section("Kernels", _kernels(record)),
        _section("Decisions", _decisions(record)),
        _section("Results", _results(record)),
        _section("Counted, by compiler and emulator", _figures(record, COUNTED)),
        _section(f"Measured on {record.label}" if record.timed else "Measured: nothing was timed", _measured(record)),
        _section("Counted by Nsight Compute", _profiled(record)),
        _section("Checks on other shapes and inputs", _examinations(record)),
        _section("Conditions", _conditions(record)),
        _section("Run it again", _again(record)),
    )
    return "\n".join(sections)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[str] = ()) -> str:
    """Return a table of Markdown, the columns `numbers` aligned to the right; None becomes a dash."""
    lines = [headers, ["---:" if header in numbers else "---" for header in headers], *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines) + "\n"


def _cell(value: object) -> str:
    text = "-" if value is None else str(value)
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", "<br>") or "-"


def _shape(problem: Gemm) -> str:
    return written(problem).replace(" x ", "\N{NO-BREAK SPACE}x\N{NO-BREAK SPACE}")


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n{text}"


def _title(record: Record) -> str:
    lines = [f"# Record: {', '.join(record.kernels)}", record.label]
    if record.data["ended"] is not None:
        lines.append(f"**Incomplete**: ended before every run was done by {_cell(record.data['ended'])}")
    return "\n\n".join([*lines, *filter(None, [_cell(record.data["note"]) if record.data["note"] else ""])]) + "\n"


def _kernels(record: Record) -> str:
    rows = (
        (
            f"[{kernel['name']}](sources/{kernel['name']}.cu)",
            kernel["entry"],
            " ".join(kernel["options"]) or None,
            kernel["sha256"][:12],
            kernel["expected"],
        )
        for kernel in record.data["kernels"]
    )
    return table(("kernel", "entry", "compile options", "SHA-256 of its source", "expected"), rows)


def _results(record: Record) -> str:
    rows = []
    for (name, problem), run in record.runs.items():
        verdict = run["verdict"] or {}
        found = [run["failure"] or verdict["message"]] + [
            f"{hazard['kind']}: {hazard['message']}" for hazard in run["hazards"] or ()
        ]
        if verdict and recorded.correct(run):
            found = found[1:]
        searched = "not looked for" if run["hazards"] is None else len(run["hazards"])
        error = _number(verdict.get("max_abs_error"), ".3g")
        allowed = _number(run["error_bound"], ".3g")
        rows.append((name, _shape(problem), recorded.outcome(run), error, allowed, searched, "\n".join(found) or None))
    headers = ("kernel", "M x N x K", "result", "largest error", "largest allowed", "hazards", "findings")
    return table(headers, rows)


def _figures(record: Record, figures: Sequence[recorded.Figure]) -> str:
    rows = (
        (name, _shape(problem), *(figure.text(run) for figure in figures))
        for (name, problem), run in record.runs.items()
    )
    names = [figure.name for figure in figures]
    return table(("kernel", "M x N x K", *names), rows, numbers=names)


def _measured(record: Record) -> str:
    median, *speeds = MEASURED
    half = "middle half of the samples"
    headers = ("kernel", "M x N x K", median.name, half, *(speed.name for speed in speeds), "how it was timed")
    rows = [
        (name, _shape(problem), median.text(run), recorded.half(run), *(speed.text(run) for speed in speeds), _how(run))
        for (name, problem), run in record.runs.items()
    ]
    notes = [f"\\{DOUBT}"] if any(map(recorded.submitted, record.runs.values())) else []
    notes += ["Every sample is in `record.json`."] if record.timed else []
    return table(headers, rows, numbers=headers[2:-1]) + "".join(f"\n{note}\n" for note in notes)


def _how(run: Mapping[str, Any]) -> str | None:
    timing = recorded.timing(run["timing"])
    if timing is None:
        return None
    clocks = sorted({reading.sm_mhz for reading in timing.readings if reading and reading.sm_mhz})
    said = [
        f"{len(timing.samples_ms)} samples of {timing.batch} launches after {timing.warmup}",
        timing.cache,
        timing.boundary,
        f"multiprocessors at {' to '.join(dict.fromkeys(map(str, (clocks[0], clocks[-1]))))} MHz" if clocks else "",
        *timing.remarks,
    ]
    return "; ".join(filter(None, said))


def _examinations(record: Record) -> str:
    if not record.data["examinations"]:
        return "None were made.\n"
    rows = []
    for each in record.data["examinations"]:
        checks = each["checks"]
        wrong = [check for check in checks if recorded.correct(check) is False]
        families = ", ".join(dict.fromkeys(check["family"] for check in checks))
        shapes = len({Gemm(**check["problem"]) for check in checks})
        hazards = each["trace"]["hazards"]
        findings = [f"{hazard['kind']}: {hazard['message']}" for hazard in hazards]
        findings += [wrong[0]["verdict"]["message"]] if wrong else []
        findings += filter(None, (each["diagnosis"], each["fault"]))
        searched = f"{len(hazards)} at {written(Gemm(**each['trace']['problem']))}"
        right = f"{sum(recorded.correct(check) is True for check in checks)} of {len(checks)}"
        rows.append((each["kernel"], searched, right, shapes, families, each["seed"], "\n".join(findings) or None))
    return table(("kernel", "hazards", "right", "shapes", "inputs", "seed", "findings"), rows)


def _decisions(record: Record) -> str:
    if not record.decisions:
        return "None yet.\n"
    headers = ("date", "kernel", "against", "expected", "observed", "stops its branch", "decision", "why")
    rows = (
        (
            entry["date"],
            entry["kernel"],
            entry["against"],
            entry["expected"],
            "\n".join(entry["observed"]),
            ", ".join(entry["stops"]) or None,
            entry["verdict"] + (f" despite {' and '.join(entry['despite'])}" if entry["despite"] else ""),
            entry["why"],
        )
        for entry in record.decisions
    )
    return table(headers, rows)


def _conditions(record: Record) -> str:
    seen, inputs, profile = record.data["environment"], record.data["inputs"], record.data["profile"]
    rows = [
        ("GPU", seen["card"]),
        ("compiled for", seen["architecture"]),
        ("backend", seen["backend"]),
        ("driver", seen["driver"]),
        ("CUDA", seen["cuda"]),
        ("NVRTC", seen["nvrtc"]),
        ("CuPy", seen["cupy"]),
        ("NumPy", seen["numpy"]),
        ("Python", seen["python"]),
        ("gemmlab", seen["gemmlab"]),
        ("clocks", seen["clocks"]),
        ("inputs", f"{inputs['family']}, seed {inputs['seed']}"),
        ("tolerance", record.data["tolerance"]),
        *((f"profiler: {name.replace('_', ' ')}", profile and profile[name]) for name in SETTINGS),
        ("profiler: metrics", profile and ", ".join(profile["metrics"])),
    ]
    return table(("condition", "value"), rows)


def _profiled(record: Record) -> str:
    profile = record.data["profile"]
    if profile is None:
        return "Nothing was profiled.\n"
    rows = [
        (metric, *(_number(counts[metric], ",.6g") for counts in profile["counts"].values()))
        for metric in profile["metrics"]
    ]
    head = f"{profile['label']}, at {written(Gemm(**profile['problem']))}\n\n"
    return head + table(("metric", *profile["counts"]), rows, numbers=tuple(profile["counts"]))


def _again(record: Record) -> str:
    return (
        "`python -m gemmlab rerun FOLDER`, with the path of this folder, runs the same sources with the same options, "
        "launches, shapes and seeds, and says what is equal.\n"
    )


def _number(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)
