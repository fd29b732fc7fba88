"""Checks of the exercises on the whole ladder: which level binds each rung, and which experiment refutes a claim.

They answer as `exercises` does.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gemmlab import ladder_table, measured
from gemmlab.exercises import NOT_ATTEMPTED, Refused
from gemmlab.hierarchy import Bounds
from gemmlab.limits import Limit
from gemmlab.records import Record
from gemmlab.results import Row, Run

FASTER, ALIKE = 1.1, 1.05  # what a gain in speed must reach to count as one, and what it stays under to count as none
FEWER = 0.8  # what is left of a count that has clearly fallen


class Claim(NamedTuple):
    """A claim that a count holds a rung: the rung's name, and the count's."""

    rung: str
    count: str


CLAIMS = {
    "rung 0 is slow because of the bytes it asks for": Claim("naive", "bytes asked for"),
    "rung 4 is held by its sectors": Claim("register_tiles_2d", "sectors"),
    "rung 5 is held by its wavefronts of shared memory": Claim("vectorized", "wavefronts"),
}


def binding(predicted: Mapping[str, Any], found: Sequence[Limit]) -> str:
    """Judge predictions of the level of the hierarchical roofline that binds each rung, by the rung's name."""
    right = {limit.rung.name: limit.bounds for limit in found}
    asked = {name: predicted.get(name, ...) for name in right}
    wrong = {name: level for name, level in asked.items() if level not in (..., right[name].binding.name)}
    if wrong:
        lines = [f"{name}: {level!r} is not what binds: {_cycles(right[name])}" for name, level in wrong.items()]
        raise Refused("\n".join(lines))
    missing = [name for name, level in asked.items() if level is ...]
    if missing:
        return f"{NOT_ATTEMPTED}: {', '.join(missing)}"
    return (
        f"accepted: {len(right)} of {len(right)}. Four rungs are about the load path of L1 and shared memory, and then "
        "the slots for instructions come first. Which of these bounds a kernel reaches, only a clock tells. Next: "
        "exercise 2."
    )


def refuted(answers: Mapping[str, Any], run: Run, record: Record) -> str:
    """Judge pairs of rungs, by claim of CLAIMS, whose counts in a traced climb and speeds in a record refute it.

    A pair is the names of the rung that the claim is about and of another. It refutes a claim where the count did not
    fall and the other rung is faster all the same, or where it fell clearly and the other is no faster.
    """
    missing = [claim for claim in CLAIMS if answers.get(claim, ...) is ...]
    refusals = [_refusal(claim, answers[claim], run, record) for claim in CLAIMS if claim not in missing]
    if any(refusals):
        raise Refused("\n".join(filter(None, refusals)))
    if missing:
        return f"{NOT_ATTEMPTED}: {'; '.join(missing)}"
    return (
        f"accepted: {len(CLAIMS)} of {len(CLAIMS)} refuted, by {record.label}. A count that can change while the time "
        "stays, or stay while the time changes, is not what the time hangs on. Next: the quiz."
    )


def _refusal(claim: str, answer: Any, run: Run, record: Record) -> str | None:
    rows = {row.rung.name: row for row in run.rows}
    rung, count = CLAIMS[claim]
    try:
        before, after = answer
        counts = [_count(rows[name], count) for name in (before, after)]
    except (KeyError, TypeError, ValueError):
        return f"{claim}: {answer!r} is no pair of rungs out of {', '.join(rows)}"
    if before != rung:
        return f"{claim}: a pair must begin with {rung!r}, which the claim is about, not with {before!r}"
    left = counts[1] / counts[0]
    speeds = measured.timed(record)
    gain = speeds[after]["gflops"] / speeds[before]["gflops"]
    if (left >= 1 and gain >= FASTER) or (left <= FEWER and gain < ALIKE):
        return None
    return (
        f"{claim}: from {before} to {after} {count} go from {counts[0]:,} to {counts[1]:,} ({left:.3g} times), and the "
        f"speed becomes {gain:.3g} times ({record.label}): the claim could still be true"
    )


def _count(row: Row, count: str) -> int:
    if count == "bytes asked for":
        return sum(access.useful_bytes for access in row.trace.accesses if access.space == "global")
    return ladder_table.units(row, {"sectors": "global", "wavefronts": "shared"}[count])


def _cycles(bounds: Bounds) -> str:
    times = ", ".join(f"{level.name} {1e3 * level.seconds:.4g} ms" for level in bounds.levels)
    return f"{times} are the least times of {bounds.problem.M} x {bounds.problem.N} x {bounds.problem.K}"
