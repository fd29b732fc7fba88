"""Whether a kernel is right: one call that tries every family of inputs and the shapes around every edge of its tiles.

Which shapes. Along M, N and K a kernel has edges: the outputs that a block covers, which its launch geometry tells, and
the tile constants BM, WM, TM and so on of its source and options (TILE counts for all three). For the largest edge e of
each dimension the sizes 1, e - 1, e and e + 1 meet as in a Latin square: in 16 shapes each pair of sizes along two
dimensions comes once. Smaller edges, of warps and threads, take turns; then come a tall, a wide and a deep shape, and
one of BLOCKS, where a wrong order of blocks shows. All of these take uniform inputs, which tell mistakes apart best;
the other families, and every pair of alpha and beta from FACTORS, take turns. C starts as tolerance.SENTINEL, a NaN,
where beta is 0, and as numbers where it is not.

A mistake that needs more blocks than these, or a size that is near no edge, is not found: judge takes cases of your
own. A race may leave right results, here as on a GPU: launch.trace looks for those.
"""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from gemmlab import emulator, launch, tolerance
from gemmlab.context import ContextLost
from gemmlab.diagnosis import Cause
from gemmlab.gemm import FAMILIES, Gemm
from gemmlab.launch import Checked, Kernel

FACTORS = (1.0, 0.0, -0.5, 2.0)
DISCRIMINATING = "uniform"
USUAL_EDGES = (8, 16, 32)  # along a dimension of which nothing is known

LARGEST_CONSTANT = 512  # a tile of 512 x 512 floats is past any shared memory, so a larger constant means another thing
LARGEST_TILE = 4096  # outputs of a block along a side; a grid that grows with none of them does not depend on that side
BLOCKS = 9, 5  # down and across, ragged at the end: past one group of the orders of blocks that are in use, 2, 4 and 8
# Which of the four sizes of K goes with those of M (down) and N (across). The diagonal puts alike ones together, so
# that whole tiles come too: an idempotent Latin square.
LATIN = ((0, 2, 3, 1), (3, 1, 0, 2), (1, 3, 2, 0), (2, 0, 1, 3))

Edges = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Examination:
    """The checks that were made, the first of a kind that failed among them, and what stopped the rest, if anything.

    `planned` counts the launches of the whole examination; `fault` says where it stopped before that, and why.
    """

    kernel: Kernel
    checks: tuple[Checked, ...]
    planned: int
    fault: str | None = None

    @property
    def wrong(self) -> tuple[Checked, ...]:
        """The checks whose result is wrong."""
        return tuple(each for each in self.checks if not each.verdict.correct)

    @property
    def correct(self) -> bool:
        """Whether every launch that was planned ended with a right result."""
        return not self.wrong and self.fault is None

    @property
    def diagnosis(self) -> str | None:
        """The cause that explains most of the wrong results, said of one of them; None where none explains half."""
        cause, explained = self._explained
        if cause is None:
            return None
        return f"{cause} ({explained[0].where}); this explains {len(explained)} of {len(self.wrong)} wrong results"

    @property
    def message(self) -> str:
        """The outcome in words: how many results are right, what went wrong, and the evidence of one failure, whose
        launch is traced for hazards.
        """
        lines = [f"{self.kernel.entry}: {len(self.checks) - len(self.wrong)} of {self.planned} results are right"]
        if self.wrong:
            _, shown = self._explained
            lines.append(f"{shown[0].where}:\n{shown[0].verdict.message}")
            lines.append(f"diagnosis: {self.diagnosis or 'no known mistake explains most of these results'}")
            lines.extend(launch.found(self.kernel, shown[0].problem))
        if self.fault:
            lines.append(self.fault)
        return "\n".join(lines)

    @property
    def _explained(self) -> tuple[Cause | None, list[Checked]]:
        """A cause, and the wrong results that it explains or, with none, all: the most telling first."""
        telling = sorted(self.wrong, key=_plainness)
        kinds = Counter(cause.kind for each in telling for cause in each.causes)
        kind = max(kinds, key=kinds.get, default=None)
        if kind is None or 2 * kinds[kind] < len(telling):
            return None, telling
        found = {each: cause for each in telling for cause in each.causes if cause.kind == kind}
        return next(iter(found.values())), list(found)

    def require(self) -> "Examination":
        """Return this examination when all is right. Raises AssertionError with its message otherwise."""
        if not self.correct:
            raise AssertionError(self.message)
        return self

    def __str__(self) -> str:
        return f"{launch.check_table(self.checks)}\n{self.message}"


def examine(kernel: Kernel, edges: Edges | None = None, xp: ModuleType = emulator) -> Examination:
    """Check a kernel on every case of `cases` and return all that was seen, about 35 launches on `xp`.

    `edges` are those of `edges_of` unless given, such as {'K': (8,)} for a tile that no macro names. A launch that
    faults on the emulator, or that ends a GPU's context, ends the examination too, which keeps what came before.
    Raises nvrtc.CompileError, emulator.UnsupportedInstruction, TypeError for a geometry that is none, and ValueError
    for a shape that it refuses.
    """
    return judge(kernel, cases({**edges_of(kernel), **(edges or {})}), xp)


