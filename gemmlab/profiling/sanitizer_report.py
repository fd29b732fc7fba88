"""Findings of compute-sanitizer, read from the text that its tools print, and races beside those of the emulator.

The forms are those that NVIDIA's Compute Sanitizer documentation shows, of release 2021.2 and later: memory access
errors, racecheck's analyses and hazards, uninitialized reads, and barrier errors.
"""

import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from gemmlab.columns import WIDTH
from gemmlab.emulator import Hazard

Index = tuple[int, int, int]

CUT = "... the rest is cut"
"""The last line of a text that was cut short."""

SUMMARY = re.compile(r"SUMMARY: ([\d,]+) (?:error|hazard)")
"""The line that ends a tool's text, with how much it found."""

_RACE = "race"
_HAZARDS = {
    "RAW": "read after write",
    "WAR": "write after read",
    "WAW": "write after write",
}

_PLACE = r"(?:.*? in (?P<file>\S+?):(?P<line>\d+))?"
_ANALYSIS = re.compile(
    rf"(?P<severity>Error|Warning|Info): Race reported between (?P<done>\w+) access at{_PLACE}", re.I
)
_AND = re.compile(rf"and (?P<done>\w+) access at{_PLACE}.*?(?:\[(?P<count>[\d,]+) hazards?\])?$")
_HAZARD = re.compile(
    r"(?P<severity>Error|Warning|Info):.*Potential (?P<kind>RAW|WAR|WAW) hazard detected at __shared__ \w+ "
    r"in block \((?P<block>[\d, ]+)\)",
    re.I,
)
_ACCESS = re.compile(rf"(?P<done>Read|Write) Thread \((?P<thread>[\d, ]+)\) at{_PLACE}")
_FAULT = re.compile(
    r"(?P<what>(?:Invalid|Misaligned|Uninitialized) __\w+__ (?:memory )?(?P<done>\w+) of size [\d,]+ bytes"
    r"|Barrier error detected\. .*)"
)
_AT = re.compile(rf"at{_PLACE}")
_BY = re.compile(r"by thread \((?P<thread>[\d, ]+)\) in block \((?P<block>[\d, ]+)\)")
_ADDRESS = re.compile(r"(?:Address|Access(?: at| to)?) \w+ is (?P<wrong>out of bounds|misaligned)")


@dataclass(frozen=True)
class Finding:
    """One finding. `accesses` are (line, what it does) in the order of the report, line 0 where it names none; `block`
    and `threads` are of the first report, or None and empty where it has none; `count` is of reports or, for a race,
    the hazards that racecheck counts: bytes, once for each two instructions of machine code that meet there. There are
    `more` where the text breaks off before all reports.
    """

    what: str
    accesses: tuple[tuple[int, str], ...]
    block: Index | None = None
    threads: tuple[Index, ...] = ()
    count: int = 1
    severity: str = "error"
    more: bool = False

    def __str__(self) -> str:
        where = " and ".join(f"{done} on line {line or '-'}" for line, done in self.accesses)
        return f"{where}: {self.seen}"

    @property
    def seen(self) -> str:
        """The finding in words, without its lines."""
        who = f"; thread {' and '.join(map(str, self.threads))} of block {self.block}" if self.threads else ""
        return f"{self.severity}: {self.what} ({self.count:,} {'or more' if self.more else 'in all'}){who}"


def read(text: str) -> tuple[Finding, ...]:
    """Return the findings in what a tool printed: reports that are alike are one, and a race's hazards stand for its
    analysis, with the count of that. Unknown lines are passed over.
    """
    reports = tuple(_reports(text))
    # A race is known by its lines: an analysis names them in one order, a hazard in the order of time. An analysis has
    # an entry for every two instructions of machine code, and a line may have many.
    totals: Counter[frozenset[tuple[int, str]]] = Counter()
    for one in reports:
        if one.what == _RACE:
            totals[frozenset(one.accesses)] += one.count
    detailed = {frozenset(one.accesses) for one in reports if one.what in _HAZARDS.values()}
    alike: dict[tuple[object, ...], list[Finding]] = defaultdict(list)
    for one in reports:
        if one.what != _RACE or frozenset(one.accesses) not in detailed:
            alike[one.what, one.accesses].append(one)
    more = CUT in text or sum(int(total.replace(",", "")) for total in SUMMARY.findall(text)) > len(reports)
    return tuple(
        replace(first, count=total or 1 + len(others), more=more and not total)
        for first, *others in alike.values()
        for total in (totals[frozenset(first.accesses)],)
    )


