"""Launches of any CUDA source with the rungs' signature: its result, its checks on many shapes, its traffic by line."""

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from gemmlab import context, diagnosis, emulator, findings, macros
from gemmlab.diagnosis import Cause
from gemmlab.emulator import device
from gemmlab.emulator.observer import Observer
from gemmlab.emulator.report import by_number
from gemmlab.gemm import FAMILIES, Gemm, inputs, require_operands
from gemmlab.ladder import Extent, Geometry, Rung, Tile, arguments
from gemmlab.quoting import shown
from gemmlab.tolerance import Verdict, compare, expect, initial_output

TRACED = 2 * 256**3  # FLOPs, of the largest wrong launch that is traced for its hazards


@dataclass(frozen=True)
class Kernel:
    """A CUDA source with the rungs' signature, its entry and compiler options, and the launch that covers a problem."""

    source: str
    entry: str
    options: tuple[str, ...]
    geometry: Callable[[Gemm], Geometry]


@dataclass(frozen=True)
class Covering:
    """The launch of a rung at a full tile, for any problem: a function, equal where rung and tile are."""

    rung: Rung
    tile: tuple[tuple[str, int], ...]

    def __call__(self, problem: Gemm) -> Geometry:
        """Return the launch that covers `problem`. Raises ValueError as `Rung.geometry` does."""
        return self.rung.geometry(problem, dict(self.tile))


@dataclass(frozen=True, eq=False)
class Submission:
    """A launch with its arrays on the device: each call submits it again. `C` is the array that it writes."""

    compiled: Any
    geometry: Geometry
    arguments: tuple[Any, ...]

    @property
    def C(self) -> Any:
        """The device array of the result, (M, N)."""
        return self.arguments[-1]

    def __call__(self) -> None:
        """Submit the launch. Raises what a launch raises."""
        grid, block, shared_mem = self.geometry
        self.compiled(grid, block, self.arguments, shared_mem=shared_mem)

    def trace(self, observers: tuple[Observer, ...] = ()) -> emulator.Trace:
        """Launch on the emulator, where the arrays must be, and return traffic and hazards."""
        grid, block, shared_mem = self.geometry
        return emulator.trace(self.compiled, grid, block, self.arguments, shared_mem, observers)

    def request(self, line: int, **which: Any) -> emulator.Request:
        """Launch on the emulator, where the arrays must be, and return a request of a source line; `which` says which
        one, by the names that `emulator.request` takes. Raises ValueError when there is none.
        """
        grid, block, shared_mem = self.geometry
        return emulator.request(self.compiled, grid, block, self.arguments, line, shared_mem=shared_mem, **which)

    def watch(self, *observers: Observer) -> None:
        """Launch on the emulator, where the arrays must be, with observers alone. Raises KernelFault at a hazard."""
        grid, block, shared_mem = self.geometry
        device.launch(self.compiled, grid, block, self.arguments, shared_mem, _stop, observers)


@dataclass(frozen=True)
class Checked:
    """A verdict, the launch and the family of inputs that it belongs to, and what would explain a wrong result."""

    kernel: Kernel
    problem: Gemm
    family: str
    verdict: Verdict
    causes: tuple[Cause, ...] = ()

    @property
    def where(self) -> str:
        """The problem in words, such as 'M=33, N=31, K=32, inputs uniform'."""
        return f"{written(self.problem)}, inputs {self.family}"

    @property
    def share(self) -> float:
        """The error at the worst output over what is allowed there; infinite where it is no number."""
        error = abs(self.verdict.got - self.verdict.want)
        return error / self.verdict.error_bound if np.isfinite(error) else np.inf

    @property
    def message(self) -> str:
        """Where, the verdict in words, and a line for each thing that would explain it."""
        return "\n".join([f"{self.where}:", self.verdict.message, *(f"cause: {cause}" for cause in self.causes)])


