"""Two records side by side: a row for each kernel, problem and figure, a column for each record."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from gemmlab import columns
from gemmlab.columns import WIDTH
from gemmlab.record import recorded
from gemmlab.record.recorded import COUNTED, DOUBT, MEASURED, Figure, Record, written

Run = Mapping[str, Any] | None
Examination = Mapping[str, Any]
Line = tuple[str, str, str, str]


def compare(a: Record, b: Record) -> str:
    """Return two records as text: a row for each figure of what both ran, matched by kernel and problem, then what was
    noticed while it was timed, and the names of what only one ran.

    Counted and measured figures have tables of their own, and a dash stands for what one record does not hold. A ratio
    is b over a, where both have the figure; of times it says whether the middle halves of the samples lie apart.
    """
    pairs = [pair for pair in _pairs(a, b) if None not in pair]
    parts = [f"a: {a.label}{_remark(a)}", f"b: {b.label}{_remark(b)}", ""]
    if pairs:
        labels = f"a: {a.label}", f"b: {b.label}"
        parts += ["Counted, by compiler and emulator, and checked"]
        parts += _table(labels, pairs, [_result, _source, *map(_counted, COUNTED)])
        parts += ["", *_measurements(labels, pairs), ""]
    else:
        parts += ["No kernel was run on the same problem in both: nothing can be held side by side.", ""]
    return "\n".join(_filled(part) for part in (*parts, *_cautions(a, b, pairs))).rstrip()


def differences(a: Record, b: Record) -> tuple[str, ...]:
    """Return in words what b did not repeat of a: runs, sources, results, bits of C, and what compiler and emulator
    counted. Times are no part of it.
    """
    runs = (
        f"{name}, {written(problem)}: {said}"
        for (name, problem), ours, theirs in _pairs(a, b)
        for said in _unequal(ours, theirs)
    )
    examinations = (
        f"{name}: {said}"
        for name in dict.fromkeys((*a.kernels, *b.kernels))
        for said in _unequally_examined(a.examinations_of(name), b.examinations_of(name))
    )
    return *runs, *examinations


def _pairs(a: Record, b: Record) -> list[tuple[Any, Run, Run]]:
    ours, theirs = (_with_sources(record) for record in (a, b))
    return [(key, ours.get(key), theirs.get(key)) for key in dict.fromkeys((*ours, *theirs))]


def _with_sources(record: Record) -> Mapping[Any, Mapping[str, Any]]:
    kernels = record.kernels
    return {key: run | {"source": kernels[key[0]]["sha256"]} for key, run in record.runs.items()}


def _unequal(ours: Run, theirs: Run) -> Iterator[str]:
    if ours is None or theirs is None:
        yield "not run " + ("in the first" if ours is None else "in the second")
        return
    for name in ("source", "sha256"):
        if None not in (ours[name], theirs[name]) and ours[name] != theirs[name]:
            yield {"source": "the source differs", "sha256": "the bits of C differ"}[name]
    if recorded.outcome(ours) != recorded.outcome(theirs):
        why = f": {theirs['failure'].partition(chr(10))[0]}" if theirs["failure"] else ""
        yield f"the result is {recorded.outcome(theirs)}, and was {recorded.outcome(ours)}{why}"
    for figure in COUNTED:
        if None not in (figure.of(ours), figure.of(theirs)) and figure.of(ours) != figure.of(theirs):
            yield f"{figure.name} {figure.text(theirs)}, and was {figure.text(ours)}"


def _unequally_examined(ours: Sequence[Examination], theirs: Sequence[Examination]) -> Iterator[str]:
    if len(ours) != len(theirs):
        yield "examined only in the " + ("first" if ours else "second")
        return
    for before, after in zip(ours, theirs, strict=True):
        kinds = [sorted({hazard["kind"] for hazard in each["trace"]["hazards"]}) for each in (before, after)]
        if kinds[0] != kinds[1]:
            yield f"hazards: {', '.join(kinds[1]) or 'none'}, and was {', '.join(kinds[0]) or 'none'}"
        judged = [[recorded.correct(check) for check in each["checks"]] for each in (before, after)]
        changed = sum(one is not other for one, other in zip_longest(*judged))
        if changed:
            yield f"{changed} of {len(judged[0])} checks on other shapes and inputs came out otherwise"


Cells = Callable[[Run, Run], tuple[str, str, str, str]]
"""A figure's name, what it is in a and in b, and their ratio."""


