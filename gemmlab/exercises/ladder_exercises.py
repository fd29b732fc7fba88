"""Checks of the exercises on the whole ladder: which level binds each rung, and which experiment refutes a claim.

They answer as `exercises` does.
"""

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gemmlab import measured
from gemmlab.columns import WIDTH
from gemmlab.exercises import judge_answers, shown
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
    "rung 5 is held by its wavefronts of shared memory": Claim("vectorized", "shared wavefronts"),
}
COUNTS = {
    "bytes asked for": ("global", "useful_bytes"),
    "sectors": ("global", "units"),
    "shared wavefronts": ("shared", "units"),
}
"""Where a count stands in the totals of a trace, by its name: the memory, and the field."""


def binding(predicted: Mapping[str, Any], found: Sequence[Limit]) -> str:
    """Judge predictions of the level of the hierarchical roofline that binds each rung, by the rung's name.

    A wrong one is refused with the time of the level that was named, which is not the longest.
    """
    right = {limit.rung.name: limit.bounds for limit in found}
    held = Counter(bounds.binding.name for bounds in right.values())
    binds = ", ".join(f"{level} binds {rungs}" for level, rungs in held.items())
    lesson = f"Of the rungs, {binds}. Which of these bounds a kernel reaches, only a clock tells: the next table."
    return _filled(
        judge_answers(predicted, list(right), lambda name, level: _not_binding(name, level, right[name]), lesson)
    )


def refuted(answers: Mapping[str, Any], run: Run, record: Record) -> str:
    """Judge pairs of rungs, by claim of CLAIMS, whose counts in a traced climb and speeds in a record refute it.

    A pair is the names of the rung that the claim is about and of another. It refutes a claim where the count did not
    fall and the other rung is faster all the same, or where it fell clearly and the other is no faster.
    """
    lesson = (
        f"They are refuted by {record.label}. A count that can change while the time stays, or stay while the time "
        "changes, is not what the time hangs on. Next: the quiz."
    )
    return _filled(judge_answers(answers, list(CLAIMS), lambda claim, pair: _refusal(claim, pair, run, record), lesson))


def _not_binding(name: str, level: Any, bounds: Bounds) -> str | None:
    levels = {known.name: known for known in bounds.levels}
    if not isinstance(level, str) or level not in levels:
        return _filled(f"{name}: {shown(level)} is no level; the levels are: {', '.join(levels)}")
    if level == bounds.binding.name:
        return None
    milliseconds = 1e3 * levels[level].seconds
    why = "another level takes longer" if milliseconds < 1e3 * bounds.seconds else "its rate is measured, so no bound"
    return _filled(f"{name}: {level} takes {milliseconds:.4g} ms, and {why}")


def _refusal(claim: str, answer: Any, run: Run, record: Record) -> str | None:
    rows = {row.rung.name: row for row in run.rows}
    rung, count = CLAIMS[claim]
    try:
        before, after = answer
        counts = [_count(rows[name], count) for name in (before, after)]
    except (KeyError, TypeError, ValueError):
        return _filled(f"{claim}: {shown(answer)} is no pair of rungs out of {', '.join(rows)}")
    if before != rung:
        return _filled(f"{claim}: a pair must begin with {rung!r}, which the claim is about, not with {shown(before)}")
    left = counts[1] / counts[0]
    speeds = measured.timed(record)
    gain = speeds[after]["gflops"] / speeds[before]["gflops"]
    if (left >= 1 and gain >= FASTER) or (left <= FEWER and gain < ALIKE):
        return None
    return _filled(
        f"{claim}: from {before} to {after} {count} go from {counts[0]:,} to {counts[1]:,} ({left:.3g} times), and the "
        f"speed becomes {gain:.3g} times ({record.label}): the claim could still be true"
    )


def _count(row: Row, count: str) -> int:
    space, field = COUNTS[count]
    return getattr(row.trace.total(space), field)


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False)