def of(rung: Rung, tile: Tile | None = None, source: str | None = None) -> Kernel:
    """Return a rung's kernel at a tile, the rung's defaults unless given, or an edited `source` launched as it is.

    Raises ValueError as `Rung.full_tile` and `macros.require_options` do.
    """
    full = rung.full_tile(tile)
    options = rung.options(full)
    if source is not None:
        macros.require_options(source, rung.entry, options, full)
    return Kernel(rung.source() if source is None else source, rung.entry, options, Covering(rung, tuple(full.items())))


def geometry(kernel: Kernel, problem: Gemm) -> Geometry:
    """Return the launch that a kernel gives for a problem, its extents completed by ones to (x, y, z).

    Raises TypeError for what is no Geometry.
    """
    given = kernel.geometry(problem)
    try:
        grid, block, shared_mem = given
        return Geometry(_extent(grid), _extent(block), operator.index(shared_mem))
    except (TypeError, ValueError):
        raise TypeError(
            f"the geometry of {kernel.entry} at {written(problem)} is {shown(given)}, but must be Geometry(grid, "
            "block, shared_mem): integers (x, y, z) twice, divided with //, and bytes of dynamic shared memory"
        ) from None


def submission(kernel: Kernel, problem: Gemm, matrices: Sequence[Any], xp: ModuleType = emulator) -> Submission:
    """Return a launch of `kernel` on A, B and C, which are copied to `xp`, the emulator or CuPy; nothing runs yet.

    Arrays that lie there already are taken as they are, and C is written in place. Raises TypeError or ValueError as
    `gemm.require_operands` and `geometry` do.
    """
    compiled = xp.RawKernel(kernel.source, kernel.entry, options=kernel.options)
    return Submission(compiled, geometry(kernel, problem), arguments(problem, *map(xp.asarray, matrices)))


def run(kernel: Kernel, problem: Gemm, matrices: Sequence[np.ndarray], xp: ModuleType = emulator) -> np.ndarray:
    """Return C, (M, N), after one launch on `xp`, the emulator or CuPy; outputs that nobody writes stay SENTINEL.

    With beta == 0, C is not read and may be None. Raises TypeError or ValueError as `gemm.require_operands` does, and
    what a launch raises: nvrtc.CompileError, emulator.KernelFault, context.ContextLost for one that the GPU did not
    survive, or CuPy's other errors.
    """
    A, B, C = matrices
    if C is not None or problem.beta != 0.0:
        require_operands(problem, A, B, C)
    return _launched(kernel, problem, A, B, initial_output(problem, C), xp)


def trace(kernel: Kernel, problem: Gemm, observers: tuple[Observer, ...] = ()) -> emulator.Trace:
    """Return traffic and hazards of one launch on uniform inputs, which runs on the emulator whatever the backend."""
    return submission(kernel, problem, inputs(problem)).trace(observers)


def found(kernel: Kernel, problem: Gemm) -> tuple[str, ...]:
    """Return at most one text: the hazards of a launch, if it is small enough (TRACED) and the emulator runs it."""
    if problem.flops > TRACED:
        return ()
    try:
        traced = trace(kernel, problem)
    except (emulator.UnsupportedInstruction, MemoryError):
        return ()
    return () if traced.ok else (f"the emulator finds:\n{findings.text(traced)}",)


def check(
    kernel: Kernel,
    problems: Iterable[Gemm],
    families: Iterable[str] = tuple(FAMILIES),
    xp: ModuleType = emulator,
) -> tuple[Checked, ...]:
    """Return the verdict of every problem with every family of inputs. Raises what `run` raises."""
    return tuple(checked(kernel, problem, family, xp) for problem in problems for family in families)


def require(checks: Sequence[Checked]) -> Sequence[Checked]:
    """Return the checks when every result is right. Raises AssertionError with the verdict of the first that is not,
    and with what the emulator finds in its launch.
    """
    wrong = [each for each in checks if not each.verdict.correct]
    if wrong:
        first = wrong[0]
        said = [
            f"{len(wrong)} of {len(checks)} results are wrong. {first.message}",
            *found(first.kernel, first.problem),
        ]
        raise AssertionError("\n".join(said))
    return checks


