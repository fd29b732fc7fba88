"""Launches of any CUDA source with the rungs' signature: its result, its checks on many shapes, its traffic by line."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from gemmlab import emulator
from gemmlab.gemm import FAMILIES, Gemm, inputs
from gemmlab.ladder import Geometry, Rung, Tile, arguments
from gemmlab.tolerance import Verdict, compare, expect, initial_output

SHAPES = (
    Gemm(1, 1, 1),
    Gemm(1, 40, 9),
    Gemm(40, 1, 9),
    Gemm(33, 34, 1),
    Gemm(31, 32, 33),
    Gemm(32, 33, 31),
    Gemm(33, 31, 32),
    Gemm(32, 32, 32),
    Gemm(2, 257, 5),
    Gemm(257, 2, 5),
    Gemm(3, 5, 1000),
    Gemm(33, 31, 9, alpha=-0.5, beta=2.0),
)
"""Shapes that find mistakes: 1 in each dimension, one below, at and above 32, tall, wide, a long sum, both factors."""


@dataclass(frozen=True)
class Kernel:
    """A CUDA source with the rungs' signature, its entry and compiler options, and the launch that covers a problem."""

    source: str
    entry: str
    options: tuple[str, ...]
    geometry: Callable[[Gemm], Geometry]


@dataclass(frozen=True)
class Checked:
    """A verdict, and the problem and the family of inputs that it belongs to."""

    problem: Gemm
    family: str
    verdict: Verdict

    @property
    def where(self) -> str:
        """The problem in words, such as 'M=33, N=31, K=32, inputs uniform'."""
        return f"{_written(self.problem)}, inputs {self.family}"


def of(rung: Rung, tile: Tile | None = None, source: str | None = None) -> Kernel:
    """Return a rung's kernel at a tile, the rung's defaults unless given, or an edited `source` launched as it is.

    Raises ValueError as `Rung.full_tile` does.
    """
    full = rung.full_tile(tile)
    return Kernel(source or rung.source(), rung.entry, rung.options(full), lambda problem: rung.geometry(problem, full))


def run(kernel: Kernel, problem: Gemm, matrices: Sequence[np.ndarray], xp: ModuleType = emulator) -> np.ndarray:
    """Return C, (M, N), after one launch on `xp`, the emulator or CuPy; outputs that nobody writes stay SENTINEL.

    Raises what a launch raises: nvrtc.CompileError, emulator.KernelFault, or CuPy's own errors.
    """
    A, B, C = matrices
    device_A, device_B, device_C = map(xp.asarray, (A, B, initial_output(problem, C)))
    grid, block, shared_mem = kernel.geometry(problem)
    launch = xp.RawKernel(kernel.source, kernel.entry, options=kernel.options)
    launch(grid, block, arguments(problem, device_A, device_B, device_C), shared_mem=shared_mem)
    return xp.asnumpy(device_C)


def trace(kernel: Kernel, problem: Gemm) -> emulator.Trace:
    """Return traffic and hazards of one launch, which runs on the emulator whatever the backend."""
    A, B, C = map(emulator.asarray, inputs(problem))
    grid, block, shared_mem = kernel.geometry(problem)
    launch = emulator.RawKernel(kernel.source, kernel.entry, options=kernel.options)
    return emulator.trace(launch, grid, block, arguments(problem, A, B, C), shared_mem=shared_mem)


def check(
    kernel: Kernel,
    problems: Iterable[Gemm] = SHAPES,
    families: Iterable[str] = tuple(FAMILIES),
    xp: ModuleType = emulator,
) -> tuple[Checked, ...]:
    """Return the verdict of every problem with every family of inputs. Raises what `run` raises."""
    return tuple(_checked(kernel, problem, family, xp) for problem in problems for family in families)


def require(checks: Sequence[Checked]) -> Sequence[Checked]:
    """Return the checks when every result is right. Raises AssertionError with the verdict of the first that is not."""
    wrong = [checked for checked in checks if not checked.verdict.correct]
    if wrong:
        raise AssertionError(
            f"{len(wrong)} of {len(checks)} results are wrong. {wrong[0].where}:\n{wrong[0].verdict.message}"
        )
    return checks


def check_table(checks: Sequence[Checked]) -> str:
    """Return checks as text: a line a problem, with its worst error over all families as a share of the error bound."""
    rows = ["worst error / bound   at row, column   inputs         problem"]
    for problem in dict.fromkeys(checked.problem for checked in checks):
        of_problem = [checked for checked in checks if checked.problem == problem]
        worst = max(of_problem, key=lambda checked: _share(checked.verdict))
        at = "{}, {}".format(*worst.verdict.worst)
        rows.append(f"{_share(worst.verdict):>19.1%}   {at:<14}   {worst.family:<12}   {_written(problem)}")
    return "\n".join(rows)


def traffic_table(traced: emulator.Trace, source: str) -> str:
    """Return a traced launch as text: for each source line the requests, the sectors each takes, and bytes moved."""
    lines = source.splitlines()
    rows = [
        f"{'line':>4}  {'access':<9}  {'requests':>10}  {'sectors':>11}  {'a request':>9}  {'bytes moved':>13}  source"
    ]
    rows += [
        f"{access.line:>4}  {access.op:<9}  {access.requests:>10,}  {access.sectors:>11,}  "
        f"{access.sectors / access.requests:>9.3f}  {access.moved_bytes:>13,}  {lines[access.line - 1].strip()}"
        for access in traced.accesses
        if access.sectors is not None
    ]
    return "\n".join([*rows, *(hazard.message for hazard in traced.hazards)])


def _checked(kernel: Kernel, problem: Gemm, family: str, xp: ModuleType) -> Checked:
    matrices = inputs(problem, family)
    return Checked(problem, family, compare(expect(problem, *matrices), run(kernel, problem, matrices, xp)))


def _share(verdict: Verdict) -> float:
    """The error at the worst output over what is allowed there; infinite where it is no number."""
    error = abs(verdict.got - verdict.want)
    return error / verdict.error_bound if np.isfinite(error) else np.inf


def _written(problem: Gemm) -> str:
    factors = "" if (problem.alpha, problem.beta) == (1.0, 0.0) else f", alpha={problem.alpha:g}, beta={problem.beta:g}"
    return f"M={problem.M}, N={problem.N}, K={problem.K}{factors}"
