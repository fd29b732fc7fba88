"""The problem that every rung solves, C = alpha * A @ B + beta * C: its inputs and its float64 reference."""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from gemmlab.quoting import shown

MAX_ELEMENTS = 2**31 - 1  # kernels index an array with a 32-bit int


@dataclass(frozen=True)
class Gemm:
    """One GEMM: A is M x K, B is K x N, C is M x N, all float32, row-major and contiguous.

    alpha and beta are rounded to float32, the value that a kernel receives. Raises TypeError or ValueError that names
    the value and its limit for a size that is no positive integer, an array of more than 2^31 - 1 elements, or a
    factor that is not finite in float32.
    """

    M: int
    N: int
    K: int
    alpha: float = 1.0
    beta: float = 0.0

    def __post_init__(self):
        for name in ("M", "N", "K"):
            object.__setattr__(self, name, _size(name, getattr(self, name)))
        for name in ("alpha", "beta"):
            object.__setattr__(self, name, _factor(name, getattr(self, name)))
        for name, (rows, columns) in self.shapes.items():
            if rows * columns > MAX_ELEMENTS:
                raise ValueError(
                    f"{name} would have {shown(rows)} x {shown(columns)} = {shown(rows * columns)} elements, but "
                    f"kernels index at most {MAX_ELEMENTS} (2^31 - 1): choose a smaller shape"
                )

    @property
    def shapes(self) -> Mapping[str, tuple[int, int]]:
        """The (rows, columns) of A, B and C, by name."""
        return {"A": (self.M, self.K), "B": (self.K, self.N), "C": (self.M, self.N)}

    @property
    def flops(self) -> int:
        """The conventional work of a GEMM, 2*M*N*K floating-point operations, whatever a kernel really executes."""
        return 2 * self.M * self.N * self.K


