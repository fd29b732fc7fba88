"""A trace as text and as HTML: the learner's source, and beside each line what it asked memory for and what is wrong.

Both are drawn from the same columns. The HTML sets no colour of text and no opaque background, so it is read on light
and on dark pages alike; a bar in a cell is as long as its count beside the largest one, grey up to the ideal and amber
past it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from itertools import groupby

from .faults import Hazard
from .traffic import Access, Total, totals

NOTE = (
    "Counts are of PTX: the machine code may merge neighbouring accesses and adds those of registers that it spills. "
    "'ideal' serves the same lanes with the fewest sectors (32 bytes) or wavefronts (128 bytes)."
)
WIDTH = 100
"""Characters of a line of text in which a finding is wrapped."""


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


def lines(source: str, accesses: Iterable[Access], hazards: Iterable[Hazard]) -> tuple[Line, ...]:
    """The source's lines in order, with those the compiler named that the source does not have."""
    written = dict(enumerate(source.splitlines(), start=1))
    at = {n: tuple(group) for n, group in groupby(sorted(accesses, key=lambda a: a.line), key=lambda a: a.line)}
    wrong = {n: tuple(group) for n, group in groupby(sorted(hazards, key=lambda h: h.line), key=lambda h: h.line)}
    return tuple(Line(n, written.get(n, ""), at.get(n, ()), wrong.get(n, ())) for n in sorted({*written, *at, *wrong}))


def text(source: str, accesses: tuple[Access, ...], hazards: tuple[Hazard, ...]) -> str:
    """The report for a terminal: a row for each kind of access on a line, its findings under it, totals at the end."""
    columns = _used(accesses)
    shown = lines(source, accesses, hazards)
    rows = [("line", *(c.header for c in columns), "source")]
    sides = [str.rjust, *(str.ljust if c.left else str.rjust for c in columns)]
    under: dict[int, list[str]] = {}
    for line in shown:
        for i in range(max(1, len(line.accesses))):
            number, written = (str(line.number or ""), line.source) if i == 0 else ("", "")
            cells = [c.cell(line.accesses[i]) for c in columns] if line.accesses else [""] * len(columns)
            rows.append((number, *cells, written))
        under[len(rows)] = [found for hazard in line.hazards for found in _finding(hazard)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    result = []
    for i, row in enumerate(rows, start=1):
        figures = (side(cell, width) for side, cell, width in zip(sides, row, widths, strict=False))
        result.append(f"{'  '.join(figures)}  {row[-1]}".rstrip())
        result += under.get(i, [])
    summary = [_sentence(total) for total in totals(accesses)]
    return "\n".join([*result, "", *summary, *_count_hazards(hazards), *textwrap.wrap(NOTE, WIDTH)])


def html(source: str, accesses: tuple[Access, ...], hazards: tuple[Hazard, ...]) -> str:
    """The report for a notebook: one table, each counter's name in Nsight Compute where the mouse rests on it."""
    columns = _used(accesses)
    largest = {
        shared: max((a.units for a in accesses if (a.sectors is None) == shared), default=1) for shared in (0, 1)
    }
    body = []
    for line in lines(source, accesses, hazards):
        for i in range(max(1, len(line.accesses))):
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
    names = "".join(
        f"<li>{escape(op)}: {', '.join(f'<code>{escape(name)}</code>' for name in names if name)}</li>"
        for op, *names in dict.fromkeys((a.op, a.request_metric, a.metric) for a in accesses)
    )
    return (
        f"<div class='gemmlab-report'><style>{STYLE}</style>"
        f"<table><thead><tr><th>line</th>{header}<th class='left'>source</th></tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table>"
        f"<ul>{summary}</ul><p>{escape(NOTE)}</p>"
        f"<details><summary>the same counters in Nsight Compute</summary><ul>{names}</ul></details></div>"
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


def _finding(hazard: Hazard) -> list[str]:
    """A hazard as lines of text that stand out under its source line."""
    return textwrap.wrap(f"!! {hazard.kind}: {hazard.message}", WIDTH, initial_indent="  ", subsequent_indent="     ")


def _sentence(total: Total) -> str:
    unit = "wavefronts" if total.space == "shared" else "sectors"
    what = {"local": "local memory (arrays that registers cannot hold)"}.get(total.space, f"{total.space} memory")
    return (
        f"{what}: {total.requests:,} requests, {total.units:,} {unit}, {total.units / total.ideal:.2f} x the ideal; "
        f"{total.useful_bytes:,} bytes asked for by lanes, {total.moved_bytes:,} bytes moved"
    )


def _count_hazards(hazards: tuple[Hazard, ...]) -> list[str]:
    return [f"{len(hazards)} hazard{'s' if len(hazards) > 1 else ''} found"] if hazards else ["no hazard found"]
