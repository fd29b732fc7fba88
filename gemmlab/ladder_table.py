"""The whole ladder in one table: what was counted here, what was measured, and what others published, side by side."""

import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gemmlab import columns, measured, roofline
from gemmlab.columns import Column, known
from gemmlab.gpus import ARCHITECTURES
from gemmlab.published import Ladder
from gemmlab.records import Record
from gemmlab.resources import occupancy
from gemmlab.results import Row, Run

WIDTH = 100  # characters, which JupyterLab shows on a laptop without breaking a line


def table(run: Run, runs: Sequence[Record], ladders: Sequence[Ladder]) -> str:
    """Return the rungs of a traced climb as text, beside their times in `runs` and their speeds in published `ladders`.

    Groups of columns are numbered, and the lines under the table say what card, date and conditions a number stands
    for. Counts are those of the climb's own problem, times those of the problem of their run.
    """
    counted = run.rows[0].problem
    where = f" emulator, {counted.M} x {counted.N} x {counted.K} "
    arch = run.environment["architecture"]
    compiler = f" compiler, {arch} "
    numbered = list(enumerate([*runs, *ladders], start=1))
    shown = (
        Column("", "rung", lambda row: f"{row.rung.number} {row.rung.name}"),
        Column("", "result", lambda row: "right" if row.verdict.correct and not row.hazards else "WRONG"),
        Column(compiler, "registers", lambda row: str(row.registers)),
        Column(compiler, "occupancy", lambda row: known(_occupancy(row, arch), ".0%")),
        Column(where, "FLOP/B", lambda row: known(requested_intensity(row), ".3g")),
        Column(where, "sectors", lambda row: known(units(row, "global"), ",")),
        Column(where, "wavefronts", lambda row: known(units(row, "shared"), ",")),
        *(column for number, each in numbered for column in _timed(number, each)),
    )
    notes = [
        textwrap.fill(f"[{number}] {conditions(each) if isinstance(each, Record) else _about(each)}", WIDTH)
        for number, each in numbered
    ]
    return "\n".join([*columns.folded(shown, run.rows, WIDTH), "", *notes])


def by_size(runs: Sequence[Record]) -> str:
    """Return the speeds of rungs in runs of several sizes on one card as text: TFLOP/s, and % of that run's cuBLAS.

    Raises ValueError for runs of several cards or days.
    """
    labels = {record.label for record in runs}
    if len(labels) != 1:
        raise ValueError(f"one card and day is shown by size, not {'; '.join(sorted(labels)) or 'none'}")
    numbers = {name: row["rung"] for record in runs for name, row in measured.timed(record).items()}
    shown = [Column("", "rung", lambda name: f"{numbers[name]} {name}")]
    for record in sorted(runs, key=lambda record: measured.problem_of(record).flops):
        rows, source = measured.timed(record), f" {' x '.join(map(str, record.rungs[0]['shape']))} "
        shown += [
            Column(source, "TFLOP/s", _named(rows, lambda row: f"{row['gflops'] / 1e3:.3g}")),
            Column(source, "% cuBLAS", _named(rows, lambda row: known(row["percent_of_cublas"], ".1f"))),
        ]
    return "\n".join([f"measured: {labels.pop()}", *columns.lines(shown, sorted(numbers, key=numbers.get))])


def requested_intensity(row: Row) -> float | None:
    """Return the FLOPs for each byte that a traced rung asks global memory for; None without a trace."""
    if row.trace is None:
        return None
    asked = sum(access.useful_bytes for access in row.trace.accesses if access.space == "global")
    return roofline.intensity(row.problem.flops, asked)


def units(row: Row, space: str) -> int | None:
    """Return the sectors of 'global' memory, or the wavefronts of 'shared', of all a rung's accesses; None untraced."""
    if row.trace is None:
        return None
    return sum(access.units for access in row.trace.accesses if access.space == space)


