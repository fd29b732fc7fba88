"""What went wrong in a wrong result: the other products that it equals.

A suspect is again a GEMM, of other operands, factors or depth, and is held to the bound of tolerance.py like the right
one. It is named only when every output lies within its bound. A right result has no cause, and of a sum that is too
short no length is named where several explain it alike. Inputs that cannot tell two mistakes apart, such as ones, may
leave two causes.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from gemmlab.gemm import Gemm
from gemmlab.tolerance import LARGEST, compare, expect, failed, gamma

SAMPLE = 12  # rows and columns of C on which a suspect is tried before it is held against all of C
MOST_TILES = 32  # how often beta is tried to have been applied
SMALLEST_POWER = 2.0**-10  # of beta, below which C counts as left out
DEEPEST_TILE = 128  # the longest tile along K that is tried
DEEPEST_SUM = 2**17  # products, of which each sampled output takes a megabyte; of a deeper sum no length is sought

ADDED_PER_TILE, SCALED_PER_TILE = "beta * C added per tile", "C scaled by beta per tile"

Operands = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Cause:
    """One thing that explains a wrong result: its `kind`, the same whatever the shape, and a sentence on this one."""

    kind: str
    sentence: str

    def __str__(self) -> str:
        return self.sentence


READS_C = Cause("reads C", "C is read although beta is 0: a NaN that C held before has survived, since 0 * NaN is NaN")


@dataclass(frozen=True, eq=False)
class _Suspect:
    """A product that a result may equal instead. `change` makes its operands from rows of A and columns of B."""

    cause: Cause
    problem: Gemm
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    result: np.ndarray
    change: Callable[[np.ndarray, np.ndarray], Operands] = lambda A, B: (A, B)

    def explains(self) -> bool:
        """Whether every output is within the suspect's bound."""
        return self._agrees(*map(_spread, self.result.shape)) and self._agrees(slice(None), slice(None))

    def _agrees(self, rows: np.ndarray | slice, columns: np.ndarray | slice) -> bool:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            A, B = self.change(self.A[rows], self.B[:, columns])
        part = Gemm(A.shape[0], B.shape[1], A.shape[1], self.problem.alpha, self.problem.beta)
        try:
            expected = expect(part, A, B, self.C[rows][:, columns])
        except ValueError:  # this suspect overflows float32, so nothing can be said of it
            return False
        return compare(expected, self.result[rows][:, columns]).correct


def causes(problem: Gemm, A: np.ndarray, B: np.ndarray, C: np.ndarray, result: np.ndarray) -> tuple[Cause, ...]:
    """Return what explains a wrong result, (M, N), by A, B and by C as it was before the launch; () where nothing does.

    Transposed operands or outputs, columns of A that are missing, factors forgotten or applied once a tile of K,
    operands rounded to fewer bits, and rows or columns of C that were left out. Raises what `tolerance.expect` and
    `tolerance.compare` raise.
    """
    wrong = failed(expect(problem, A, B, C), result)
    if not wrong.any():
        return ()
    given = _Suspect(Cause("", ""), problem, A, B, C, result)
    suspects = itertools.chain(
        _transposed(given), _factors(given), _depths(given), _beta_per_tile(given), _rounded(given)
    )
    found: dict[str, Cause] = {}
    for cause in (*_left_out(wrong, C, result), *(suspect.cause for suspect in suspects if suspect.explains())):
        found.setdefault(cause.kind, cause)  # of a kind the simplest comes first
    return tuple(found.values())


def _left_out(wrong: np.ndarray, C: np.ndarray, result: np.ndarray) -> Iterator[Cause]:
    """The last tile of C's rows or columns, where it is wrong throughout and all else is right; or all of C."""
    untouched = (result.view(np.uint32) == C.view(np.uint32))[wrong].all()
    if untouched and wrong.all():
        yield Cause("nothing computed", "C holds what it held before the launch: no thread reached a store")
        return
    rows, columns = wrong.all(axis=1), wrong.all(axis=0)
    if (wrong == (rows[:, None] | columns)).all() and _is_last_tile(rows) and _is_last_tile(columns):
        where = " and ".join(
            f"{name} from {int(np.argmax(lines))} on"
            for name, lines in (("the rows", rows), ("the columns", columns))
            if lines.any()
        )
        if untouched:
            cause = f"{where} were never computed, and all else is right: the grid or a guard leaves out the last tile"
            yield Cause("edge left out", cause)
        else:
            yield Cause("edge wrong", f"{where} are wrong, and all else is right: look at what computes those")


