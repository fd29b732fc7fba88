"""The whole ladder in one table: what was counted here, what was measured, and the ladders of others, side by side."""

import statistics
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gemmlab import columns, cutlass, cutlass_runs, measured, roofline
from gemmlab.columns import WIDTH, Column, known, significant
from gemmlab.gpus import ARCHITECTURES
from gemmlab.published import Ladder
from gemmlab.records import Record
from gemmlab.resources import occupancy
from gemmlab.results import Row, Run

CUTLASS = "CUTLASS SIMT"  # names the row after the rungs


def table(run: Run, runs: Sequence[Record], ladders: Sequence[Ladder]) -> str:
    """Return the rungs of a traced climb as text, beside their times in `runs` and their speeds in others' `ladders`.

    Groups of columns are numbered, and the lines under the table say what card, date and conditions a number stands
    for. Counts are those of the climb's own problem, times those of the problem of their run. After the rungs stands
    CUTLASS, where a shipped run of it has the card and the problem of one of `runs`.
    """
    problem, arch = run.rows[0].problem, run.environment["architecture"]
    compiler, emulator = f" compiler, {arch} ", f" emulator, {problem.M} x {problem.N} x {problem.K} "
    counted = {row.rung.name: row for row in run.rows}
    traced = {name: row for name, row in counted.items() if row.trace}
    numbered = list(enumerate([*runs, *ladders], start=1))
    shown = (
        Column("", "rung", lambda name: f"{counted[name].rung.number} {name}" if name in counted else name),
        Column(
            "", "result", _named(counted, lambda row: "right" if row.verdict.correct and not row.hazards else "WRONG")
        ),
        Column(compiler, "registers", _named(counted, lambda row: str(row.registers))),
        Column(compiler, "occupancy", _named(counted, lambda row: known(_occupancy(row, arch), ".0%"))),
        Column(emulator, "FLOP/B", _named(traced, lambda row: significant(counted_intensity(row)))),
        Column(emulator, "sectors", _named(traced, lambda row: f"{row.trace.total('global').units:,}")),
        Column(emulator, "shared wavefronts", _named(traced, lambda row: f"{row.trace.total('shared').units:,}")),
        *(column for number, each in numbered for column in _timed(number, each)),
    )
    notes = [
        *(f"[{number}] {conditions(each) if isinstance(each, Record) else _about(each)}" for number, each in numbered),
        *(_of_cutlass(number, each) for number, each in numbered if isinstance(each, Record)),
    ]
    lines = columns.folded(shown, [*counted, CUTLASS], WIDTH)
    return "\n".join([*lines, "", *(textwrap.fill(note, WIDTH, break_on_hyphens=False) for note in notes)])


def by_size(runs: Sequence[Record]) -> str:
    """Return the speeds of rungs in runs of several sizes on one card as text: TFLOP/s, and % of that run's cuBLAS,
    over what was noticed while they were taken.

    Raises ValueError for runs of several cards or days.
    """
    labels = {record.label for record in runs}
    if len(labels) != 1:
        raise ValueError(f"one card and day is shown by size, not {'; '.join(sorted(labels)) or 'none'}")
    numbers = {name: row["rung"] for record in runs for name, row in measured.timed(record).items()}
    shown = [Column("", "rung", lambda name: f"{numbers[name]} {name}")]
    remarks = []
    for record in sorted(runs, key=lambda record: measured.problem_of(record).flops):
        rows, shape = measured.timed(record), measured.shape(record.rungs[0])
        source = f" {shape} "
        remarks += [f"{shape}, {name}: {remark}" for name, row in rows.items() for remark in row["remarks"] or ()]
        shown += [
            Column(source, "TFLOP/s", _named(rows, lambda row: significant(row["gflops"] / 1e3))),
            Column(source, "% cuBLAS", _named(rows, lambda row: known(row["percent_of_cublas"], ".1f"))),
        ]
    lines = columns.folded(shown, sorted(numbers, key=numbers.get), WIDTH)
    return "\n".join([f"measured: {labels.pop()}", *lines, *([""] if remarks else []), *remarks])


def of_cutlass(record: Record) -> str:
    """Return the settings of CUTLASS's SIMT GEMM as text, each with its speed on a record's card at its problem:
    TFLOP/s, and % of cuBLAS in the run that timed it. A setting that nobody has timed there gets dashes.
    """
    problem = measured.problem_of(record)
    timed = cutlass_runs.timed(cutlass_runs.shipped(), record.card or "", problem)
    rows = {(*row["threadblock"], *row["warp"], row["stages"]): row for row in timed}
    source = f" measured: {timed[0]['date'] if timed else 'nothing'} "
    names = {str(each): (*each.threadblock, *each.warp, each.stages) for each in cutlass.SETTINGS}
    by_name = {name: rows[setting] for name, setting in names.items() if setting in rows}
    shown = (
        Column("", "block's tile, warp's tile, stages", str),
        Column(source, "TFLOP/s", _named(by_name, lambda row: significant(row["gflops"] / 1e3))),
        Column(source, "% cuBLAS", _named(by_name, lambda row: known(row["percent_of_cublas"], ".1f"))),
    )
    return "\n".join(
        [f"{CUTLASS}, {record.card}, {measured.shape(record.rungs[0])}", *columns.lines(shown, list(names))]
    )


