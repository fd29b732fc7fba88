"""What settings cost, by the real compiler, each compiled once; those a learner may ask for next compile meanwhile."""

import atexit
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gemmlab import costs, nvrtc
from gemmlab.costs import Cost
from gemmlab.ladder import Rung, Tile, rung
from gemmlab.launch import of


@dataclass(frozen=True)
class Setting:
    """A rung, by number, at a full tile, for an architecture such as 'sm_90'; hashable, the tile being pairs."""

    number: int
    tile: tuple[tuple[str, int], ...]
    arch: str


def setting(of_rung: Rung, tile: Tile, arch: str) -> Setting:
    """Return a setting that is legal for its rung. Raises ValueError, with the rule and both numbers, for any other."""
    return Setting(of_rung.number, tuple(of_rung.full_tile(tile).items()), arch)


def steps(of_rung: Rung, tile: Tile, choices: Mapping[str, tuple[int, ...]]) -> dict[tuple[str, int], str | None]:
    """Return the rule that each setting one step away from `tile` breaks, or None, by the parameter and its new value.

    A step changes one parameter to the next of its `choices`, which hold the tile's values; the tile may be illegal.
    """
    found: dict[tuple[str, int], str | None] = {}
    for name, values in choices.items():
        at = values.index(tile[name])
        for value in values[max(at - 1, 0) : at] + values[at + 1 : at + 2]:
            try:
                of_rung.full_tile({**tile, name: value})
                found[name, value] = None
            except ValueError as rule:
                found[name, value] = str(rule)
    return found


def nearby(of_rung: Rung, tile: Tile, choices: Mapping[str, tuple[int, ...]]) -> list[tuple[str, int]]:
    """Return the parameters and values that alone make `tile` another legal one, in order of their steps away."""
    found = []
    for name, values in choices.items():
        at = values.index(tile[name])
        for place, value in enumerate(values):
            try:
                of_rung.full_tile({**tile, name: value})
            except ValueError:
                continue
            if place != at:
                found.append((abs(place - at), name, value))
    return [(name, value) for _, name, value in sorted(found, key=lambda each: each[0])]


class Compilations:
    """The costs of settings, kept. One setting compiles at a time, since NVRTC takes one at a time."""

    def __init__(self) -> None:
        self._found: dict[Setting, Cost | nvrtc.CompileError] = {}
        self._wanted: deque[Setting] = deque()
        self._compiling = threading.Lock()
        self._ahead: threading.Thread | None = None
        atexit.register(self.finish)

    def cost(self, wanted: Setting) -> Cost:
        """Return what a setting costs, and drop what was wanted ahead. Raises nvrtc.CompileError, kept like a cost."""
        self._wanted.clear()
        found = self._compiled(wanted)
        if isinstance(found, nvrtc.CompileError):
            raise found
        return found

    def ahead(self, wanted: Iterable[Setting]) -> None:
        """Compile settings in a thread of its own, in the order given, until `cost` is asked for another."""
        self._wanted.extend(wanted)
        if self._ahead is None or not self._ahead.is_alive():
            self._ahead = threading.Thread(target=self._work, daemon=True)
            self._ahead.start()

    def wait(self) -> None:
        """Return when all that is wanted ahead is compiled."""
        if self._ahead is not None:
            self._ahead.join()

    def finish(self) -> None:
        """Drop what is wanted ahead, and wait for the setting that compiles now: no compiler outlives Python."""
        self._wanted.clear()
        self.wait()

    def _work(self) -> None:
        while self._wanted:
            try:
                self._compiled(self._wanted.popleft())
            except Exception:  # whoever asks for it in earnest gets to see the error
                continue

    def _compiled(self, wanted: Setting) -> Cost | nvrtc.CompileError:
        with self._compiling:
            if wanted not in self._found:
                try:
                    self._found[wanted] = costs.cost(of(rung(wanted.number), dict(wanted.tile)), wanted.arch)
                except nvrtc.CompileError as refusal:
                    self._found[wanted] = refusal
            return self._found[wanted]