def check_table(checks: Sequence[Checked]) -> str:
    """Return checks as text: a line a problem, with its worst error over all families as a share of the error bound."""
    rows = ["worst error / bound   at row, column   inputs         problem"]
    for problem in dict.fromkeys(each.problem for each in checks):
        of_problem = [each for each in checks if each.problem == problem]
        worst = max(of_problem, key=lambda each: each.share)
        at = "{}, {}".format(*worst.verdict.worst)
        rows.append(f"{_share(worst.share):>19}   {at:<14}   {worst.family:<12}   {written(problem)}")
    return "\n".join(rows)


def traffic_table(traced: emulator.Trace, source: str) -> str:
    """Return a traced launch as text: for each source line the requests, the sectors each takes, and bytes moved."""
    lines = by_number(source)
    rows = [
        f"{'line':>4}  {'access':<9}  {'requests':>10}  {'sectors':>11}  {'a request':>9}  {'bytes moved':>13}  source"
    ]
    rows += [
        f"{access.line:>4}  {access.op:<9}  {access.requests:>10,}  {access.sectors:>11,}  "
        f"{access.sectors / access.requests:>9.3f}  {access.moved_bytes:>13,}  {lines.get(access.line, '').strip()}"
        for access in traced.accesses
        if access.sectors is not None
    ]
    return "\n".join([*rows, *(hazard.message for hazard in traced.hazards)])


def written(problem: Gemm) -> str:
    """Return a problem in words, such as 'M=33, N=31, K=9, alpha=-0.5, beta=2'."""
    factors = "" if (problem.alpha, problem.beta) == (1.0, 0.0) else f", alpha={problem.alpha:g}, beta={problem.beta:g}"
    return f"M={problem.M}, N={problem.N}, K={problem.K}{factors}"


def named(kernel: Kernel, problem: Gemm) -> str:
    """Return a launch in words: its kernel, grid, block and problem."""
    grid, block, _ = geometry(kernel, problem)
    return f"the launch of {kernel.entry}, grid {grid}, block {block}, at {written(problem)}"


def checked(kernel: Kernel, problem: Gemm, family: str, xp: ModuleType = emulator) -> Checked:
    """Return the verdict of one launch, with the causes of a wrong result. Raises what `run` raises."""
    A, B, C = inputs(problem, family)
    before = initial_output(problem, C)
    expected = expect(problem, A, B, C)
    result = _launched(kernel, problem, A, B, before, xp)
    verdict = compare(expected, result)
    causes = () if verdict.correct else diagnosis.causes(problem, A, B, before, result)
    if problem.beta == 0.0 and verdict.nan and compare(expected, _launched(kernel, problem, A, B, C, xp)).correct:
        causes = (diagnosis.READS_C, *causes)
    return Checked(kernel, problem, family, verdict, causes)


def _extent(given: Sequence[int]) -> Extent:
    x, y, z = (*given, *(1,) * (3 - len(given)))
    return operator.index(x), operator.index(y), operator.index(z)


def _share(share: float) -> str:
    if not np.isfinite(share):
        return "no number"
    return f"{share:.1%}" if share <= 1 else f"{share:.2g} times"


def _launched(kernel: Kernel, problem: Gemm, A: np.ndarray, B: np.ndarray, C: np.ndarray, xp: ModuleType) -> np.ndarray:
    """Return what a launch leaves where C was."""
    with context.watched(xp, named(kernel, problem)):
        submit = submission(kernel, problem, (A, B, C), xp)
        submit()
        return xp.asnumpy(submit.C)


def _stop(hazard: emulator.Hazard) -> None:
    raise emulator.KernelFault(hazard)
