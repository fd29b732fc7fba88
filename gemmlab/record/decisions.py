"""What was decided on a kernel of a record, and the findings that stop a branch.

A branch stops on a failed launch, a wrong result or a hazard such as a race: such a kernel cannot be kept. It stops on
a spill and on a slowdown beyond noise too, but these may be explained, and then the kernel is kept despite them, by
name. What was observed is read from the record, so that nothing enters a log that was not measured.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from gemmlab import schema
from gemmlab.gemm import Gemm
from gemmlab.record import recorded
from gemmlab.record.form import VERDICTS
from gemmlab.record.recorded import COUNTED, MEASURED, Record, written

EXPLAINABLE = ("spill", "slowdown")


@dataclass(frozen=True)
class Decision:
    """A kernel of a record, 'kept' or 'dropped', and why in a sentence.

    `against` names the kernel of the record that it should improve on; `despite` the findings that `why` explains, out
    of 'spill' and 'slowdown'.
    """

    kernel: str
    verdict: str
    why: str
    against: str | None = None
    despite: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stop:
    """A finding that ends a branch: its kind, such as 'race', and where it was found, in words."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def stops(record: Record, kernel: str, against: str | None = None) -> tuple[Stop, ...]:
    """Return what stops the branch of a kernel; a slowdown is one beside `against`.

    Raises ValueError for a name that the record does not have.
    """
    runs, others = _runs(record, kernel), _runs(record, against) if against else {}
    found = [stop for problem, run in runs.items() for stop in _stops_of(written(problem), run)]
    found += [stop for each in record.examinations_of(kernel) for stop in _stops_of_examination(each)]
    found += [
        Stop("slowdown", f"{written(problem)}: {said}, and all of it is beyond noise")
        for problem in runs
        if (said := _slower(runs[problem], others.get(problem)))
    ]
    return tuple(found)


def observed(record: Record, kernel: str, against: str | None = None) -> tuple[str, ...]:
    """Return what the record shows of a kernel, a sentence a problem; of figures, those that differ from `against`."""
    runs, others = _runs(record, kernel), _runs(record, against) if against else {}
    return tuple(_sentence(problem, run, others.get(problem)) for problem, run in runs.items())


def entry(record: Record, decision: Decision) -> dict[str, Any]:
    """Return a decision as an entry of the record's log.

    Raises ValueError, with what is wrong and what to do, for a name that the record does not have, a kernel that was
    not run, no reason, or a kernel kept although a finding stops its branch.
    """
    _require_form(record, decision)
    found = stops(record, decision.kernel, decision.against)
    if not _runs(record, decision.kernel):
        raise ValueError(f"{decision.kernel!r} was not run, as the record is incomplete: record it anew, then decide")
    kinds = tuple(dict.fromkeys(stop.kind for stop in found))
    for kind in decision.despite:
        if kind not in kinds:
            raise ValueError(f"despite names a {kind}, but the record shows none of {decision.kernel!r}: leave it out")
    if decision.verdict == "kept":
        require_keepable(decision.kernel, found, decision.despite)
    return {
        "date": date.today().isoformat(),
        "kernel": decision.kernel,
        "against": decision.against,
        "expected": record.kernels[decision.kernel]["expected"],
        "observed": list(observed(record, decision.kernel, decision.against)),
        "stops": list(kinds),
        "despite": list(decision.despite),
        "verdict": decision.verdict,
        "why": decision.why.strip(),
    }


def require_keepable(kernel: str, found: tuple[Stop, ...], despite: tuple[str, ...]) -> None:
    """Raise ValueError unless every finding may be explained and is."""
    never = [stop for stop in found if stop.kind not in EXPLAINABLE]
    if never:
        raise ValueError(f"{kernel!r} cannot be kept: {never[0]}. Drop it, or mend it and record it anew")
    unexplained = [stop for stop in found if stop.kind not in despite]
    if unexplained:
        raise ValueError(
            f"{kernel!r} cannot be kept without a word on this: {unexplained[0]}. Drop it, or explain it in `why` and "
            f"add despite=({unexplained[0].kind!r},)"
        )


