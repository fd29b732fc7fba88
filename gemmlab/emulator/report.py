"""A trace as text and as HTML: the learner's source, and beside each line what it asked memory for and what is wrong.

Both are drawn from the same columns. The HTML sets no colour of text and no opaque background, so it is read on light
and on dark pages alike; a bar in a cell is as long as its count beside the largest one, grey up to the ideal and amber
past it. Lines have the numbers that the compiler gives them.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from math import inf

from .faults import Hazard
from .traffic import Access, Total, totals

NOTE = (
    "Counts are of PTX: the machine code may merge neighbouring accesses and adds those of registers that it spills. "
    "'bytes' are those of a lane; 'ideal' serves the same lanes with the fewest sectors (32 bytes) or wavefronts (128 "
    "bytes)."
)
COUNTED_TOGETHER = (
    "Nsight Compute's counter of global loads takes in cp.async, and those of shared loads and stores take in ldmatrix "
    "and stmatrix."
)
WIDTH = 100
"""Characters of a line of text in which a finding is wrapped, where the terminal is not narrower."""
ELSEWHERE = "(on no line of this source)"

_DIRECTIVE = re.compile(r"\s*#\s*line\s+(\d{1,9})\b")
# what would break a line, or move a terminal's cursor, is shown as a space
_UNSEEN = dict.fromkeys([*range(9), *range(10, 32), 127, 0x85, 0x2028, 0x2029], " ")


@dataclass(frozen=True)
class Column:
    """A column: its header and how it writes an access; `bar` is for counts that are drawn, `left` for text."""

    header: str
    cell: Callable[[Access], str]
    bar: bool = False
    left: bool = False


COLUMNS = (
    Column("access", lambda a: a.op, left=True),
    Column("bytes", lambda a: str(a.bytes)),
    Column("requests", lambda a: f"{a.requests:,}"),
    Column("sectors", lambda a: "" if a.sectors is None else f"{a.sectors:,}", bar=True),
    Column("wavefronts", lambda a: "" if a.wavefronts is None else f"{a.wavefronts:,}", bar=True),
    Column("ideal", lambda a: f"{a.ideal:,}"),
    Column("x ideal", lambda a: f"{a.units / a.ideal:.2f}"),
)


@dataclass(frozen=True)
class Line:
    """A line of source with what was seen at it; number 0 is for what belongs to no line."""

    number: int
    source: str
    accesses: tuple[Access, ...]
    hazards: tuple[Hazard, ...]


def numbered(source: str) -> list[tuple[int, str]]:
    """The source's lines and the numbers by which the compiler names them: they end at a newline and nowhere else, and
    count from 1, and on from what a #line says.
    """
    number, result = 1, []
    for line in source.removesuffix("\n").split("\n"):
        result.append((number, line.translate(_UNSEEN).rstrip()))
        directive = _DIRECTIVE.match(line)
        number = int(directive[1]) if directive else number + 1
    return result


def by_number(source: str) -> dict[int, str]:
    """The source's lines by the number that the compiler names them by; of lines with one number, the first."""
    return dict(reversed(numbered(source)))


def lines(source: str, accesses: Iterable[Access], hazards: Iterable[Hazard]) -> tuple[Line, ...]:
    """The source's lines in order, after what belongs to none and before those that only the compiler knows."""
    at = {n: tuple(group) for n, group in groupby(sorted(accesses, key=lambda a: a.line), key=lambda a: a.line)}
    wrong = {n: tuple(group) for n, group in groupby(sorted(hazards, key=lambda h: h.line), key=lambda h: h.line)}
    written = numbered(source)
    unknown = sorted({*at, *wrong} - {number for number, _ in written})
    before, after = ([(n, ELSEWHERE) for n in unknown if bool(n) == known] for known in (False, True))
    # of lines that a #line gives one number, the first has what was seen there
    return tuple(Line(n, text, at.pop(n, ()), wrong.pop(n, ())) for n, text in [*before, *written, *after])


