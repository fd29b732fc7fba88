"""The exercises on records: a decision of one's own, and which entries of a log are honest. All times are measured."""

import functools
import itertools
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmlab import columns, emulator, launch, measured, measurements, record, records
from gemmlab.backend import Backend
from gemmlab.columns import WIDTH
from gemmlab.exercises import NOT_ATTEMPTED, Refused, judge_answers, same, shown
from gemmlab.exercises.judging import answers
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung
from gemmlab.launch import Kernel
from gemmlab.profiling.defects import DEFECTS
from gemmlab.record import decisions, recorded, recording
from gemmlab.record import plan as record_plan
from gemmlab.record.recorded import Record, written
from gemmlab.timing import SUBMISSION_MS, Timing

FAULTS = ("honest", "nothing was timed", "within noise", "a race", "another problem")
SMALL = Gemm(32, 32, 32)
LARGER_TILES = "register_tiles_2d", "register_tiles_1d"  # the first has the larger tiles, and so the fewer blocks


@dataclass(frozen=True)
class Entry:
    """An entry of a log as somebody wrote it, what is to be said of it, out of FAULTS, and the record's own word."""

    text: str
    verdict: str
    evidence: str


@dataclass(frozen=True)
class Gain:
    """Two rungs, or two runs of one kernel, that were timed together on a card, of which `new` has the smaller median.

    `run` is the card and the date.
    """

    run: str
    card: str
    problem: Gemm
    new: str
    old: str
    after: Timing
    before: Timing

    @property
    def share(self) -> float:
        """By which share the old one takes longer."""
        return self.before.median_ms / self.after.median_ms - 1

    @property
    def beyond_noise(self) -> bool | None:
        """Whether the middle halves of the samples lie apart; None where nobody knows the noise."""
        return recorded.apart(self.after, self.before)


def padded() -> Kernel:
    """Return rung 2 with a column more in its array of A, as one pads an array whose columns conflict."""
    source = rung("shared_tiles").source()
    return launch.of(rung("shared_tiles"), source=source.replace("As[TILE][TILE]", "As[TILE][TILE + 1]"))


def log() -> str:
    """Return the entries as text, in lines of at most WIDTH characters."""
    return "\n\n".join(textwrap.fill(f"{name}. {entry.text}", WIDTH) for name, entry in entries().items())


def decided(folder: str | Path, attempt: Any) -> str:
    """Add a learner's decision to a record's log, and return the entry as text.

    An attempt that still holds dots is not attempted. Raises Refused for one that the record does not allow.
    """
    if attempt is ...:
        return f"{NOT_ATTEMPTED}: write a record.Decision in place of the dots"
    if not isinstance(attempt, record.Decision):
        raise Refused(f"{shown(attempt)} is no decision: write record.Decision(kernel, verdict, why, against=...)")
    missing = [name for name, value in vars(attempt).items() if value is ...]
    if missing:
        return f"{NOT_ATTEMPTED}: put something in place of the dots of {', '.join(missing)}"
    try:
        entry = record.decide(folder, attempt).decisions[-1]
    except ValueError as error:
        raise Refused(str(error)) from None
    return entry_text(entry)


def entry_text(entry: Mapping[str, Any]) -> str:
    """Return an entry of a log as text, a field after another, in lines of at most WIDTH characters."""
    fields = (f"{name:<9} {_in_words(value)}" for name, value in entry.items())
    return "\n".join(textwrap.fill(field, WIDTH, subsequent_indent=10 * " ") for field in fields)


def honest(attempt: Any) -> str:
    """Judge which entries of `log()` are honest, and what is wrong with the others, in words out of FAULTS.

    Raises Refused with what the record says of each entry that was judged wrongly.
    """
    # A letter of which gemmlab ships nothing has no entry, though the notebook asks for it.
    given = {name: answers(attempt).get(name, ...) for name in entries()}
    return judge_answers(
        given,
        list(given),
        _refusal,
        "Only C is honest. An entry is so by what stands behind it: the same problem on both sides, samples of both, a "
        "difference beyond their noise, and no finding that stops the branch. Next: the quiz.",
    )


@functools.cache
def entries() -> Mapping[str, Entry]:
    """Return the entries by letter, from a recording made now on the emulator and from the climbs that gemmlab ships.

    A letter is left out where no shipped climb has what it is about.
    """
    tiles, gains = _tiles(), _gains()
    found = {
        "A": Entry(
            "Rung 2 with a padded As, in place of rung 2; 32 x 32 x 32, on the emulator. Expected: no bank conflicts, "
            "so faster. Observed: right, and clearly faster. Kept.",
            "nothing was timed",
            f"the record says: {decisions.observed(tiles, 'padded', 'shared_tiles')[0]}",
        ),
        "B": _within_noise(gains) or _within_noise(_repeats()),
        "C": _beyond_noise(gains),
        "D": Entry(
            "Rung 2 without its first barrier, in place of rung 2; 32 x 32 x 32, on the emulator. Expected: right as "
            "before, for there is one chunk. Observed: right, and no hazard. Kept.",
            "a race",
            f"the record says: {decisions.stops(tiles, 'one_barrier')[0]}",
        ),
        "E": _elsewhere(gains),
    }
    return {letter: entry for letter, entry in found.items() if entry}