def _counted(figure: Figure) -> Cells:
    def cells(ours: Run, theirs: Run) -> Line:
        return figure.name, figure.text(ours), figure.text(theirs), _ratio(figure, ours, theirs)

    return cells


def _measured(figure: Figure) -> Cells:
    def cells(ours: Run, theirs: Run) -> Line:
        ratio = _ratio(figure, ours, theirs)
        if figure.name == "median ms" and ratio != "-":
            differ = recorded.apart(*(recorded.timing(run["timing"]) for run in (ours, theirs)))
            ratio += {True: ", beyond noise", False: ", within noise", None: ", noise not known"}[differ]
        return figure.name, figure.text(ours), figure.text(theirs), ratio

    return cells


def _result(ours: Run, theirs: Run) -> Line:
    return "result", recorded.outcome(ours), recorded.outcome(theirs), "-"


def _source(ours: Run, theirs: Run) -> Line:
    return "SHA-256 of the source", *(((run or {}).get("source") or "-")[:12] for run in (ours, theirs)), "-"


def _half(ours: Run, theirs: Run) -> Line:
    return "middle half of the samples", recorded.half(ours), recorded.half(theirs), "-"


def _ratio(figure: Figure, ours: Run, theirs: Run) -> str:
    before, after = ours and figure.of(ours), theirs and figure.of(theirs)
    return "-" if before is None or after is None or not before else f"{after / before:.3g}"


def _batch(ours: Run, theirs: Run) -> Line:
    batches = (str(run["timing"]["batch"]) if run and run["timing"] else "-" for run in (ours, theirs))
    return "launches in a sample", *batches, "-"


def _measurements(labels: Sequence[str], pairs: Sequence[Any]) -> list[str]:
    """The table of what was measured; a line that nothing was, where no run has a time."""
    timed = [pair for pair in pairs if any(run["timing"] for run in pair[1:])]
    if not timed:
        return ["Measured: nothing was timed in either"]
    figures = [_measured(MEASURED[0]), _half, _batch, *map(_measured, MEASURED[1:])]
    return ["Measured", *_table(labels, timed, figures)]


def _table(labels: Sequence[str], pairs: Sequence[Any], figures: Sequence[Cells]) -> list[str]:
    groups = []
    for (name, problem), ours, theirs in pairs:
        first, *others = (cells(ours, theirs) for cells in figures)
        rows = [first, *(row for row in others if {*row[1:]} != {"-"})]
        groups.append((f"{name}, {written(problem)}", rows))
    return columns.grouped(("", *labels, "b / a"), groups)


def _noticed(pairs: Sequence[Any]) -> list[str]:
    return [
        f"{label}: {name}, {written(problem)}: {remark}"
        for (name, problem), *runs in pairs
        for label, run in zip("ab", runs, strict=True)
        for remark in recorded.remarks(run)
    ]


def _filled(part: str) -> str:
    return part if len(part) <= WIDTH else textwrap.fill(part, WIDTH, subsequent_indent="  ")


def _remark(record: Record) -> str:
    said = [f"driver {record.data['environment']['driver'] or '-'}" if record.timed else "nothing was timed"]
    said += [] if record.data["ended"] is None else ["incomplete"]
    said += [record.data["note"]] if record.data["note"] else []
    return f"; {'; '.join(said)}"


def _cautions(a: Record, b: Record, pairs: Sequence[Any]) -> list[str]:
    said = [DOUBT] if any(recorded.submitted(run) for pair in pairs for run in pair[1:]) else []
    said += [*_noticed(pairs), *(text for text in (_only("a", a, b), _only("b", b, a)) if text)]
    cards = {record.data["environment"]["card"] for record in (a, b)}
    if pairs and a.timed and b.timed and len(cards) == 2:
        said.append("The machines differ: a ratio of times is one of the cards as much as of the kernels.")
    return said


def _only(label: str, record: Record, other: Record) -> str | None:
    alone = [key for key in record.runs if key not in other.runs]
    names = {problem: [name for name, of in alone if of == problem] for _, problem in alone}
    runs = "; ".join(f"{written(problem)}: {', '.join(kernels)}" for problem, kernels in names.items())
    return f"only in {label}: {runs}" if runs else None