def conditions(record: Record) -> str:
    """Return in a sentence what a record's times belong to: card, driver, problem, policy, clocks, and cuBLAS."""
    given, cublas, batches = record.conditions, measured.cublas(record), _batches(record)
    shape = " x ".join(map(str, record.rungs[0]["shape"]))
    yardstick = "not timed" if cublas is None else f"{cublas / 1e12:.2f} TFLOP/s"
    return (
        f"measured: {record.label}, driver {record.driver}, CUDA {record.cuda}; {shape}, float32, {given['family']} "
        f"inputs; medians of {given['samples']} samples of {batches}, after {given['warmup']} launches to warm up; "
        f"{given['boundary']}; {given['cache']}; {given['clocks']}; cuBLAS in the same run, TF32 off: {yardstick}"
    )


def markdown(record: Record, ladder: Ladder) -> str:
    """Return a record's ladder for a README: times and speeds of its rungs, with a published one in the last column."""
    lines = [
        f"| rung | ms | TFLOP/s | % of cuBLAS | {ladder.card}, published: % of its cuBLAS |",
        "|---|--:|--:|--:|--:|",
    ]
    for name, row in measured.timed(record).items():
        lines.append(
            f"| {row['rung']} {name.replace('_', ' ')} | {statistics.median(row['milliseconds']):.4g} "
            f"| {row['gflops'] / 1e3:.3g} | {row['percent_of_cublas']:.1f} "
            f"| {known(ladder.percent_of_cublas(name), '.1f')} |"
        )
    cublas = measured.cublas(record)
    lines.append(
        f"| cuBLAS | {1e3 * measured.problem_of(record).flops / cublas:.4g} | {cublas / 1e12:.3g} | 100 | 100 |"
    )
    said = f"M{conditions(record)[1:]}. Last column: {_about(ladder)}."
    return "\n".join([*lines, "", textwrap.fill(said, 120, break_on_hyphens=False)])


def _timed(number: int, seen: Record | Ladder) -> tuple[Column, ...]:
    if isinstance(seen, Ladder):
        source = f" published [{number}] "
        return (
            Column(source, "TFLOP/s", lambda row: known(_tflops(seen, row.rung.name), ".3g")),
            Column(source, "% cuBLAS", lambda row: known(seen.percent_of_cublas(row.rung.name), ".1f")),
        )
    rows, source = measured.timed(seen), f" measured [{number}] "
    return (
        Column(source, "ms", _of(rows, lambda row: f"{statistics.median(row['milliseconds']):.4g}")),
        Column(source, "TFLOP/s", _of(rows, lambda row: f"{row['gflops'] / 1e3:.3g}")),
        Column(source, "% cuBLAS", _of(rows, lambda row: known(row["percent_of_cublas"], ".1f"))),
    )


def _of(rows: Mapping[str, Mapping[str, Any]], text: Callable[[Mapping[str, Any]], str]) -> Callable[[Row], str]:
    named = _named(rows, text)
    return lambda row: named(row.rung.name)


def _named(rows: Mapping[str, Mapping[str, Any]], text: Callable[[Mapping[str, Any]], str]) -> Callable[[str], str]:
    return lambda name: text(rows[name]) if name in rows else "-"


def _batches(record: Record) -> str:
    """How many launches a sample of a rung holds, such as '5 launches' or '1 to 37 launches'."""
    batches = [row["batch"] for row in measured.timed(record).values() if row["batch"]]
    return f"{' to '.join(map(str, sorted({min(batches), max(batches)})))} launches" if batches else "unknown batches"


def _tflops(ladder: Ladder, rung: str) -> float | None:
    return ladder.gflops[rung] / 1e3 if rung in ladder.gflops else None


def _about(ladder: Ladder) -> str:
    return f"{ladder.label}; cuBLAS {ladder.cublas / 1e3:.4g} TFLOP/s"


def _occupancy(row: Row, arch: str) -> float | None:
    """The occupancy of a rung, or None on an architecture whose limits are not known."""
    if arch not in ARCHITECTURES:
        return None
    x, y, z = row.rung.geometry(row.problem, row.tile).block
    return occupancy(arch, x * y * z, row.registers, row.shared_bytes).fraction