def samples() -> str:
    """Return what the shipped climbs hold of the rungs that the entries are about: medians and middle halves."""
    words = {word for entry in entries().values() for word in re.findall(r"\w+", entry.text)}
    groups = []
    for climb in sorted(_climbs(), key=lambda each: measured.problem_of(each).flops):
        rows = [(name, _ms(of.median_ms), _half(of)) for name, of in measured.timings(climb).items() if name in words]
        if rows:
            groups.append((f"{written(measured.problem_of(climb))}, measured: {climb.label}", rows))
    for gain in _repeats():
        rows = [(name, _ms(of.median_ms), _half(of)) for name, of in ((gain.old, gain.before), (gain.new, gain.after))]
        if _entry(gain, gain, "within noise") in entries().values():
            groups.append((f"{written(gain.problem)}, measured: {gain.run}", rows))
    return "\n".join(columns.grouped(("", "median ms", "middle half of the samples"), groups))


def _tiles() -> Record:
    rung_2 = rung("shared_tiles")
    kernels = {
        "shared_tiles": launch.of(rung_2),
        "padded": padded(),
        "one_barrier": DEFECTS["no first barrier"].kernel,
    }
    plan = record_plan.plan(kernels, [SMALL], {}, "", 0, None)
    return recording.carry_out(plan, Backend("emulator", emulator, "an exercise"))


def _climbs() -> list[records.Record]:
    """The newest shipped climb of each card at each problem."""
    problems = dict.fromkeys(map(measured.problem_of, records.shipped()))
    return [climb for problem in problems for climb in measured.shipped((), problem)]


def _gains() -> list[Gain]:
    return [
        Gain(climb.label, climb.card, measured.problem_of(climb), new, old, timed[new], timed[old])
        for climb in _climbs()
        for timed in [{name: of for name, of in measured.timings(climb).items() if name != "cuBLAS"}]
        for new, old in itertools.permutations(timed, 2)
        if timed[new].median_ms < timed[old].median_ms
    ]


def _repeats() -> list[Gain]:
    """Runs of one kernel on the same inputs, out of the shipped measurements of notebook 21, of which the second is
    the faster one.
    """
    found = measurements.newest("values", measurements.SHIPPED)
    if found is None:
        return []
    timed = {(each.kernel, each.problem, each.label): each.timing for each in found.of("values")}
    return [
        Gain(found.label, found.environment["card"], problem, f"a second run of {kernel}", "the first", after, before)
        for (kernel, problem, label), before in timed.items()
        if (after := timed.get((kernel, problem, f"{label}, again"))) and after.median_ms < before.median_ms
    ]


def _within_noise(gains: Sequence[Gain]) -> Entry | None:
    """The most tempting of the gains that are none: at the largest problem the largest."""
    found = [gain for gain in gains if gain.beyond_noise is False]
    gain = max(found, key=lambda each: (each.problem.flops, each.share), default=None)
    return gain and _entry(gain, gain, "within noise")


def _beyond_noise(gains: Sequence[Gain]) -> Entry | None:
    """The smallest of the gains that are beyond noise and more than a submission that differs."""
    found = [gain for gain in gains if gain.beyond_noise and gain.after.median_ms > SUBMISSION_MS]
    gain = min(found, key=lambda each: each.share, default=None)
    return gain and _entry(gain, gain, "honest")


def _elsewhere(gains: Sequence[Gain]) -> Entry | None:
    """A gain of rung 4 at the largest problem, for the smallest one, where rung 3 is the faster one."""
    beyond = sorted((gain for gain in gains if gain.beyond_noise), key=lambda each: each.problem.flops)
    observed = next((each for each in reversed(beyond) if (each.new, each.old) == LARGER_TILES), None)
    slower = (each for each in beyond if (each.old, each.new) == LARGER_TILES and observed)
    there = next((each for each in slower if each.card == observed.card), None)
    return there and _entry(observed, there, "another problem")


def _entry(observed: Gain, there: Gain, verdict: str) -> Entry:
    """An entry that quotes a gain, and is for the problem of the other, at which the same two rungs were timed."""
    text = (
        f"{observed.new} in place of {observed.old}; for {written(there.problem)} ({there.card}). Expected: faster. "
        f"Observed: median {_ms(observed.after.median_ms)} ms in place of {_ms(observed.before.median_ms)} ms at "
        f"{written(observed.problem)}. Kept."
    )
    halves = f"{there.old} {_half(there.before)} ms, {there.new} {_half(there.after)} ms"
    return Entry(text, verdict, f"middle half of the samples at {written(there.problem)}: {halves}")


def _half(timed: Timing) -> str:
    half = recorded.middle_half(timed.samples_ms)
    return " to ".join(map(_ms, half)) if half else "-"


def _ms(milliseconds: float) -> str:
    return columns.significant(milliseconds, 4)


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "-"
    return "-" if value is None else value


def _refusal(name: str, said: Any) -> str | None:
    if not any(same(said, fault) for fault in FAULTS):
        return f"{name}: {shown(said)} is none of {', '.join(map(repr, FAULTS))}"
    entry = entries()[name]
    return None if said == entry.verdict else f"{name}: not {said!r}; {entry.evidence}"