def listed(found: Sequence[Finding] | None) -> str:
    """Return findings as text, each in lines of WIDTH; of none, and of None for a tool that did not run, it says so."""
    if found is None:
        return "not run"
    return "\n".join(textwrap.fill(str(one), WIDTH, subsequent_indent="    ") for one in found) or "nothing found"


def beside(hazards: Iterable[Hazard], found: Sequence[Finding] | None, label: str) -> str:
    """Return races as text: for each pair of lines what the emulator found, and what racecheck did, under `label`.

    Which of two accesses came first is up to the run, so a pair of lines is one race in either order. `found` is None
    where racecheck did not run: a dash stands for it.
    """
    ours = [(frozenset(one.accesses), _of_emulator(one)) for one in hazards if one.kind == "race"]
    theirs = [(frozenset(one.accesses), one.seen) for one in found or ()]
    lines = []
    for pair in dict.fromkeys(accesses for accesses, _ in (*ours, *theirs)):
        lines.append(" and ".join(f"{done} on line {line}" for line, done in sorted(pair)))
        for where, seen in (("emulator, now", ours), (label, None if found is None else theirs)):
            cells = ["-"] if seen is None else [text for accesses, text in seen if accesses == pair] or ["not found"]
            margin = f"    {where:<{max(len(label), 13)}}  "
            lines += [margin + cell.replace("; ", f";\n{'':<{len(margin)}}") for cell in cells]
    return "\n".join(lines) or "no race"


def _of_emulator(race: Hazard) -> str:
    (_, first), (_, second) = race.accesses
    later, earlier = race.threads
    return f"{second} after {first} ({race.count:,} {race.counted}); thread {earlier} and {later} of block {race.block}"


def _reports(text: str) -> Iterator[Finding]:
    """Each report of a text, a Finding of its own, in order."""
    current: Finding | None = None
    first = (0, "")
    for line in (re.sub(r"^=+", "", line).strip() for line in text.splitlines()):
        if (start := _ANALYSIS.match(line)) or (start := _HAZARD.match(line)) or (start := _FAULT.match(line)):
            if current is not None and _is_whole(current):
                yield current
            current, first = _begun(start)
        elif current is None:
            continue
        elif (other := _AND.match(line)) and current.what == _RACE:
            count = int((other["count"] or "0").replace(",", ""))
            yield replace(current, accesses=(first, _access(other)), count=count)
            current = replace(current, accesses=())
        elif seen := _ACCESS.match(line):
            accesses, threads = (*current.accesses, _access(seen)), (*current.threads, _index(seen["thread"]))
            current = replace(current, accesses=accesses, threads=threads)
        elif by := _BY.match(line):
            current = replace(current, threads=(_index(by["thread"]),), block=_index(by["block"]))
        elif current.what in (_RACE, *_HAZARDS.values()):
            continue  # what follows belongs to a memory error
        elif address := _ADDRESS.match(line):
            current = replace(current, what=f"{current.what}, {address['wrong']}")
        elif at := _AT.match(line):
            current = replace(current, accesses=((int(at["line"] or 0), current.accesses[0][1]),))
    if current is not None and _is_whole(current):
        yield current


def _is_whole(report: Finding) -> bool:
    """Say whether a report has all its accesses: one that breaks off names no race."""
    return len(report.accesses) >= (2 if report.what in _HAZARDS.values() else 1)


def _begun(start: re.Match[str]) -> tuple[Finding, tuple[int, str]]:
    """A report of which the first line was read, and the first access of an analysis."""
    parts = start.groupdict()
    severity = (parts.get("severity") or "error").lower()
    if start.re is _ANALYSIS:
        return Finding(_RACE, (), severity=severity), _access(start)
    if start.re is _HAZARD:
        return Finding(_HAZARDS[parts["kind"].upper()], (), _index(parts["block"]), severity=severity), (0, "")
    return Finding(parts["what"], ((0, (parts["done"] or "barrier").lower()),)), (0, "")


def _access(match: re.Match[str]) -> tuple[int, str]:
    return int(match["line"] or 0), match["done"].lower()


def _index(text: str) -> Index:
    x, y, z = map(int, text.split(","))
    return x, y, z
