"""What is known of a kernel once it ran, and of each rung of a climb, the latter also as the data of a record."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gemmlab import emulator, roofline
from gemmlab.gemm import Gemm
from gemmlab.ladder import Rung, Tile
from gemmlab.launch import Kernel
from gemmlab.timing import Timing
from gemmlab.tolerance import Verdict


@dataclass(frozen=True, kw_only=True)
class Result:
    """All that is known of a kernel on one problem; `trace` is None where none was taken, `timing` and `cublas` where
    nothing was timed.

    `error_bound` is the largest error allowed at any output, `spill_bytes` what a thread's spills store and load,
    `shared_bytes` a block's shared memory, static and dynamic, `sha256` the digest of C's bytes.
    """

    kernel: Kernel
    problem: Gemm
    backend: str
    verdict: Verdict
    error_bound: float
    registers: int
    spill_bytes: int
    shared_bytes: int
    sha256: str
    trace: emulator.Trace | None
    timing: Timing | None = None
    cublas: Timing | None = None

    @property
    def hazards(self) -> tuple[emulator.Hazard, ...]:
        """What the trace found, if one was taken."""
        return self.trace.hazards if self.trace else ()

    @property
    def gflops(self) -> float | None:
        """2*M*N*K over the median time, in 10^9 FLOP/s."""
        return self._speed_of(self.timing) / 1e9 if self.timing else None

    @property
    def percent_of_cublas(self) -> float | None:
        """The speed as a percentage of cuBLAS's in the same run."""
        if not (self.timing and self.cublas):
            return None
        return roofline.percent_of(self._speed_of(self.timing), self._speed_of(self.cublas))

    def _speed_of(self, timing: Timing) -> float:
        return roofline.throughput(self.problem.flops, timing.median_ms)


@dataclass(frozen=True, kw_only=True)
class Row(Result):
    """The result of a rung at a tile."""

    rung: Rung
    tile: Tile

    def as_data(self) -> dict[str, Any]:
        """Return the row as records.RUNG describes it."""
        return {
            "rung": self.rung.number,
            "name": self.rung.name,
            "entry": self.rung.entry,
            "shape": [self.problem.M, self.problem.N, self.problem.K],
            "tile": dict(self.tile),
            "backend": self.backend,
            "correct": self.verdict.correct,
            "max_abs_error": self.verdict.max_abs_error,
            "error_bound": self.error_bound,
            "registers": self.registers,
            "spill_bytes": self.spill_bytes,
            "shared_bytes": self.shared_bytes,
            "accesses": [access_data(each) for each in self.trace.accesses] if self.trace else None,
            "hazards": [hazard_data(each) for each in self.trace.hazards] if self.trace else None,
            "sha256": self.sha256,
            "milliseconds": list(self.timing.samples_ms) if self.timing else None,
            "batch": self.timing.batch if self.timing else None,
            "remarks": list(self.timing.remarks) if self.timing else None,
            "gflops": self.gflops,
            "percent_of_cublas": self.percent_of_cublas,
        }


@dataclass(frozen=True)
class Run:
    """A climb: what it ran on, as records.ENVIRONMENT describes it, and a row for each rung that was done.

    `stopped` says what ended it before its last rung, where that was a fault and no interrupt.
    """

    environment: Mapping[str, Any]
    rows: tuple[Row, ...]
    stopped: str | None = None

    @property
    def ok(self) -> bool:
        """Whether every rung was done, every result was right and no hazard was found."""
        return self.stopped is None and all(row.verdict.correct and not row.hazards for row in self.rows)

    def as_data(self) -> dict[str, Any]:
        """Return the run as records.save takes it."""
        return {"environment": dict(self.environment), "rungs": [row.as_data() for row in self.rows]}


def access_data(access: emulator.Access) -> dict[str, Any]:
    """Return traffic of a line as records.ACCESS describes it."""
    counted = "sectors" if access.wavefronts is None else "wavefronts"
    return {name: getattr(access, name) for name in ("line", "op", "bytes", "requests", counted, "ideal")}


def hazard_data(hazard: emulator.Hazard) -> dict[str, Any]:
    """Return a hazard as records.HAZARD describes it."""
    return {
        "kind": hazard.kind,
        "line": hazard.line,
        "block": list(hazard.block) if hazard.block else None,
        "threads": [list(thread) for thread in hazard.threads],
        "message": hazard.message,
    }