def text(source: str, accesses: tuple[Access, ...], hazards: tuple[Hazard, ...]) -> str:
    """The report for a terminal: a row for each kind of access on a line, its findings under it, totals at the end.

    In a terminal too narrow for that, figures stand under their line and not beside it.
    """
    room = _room()
    summary = [*map(_sentence, totals(accesses)), *_count_hazards(hazards)]
    result = [
        *_table(lines(source, accesses, hazards), _used(accesses), room),
        "",
        *(part for sentence in summary for part in _wrapped(sentence, room, "", "  ")),
    ]
    if accesses:
        names = _counters(accesses)
        widths = [max(map(len, column)) for column in zip(*names, strict=True)]
        result += [*_wrapped(NOTE, room, "", ""), "in Nsight Compute:"]
        result += [f"  {op:<{widths[0]}}  {what:<{widths[1]}}  {name}" for op, what, name in names]
        result += _wrapped(_counted_together(accesses), room, "", "")
    return _writable("\n".join(result))


def _table(shown: Sequence[Line], columns: Sequence[Column], room: float) -> list[str]:
    """The lines with their figures beside them, or, where that takes more than `room` characters, under them."""
    header = [c.header for c in columns]
    figures = [[[c.cell(a) for c in columns] for a in line.accesses] for line in shown]
    widths = [max(map(len, column)) for column in zip(header, *(row for rows in figures for row in rows), strict=True)]
    sides = [str.ljust if c.left else str.rjust for c in columns]
    margin = max(len("line"), *(len(str(line.number)) for line in shown))

    def row(number: str, cells: Sequence[str], written: str = "") -> str:
        placed = (side(cell, width) for side, cell, width in zip(sides, cells, widths, strict=False))
        return "  ".join([number.rjust(margin), *placed, written]).rstrip()

    blank = [""] * len(columns)
    beside = not columns or max(len(row("", blank, line.source.expandtabs())) for line in shown) <= room
    result = [row("line", header, "source")] if beside else [row("line", [], "source"), row("", header)]
    for line, rows in zip(shown, figures, strict=True):
        number, written = str(line.number or ""), line.source.expandtabs()
        if beside and (rows or line.number):
            first, *others = rows or [blank]
            result += [row(number, first, written), *(row("", each) for each in others)]
        elif rows or line.number:
            result += [row(number, [], written), *(row(">", each) for each in rows)]
        result += [found for hazard in line.hazards for found in _wrapped(_finding(hazard), room, "  ", "     ")]
    return result


def html(source: str, accesses: tuple[Access, ...], hazards: tuple[Hazard, ...]) -> str:
    """The report for a notebook: one table, each counter's name in Nsight Compute where the mouse rests on it."""
    columns = _used(accesses)
    largest = {
        shared: max((a.units for a in accesses if (a.sectors is None) == shared), default=1) for shared in (0, 1)
    }
    body = []
    for line in lines(source, accesses, hazards):
        for i in range(max(1 if line.number else 0, len(line.accesses))):
            number, written = (str(line.number or ""), line.source) if i == 0 else ("", "")
            cells = (
                "".join(_cell(c, line.accesses[i], largest) for c in columns)
                if line.accesses
                else "<td></td>" * len(columns)
            )
            body.append(f"<tr><td>{number}</td>{cells}<td class='left'>{escape(written)}</td></tr>")
        for hazard in line.hazards:
            found = f"<b>&#9888; {escape(hazard.kind)}</b> {escape(hazard.message)}"
            body.append(f"<tr class='hazard'><td></td><td colspan='{len(columns) + 1}'><div>{found}</div></td></tr>")
    header = "".join(f"<th{_side(c)}>{escape(c.header)}</th>" for c in columns)
    summary = "".join(f"<li>{escape(s)}</li>" for s in (*map(_sentence, totals(accesses)), *_count_hazards(hazards)))
    return (
        f"<div class='gemmlab-report'><style>{STYLE}</style>"
        f"<table><thead><tr><th>line</th>{header}<th class='left'>source</th></tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
        f"<ul>{summary}</ul>{_explained(accesses) if accesses else ''}</div>"
    )


def _explained(accesses: tuple[Access, ...]) -> str:
    names = "".join(f"<li>{op}, {what}: <code>{escape(name)}</code></li>" for op, what, name in _counters(accesses))
    return (
        f"<p>{escape(NOTE)}</p>"
        f"<details><summary>the same counters in Nsight Compute</summary><ul>{names}</ul>"
        f"{escape(_counted_together(accesses))}</details>"
    )