def _transposed(given: _Suspect) -> Iterator[_Suspect]:
    """A read as K x M, B read as N x K, C written as N x M, and each mixture of these."""
    M, N, K = given.problem.M, given.problem.N, given.problem.K
    # A row or a column lies in memory as its transpose does.
    able = [(False, True) if min(shape) > 1 else (False,) for shape in ((M, K), (K, N), (M, N))]
    for a, b, c in sorted(itertools.product(*able), key=sum)[1:]:
        formula = f"{'A.T' if a else 'A'} @ {'B.T' if b else 'B'}"
        how = [(a, "A is read as if it were K x M"), (b, "B is read as if it were N x K")]
        how += [(c, "C is written as if it were N x M")]
        formula = f"({formula}).T" if c else formula
        cause = Cause(formula, f"the result equals {formula}: {', '.join(text for flipped, text in how if flipped)}")
        suspect = replace(
            given,
            cause=cause,
            A=given.A.reshape(K, M).T if a else given.A,
            B=given.B.reshape(N, K).T if b else given.B,
            result=given.result.reshape(N, M).T if c else given.result,
        )
        yield suspect
        if c and given.problem.beta != 0.0:  # C is read where it is written
            yield replace(suspect, C=given.C.reshape(N, M).T)


def _factors(given: _Suspect) -> Iterator[_Suspect]:
    """Other alpha and beta."""
    alpha, beta = given.problem.alpha, given.problem.beta
    suspected = [
        (1.0, beta, "alpha forgotten", "alpha is left out"),
        (0.0, beta, "A @ B forgotten", "alpha * A @ B is left out"),
        (1.0, 0.0, "A @ B alone", "alpha and beta * C are left out: the result is A @ B"),
        (alpha * alpha, beta, "alpha twice", "alpha is applied twice"),
    ]
    if beta != 0.0:
        suspected += [
            (alpha, 0.0, "beta * C forgotten", "beta * C is left out"),
            (0.0, 0.0, "zeros", "every output is 0: alpha * A @ B and beta * C are left out"),
            (alpha, 1.0, "beta forgotten", "C is added without beta"),
            (alpha, alpha * beta, "alpha on C", "alpha multiplies beta * C too"),
        ]
        for times in range(2, min(MOST_TILES, given.problem.K) + 1):
            often = f"{times} times, as where it happens once for each of {times} tiles of K"
            suspected.append((alpha, times * beta, ADDED_PER_TILE, f"beta * C is added {often}"))
            if abs(_power(beta, times)) > SMALLEST_POWER:
                suspected.append((alpha, _power(beta, times), SCALED_PER_TILE, f"C is multiplied by beta {often}"))
    for x, y, kind, text in suspected:
        if (x, y) != (alpha, beta) and max(abs(x), abs(y)) < LARGEST:
            yield replace(given, cause=Cause(kind, text), problem=replace(given.problem, alpha=x, beta=y))


def _depths(given: _Suspect) -> Iterator[_Suspect]:
    """Sums that stop early or start late."""
    K = given.problem.K
    if K > DEEPEST_SUM:
        return
    firsts, lasts = _lengths(given)
    first, last = (lengths[0] if len(lengths) == 1 else None for lengths in (firsts, lasts))
    missing = f"of {K} columns of A are missing from the sum"
    if first is not None:
        depths = [str(depth) for depth in (4, 8, 16, 32, 64, 128) if first == K - K % depth]
        how = f", as where the sum ends at K - K % BK (BK is {', '.join(depths)})" if depths else ""
        cause = Cause("last columns of A", f"the last {K - first} {missing}{how}")
        if first and lasts:
            cause = Cause("columns of A", f"{K - first} {missing}")
        if first:
            yield replace(given, cause=cause, change=lambda A, B: (A[:, :first], B[:first]))
        else:
            yield replace(given, cause=cause, problem=replace(given.problem, alpha=0.0))
    elif last:
        # With beta == 0 to scale C by beta is to overwrite it.
        kind = SCALED_PER_TILE if given.problem.beta == 0.0 else "first columns of A"
        cause = Cause(kind, f"the first {K - last} {missing}, as where each tile of K stores beta * C and its own")
        yield replace(given, cause=cause, change=lambda A, B: (A[:, K - last :], B[K - last :]))


