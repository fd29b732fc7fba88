"""Collects what was found wrong in a launch: few findings, each with how often it was seen."""

from __future__ import annotations

from .faults import Hazard

SCOPES = ("async", "interblock", "crosswarp", "samewarp", "")
"""Widest first: of findings that are alike the widest stands for the others."""


class Hazards:
    """Findings grouped by kind, array and pair of lines; the first block and threads stand for the others."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], Hazard] = {}

    @property
    def rows(self) -> tuple[Hazard, ...]:
        return tuple(self._found.values())

    def report(self, hazard: Hazard) -> None:
        """Keep a finding, or add its count to one of its like."""
        accesses = tuple(sorted(hazard.accesses))
        lines = () if accesses else (hazard.line, *hazard.lines)
        key = (hazard.kind, hazard.array, lines, accesses, "" if hazard.line or hazard.space else hazard.what)
        seen = self._found.get(key)
        if seen is None:
            self._found[key] = hazard
            return
        first, _ = sorted((seen, hazard), key=lambda h: SCOPES.index(h.scope))
        self._found[key] = first.with_count(seen.count + hazard.count)