STYLE = """
.gemmlab-report { overflow-x: auto; }
.gemmlab-report table { border-collapse: collapse; margin: 0; table-layout: auto; font-size: 0.85em; }
.gemmlab-report table tbody tr:nth-child(n) { background: transparent; }
.gemmlab-report table tbody tr:nth-child(n):hover { background: rgba(128, 128, 128, 0.15); }
.gemmlab-report table tr td, .gemmlab-report table tr th { padding: 1px 8px; text-align: right; white-space: nowrap;
  font-family: var(--jp-code-font-family, monospace); font-variant-numeric: tabular-nums; border: none; }
.gemmlab-report table tr th { border-bottom: 1px solid rgba(128, 128, 128, 0.6); }
.gemmlab-report table tr .left { text-align: left; white-space: pre; }
.gemmlab-report table tr.hazard td { text-align: left; white-space: normal; font-family: inherit; }
.gemmlab-report table tr.hazard div { border-left: 4px solid rgba(214, 60, 30, 0.9); padding: 2px 8px; max-width: 60em;
  background: rgba(214, 60, 30, 0.15); }
"""
_GREY, _AMBER = "rgba(128, 128, 128, 0.30)", "rgba(240, 150, 0, 0.45)"


def _used(accesses: tuple[Access, ...]) -> tuple[Column, ...]:
    """Columns that have a figure somewhere."""
    return tuple(c for c in COLUMNS if any(c.cell(a) for a in accesses))


def _cell(column: Column, access: Access, largest: dict[int, int]) -> str:
    written = column.cell(access)
    names = {"requests": access.request_metric} | dict.fromkeys(("sectors", "wavefronts"), access.metric)
    title = f" title='{escape(names[column.header])}'" if names.get(column.header) and written else ""
    if not column.bar or not written:
        return f"<td{_side(column)}{title}>{escape(written)}</td>"
    scale = 100 / max(1, largest[access.sectors is None])
    ideal, end = min(access.ideal, access.units) * scale, access.units * scale
    bar = f"linear-gradient(to right, {_GREY} {ideal:.1f}%, {_AMBER} {ideal:.1f}% {end:.1f}%, transparent {end:.1f}%)"
    return f"<td{title} style='background: {bar}'>{escape(written)}</td>"


def _side(column: Column) -> str:
    return " class='left'" if column.left else ""


def _room() -> float:
    """Characters of a line: as many as the terminal has, and no bound where the text goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else inf


def _writable(written: str) -> str:
    """Text with what the terminal's encoding lacks as escapes, so that no comment of a source stops its report."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return written.encode(encoding, "backslashreplace").decode(encoding)


def _wrapped(sentence: str, room: float, first: str, others: str) -> list[str]:
    width = int(min(WIDTH, max(40, room)))
    return textwrap.wrap(sentence, width, initial_indent=first, subsequent_indent=others)


def _finding(hazard: Hazard) -> str:
    """A hazard in words that stand out under its source line."""
    return f"!! {hazard.kind}: {hazard.message}"


def _sentence(total: Total) -> str:
    unit = "wavefronts" if total.space == "shared" else "sectors"
    what = {"local": "local memory (arrays that registers cannot hold)"}.get(total.space, f"{total.space} memory")
    moved = "that those wavefronts could carry" if total.space == "shared" else "moved"
    return (
        f"{what}: {total.requests:,} requests, {total.units:,} {unit}, {total.units / total.ideal:.2f} x the ideal; "
        f"{total.useful_bytes:,} bytes asked for by lanes, {total.moved_bytes:,} {moved}"
    )


def _counters(accesses: Iterable[Access]) -> list[tuple[str, str, str]]:
    """Nsight Compute's names: kind of access, what is counted, and the counter."""
    found = ((a.op, "wavefronts" if a.sectors is None else "sectors", a.request_metric, a.metric) for a in accesses)
    return [
        (op, what, name)
        for op, unit, requests, units in dict.fromkeys(found)
        for what, name in (("requests", requests), (unit, units))
        if name
    ]


def _counted_together(accesses: Iterable[Access]) -> str:
    """What to know of these counters' names: nothing, where each counts one kind of access alone."""
    return COUNTED_TOGETHER if any(a.op.startswith(("cp.", "ldmatrix", "stmatrix")) for a in accesses) else ""


def _count_hazards(hazards: tuple[Hazard, ...]) -> list[str]:
    return [f"{len(hazards)} hazard{'s' if len(hazards) > 1 else ''} found"] if hazards else ["no hazard found"]
