"""A record in memory, and what it says of each kernel.

What nobody measured or counted is None, never zero and never an estimate; what follows from other fields, such as a
speed, is not stored but worked out when it is asked for.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gemmlab import records, roofline
from gemmlab.gemm import Gemm
from gemmlab.sensors import Reading
from gemmlab.timing import SUBMISSION_MS, Timing


@dataclass(frozen=True)
class Record:
    """Kernels and what was found of them; `data` has the form of record_form.RECORD.

    `sources` holds CUDA text by a kernel's name, `decisions` what was decided since, oldest first.
    """

    data: Mapping[str, Any]
    sources: Mapping[str, str] = field(default_factory=dict)
    decisions: tuple[Mapping[str, Any], ...] = ()

    @property
    def label(self) -> str:
        """What a column calls this record: 'NVIDIA H200, 2026-11-30'."""
        seen = self.data["environment"]
        machine = seen["card"] or f"emulator ({seen['architecture']})"
        return f"{machine}, {seen['date']}"

    @property
    def kernels(self) -> Mapping[str, Mapping[str, Any]]:
        """The kernels by name."""
        return {kernel["name"]: kernel for kernel in self.data["kernels"]}

    @property
    def runs(self) -> Mapping[tuple[str, Gemm], Mapping[str, Any]]:
        """The runs by a kernel's name and the problem."""
        return {(run["kernel"], Gemm(**run["problem"])): run for run in self.data["runs"]}

    @property
    def interrupted(self) -> bool:
        """Whether it was a person who ended the recording before every run was done."""
        return self.data["ended"] == KeyboardInterrupt.__name__

    @property
    def timed(self) -> bool:
        """Whether a clock was there: any run holds samples."""
        return any(run["timing"] for run in self.data["runs"])

    def runs_of(self, kernel: str) -> Mapping[Gemm, Mapping[str, Any]]:
        """The runs of one kernel by problem."""
        return {problem: run for (name, problem), run in self.runs.items() if name == kernel}

    def figure(self, kernel: str, problem: Gemm, name: str) -> float | None:
        """Return a figure of a run by its name, such as 'global sectors'; None where the record does not hold it.

        Raises ValueError for a run or a name that there is none of, with those that there are.
        """
        if (kernel, problem) not in self.runs:
            runs = "; ".join(f"{known} at {written(of)}" for known, of in self.runs)
            raise ValueError(f"{kernel} was not run at {written(problem)}; the record has {runs}")
        figures = {each.name: each for each in (*COUNTED, *MEASURED)}
        if name not in figures:
            raise ValueError(f"no figure is called {name!r}; known: {', '.join(figures)}")
        return figures[name].of(self.runs[kernel, problem])

    def examinations_of(self, kernel: str) -> Sequence[Mapping[str, Any]]:
        """What was seen of one kernel on other shapes and inputs: one examination, or none."""
        return [each for each in self.data["examinations"] if each["kernel"] == kernel]


def of_climb(climb: records.Record) -> Record:
    """Return a climb as a record without sources, to hold beside others; what a climb does not keep is None."""
    given = climb.conditions
    seen = {name: getattr(climb, name) for name in records.ENVIRONMENT if name != "conditions"}
    conditions = {name: given[name] for name in ("warmup", "cache", "boundary")} | {"readings": []}
    cublas = given["cublas_milliseconds"] and conditions | {
        "batch": given["batch"],
        "samples_ms": given["cublas_milliseconds"],
    }
    runs = [
        {
            "kernel": row["name"],
            "problem": dict(zip("MNK", row["shape"], strict=True)) | {name: given[name] for name in ("alpha", "beta")},
            "failure": None,
            "verdict": dict.fromkeys(("unwritten", "nan", "wrong"), 0 if row["correct"] else None),
            "timing": row["milliseconds"] and conditions | {"batch": row["batch"], "samples_ms": row["milliseconds"]},
            "cublas": cublas,
            "remarks": row["remarks"],
            **{
                name: row[name]
                for name in ("registers", "spill_bytes", "shared_bytes", "accesses", "hazards", "sha256")
            },
        }
        for row in climb.rungs
    ]
    kernels = [{"name": row["name"], "entry": row["entry"], "sha256": None, "expected": None} for row in climb.rungs]
    return Record(
        {
            "ended": None,
            "note": "a climb of the ladder",
            "environment": seen | {"clocks": given["clocks"]},
            "inputs": {name: given[name] for name in ("family", "seed")},
            "kernels": kernels,
            "runs": runs,
            "examinations": [],
        }
    )


def timing(data: Mapping[str, Any] | None) -> Timing | None:
    """Return samples and their conditions as timing.py knows them; None for what was not timed."""
    if data is None:
        return None
    readings = tuple(each and Reading(**each | {"slowed_by": tuple(each["slowed_by"])}) for each in data["readings"])
    return Timing(**dict(data) | {"samples_ms": tuple(data["samples_ms"]), "readings": readings})


def correct(run: Mapping[str, Any]) -> bool | None:
    """Say whether every output of a run or a check was right; None where there is no result."""
    verdict = run["verdict"]
    return verdict and verdict["unwritten"] == verdict["nan"] == verdict["wrong"] == 0