def counted_intensity(row: Row) -> float:
    """Return the FLOPs for each byte that a traced rung asks global memory for."""
    return roofline.intensity(row.problem.flops, row.trace.total("global").useful_bytes)


def conditions(record: Record) -> str:
    """Return in a sentence what a record's times belong to: card, driver, problem, policy, clocks, and cuBLAS."""
    given, cublas, batches = record.conditions, measured.cublas(record), _batches(record)
    shape = measured.shape(record.rungs[0])
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
            f"| {row['rung']} {name.replace('_', ' ')} | {significant(statistics.median(row['milliseconds']), 4)} "
            f"| {significant(row['gflops'] / 1e3)} | {row['percent_of_cublas']:.1f} "
            f"| {known(ladder.percent_of_cublas(name), '.1f')} |"
        )
    cublas = measured.cublas(record)
    milliseconds = statistics.median(record.conditions["cublas_milliseconds"])
    lines.append(f"| cuBLAS | {significant(milliseconds, 4)} | {significant(cublas / 1e12)} | 100 | 100 |")
    said = f"M{conditions(record)[1:]}. Last column, {_about(ladder)}."
    return "\n".join([*lines, "", textwrap.fill(said, 120, break_on_hyphens=False)])


def _timed(number: int, seen: Record | Ladder) -> tuple[Column, ...]:
    if isinstance(seen, Ladder):
        source = f" {seen.kind} [{number}] "
        return (
            Column(source, "TFLOP/s", seen.tflops),
            Column(source, "% cuBLAS", lambda name: known(seen.percent_of_cublas(name), ".1f")),
        )
    rows, source = {**measured.timed(seen), **_cutlass(seen)}, f" measured [{number}] "
    return (
        Column(source, "ms", _named(rows, lambda row: significant(statistics.median(row["milliseconds"]), 4))),
        Column(source, "TFLOP/s", _named(rows, lambda row: significant(row["gflops"] / 1e3))),
        Column(source, "% cuBLAS", _named(rows, lambda row: known(row["percent_of_cublas"], ".1f"))),
    )


def _cutlass(record: Record) -> dict[str, Mapping[str, Any]]:
    """CUTLASS's row on a record's card, at its problem, with the fields of a rung's; none where nobody timed it."""
    problem = measured.problem_of(record)
    row = cutlass_runs.best(cutlass_runs.shipped(), record.card or "", problem)
    return {} if row is None else {CUTLASS: row}


def _of_cutlass(number: int, record: Record) -> str:
    """A line on where CUTLASS's row under a record is from, or how to make one."""
    shipped, where = cutlass_runs.shipped(), (record.card or "", measured.problem_of(record))
    row, timed = cutlass_runs.best(shipped, *where), len(cutlass_runs.timed(shipped, *where))
    if row is None:
        return (
            f"{CUTLASS} beside [{number}]: not timed yet; beside that GPU: python benchmarks/cutlass_gemm.py "
            "--json gemmlab/data/cutlass/CARD_DATE.json"
        )
    chosen = f"the fastest of {timed} settings timed" if timed > 1 else "the only setting timed"
    return (
        f"CUTLASS {row['version']} SIMT beside [{number}]: {' x '.join(map(str, row['threadblock']))}, {row['stages']} "
        f"stages, {chosen}; measured: {record.card}, {row['date']}, in a run of its own, with a cuBLAS of its own"
    )


def _named(rows: Mapping[str, Any], text: Callable[[Any], str]) -> Callable[[str], str]:
    return lambda name: text(rows[name]) if name in rows else "-"


def _batches(record: Record) -> str:
    """How many launches a sample of a rung holds, such as '5 launches' or '1 to 37 launches'."""
    batches = [row["batch"] for row in measured.timed(record).values() if row["batch"]]
    return f"{' to '.join(map(str, sorted({min(batches), max(batches)})))} launches" if batches else "unknown batches"


def _about(ladder: Ladder) -> str:
    return f"{ladder.label}; cuBLAS {ladder.cublas / 1e3:.4g} TFLOP/s"


def _occupancy(row: Row, arch: str) -> float | None:
    """The occupancy of a rung, or None on an architecture whose limits are not known."""
    if arch not in ARCHITECTURES:
        return None
    x, y, z = row.rung.geometry(row.problem, row.tile).block
    return occupancy(arch, x * y * z, row.registers, row.shared_bytes).fraction
