"""The line of the learner's source that PTX names for an instruction (PTX ISA, "Debugging Directives: .file, .loc")."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gemmlab.nvrtc import SOURCE_NAME

_Where = tuple[int, ...]  # file, line, column

_FILE = re.compile(rf'^\s*\.file\s+(\d+)\s+"(?:[^"\n]*[/\\])?{re.escape(SOURCE_NAME)}"', re.MULTILINE)


@dataclass(frozen=True)
class Locations:
    """Which `files` of a PTX text, by their numbers, are the learner's, and from where the code at each place that was
    read so far was called, if it was inlined.
    """

    files: frozenset[int]
    callers: dict[_Where, _Where | None] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Locations:
        """Those of a PTX text; file 1 is the learner's where none has the name that NVRTC is given for the source."""
        return cls(frozenset(map(int, _FILE.findall(text))) or frozenset({1}))

    def line(self, where: str, inlined_at: str | None) -> int:
        """Read the numbers of a .loc; return the line, that of the call for code which came from a header, or 0."""
        place = tuple(map(int, where.split()))
        self.callers[place] = tuple(map(int, inlined_at.split())) if inlined_at else None
        seen = set()
        while place[0] not in self.files and self.callers.get(place) and place not in seen:
            seen.add(place)
            place = self.callers[place]
        return place[1] if place[0] in self.files else 0