def inputs(problem: Gemm, family: str = "uniform", seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return float32 arrays A, B and C of one of the FAMILIES, the same on every machine.

    zeros, ones: every product A @ B is 0, or K.
    identity: A has a diagonal of ones, so A @ B repeats the rows of B, and zeros below them.
    alternating: signs change with every row and column; A @ B is K or -K.
    distinct: each row of A and each column of B has a value of its own, so a transposed result shows.
    uniform: pseudo-random in [-1, 1); only this and cancellation depend on the seed.
    cancellation: products come in pairs that cancel, so A @ B is far smaller than the terms that it sums.

    Raises ValueError for an unknown family or a seed below 0.
    """
    if seed < 0:
        raise ValueError(f"seed is {shown(seed)}, but must be at least 0")
    if family not in FAMILIES:
        raise ValueError(f"no family of inputs is called {shown(family)}; known: {', '.join(FAMILIES)}")
    return FAMILIES[family](problem, np.random.Generator(np.random.PCG64(seed)))


def reference(problem: Gemm, A: np.ndarray, B: np.ndarray, C: np.ndarray | None = None) -> np.ndarray:
    """Return alpha * A @ B + beta * C in float64, (M, N), from the actual float32 inputs.

    With beta == 0, C is not read and may be None. Raises what `require_matrix` raises.
    """
    product = np.float64(problem.alpha) * (_float64(problem, "A", A) @ _float64(problem, "B", B))
    if problem.beta == 0.0:
        return product
    return product + np.float64(problem.beta) * _float64(problem, "C", C)


def require_matrix(problem: Gemm, name: str, matrix: np.ndarray, role: str | None = None) -> None:
    """Raise unless `matrix` is a NumPy float32 array of the shape that the problem gives to `name` (A, B or C).

    Raises TypeError for another type or dtype, ValueError for another shape; messages call the array `role`.
    """
    role = role or name
    if not isinstance(matrix, np.ndarray):
        raise TypeError(
            f"{role} must be a NumPy array, not {type(matrix).__name__}: bring a device array home with cp.asnumpy"
        )
    if matrix.dtype != np.float32:
        raise TypeError(f"{role} has dtype {matrix.dtype}, but must be float32: use .astype(np.float32)")
    if matrix.shape != problem.shapes[name]:
        raise ValueError(f"{role} has shape {matrix.shape}, but must be {problem.shapes[name]} for {problem}")


def require_operands(problem: Gemm, A: Any, B: Any, C: Any) -> None:
    """Raise unless a kernel may be given these arrays, of NumPy, CuPy or the emulator.

    Raises TypeError for what is no array or of another dtype than float32, ValueError for another shape, for rows that
    are not one after the other in memory, and for a C that shares memory with A or B.
    """
    arrays = {"A": A, "B": B, "C": C}
    for name, array in arrays.items():
        _require_operand(name, array, problem.shapes[name])
    for name in ("A", "B"):
        read = arrays[name]
        if _address(C) < _address(read) + read.nbytes and _address(read) < _address(C) + C.nbytes:
            raise ValueError(
                f"C shares memory with {name}, so a kernel would read its own outputs: give C memory of its own, such "
                "as C.copy()"
            )


def _require_operand(name: str, array: Any, shape: tuple[int, int]) -> None:
    if not hasattr(array, "dtype"):
        raise TypeError(f"{name} is a {type(array).__name__}, but must be an array: pass asarray({name}, np.float32)")
    if array.dtype != np.float32:
        raise TypeError(f"{name} has dtype {array.dtype}, but kernels read float32: pass {name}.astype(np.float32)")
    if tuple(array.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(array.shape)}, but must be {shape}")
    contiguous = (shape[1] * array.itemsize, array.itemsize)
    # A stride along one element leads nowhere.
    if any(n > 1 and stride != wanted for n, stride, wanted in zip(shape, array.strides, contiguous, strict=True)):
        raise ValueError(
            f"{name} has strides {tuple(array.strides)}, but must be row-major and contiguous (a transpose or a slice "
            f"is not): pass ascontiguousarray({name})"
        )


def _address(array: Any) -> int:
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def _float64(problem: Gemm, name: str, matrix: np.ndarray) -> np.ndarray:
    require_matrix(problem, name, matrix)
    return matrix.astype(np.float64)


def _size(name: str, value: int) -> int:
    try:
        size = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}, but must be an integer of at least 1") from None
    if size < 1:
        raise ValueError(f"{name} is {shown(size)}, but must be at least 1")
    return size


def _factor(name: str, value: float) -> float:
    try:
        with np.errstate(over="ignore"):
            factor = float(np.float32(value))
    except OverflowError:  # of an integer beyond float64
        factor = math.inf
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {shown(value)}, but must be a real number") from None
    if not math.isfinite(factor):
        raise ValueError(
            f"{name} is {shown(value)}, but must be finite in float32 (at most {np.finfo(np.float32).max:.8g})"
        )
    return factor


Matrices = tuple[np.ndarray, np.ndarray, np.ndarray]


def _zeros(problem: Gemm, rng: np.random.Generator) -> Matrices:
    return tuple(np.zeros(shape, np.float32) for shape in problem.shapes.values())


def _ones(problem: Gemm, rng: np.random.Generator) -> Matrices:
    return tuple(np.ones(shape, np.float32) for shape in problem.shapes.values())


def _identity(problem: Gemm, rng: np.random.Generator) -> Matrices:
    M, N, K = problem.M, problem.N, problem.K
    return np.eye(M, K, dtype=np.float32), _ramp(K, N), _ramp(M, N)


def _alternating(problem: Gemm, rng: np.random.Generator) -> Matrices:
    return tuple(_checkerboard(*shape) for shape in problem.shapes.values())


def _distinct(problem: Gemm, rng: np.random.Generator) -> Matrices:
    M, N, K = problem.M, problem.N, problem.K
    return _row_steps(M, K), 1 + _column_steps(K, N), _ramp(M, N)


def _uniform(problem: Gemm, rng: np.random.Generator) -> Matrices:
    # Both steps are exact: a float32 of Generator.random is a multiple of 2^-24 below 1.
    return tuple(2 * rng.random(shape, dtype=np.float32) - 1 for shape in problem.shapes.values())


def _cancellation(problem: Gemm, rng: np.random.Generator) -> Matrices:
    A, B, C = _uniform(problem, rng)
    paired = problem.K - problem.K % 2
    A[:, 1:paired:2] = -A[:, 0:paired:2]
    B[1:paired:2] = B[0:paired:2]
    return A, B, C


def _row_steps(rows: int, columns: int) -> np.ndarray:
    """1 <= value < 2, rising with the row."""
    return np.repeat((1 + np.arange(rows) / rows).astype(np.float32)[:, None], columns, axis=1)


def _column_steps(rows: int, columns: int) -> np.ndarray:
    return np.ascontiguousarray(_row_steps(columns, rows).T)


def _ramp(rows: int, columns: int) -> np.ndarray:
    """Rows rise and columns fall, at different rates, so that the ramp is not its own transpose."""
    return _row_steps(rows, columns) - 2 * _column_steps(rows, columns)


def _checkerboard(rows: int, columns: int) -> np.ndarray:
    sign = 1 - 2 * ((np.arange(rows)[:, None] + np.arange(columns)) % 2)
    return sign.astype(np.float32)


FAMILIES: Mapping[str, Callable[[Gemm, np.random.Generator], Matrices]] = MappingProxyType(
    {
        "zeros": _zeros,
        "ones": _ones,
        "identity": _identity,
        "alternating": _alternating,
        "distinct": _distinct,
        "uniform": _uniform,
        "cancellation": _cancellation,
    }
)
