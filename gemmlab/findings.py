"""What a trace found wrong, in few lines: the finding, and the lines and threads of both that take part."""

import textwrap

from gemmlab import emulator
from gemmlab.columns import WIDTH
from gemmlab.emulator.report import by_number

NOTHING = "no hazard found"


def text(traced: emulator.Trace) -> str:
    """Return every finding of a trace, each with its source lines under it."""
    source = by_number(traced.source)
    return "\n".join(_finding(hazard, source) for hazard in traced.hazards) or NOTHING


def _finding(hazard: emulator.Hazard, source: dict[int, str]) -> str:
    lines = textwrap.wrap(f"{hazard.kind}: {hazard.message}", WIDTH, subsequent_indent="  ")
    for number in dict.fromkeys((*hazard.lines, hazard.line)):
        if number in source:
            lines.append(f"    {number:>3} | {source[number].strip()}")
    return "\n".join(lines)
