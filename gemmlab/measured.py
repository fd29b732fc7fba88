"""Measured speeds of rungs: timed now where there is a GPU, else from the newest record shipped with gemmlab."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gemmlab import backend, records, roofline
from gemmlab.climb import climb
from gemmlab.columns import known, significant
from gemmlab.gemm import Gemm
from gemmlab.gpus import GPU, GPUS, gpu
from gemmlab.ladder import Rung
from gemmlab.records import Record
from gemmlab.timing import Timing

REFERENCE = GPUS["H200"]  # whose roofs are drawn where no known card was measured
LADDERS = Gemm(4096, 4096, 4096)  # about the problem that published ladders climb on


@dataclass(frozen=True)
class Roofs:
    """Ceilings of a card: FP32 FLOP/s, and bytes/s by level of memory, slowest first; `kind` says whence they are."""

    kind: str
    peak: float
    bandwidths: Mapping[str, float]


def measure(rungs: Sequence[Rung], problem: Gemm) -> Record | None:
    """Return a run that timed every one of `rungs`: on a GPU of `problem`, now; without one, the newest shipped record.

    A record keeps its own shape, and of its rungs only those: later ones are still to be predicted. None where no
    shipped record has timed them all.
    """
    if backend.name != "cuda":
        found, names = newest(records.shipped(), rungs), {rung.name for rung in rungs}
        return found and replace(found, rungs=tuple(row for row in found.rungs if row["name"] in names))
    run = climb(rungs, problem).as_data()
    return Record(**run["environment"], rungs=tuple(run["rungs"]))


def runs(rungs: Sequence[Rung], problem: Gemm) -> tuple[Record, ...]:
    """Return the runs that timed every one of `rungs` on `problem`: on a GPU one made now, then those of `shipped`."""
    now = [measure(rungs, problem)] if backend.name == "cuda" else []
    return *now, *shipped(rungs, problem)


def shipped(rungs: Sequence[Rung], problem: Gemm) -> tuple[Record, ...]:
    """Return, of each card, the newest shipped record that timed every one of `rungs` on `problem`."""
    alike = [record for record in records.shipped() if problem_of(record) == problem]
    cards = dict.fromkeys(record.card for record in alike)
    of_cards = (newest((record for record in alike if record.card == card), rungs) for card in cards)
    return tuple(record for record in of_cards if record)


def problem_of(record: Record) -> Gemm:
    """Return the problem that all rungs of a record solved."""
    M, N, K = record.rungs[0]["shape"]
    return Gemm(M, N, K, record.conditions["alpha"], record.conditions["beta"])


def label(record: Record) -> str:
    """Return what a figure calls a record of one problem: 'NVIDIA H200, 2026-11-30, 4096 x 4096 x 4096'."""
    return f"{record.label}, {shape(record.rungs[0])}"


def cublas(record: Record) -> float | None:
    """Return the FLOP/s of cuBLAS in a record's run, 2*M*N*K over its median time; None where it was not timed."""
    samples = record.conditions["cublas_milliseconds"]
    return roofline.throughput(problem_of(record).flops, statistics.median(samples)) if samples else None


def newest(candidates: Iterable[Record], rungs: Sequence[Rung]) -> Record | None:
    """Return the latest record that timed every rung, of one day's the one nearest in size to LADDERS; else None."""
    complete = [record for record in candidates if all(rung.name in timed(record) for rung in rungs)]
    return max(complete, key=lambda record: (record.date, -_distance(record)), default=None)


def timed(record: Record | None) -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of a record that hold times, by the rung's name; none for None."""
    return {} if record is None else {row["name"]: row for row in record.rungs if row["milliseconds"]}


def timings(record: Record) -> Mapping[str, Timing]:
    """Return every sample that a record keeps, with its conditions, by 'cuBLAS' or the rung's name."""
    given = record.conditions
    rows = {name: (row["milliseconds"], row["batch"]) for name, row in timed(record).items()}
    if given["cublas_milliseconds"]:
        rows = {"cuBLAS": (given["cublas_milliseconds"], given["batch"])} | rows
    return {
        name: Timing(tuple(samples), batch, given["warmup"], given["cache"], given["boundary"])
        for name, (samples, batch) in rows.items()
    }


def card(record: Record | None) -> GPU:
    """Return the card whose roofs belong under a record's points: its own, or REFERENCE where that is unknown."""
    try:
        return gpu(record.card) if record else REFERENCE
    except ValueError:
        return REFERENCE


def roofs(card: GPU) -> Roofs:
    """Return the measured ceilings of a card, or the published ones where there are none."""
    if card.measured is None:
        return Roofs("published", card.peak_fp32, {"DRAM": card.dram_bandwidth})
    seen = card.measured
    return Roofs("measured", seen.fp32, {"DRAM": seen.dram_bandwidth, "L2": seen.l2_bandwidth})


def speeds(record: Record | None, rungs: Sequence[Rung]) -> dict[str, float]:
    """Return FLOP/s of `rungs`, by name; empty for None, and for a card whose ceilings gemmlab does not know."""
    if record is None or not _known(record.card):
        return {}
    rows = timed(record)
    return {rung.name: rows[rung.name]["gflops"] * 1e9 for rung in rungs}


def table(record: Record | None) -> str:
    """Return a record's times as text, under its card, date and conditions, over what was noticed while they were
    taken; or that nothing was measured.
    """
    if record is None:
        return "measured: nothing, as there is no GPU here and no shipped record of these rungs; figures show the model"
    conditions = record.conditions
    lines = [
        f"measured: {record.label}, driver {record.driver}, CUDA {record.cuda}",
        f"{conditions['boundary']}; {conditions['warmup']} launches to warm up, {conditions['samples']} samples, "
        f"{conditions['cache']}",
        f"{'rung':<18}{'M x N x K':>20}{'median ms':>12}{'min to max ms':>22}{'TFLOP/s':>10}{'% of cuBLAS':>13}",
        *map(_line, timed(record).values()),
        *(f"{name}: {remark}" for name, row in timed(record).items() for remark in row["remarks"] or ()),
    ]
    if not _known(record.card):
        lines.append(f"No ceilings of {record.card} are known, so it is not drawn: add it to gemmlab/gpus.py")
    return "\n".join(lines)


def _line(row: Mapping[str, Any]) -> str:
    samples = row["milliseconds"]
    median, least, most = (significant(of(samples), 4) for of in (statistics.median, min, max))
    speed, share = significant(row["gflops"] / 1e3), known(row["percent_of_cublas"], ".1f")
    return f"{row['name']:<18}{shape(row):>20}{median:>12}{f'{least} to {most}':>22}{speed:>10}{share:>13}"


def shape(row: Mapping[str, Any]) -> str:
    """Return the shape of a record's row in words: '4096 x 4096 x 4096'."""
    return " x ".join(map(str, row["shape"]))


def _known(name: str | None) -> bool:
    try:
        gpu(name or "")
    except ValueError:
        return False
    return True


def _distance(record: Record) -> float:
    """How far the problem of a record is from LADDERS, as the logarithm of the ratio of their FLOPs."""
    return abs(math.log(Gemm(*record.rungs[0]["shape"]).flops / LADDERS.flops))