def _lengths(given: _Suspect) -> tuple[list[int], list[int]]:
    """How many of the first, and how many of the last products give the result where it is sampled, 0 to K - 1."""
    rows, columns = map(_spread, given.result.shape)
    problem = given.problem
    A, B = given.A[rows].astype(np.float64), given.B[:, columns].astype(np.float64)
    addend = problem.beta * given.C[rows][:, columns].astype(np.float64) if problem.beta != 0.0 else 0.0
    got = given.result[rows][:, columns].astype(np.float64) - addend
    products = problem.alpha * A[:, None, :] * B.T
    slack = gamma(problem.K + 2) * (np.abs(products).sum(-1) + np.abs(addend)) + np.finfo(np.float32).tiny
    return _agreeing(products, got, slack), _agreeing(products[..., ::-1], got, slack)


def _agreeing(products: np.ndarray, got: np.ndarray, slack: np.ndarray) -> list[int]:
    """The numbers of leading products, fewer than all, whose sum is `got` everywhere."""
    sums = np.cumsum(products, axis=-1) - products
    return np.flatnonzero((np.abs(sums - got[..., None]) <= slack[..., None]).all(axis=(0, 1))).tolist()


def _beta_per_tile(given: _Suspect) -> Iterator[_Suspect]:
    """C = alpha * (a tile's product) + beta * C after every tile of K, so that early tiles are scaled often."""
    beta, K = given.problem.beta, given.problem.K
    if beta == 0.0:
        return
    for depth in range(1, min(K, DEEPEST_TILE + 1)):
        tiles = -(-K // depth)
        if not 0.0 < abs(_power(beta, tiles)) < LARGEST:
            continue
        scale = np.float64(beta) ** (tiles - 1 - np.arange(K) // depth)
        text = f"beta is applied after each tile of {depth} steps of K, {tiles} times, and not once"
        yield replace(
            given,
            cause=Cause(SCALED_PER_TILE, text),
            problem=replace(given.problem, beta=_power(beta, tiles)),
            change=lambda A, B, scale=scale: ((A * scale).astype(np.float32), B),
        )


def _rounded(given: _Suspect) -> Iterator[_Suspect]:
    """Operands with fewer bits, as tensor cores take them."""
    for name, rounding in ROUNDINGS.items():
        text = f"the errors are those of A and B rounded to {name} before they are multiplied"
        yield replace(
            given,
            cause=Cause(f"rounded to {name}", text),
            change=lambda A, B, rounding=rounding: (rounding(A), rounding(B)),
        )


def _cut(values: np.ndarray, bits: int, add: int = 0) -> np.ndarray:
    """Keep so many bits of a float32's fraction, after adding to its last place."""
    dropped = 23 - bits
    raw = np.ascontiguousarray(values).view(np.uint32) + np.uint32(add)
    return (raw >> dropped << dropped).view(np.float32)


def _to_even(values: np.ndarray, bits: int) -> np.ndarray:
    """Round to so many bits of fraction, ties to even."""
    dropped = 23 - bits
    raw = np.ascontiguousarray(values).view(np.uint32)
    odd = raw >> dropped & 1
    return _cut((raw + odd).view(np.float32), bits, (1 << dropped - 1) - 1)


ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "TF32": lambda values: _cut(values, 10, 1 << 12),  # ties away from zero, as cvt.rna.tf32 has it
    "TF32 by cutting bits off": lambda values: _cut(values, 10),
    "float16": lambda values: values.astype(np.float16).astype(np.float32),
    "bfloat16": lambda values: _to_even(values, 7),
}


def _power(base: float, exponent: int) -> float:
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float64(base) ** exponent)


def _spread(size: int) -> np.ndarray:
    """At most SAMPLE places of a row, evenly from the first to the last."""
    return np.unique(np.linspace(0, size - 1, min(size, SAMPLE)).round().astype(int))


def _is_last_tile(lines: np.ndarray) -> bool:
    """Whether what is marked is the end of the lines, at most half of them, or nothing."""
    marked = int(lines.sum())
    return 2 * marked <= lines.size and bool(lines[lines.size - marked :].all())
