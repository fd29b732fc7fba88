"""The hierarchical roofline as text: a kernel's levels, and the bounds of a record's rungs beside what was measured."""

import statistics
from dataclasses import dataclass

from gemmlab import hierarchy, launch, records
from gemmlab.gemm import Gemm
from gemmlab.gpus import architecture, gpu
from gemmlab.hierarchy import Bounds
from gemmlab.ladder import rung
from gemmlab.launch import Kernel
from gemmlab.measured import card, roofs, timed
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
    return tuple(
        Held(
            name,
            hierarchy.of(launch.of(rung(name), row["tile"]), Gemm(*row["shape"]), on),
            statistics.median(row["milliseconds"]),
            min(row["milliseconds"]),
        )
        for name, row in timed(record).items()
    )


def recorded(kernel: Kernel, bounds: Bounds) -> Timed | None:
    """Return the time that a shipped record has of this very source, tile, shape and card, else None."""
    problem = bounds.problem
    for record in records.shipped():
        for row in timed(record).values():
            same = launch.of(rung(row["name"]), row["tile"])
            if (
                row["shape"] == [problem.M, problem.N, problem.K]
                and bounds.card.name == card(record).name
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
    """Return rungs as text: the model's levels, then what was measured, then the one over the other."""
    levels = [level.name for level in rows[0].bounds.levels] if rows else []
    wide = 14 * len(levels) + 31
    lines = [
        f"{'':<18}{'model: at least, ms':^{wide}}| measured: {record.label}",
        f"{'rung':<18}"
        + "".join(f"{name:>14}" for name in levels)
        + f"{'bound':>12}{'binds':>18} | {'median ms':>10}{'over the bound':>16}",
    ]
    for row in rows:
        times = "".join(f"{1e3 * level.seconds:>14.4g}" for level in row.bounds.levels)
        lines.append(
            f"{row.rung:<18}{times}{1e3 * row.bounds.seconds:>12.4g}{row.bounds.binding.name:>18} | "
            f"{row.median_ms:>10.4g}{row.ratio:>16.2f}"
        )
    return "\n".join(lines)


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
        f"model: at most what {on.name} can do for {problem.M} x {problem.N} x {problem.K}",
        f"{'level':<15}{'charged with':>34}{'a second':>12}{'FLOP for each':>15}{'at least, ms':>14}",
    ]
    for level in bounds.levels:
        binds = "  <- binds" if level is bounds.binding else ""
        rows.append(
            f"{level.name:<15}{f'{level.amount:,.0f} {level.unit}':>34}{level.rate:>12.4g}"
            f"{bounds.intensity(level):>15.4g}{1e3 * level.seconds:>14.4g}{binds}"
        )
    roof, known = roofs(on), architecture(on.architecture)
    missing = "" if "L2" in roof.bandwidths else "; L2: -, nobody measured it"
    rows += [
        f"so at least {1e3 * bounds.seconds:.4g} ms, at most {bounds.speed / 1e12:.3g} TFLOP/s; the blocks keep "
        f"{bounds.levels[-1].busy:.1%} of the multiprocessors busy",
        f"ceilings of memory: {roof.kind}, {(on.measured or on).source}{missing}",
        f"on chip, a cycle and multiprocessor: {known.shared_bytes_per_cycle} bytes, {known.subpartitions} warp "
        f"instructions, {known.fp32_lanes} FMAs, at the clock that reaches {on.peak_fp32 / 1e12:.1f} TFLOP/s",
    ]
    return "\n".join(rows)