def _runs(record: Record, kernel: str) -> Mapping[Gemm, Mapping[str, Any]]:
    if kernel not in tuple(record.kernels):
        raise ValueError(f"the record has no kernel {kernel!r}; it has {', '.join(record.kernels)}")
    return record.runs_of(kernel)


def _require_form(record: Record, decision: Decision) -> None:
    schema.check(decision.why, str, "why")
    if not isinstance(decision.despite, str | tuple | list):
        raise ValueError(f"despite is {decision.despite!r}, but must be a tuple out of {', '.join(EXPLAINABLE)}")
    if decision.verdict not in VERDICTS:
        raise ValueError(f"verdict is {decision.verdict!r}, but must be {' or '.join(VERDICTS)}")
    if not decision.why.strip():
        raise ValueError(f"why is empty: say in a sentence why {decision.kernel!r} is {decision.verdict}")
    if isinstance(decision.despite, str) or not all(each in EXPLAINABLE for each in decision.despite):
        raise ValueError(f"despite is {decision.despite!r}, but must be a tuple out of {', '.join(EXPLAINABLE)}")
    if decision.against == decision.kernel:
        raise ValueError(f"{decision.kernel!r} is held against itself: name the kernel that it should improve on")


def _stops_of(where: str, run: Mapping[str, Any]) -> Iterator[Stop]:
    if run["failure"] is not None:
        yield Stop("failed launch", f"{where}: {_first_line(run['failure'])}")
        return
    yield from (_stop_of_hazard(where, hazard) for hazard in run["hazards"] or ())
    if not recorded.correct(run):
        yield Stop("wrong result", f"{where}: {_first_line(run['verdict']['message'])}")
    if run["spill_bytes"]:
        yield Stop("spill", f"{where}: {run['spill_bytes']} bytes a thread go through local memory")


def _stop_of_hazard(where: str, hazard: Mapping[str, Any]) -> Stop:
    return Stop(hazard["kind"], f"{where}, {hazard['message']}")


def _stops_of_examination(examination: Mapping[str, Any]) -> Iterator[Stop]:
    where = written(Gemm(**examination["trace"]["problem"]))
    yield from (_stop_of_hazard(where, hazard) for hazard in examination["trace"]["hazards"])
    wrong = [check for check in examination["checks"] if recorded.correct(check) is False]
    if wrong:
        where = f"{written(Gemm(**wrong[0]['problem']))}, inputs {wrong[0]['family']}"
        yield Stop("wrong result", f"{where}: {_first_line(wrong[0]['verdict']['message'])}")
    if examination["fault"]:
        yield Stop("failed launch", _first_line(examination["fault"]))


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _slower(run: Mapping[str, Any], other: Mapping[str, Any] | None) -> str | None:
    """Say by how much the other run is faster; None where it is not, or within noise, or not known."""
    ours, theirs = (each and recorded.timing(each["timing"]) for each in (run, other))
    if not (ours and theirs) or recorded.apart(ours, theirs) is not True or ours.median_ms <= theirs.median_ms:
        return None
    return f"{ours.median_ms:.4g} ms, {ours.median_ms / theirs.median_ms:.2f} times {theirs.median_ms:.4g} ms"


def _sentence(problem: Gemm, run: Mapping[str, Any], other: Mapping[str, Any] | None) -> str:
    said = [recorded.outcome(run)]
    for figure in (*(figure for figure in COUNTED if not figure.name.startswith("fewest")), *MEASURED):
        ours, theirs = figure.of(run), other and figure.of(other)
        if ours is None or ours == theirs or figure.doubtful(run):
            continue
        before = "" if theirs is None else f" (was {figure.text(other)})"
        said.append(f"{figure.name} {figure.text(run)}{before}")
    said.append(_noise(run, other))
    return f"{written(problem)}: {', '.join(said)}"


def _noise(run: Mapping[str, Any], other: Mapping[str, Any] | None) -> str:
    if not run["timing"]:
        return "nothing was timed"
    if not (other and other["timing"]):
        return "timed alone"
    differ = recorded.apart(recorded.timing(run["timing"]), recorded.timing(other["timing"]))
    return {True: "a difference of times beyond noise", False: "times within noise", None: "noise not known"}[differ]