def outcome(run: Mapping[str, Any] | None) -> str:
    """Return what came of a run in a word or two: 'right', 'WRONG', 'race', 'FAILED'; a dash for no run."""
    if run is None:
        return "-"
    if run["failure"] is not None:
        return "FAILED"
    kinds = dict.fromkeys(hazard["kind"] for hazard in run["hazards"] or ())
    return ", ".join([*(() if correct(run) else ("WRONG",)), *kinds]) or "right"


def middle_half(samples_ms: Sequence[float]) -> tuple[float, float] | None:
    """Return the quartiles between which the middle half of the samples lies; None for fewer than four samples."""
    if len(samples_ms) < 4:
        return None
    first, _, third = statistics.quantiles(samples_ms, n=4, method="inclusive")
    return first, third


def half(run: Mapping[str, Any] | None) -> str:
    """Return the middle half of a run's samples in milliseconds as text; a dash where nobody knows it."""
    quartiles = run and run["timing"] and middle_half(run["timing"]["samples_ms"])
    return f"{quartiles[0]:.4g} to {quartiles[1]:.4g}" if quartiles else "-"


def remarks(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what was noticed while a run was timed; of a climb, what was noted then."""
    timed, noted = timing(run["timing"]), run.get("remarks")
    return () if timed is None else timed.remarks if noted is None else tuple(noted)


def submitted(run: Mapping[str, Any]) -> bool:
    """Say whether a run or its cuBLAS took as long as a submission may take the host, and no longer."""
    # To three digits after the point, to which SUBMISSION_MS is rounded.
    return any(run[name] and round(timing(run[name]).median_ms, 3) <= SUBMISSION_MS for name in ("timing", "cublas"))


def apart(one: Timing, other: Timing) -> bool | None:
    """Say whether two times differ beyond noise: the middle halves of their samples do not meet; None if unknown."""
    halves = middle_half(one.samples_ms), middle_half(other.samples_ms)
    if None in halves:
        return None
    (low, high), (other_low, other_high) = halves
    return low > other_high or high < other_low


def written(problem: Gemm) -> str:
    """Return a problem in words: '64 x 64 x 32' for M x N x K, and the factors where they are not 1 and 0."""
    factors = "" if (problem.alpha, problem.beta) == (1.0, 0.0) else f", alpha {problem.alpha:g}, beta {problem.beta:g}"
    return f"{problem.M} x {problem.N} x {problem.K}{factors}"


DOUBT = (
    f"* At {SUBMISSION_MS} ms or less a time, of cuBLAS too, may be mostly that of submitting the launch, and a share "
    "of cuBLAS then compares submissions, not kernels: compare larger problems."
)


@dataclass(frozen=True)
class Figure:
    """A number that a run may hold: its name, whence it is, and how it is read and written, with an asterisk where
    DOUBT is to be said of it.
    """

    name: str
    source: str
    of: Callable[[Mapping[str, Any]], float | None]
    form: str = ","
    doubtful: Callable[[Mapping[str, Any]], bool] = lambda run: False

    def text(self, run: Mapping[str, Any] | None) -> str:
        """The number as written in a table; a dash where there is none."""
        value = None if run is None else self.of(run)
        return "-" if value is None else format(value, self.form) + (" *" if self.doubtful(run) else "")


def _traffic(memory: str, count: str, ideal: bool = False) -> Callable[[Mapping[str, Any]], int | None]:
    def total(run: Mapping[str, Any]) -> int | None:
        if run["accesses"] is None:
            return None
        counted = [access for access in run["accesses"] if count in access and access["op"].endswith(memory)]
        return sum(access["ideal" if ideal else count] for access in counted)

    return total


def _median(run: Mapping[str, Any]) -> float | None:
    return timing(run["timing"]).median_ms if run["timing"] else None


def _gflops(run: Mapping[str, Any]) -> float | None:
    return roofline.throughput(Gemm(**run["problem"]).flops, _median(run)) / 1e9 if run["timing"] else None


def _percent_of_cublas(run: Mapping[str, Any]) -> float | None:
    if not (run["timing"] and run["cublas"]):
        return None
    flops = Gemm(**run["problem"]).flops
    speeds = (roofline.throughput(flops, timing(run[name]).median_ms) for name in ("timing", "cublas"))
    return roofline.percent_of(*speeds)


COUNTED = (
    Figure("registers of a thread", "compiler", lambda run: run["registers"]),
    Figure("spilled bytes of a thread", "compiler", lambda run: run["spill_bytes"]),
    Figure("shared bytes of a block", "compiler", lambda run: run["shared_bytes"]),
    Figure("global sectors", "emulator", _traffic(".global", "sectors")),
    Figure("fewest global sectors", "emulator", _traffic(".global", "sectors", ideal=True)),
    Figure("shared wavefronts", "emulator", _traffic(".shared", "wavefronts")),
    Figure("fewest shared wavefronts", "emulator", _traffic(".shared", "wavefronts", ideal=True)),
)
MEASURED = (
    Figure("median ms", "measured", _median, ".4g"),
    Figure("GFLOP/s", "measured", _gflops, ",.0f"),
    Figure("% of cuBLAS", "measured", _percent_of_cublas, ".1f", submitted),
)
