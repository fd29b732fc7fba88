"""A climb as plain text for the terminal."""

from collections.abc import Sequence

from gemmlab import columns, roofline
from gemmlab.columns import Column, known, significant
from gemmlab.results import Row, Run
from gemmlab.timing import SUBMISSION_MS


def table(run: Run) -> str:
    """Return a run as text: what it ran on, one line a rung, and what is wrong with the rungs that are.

    Counted and measured figures stand in columns of their own; a dash stands for what nobody counted or measured.
    """
    return "\n".join(
        [
            *_conditions(run),
            "",
            *columns.lines(COLUMNS, run.rows),
            *_caution(run.rows),
            *_remarks(run.rows),
            *_faults(run.rows),
            *([f"\nstopped: {run.stopped}"] if run.stopped else []),
        ]
    )


def _conditions(run: Run) -> list[str]:
    seen, row = run.environment, run.rows[0]
    given, problem = seen["conditions"], row.problem
    machine = f"{seen['card']} ({seen['architecture']})" if seen["card"] else f"emulator of {seen['architecture']}"
    lines = [
        f"{machine}, {seen['date']}",
        f"C = {problem.alpha:g} A B + {problem.beta:g} C in float32, M = {problem.M}, N = {problem.N}, "
        f"K = {problem.K}, {given['family']} inputs, seed {given['seed']}",
    ]
    if row.cublas:
        cublas = roofline.throughput(problem.flops, row.cublas.median_ms)
        lines += [
            f"driver {seen['driver']}, CUDA {seen['cuda']}, {given['clocks']}",
            f"medians of {given['samples']} samples, after {given['warmup']} launches; {given['cache']}; "
            f"{given['boundary']}",
            f"cuBLAS: {significant(row.cublas.median_ms, 4)} ms, {cublas / 1e9:,.0f} GFLOP/s",
        ]
    return lines


def _caution(rows: Sequence[Row]) -> list[str]:
    timings = [timing for row in rows for timing in (row.timing, row.cublas) if timing]
    if all(timing.median_ms >= SUBMISSION_MS for timing in timings):
        return []
    return [f"\nBelow {SUBMISSION_MS} ms a time may be mostly that of submitting the launch: compare larger problems."]


def _remarks(rows: Sequence[Row]) -> list[str]:
    """What was noticed while cuBLAS and the rungs were timed."""
    timings = {"cuBLAS": rows[0].cublas} | {f"rung {row.rung.number} ({row.rung.name})": row.timing for row in rows}
    return [f"\n{name}: {remark}" for name, timing in timings.items() if timing for remark in timing.remarks]


def _faults(rows: Sequence[Row]) -> list[str]:
    lines = []
    for row in rows:
        found = [] if row.verdict.correct else [row.verdict.message]
        found += [f"{hazard.kind}: {hazard.message}" for hazard in row.hazards]
        lines += [f"\nrung {row.rung.number} ({row.rung.name}): {text}" for text in found]
    return lines


def _result(row: Row) -> str:
    if not row.verdict.correct:
        return "WRONG"
    return "HAZARD" if row.hazards else "right"


COLUMNS = (
    Column("", "rung", lambda row: str(row.rung.number)),
    Column("", "name", lambda row: row.rung.name),
    Column("", "result", _result),
    Column("", "largest error", lambda row: known(row.verdict.max_abs_error, ".2e")),
    Column(" compiler ", "registers", lambda row: str(row.registers)),
    Column(" compiler ", "spill B", lambda row: str(row.spill_bytes)),
    Column(" compiler ", "shared B", lambda row: str(row.shared_bytes)),
    Column(" emulator ", "sectors", lambda row: known(row.trace and row.trace.total("global").units, ",")),
    Column(" emulator ", "fewest", lambda row: known(row.trace and row.trace.total("global").ideal, ",")),
    Column(" measured ", "ms", lambda row: significant(row.timing and row.timing.median_ms, 4)),
    Column(" measured ", "GFLOP/s", lambda row: known(row.gflops, ",.0f")),
    Column(" measured ", "% of cuBLAS", lambda row: known(row.percent_of_cublas, ".1f")),
)
