"""What holds each rung: the level of the hierarchical roofline that binds it, and how much of that its time reaches."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from gemmlab import columns, hierarchy, launch, measured, tuned
from gemmlab.columns import Column, known, significant
from gemmlab.gemm import Gemm
from gemmlab.hierarchy import Bounds, Counts
from gemmlab.ladder import Rung
from gemmlab.launch import Kernel
from gemmlab.records import Record

REACHED = 0.7
"""The share of its bound from which on a rung is said to be held by the level that binds it. A convention: the bound
leaves out latency and all that two levels do in turn, so no rung reaches the whole of it."""


@dataclass(frozen=True)
class Limit:
    """A rung, its kernel at the tile that was measured, its modelled bounds, its measured FLOP/s, and how many times as
    fast as it the next rung was measured.
    """

    rung: Rung
    kernel: Kernel
    bounds: Bounds
    measured: float | None
    gain: float | None

    @property
    def share(self) -> float | None:
        """The measured speed as a share of the bound."""
        return None if self.measured is None else self.measured / self.bounds.speed

    @property
    def held_by(self) -> str | None:
        """The level that holds the rung; None where nothing was measured, or no modelled level is reached."""
        return self.bounds.binding.name if self.share is not None and self.share >= REACHED else None


def limits(rungs: Sequence[Rung], problem: Gemm, record: Record | None) -> tuple[Limit, ...]:
    """Return what holds `rungs`, in order, at `problem`, on the card of a record that timed them all there.

    Each rung has the tile that the record ran. Without a record, or with one of a card whose ceilings are not known,
    nothing counts as measured, the card is `measured.REFERENCE`, and the tiles are that card's. Raises as
    `hierarchy.of` does.
    """
    card, speeds, rows = measured.card(record), measured.speeds(record, rungs), measured.timed(record)
    found = []
    for rung, following in zip(rungs, [*rungs[1:], None], strict=True):
        kernel = launch.of(rung, rows[rung.name]["tile"] if speeds else tuned.tile(rung, card.name))
        speed = speeds.get(rung.name)
        gain = speeds[following.name] / speed if speed and following else None
        found.append(Limit(rung, kernel, hierarchy.of(kernel, problem, card), speed, gain))
    return tuple(found)


def table(found: Sequence[Limit], record: Record | None) -> str:
    """Return limits as text: the TFLOP/s that each level allows (a dash where it is charged with nothing), the
    speed measured, and its share of the bound.
    """
    problem, card = found[0].bounds.problem, found[0].bounds.card
    modelled, timed = " model: the most that each level allows, TFLOP/s ", " measured "
    shown = (
        Column("", "rung", lambda limit: str(limit.rung.number)),
        Column("", "name", lambda limit: limit.rung.name),
        *(Column(modelled, level.name, _allowed(i)) for i, level in enumerate(found[0].bounds.levels)),
        Column(modelled, "binds", lambda limit: limit.bounds.binding.name),
        Column(timed, "TFLOP/s", lambda limit: significant(limit.measured and limit.measured / 1e12)),
        Column(timed, "of the bound", lambda limit: known(limit.share, ".0%")),
        Column(timed, "next rung", lambda limit: "-" if limit.gain is None else f"{significant(limit.gain)} times"),
    )
    run = record.label if record and found[0].measured is not None else "nothing"
    return "\n".join(
        (
            f"model: {card.name}, {problem.M} x {problem.N} x {problem.K}; measured: {run}",
            *columns.lines(shown, found),
        )
    )


def demands(found: Sequence[Limit]) -> str:
    """Return as text the least that each rung needs for each FMA of a warp: requests, wavefronts of L1 and shared
    memory, and sectors of L2, as `hierarchy.Counts` has them, and the bytes that the model charges DRAM with.
    """
    problem, source = found[0].bounds.problem, " emulator "
    shown = (
        Column("", "rung", lambda row: f"{row[0].rung.number} {row[0].rung.name}"),
        Column(source, "requests", _for_each_fma("requests")),
        Column(source, "wavefronts", _for_each_fma("wavefronts")),
        Column(source, "sectors of L2", _for_each_fma("sectors")),
        Column(" model ", "bytes of DRAM", lambda row: f"{row[0].bounds.levels[0].amount / row[1].fmas:.3f}"),
    )
    rows = [(limit, hierarchy.counts(limit.kernel, problem)) for limit in found]
    about = f"for each FMA of a warp, {problem.M} x {problem.N} x {problem.K}"
    return "\n".join((about, *columns.lines(shown, rows)))


def _for_each_fma(count: str) -> Callable[[tuple[Limit, Counts]], str]:
    return lambda row: f"{getattr(row[1], count) / row[1].fmas:.3f}"


def _allowed(position: int) -> Callable[[Limit], str]:
    def text(limit: Limit) -> str:
        allowed = limit.bounds.allowed(limit.bounds.levels[position])
        return significant(allowed / 1e12) if isfinite(allowed) else "-"

    return text