def judge(kernel: Kernel, planned: Sequence[tuple[Gemm, str]], xp: ModuleType = emulator) -> Examination:
    """Check a kernel on given problems and families of inputs, as `examine` does on the cases that it chooses."""
    checks: list[Checked] = []
    for problem, family in planned:
        try:
            checks.append(launch.checked(kernel, problem, family, xp))
        except (emulator.KernelFault, ContextLost) as error:
            place = f"launch {len(checks) + 1} of {len(planned)}, {launch.written(problem)}, inputs {family}"
            return Examination(kernel, tuple(checks), len(planned), f"stopped at {place}: {error}")
    return Examination(kernel, tuple(checks), len(planned))


def edges_of(kernel: Kernel) -> dict[str, tuple[int, ...]]:
    """Return a kernel's tile edges along M, N and K, smallest first, from its geometry, its constants and its options.

    A dimension along which nothing is known, such as K of a kernel without tiles, gets USUAL_EDGES.
    """
    constants = dict(re.findall(r"(?:#\s*define|\bconst(?:expr)?\s+\w+)\s+(\w+)\s*=?\s*(\d+)\b", kernel.source))
    constants |= dict(re.findall(r"-D\s*(\w+)=(\d+)", " ".join(kernel.options)))
    found = {
        dimension: {
            int(value)
            for name, value in constants.items()
            if re.fullmatch(rf"TILE|[BWT]{dimension}", name) and 1 <= int(value) <= LARGEST_CONSTANT
        }
        for dimension in "MNK"
    }
    found["M"] |= _covered(lambda size: launch.geometry(kernel, Gemm(size, 1, 1)).grid)
    found["N"] |= _covered(lambda size: launch.geometry(kernel, Gemm(1, size, 1)).grid)
    found["K"] |= _covered(lambda size: launch.geometry(kernel, Gemm(1, 1, size)).grid)
    return {dimension: tuple(sorted(edges)) or USUAL_EDGES for dimension, edges in found.items()}


def cases(edges: Edges) -> tuple[tuple[Gemm, str], ...]:
    """Return the problems and families of an examination for edges along M, N and K."""
    factors = [pair for pair in itertools.product(FACTORS, repeat=2) if pair[0] != 0.0]
    turns = itertools.cycle([*factors[1:], factors[0]])
    square = list(_latin_square(edges))
    others = [family for family in FAMILIES if family != DISCRIMINATING]
    ragged = itertools.cycle([shape for shape in square if min(shape) > 1])
    chosen = [(Gemm(*shape), DISCRIMINATING) for shape in square]
    chosen += [(Gemm(*shape, *next(turns)), DISCRIMINATING) for shape in _further(edges)]
    chosen += [(Gemm(*next(ragged), *next(turns)), family) for family in (DISCRIMINATING, *others)]
    # With alpha == 0 no mistake in a product shows, so these come beside and not instead.
    chosen += [(Gemm(*next(ragged), 0.0, beta), DISCRIMINATING) for beta in FACTORS]
    return tuple(dict.fromkeys(chosen))


def recheck(
    expected: tolerance.Expected, launch_again: Callable[[], Any], C: Any, before: np.ndarray
) -> tolerance.Verdict:
    """Return the verdict on C, a device array, after a kernel was timed on it.

    With beta == 0 it is the verdict on what the timed launches left, each of which should have left the same. Otherwise
    each of them has added to C, so C gets what it held at first, `before`, and the verdict is that of one more launch.
    """
    if expected.problem.beta != 0.0:
        C.set(before)
        launch_again()
    return replace(tolerance.compare(expected, C.get()), when="after it was timed")


def _plainness(checked: Checked) -> tuple[bool, int]:
    """What sorts first the inputs that tell mistakes apart, and of those the shapes that are large on every side."""
    problem = checked.problem
    return checked.family != DISCRIMINATING, -min(problem.M, problem.N, problem.K)


def _covered(grid: Callable[[int], tuple[int, int, int]]) -> set[int]:
    """What a block covers: the largest size that takes the blocks of 1; nothing if all up to LARGEST_TILE do."""
    one, size = grid(1), 1
    while grid(2 * size) == one:
        size *= 2
        if size > LARGEST_TILE:
            return set()
    return {next(size for size in range(size, 2 * size) if grid(size + 1) != one)}


def _latin_square(edges: Edges) -> Iterator[tuple[int, int, int]]:
    M, N, K = (_around(edges[dimension][-1]) for dimension in "MNK")
    for i, j in itertools.product(range(4), repeat=2):
        yield M[i], N[j], K[LATIN[i][j]]


def _further(edges: Edges) -> Iterator[tuple[int, int, int]]:
    """Around the smaller edges; tall, wide and deep; of many blocks."""
    M, N, K = (edges[dimension][-1] for dimension in "MNK")
    smaller = [edges[dimension][:-1] for dimension in "MNK"]
    for m, n, k in itertools.zip_longest(*smaller):
        m, n, k = m or M, n or N, k or K
        yield from ((max(m - 1, 1), n, k + 1), (m, n + 1, max(k - 1, 1)), (m + 1, max(n - 1, 1), k))
    yield from ((2 * M + 1, 2, 2 * K), (2, 2 * N + 2, 2 * K + 1), (3, 5, 8 * K + 2))
    down, across = BLOCKS
    yield (down - 1) * M + 1, (across - 1) * N + 1, 2


def _around(edge: int) -> tuple[int, int, int, int]:
    return 1, max(edge - 1, 1), edge, edge + 1
