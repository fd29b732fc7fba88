"""When a float32 result of a GEMM is right: an error bound fixed before looking, and the verdict on a result.

The policy. With u = 2^-24, gamma_n = n*u / (1 - n*u) and R the float64 reference, a result C is right when everywhere

    |C - R| <= gamma_(K+2) * |alpha| * (|A| @ |B|) + gamma_2 * |beta * C_before| + (K * |alpha| + 2) * 2^-149

A sum of K products in float32, in any order, with or without fused multiply-add, is within gamma_K * (|A| @ |B|) of the
exact one (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1, inequality 3.5). Scaling by
alpha and adding beta * C round once each, which makes K + 2. The last term is for products below the normal range, each
of which is off by at most half of 2^-149, the smallest subnormal.

The factor before gamma is 1. The inequality holds in the worst case, for every order of additions, so no right kernel
needs more; and a larger factor would only hide mistakes: K products of size 1 add up to K with a bound of about K^2 u,
which a lost product exceeds while K^2 is below 2^24. Typical errors grow as sqrt(K) u and use a small share of the
bound. It is no bound for TF32 or half-precision arithmetic, which rounds A and B first.
"""

from dataclasses import dataclass

import numpy as np

from gemmlab.gemm import Gemm, reference, require_matrix

POLICY = (
    "|C - R| <= gamma(K + 2) |alpha| (|A| @ |B|) + gamma(2) |beta C| + (K |alpha| + 2) 2^-149 at every output, R in "
    "float64, gamma(n) = n u / (1 - n u) and u = 2^-24; NaN never passes; where beta is 0, C is filled with a NaN first"
)
"""The policy in one line, for a record."""

UNIT_ROUNDOFF = 2.0**-24
SMALLEST_SUBNORMAL = 2.0**-149
LARGEST = float(np.finfo(np.float32).max)

# A quiet NaN with a payload that no arithmetic makes: CUDA's NaN is 0x7fffffff, NumPy's 0x7fc00000.
_SENTINEL_BITS = np.uint32(0x7FD5E17E)
SENTINEL = _SENTINEL_BITS.view(np.float32)


@dataclass(frozen=True, eq=False)
class Expected:
    """What a result is held against: the float64 reference and the largest error allowed, both (M, N)."""

    problem: Gemm
    value: np.ndarray
    bound: np.ndarray


@dataclass(frozen=True)
class Verdict:
    """Whether a result is right, and the evidence.

    `worst` is the (row, column) to look at first: an element that is no number, or else the one whose error is the
    largest share of its bound; `got`, `want` and `error_bound` belong to it. `unwritten`, `nan` and `wrong` count,
    among all `outputs`, those that still hold the sentinel, hold another NaN, or hold a number outside their bound. The
    largest absolute error is over finite elements, the largest relative one over those whose reference exceeds its
    bound, since near zero a relative error says nothing; None where there are no such elements. `when` is set
    where the result was not taken just after the first launch.
    """

    max_abs_error: float | None
    max_rel_error: float | None
    error_bound: float
    worst: tuple[int, int]
    got: float
    want: float
    outputs: int
    unwritten: int
    nan: int
    wrong: int
    when: str = ""

    @property
    def correct(self) -> bool:
        """Whether every output is within its bound."""
        return self.unwritten == self.nan == self.wrong == 0

    @property
    def message(self) -> str:
        """The verdict in words: how many outputs fail and how, the worst of them, and the largest errors."""
        return "\n".join((self._counts(), self._worst(), self._errors()))

    def require(self) -> "Verdict":
        """Return this verdict when the result is right. Raises AssertionError with its message otherwise."""
        if not self.correct:
            raise AssertionError(self.message)
        return self

    def _counts(self) -> str:
        when = f" {self.when}" if self.when else ""
        if self.correct:
            return f"correct{when}: all {self.outputs} outputs are within the error bound"
        failures = (
            (self.unwritten, "never written (C still holds what it was filled with)"),
            (self.nan, "NaN"),
            (self.wrong, "outside the error bound"),
        )
        return f"wrong{when}: of {self.outputs} outputs, " + ", ".join(
            f"{count} {how}" for count, how in failures if count
        )

    def _worst(self) -> str:
        row, column = self.worst
        return (
            f"worst at row {row}, column {column}: got {self.got:.9g}, want {self.want:.9g}, "
            f"allowed error {self.error_bound:.3g}"
        )

    def _errors(self) -> str:
        largest = (("absolute", self.max_abs_error), ("relative", self.max_rel_error))
        known = [f"largest {kind} error {error:.3g}" for kind, error in largest if error is not None]
        return ", ".join(known) or "no output is a finite number"


