"""The exercises on records: a decision of one's own, and which entries of a log are honest. All times are measured."""

import functools
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmlab import emulator, launch, measured, record
from gemmlab.backend import Backend
from gemmlab.exercises import NOT_ATTEMPTED, Refused
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung
from gemmlab.launch import Kernel
from gemmlab.profiling.defects import DEFECTS
from gemmlab.record import decisions, recorded, recording
from gemmlab.record import plan as record_plan
from gemmlab.record.recorded import MEASURED, Record, written

FAULTS = ("honest", "nothing was timed", "within noise", "a race", "another problem")
SMALL, CUBE_256, CUBE_2048, CUBE_4096 = (Gemm(N, N, N) for N in (32, 256, 2048, 4096))
WIDTH = 100


@dataclass(frozen=True)
class Entry:
    """An entry of a log as somebody wrote it, what is to be said of it, out of FAULTS, and the record's own word."""

    text: str
    verdict: str
    evidence: str


def padded() -> Kernel:
    """Return rung 2 with a column more in its array of A, as one pads an array whose columns conflict."""
    source = rung("shared_tiles").source()
    return launch.of(rung("shared_tiles"), source=source.replace("As[TILE][TILE]", "As[TILE][TILE + 1]"))


def log() -> str:
    """Return the five entries as text, in lines of at most WIDTH characters."""
    return "\n\n".join(textwrap.fill(f"{name}. {entry.text}", WIDTH) for name, entry in entries().items())


def decided(folder: str | Path, attempt: Any) -> str:
    """Add a learner's decision to a record's log, and return the entry as text, a line a field.

    An attempt that holds a dot still is not attempted. Raises ValueError for one that the record does not allow.
    """
    if attempt is ...:
        return f"{NOT_ATTEMPTED}: write a record.Decision in place of the dots"
    if not isinstance(attempt, record.Decision):
        raise Refused(f"{attempt!r} is no decision: write record.Decision(kernel, verdict, why, against=...)")
    missing = [name for name, value in vars(attempt).items() if value is ...]
    if missing:
        return f"{NOT_ATTEMPTED}: put something in place of the dots of {', '.join(missing)}"
    entry = record.decide(folder, attempt).decisions[-1]
    return "\n".join(f"{name:<9} {_in_words(value)}" for name, value in entry.items())


def honest(attempt: Mapping[str, Any]) -> str:
    """Judge which entries of `log()` are honest, and what is wrong with the others, in words out of FAULTS.

    Raises Refused with what the record says of each entry that was judged wrongly.
    """
    known = entries()
    given = {name: attempt.get(name, ...) for name in known}
    wrong = [name for name, said in given.items() if said is not ... and said != known[name].verdict]
    if wrong:
        raise Refused("\n".join(_refusal(name, given[name]) for name in wrong))
    missing = [name for name, said in given.items() if said is ...]
    if missing:
        return f"{NOT_ATTEMPTED}: {', '.join(missing)}" + ("" if len(missing) == len(known) else "; the rest is right")
    return (
        "accepted: one of five. An entry is honest by what stands behind it: the same problem on both sides, samples "
        "of both, a difference beyond their noise, and no finding that stops the branch. Next: the quiz."
    )


@functools.cache
def entries() -> Mapping[str, Entry]:
    """Return the entries by letter, from a recording made now on the emulator and from shipped records of an H200."""
    tiles = _tiles()
    return {
        "A": Entry(
            "Rung 2 with a padded As, in place of rung 2; 32 x 32 x 32, on the emulator. Expected: no bank conflicts, "
            "so faster. Observed: right, and clearly faster. Kept.",
            "nothing was timed",
            f"the record says: {decisions.observed(tiles, 'padded', 'shared_tiles')[0]}",
        ),
        "B": _timed("warp_tiles", "vectorized", CUBE_2048, CUBE_2048, "within noise"),
        "C": _timed("warp_tiles", "vectorized", CUBE_4096, CUBE_4096, "honest"),
        "D": Entry(
            "Rung 2 without its first barrier, in place of rung 2; 32 x 32 x 32, on the emulator. Expected: right as "
            "before, for there is one chunk. Observed: right, and no hazard. Kept.",
            "a race",
            f"the record says: {decisions.stops(tiles, 'one_barrier')[0]}",
        ),
        "E": _timed("register_tiles_2d", "register_tiles_1d", CUBE_256, CUBE_4096, "another problem"),
    }


def _tiles() -> Record:
    rung_2 = rung("shared_tiles")
    kernels = {
        "shared_tiles": launch.of(rung_2),
        "padded": padded(),
        "one_barrier": DEFECTS["no first barrier"].kernel,
    }
    plan = record_plan.plan(kernels, [SMALL], {}, "", 0, None)
    return recording.carry_out(plan, Backend("emulator", emulator, "an exercise"))


def _timed(new: str, old: str, purpose: Gemm, observed: Gemm, verdict: str) -> Entry:
    """An entry on two rungs that an H200 timed: what they are for, and the problem that the writer quotes."""
    climb = _climb(observed, new, old)
    before, after = (climb.runs[name, observed] for name in (old, new))
    text = (
        f"{new} in place of {old}; for {written(purpose)}, on an H200. Expected: faster. Observed: median "
        f"{MEASURED[0].text(after)} ms in place of {MEASURED[0].text(before)} ms at {written(observed)}. Kept."
    )
    there = _climb(purpose, new, old)
    halves = (f"{name} {_middle_half(there, name, purpose)} ms" for name in (old, new))
    return Entry(text, verdict, f"middle half of the samples at {written(purpose)}: {', '.join(halves)}")


def _climb(problem: Gemm, *rungs: str) -> Record:
    """The newest shipped climb of an H200 that timed these rungs at a problem."""
    found = measured.shipped([rung(name) for name in rungs], problem)
    return recorded.of_climb(next(each for each in found if each.card == "NVIDIA H200"))


def _middle_half(record: Record, name: str, problem: Gemm) -> str:
    low, high = recorded.middle_half(record.runs[name, problem]["timing"]["samples_ms"])
    return f"{low:.4g} to {high:.4g}"


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "-"
    return "-" if value is None else value


def _refusal(name: str, said: Any) -> str:
    if said not in FAULTS:
        return f"{name}: {said!r} is none of {', '.join(map(repr, FAULTS))}"
    return f"{name}: not {said!r}; {entries()[name].evidence}"
