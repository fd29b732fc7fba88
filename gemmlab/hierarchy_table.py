"""The hierarchical roofline as text: a kernel's levels, and the bounds of a record's rungs beside what was measured."""

import statistics
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gemmlab import columns, hierarchy, launch, records
from gemmlab.columns import WIDTH, Column
from gemmlab.gemm import Gemm
from gemmlab.gpus import architecture, gpu
from gemmlab.hierarchy import Bounds, Level
from gemmlab.ladder import rung
from gemmlab.launch import Kernel
from gemmlab.measured import timed
from gemmlab.records import Record


@dataclass(frozen=True)
class Timed:
    """A measured time of a kernel, in milliseconds; `run` names the card and the date."""

    milliseconds: float
    run: str


@dataclass(frozen=True)
class Held:
    """A rung of a record, its bounds on the record's card, and its measured time: median and shortest sample."""

    rung: str
    bounds: Bounds
    median_ms: float
    shortest_ms: float

    @property
    def ratio(self) -> float:
        """The measured median over the bound: at least 1, if the model holds."""
        return self.median_ms / (1e3 * self.bounds.seconds)


def against(record: Record) -> tuple[Held, ...]:
    """Return each timed rung of a record beside its bounds. Raises ValueError for a card with no known ceilings."""
    on = gpu(record.card or "")
    alpha, beta, cache = (record.conditions[name] for name in ("alpha", "beta", "cache"))
    return tuple(
        Held(
            name,
            hierarchy.of(launch.of(rung(name), row["tile"]), Gemm(*row["shape"], alpha, beta), on, cache),
            statistics.median(row["milliseconds"]),
            min(row["milliseconds"]),
        )
        for name, row in timed(record).items()
    )


def recorded(kernel: Kernel, bounds: Bounds) -> Timed | None:
    """Return the newest time that a shipped record has of this very source, tile, shape, card and cache, else None."""
    problem = bounds.problem
    for record in sorted(records.shipped(), key=lambda each: each.date, reverse=True):
        for row in timed(record).values():
            same = launch.of(rung(row["name"]), row["tile"])
            if (
                row["shape"] == [problem.M, problem.N, problem.K]
                and record.card in (bounds.card.name, *bounds.card.device_names)
                and bounds.cache == record.conditions["cache"]
                and (problem.alpha, problem.beta) == (record.conditions["alpha"], record.conditions["beta"])
                and (same.source, same.options) == (kernel.source, kernel.options)
            ):
                return Timed(statistics.median(row["milliseconds"]), record.label)
    return None


def beside(record: Record) -> str:
    """Return the rungs of a record as text beside their bounds, or that the ceilings of its card are not known."""
    try:
        gpu(record.card or "")
    except ValueError as error:
        return f"no bounds for {record.label}: {error}; add the card to gemmlab/gpus.py"
    return held(against(record), record)


def held(rows: tuple[Held, ...], record: Record) -> str:
    """Return rungs as text: what each level takes by the model, then what was measured, and the one over the other."""
    model = f" model: at least, ms, {record.conditions['cache']} "
    measured = f" measured: {record.label} "
    shown = (
        Column("", "rung", lambda row: row.rung),
        *(Column(model, _headed(level), _least(i)) for i, level in enumerate(rows[0].bounds.levels if rows else ())),
        Column(model, "bound", lambda row: f"{1e3 * row.bounds.seconds:.4g}"),
        Column(model, "binds", lambda row: row.bounds.binding.name),
        Column(measured, "median ms", lambda row: f"{row.median_ms:.4g}"),
        Column(measured, "times the bound", lambda row: f"{row.ratio:.2f}"),
    )
    assumed = [level.name for level in (rows[0].bounds.levels if rows else ()) if not level.holds]
    note = [f"({', '.join(assumed)}): no bound, as caches may do better; it binds nothing"] if assumed else []
    return "\n".join([*columns.folded(shown, rows, WIDTH), *note])


def _headed(level: Level) -> str:
    return level.name if level.holds else f"({level.name})"


def _least(position: int) -> Callable[[Held], str]:
    return lambda row: f"{1e3 * row.bounds.levels[position].seconds:.4g}"


def kernel(bounds: Bounds, seen: Timed | None) -> str:
    """Return a kernel's levels as text, and on a line of its own what was measured, a dash where nothing was."""
    if seen is None:
        return f"{levels(bounds)}\nmeasured: -"
    ratio = seen.milliseconds / (1e3 * bounds.seconds)
    return f"{levels(bounds)}\nmeasured: {seen.milliseconds:.4g} ms, {ratio:.2f} times the bound; {seen.run}"


def levels(bounds: Bounds) -> str:
    """Return a kernel's levels as text: what each is charged with, its rate, the intensity and the least time."""
    problem, on = bounds.problem, bounds.card
    rows = [
        f"model: at most what {on.name} can do for {problem.M} x {problem.N} x {problem.K}, {bounds.cache}",
        f"{'level':<14}{'unit':<18}{'units charged':>16}{'units a second':>16}{'FLOP for a unit':>16}{'least ms':>10}",
    ]
    for level in bounds.levels:
        mark = "  <- binds" if level is bounds.binding else "" if level.holds else "  no bound"
        intensity = f"{bounds.intensity(level):.4g}" if level.amount else "-"
        rows.append(
            f"{level.name:<14}{level.unit:<18}{level.amount:>16,}{level.rate:>16.4g}{intensity:>16}"
            f"{1e3 * level.seconds:>10.4g}{mark}"
        )
    rows += (textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for line in _notes(bounds))
    return "\n".join(rows)


def _notes(bounds: Bounds) -> Iterator[str]:
    """What the bound comes to, and whence its rates are."""
    on, known = bounds.card, architecture(bounds.card.architecture)
    yield (
        f"so at least {1e3 * bounds.seconds:.4g} ms, at most {bounds.speed / 1e12:.3g} TFLOP/s; blocks keep at most "
        f"{bounds.levels[-1].busy:.1%} of the multiprocessors busy (wave quantization), and levels on the chip do that "
        "share of their rate"
    )
    yield f"DRAM: the published rate, and what L2 cannot keep between launches ({bounds.cache}); {on.source}"
    if on.measured:
        yield (
            "L2: as if blocks shared nothing in L1, at a measured rate, for none is published; a run may pass both; "
            f"{on.measured.source}"
        )
    else:
        yield "L2: -, nobody measured it"
    yield (
        f"on chip, a cycle and multiprocessor: a wavefront of {known.shared_bytes_per_cycle} bytes, "
        f"{known.subpartitions} warp instructions, {known.fp32_lanes} FMAs, at the clock that reaches the published "
        f"{on.peak_fp32 / 1e12:.1f} TFLOP/s"
    )
    if on.measured:
        yield (
            f"not the {on.measured.fp32 / 1e12:.1f} TFLOP/s that were measured: a ceiling that another run may pass is "
            "none for a lower bound"
        )