def gamma(n: int) -> float:
    """Return gamma_n = n*u / (1 - n*u), u = 2^-24 (Higham, lemma 3.1). Raises ValueError where n*u reaches 1."""
    if n * UNIT_ROUNDOFF >= 1:
        raise ValueError(f"no error bound exists for sums of {n} roundings in float32: it needs fewer than {2**24}")
    return n * UNIT_ROUNDOFF / (1 - n * UNIT_ROUNDOFF)


def initial_output(problem: Gemm, C: np.ndarray) -> np.ndarray:
    """Return what C should hold before a launch: SENTINEL everywhere when beta == 0, else a copy of C, (M, N)."""
    if problem.beta != 0.0:
        return C.copy()
    return np.full(problem.shapes["C"], SENTINEL, np.float32)


def expect(problem: Gemm, A: np.ndarray, B: np.ndarray, C: np.ndarray | None = None) -> Expected:
    """Return the reference and the error bound of a problem; with beta == 0, C is not read and may be None.

    Raises TypeError or ValueError for an array of another type, dtype or shape, and ValueError when an input is not
    finite or so large that a right kernel may overflow float32, since no bound holds then.
    """
    read = {"A": A, "B": B} | ({"C": C} if problem.beta != 0.0 else {})
    for name, matrix in read.items():
        require_matrix(problem, name, matrix)
        _require_finite(name, matrix)
    size = {name: np.abs(matrix).astype(np.float64) for name, matrix in read.items()}
    alpha = abs(problem.alpha)
    products = size["A"] @ size["B"]
    addend = abs(problem.beta) * size["C"] if "C" in size else 0.0
    _require_no_overflow(max(1.0, alpha) * products + addend)
    bound = gamma(problem.K + 2) * alpha * products + gamma(2) * addend + (problem.K * alpha + 2) * SMALLEST_SUBNORMAL
    return Expected(problem, reference(problem, A, B, C), bound)


def compare(expected: Expected, result: np.ndarray) -> Verdict:
    """Return the verdict on a float32 result, (M, N), brought home from the device.

    A NaN is never right, and nor is an infinity. Raises TypeError or ValueError for another type, dtype or shape.
    """
    error = _error(expected, result)
    unwritten = result.view(np.uint32) == _SENTINEL_BITS
    nan = np.isnan(result) & ~unwritten
    share = np.where(np.isfinite(error), error / expected.bound, np.inf)
    worst = _position(int(np.argmax(share)), share)
    away_from_zero = np.isfinite(error) & (np.abs(expected.value) > expected.bound)
    return Verdict(
        max_abs_error=_largest(error[np.isfinite(error)]),
        max_rel_error=_largest(error[away_from_zero] / np.abs(expected.value[away_from_zero])),
        error_bound=float(expected.bound[worst]),
        worst=worst,
        got=float(result[worst]),
        want=float(expected.value[worst]),
        outputs=result.size,
        unwritten=int(unwritten.sum()),
        nan=int(nan.sum()),
        wrong=int((~(error <= expected.bound) & ~unwritten & ~nan).sum()),
    )


def failed(expected: Expected, result: np.ndarray) -> np.ndarray:
    """Return for each output, (M, N), whether it is outside its bound or no number. Raises as `compare` does."""
    return ~(_error(expected, result) <= expected.bound)


def verdict(problem: Gemm, A: np.ndarray, B: np.ndarray, C: np.ndarray | None, result: np.ndarray) -> Verdict:
    """Return the verdict on `result` as the C of a problem whose inputs were A, B and C: `expect`, then `compare`."""
    return compare(expect(problem, A, B, C), result)


def _error(expected: Expected, result: np.ndarray) -> np.ndarray:
    require_matrix(expected.problem, "C", result, role="the result")
    with np.errstate(invalid="ignore"):
        return np.abs(result.astype(np.float64) - expected.value)


def _require_finite(name: str, matrix: np.ndarray) -> None:
    finite = np.isfinite(matrix)
    if not finite.all():
        position = _position(int(np.argmin(finite)), matrix)
        raise ValueError(
            f"{name} holds {matrix[position]} at {position}, but no error bound exists unless every input is finite: "
            f"put numbers into {name} that are"
        )


def _require_no_overflow(magnitude: np.ndarray) -> None:
    position = _position(int(np.argmax(magnitude)), magnitude)
    if magnitude[position] > LARGEST / 2:
        raise ValueError(
            f"the terms of output {position} add up to {magnitude[position]:.3g} in size, but float32 "
            f"ends at {LARGEST:.3g} and a right kernel may pass it: choose smaller inputs, alpha or beta"
        )


def _position(flat_index: int, matrix: np.ndarray) -> tuple[int, int]:
    row, column = np.unravel_index(flat_index, matrix.shape)
    return int(row), int(column)


def _largest(errors: np.ndarray) -> float | None:
    return float(errors.max()) if errors.size else None
