"""Two records side by side: a row for each kernel, problem and figure, a column for each record."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from gemmlab.record import recorded
from gemmlab.record.recorded import COUNTED, MEASURED, Figure, Record, written
from gemmlab.timing import SUBMISSION_MS

Run = Mapping[str, Any] | None
Examination = Mapping[str, Any]
Line = tuple[str, str, str, str]


def compare(a: Record, b: Record) -> str:
    """Return two records as text: a row for each figure of what both ran, matched by kernel and problem, then the names
    of what only one ran.

    Counted and measured figures have tables of their own, and a dash stands for what one record does not hold. A ratio
    is b over a, where both have the figure; of times it says whether the middle halves of the samples lie apart.
    """
    pairs = [pair for pair in _pairs(a, b) if None not in pair]
    labels = f"a: {a.label}", f"b: {b.label}"
    counted = [_lines(pair, [_result, _source, *map(_counted, COUNTED)]) for pair in pairs]
    measured = [_lines(pair, [_measured(MEASURED[0]), _half, *map(_measured, MEASURED[1:])]) for pair in pairs]
    tables = ["\nCounted, by compiler and emulator, and checked", *_table(labels, counted)]
    tables += ["\nMeasured", *_table(labels, measured)]
    parts = [
        *(f"{label}{_remark(record)}" for label, record in zip(labels, (a, b), strict=True)),
        *(tables if pairs else ()),
        *_cautions(a, b),
    ]
    return "\n".join(parts)


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
        if ours[name] != theirs[name]:
            yield {"source": "the source differs", "sha256": "the bits of C differ"}[name]
    if recorded.outcome(ours) != recorded.outcome(theirs):
        yield f"the result is {recorded.outcome(theirs)}, and was {recorded.outcome(ours)}"
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
    halves = (run and run["timing"] and recorded.middle_half(run["timing"]["samples_ms"]) for run in (ours, theirs))
    return "middle half of the samples", *(f"{half[0]:.4g} to {half[1]:.4g}" if half else "-" for half in halves), "-"


def _ratio(figure: Figure, ours: Run, theirs: Run) -> str:
    before, after = ours and figure.of(ours), theirs and figure.of(theirs)
    return "-" if before is None or after is None or not before else f"{after / before:.3g}"


def _lines(pair: tuple[Any, Run, Run], figures: Sequence[Cells]) -> list[tuple[str, ...]]:
    (name, problem), ours, theirs = pair
    first, *others = (cells(ours, theirs) for cells in figures)
    lines = [first, *(line for line in others if {*line[1:]} != {"-"})]
    return [(name, written(problem), *lines[0]), *(("", "", *line) for line in lines[1:])]


def _table(labels: Sequence[str], blocks: Sequence[Sequence[Sequence[str]]]) -> list[str]:
    rows = [("kernel", "M x N x K", "figure", *labels, "b / a"), *(line for block in blocks for line in block)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index < 3 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _remark(record: Record) -> str:
    said = [f"driver {record.data['environment']['driver'] or '-'}" if record.timed else "nothing was timed"]
    said += [] if record.data["ended"] is None else ["incomplete"]
    said += [record.data["note"]] if record.data["note"] else []
    return f"; {'; '.join(said)}"


def _cautions(a: Record, b: Record) -> list[str]:
    said = [f"\n{text}" for text in (_only("a", a, b), _only("b", b, a)) if text]
    if a.runs.keys().isdisjoint(b.runs):
        return [*said, "\nNo kernel was run on the same problem in both: nothing can be held side by side."]
    medians = [median for record in (a, b) for run in record.runs.values() if (median := MEASURED[0].of(run))]
    if medians and min(medians) < SUBMISSION_MS:
        said.append(
            f"\nBelow {SUBMISSION_MS} ms a time may be mostly that of submitting the launch, and a share of cuBLAS "
            "says nothing of kernels: compare larger problems."
        )
    cards = {record.data["environment"]["card"] for record in (a, b)}
    if len(cards) == 2 and None not in cards:
        return [*said, "\nThe machines differ: a ratio of times is one of the cards as much as of the kernels."]
    return said


def _only(label: str, record: Record, other: Record) -> str | None:
    alone = [key for key in record.runs if key not in other.runs]
    names = {problem: [name for name, of in alone if of == problem] for _, problem in alone}
    runs = "; ".join(f"{written(problem)}: {', '.join(kernels)}" for problem, kernels in names.items())
    return f"only in {label}: {runs}" if runs else None
