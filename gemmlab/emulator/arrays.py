"""Device arrays: memory of the emulated GPU that NumPy cannot touch, as with CuPy."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from .memory import Allocation, GlobalMemory

MEMORY = GlobalMemory()
"""The emulated GPU's global memory."""


@dataclass(frozen=True)
class MemoryPointer:
    """As cupy.cuda.MemoryPointer: `ptr` is a device address."""

    ptr: int


class ndarray:
    """An array in the emulated GPU's memory, shaped and typed as CuPy's. Data goes in by `asarray` and comes home by
    `asnumpy` or `.get()`; NumPy functions refuse it, as they refuse CuPy's.
    """

    def __init__(self, allocation: Allocation, shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...]):
        self._allocation, self.shape, self.dtype, self.strides = allocation, shape, np.dtype(dtype), strides

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed: this array is in the emulated GPU's memory. Bring it "
            "home with cp.asnumpy(array) or array.get()"
        )

    def _refuse(self, *_: object, **__: object) -> None:
        raise TypeError(
            "the emulator's arrays have no arithmetic, comparisons or elements: it runs kernels. Bring the array home "
            "with cp.asnumpy(array), use NumPy there, and send the result back with cp.asarray"
        )

    __array_ufunc__ = __getitem__ = __setitem__ = __iter__ = __bool__ = __float__ = __int__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __matmul__ = __rmatmul__ = __pow__ = __neg__ = __abs__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __hash__ = None

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def allocation(self) -> Allocation:
        return self._allocation

    @property
    def data(self) -> MemoryPointer:
        """Where the array lies, as CuPy says it."""
        return MemoryPointer(self.address)

    @property
    def address(self) -> int:
        return self._allocation.base

    @property
    def T(self) -> ndarray:
        """The transpose, a view with its strides reversed."""
        return ndarray(self._allocation, self.shape[::-1], self.dtype, self.strides[::-1])

    @property
    def c_contiguous(self) -> bool:
        return self._home().flags.c_contiguous

    def named(self, name: str) -> ndarray:
        """The same array; messages about its memory call it `name`."""
        self._allocation.name = name
        return self

    def _home(self) -> np.ndarray:
        return np.ndarray(self.shape, self.dtype, self._allocation.buffer, strides=self.strides)

    def get(self) -> np.ndarray:
        """A NumPy copy."""
        return self._home().copy()

    def set(self, values: np.ndarray) -> None:
        """Overwrite with a NumPy array of the same shape and dtype."""
        if not isinstance(values, np.ndarray) or values.shape != self.shape or values.dtype != self.dtype:
            raise ValueError(f"set() needs a NumPy array of shape {self.shape} and dtype {self.dtype}")
        self._home()[...] = values
        self._allocation.initialized = None

    def fill(self, value: object) -> None:
        self._home()[...] = value
        self._allocation.initialized = None

    def copy(self) -> ndarray:
        return asarray(self.get())

    def astype(self, dtype: object) -> ndarray:
        return asarray(self.get().astype(dtype))

    def reshape(self, *shape: int | tuple[int, ...]) -> ndarray:
        """The same memory in another shape; the array must be C-contiguous."""
        if not self.c_contiguous:
            raise ValueError("reshape() needs a C-contiguous array; take a copy with cp.ascontiguousarray(array) first")
        view = self._home().reshape(*shape)
        return ndarray(self._allocation, view.shape, self.dtype, view.strides)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __reduce__(self) -> tuple[object, ...]:
        return array, (self.get(),)  # as CuPy's: a copy, or what was pickled, has memory of its own

    def __repr__(self) -> str:
        return f"array on the emulated GPU, shape {self.shape}, {self.dtype}:\n{self._home()!r}"


def empty(shape: int | tuple[int, ...], dtype: object = float) -> ndarray:
    """An array that nobody has written: float32 reads NaN. As in CuPy the dtype is float64 unless given."""
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(f"a device array cannot hold {dtype} objects")
    shape = (shape,) if isinstance(shape, int | np.integer) else tuple(int(n) for n in shape)
    if any(n < 0 for n in shape):
        raise ValueError(f"negative dimensions are not allowed: {shape}")
    strides = tuple(prod(shape[i + 1 :]) * dtype.itemsize for i in range(len(shape)))
    nbytes = prod(shape) * dtype.itemsize
    allocation = MEMORY.allocate(nbytes, "an array")
    allocation.initialized = np.zeros(nbytes, bool)
    return ndarray(allocation, shape, dtype, strides)


def asarray(values: object, dtype: object = None) -> ndarray:
    """Copy to the device; a device array that already fits comes back as it is."""
    if isinstance(values, ndarray):
        return values if dtype is None or values.dtype == dtype else values.astype(dtype)
    home = np.asarray(values, dtype)
    result = empty(home.shape, home.dtype)
    if home.flags.f_contiguous and not home.flags.c_contiguous:
        result.strides = home.strides
    result.set(home)
    return result


def array(values: object, dtype: object = None) -> ndarray:
    """A new device array with a copy of the values."""
    return asarray(values.get() if isinstance(values, ndarray) else values, dtype)


def ascontiguousarray(values: object, dtype: object = None) -> ndarray:
    """The array itself when it is C-contiguous, else a C-contiguous copy."""
    if isinstance(values, ndarray):
        fits = values.c_contiguous and (dtype is None or values.dtype == dtype)
        return values if fits else asarray(np.ascontiguousarray(values.get(), dtype))
    return asarray(np.ascontiguousarray(values, dtype))


def asnumpy(values: object) -> np.ndarray:
    """Copy home; a NumPy array comes back as it is."""
    return values.get() if isinstance(values, ndarray) else np.asarray(values)


def full(shape: int | tuple[int, ...], value: object, dtype: object = None) -> ndarray:
    """Array of a shape filled with one value."""
    return asarray(np.full(shape, value, dtype))


def zeros(shape: int | tuple[int, ...], dtype: object = float) -> ndarray:
    """Array of zeros; float64 unless a dtype is given, as in CuPy."""
    return full(shape, 0, dtype)


def ones(shape: int | tuple[int, ...], dtype: object = float) -> ndarray:
    """Array of ones; float64 unless a dtype is given, as in CuPy."""
    return full(shape, 1, dtype)


def arange(*args: object, **kwargs: object) -> ndarray:
    """Evenly spaced values, with NumPy's arguments."""
    return asarray(np.arange(*args, **kwargs))


def empty_like(values: ndarray, dtype: object = None) -> ndarray:
    """Unfilled array of the shape of another, and of its dtype unless one is given."""
    return empty(values.shape, values.dtype if dtype is None else dtype)


def zeros_like(values: ndarray, dtype: object = None) -> ndarray:
    """Array of zeros of the shape of another, and of its dtype unless one is given."""
    return zeros(values.shape, values.dtype if dtype is None else dtype)


def full_like(values: ndarray, value: object, dtype: object = None) -> ndarray:
    """Array of one value of the shape of another, and of its dtype unless one is given."""
    return full(values.shape, value, values.dtype if dtype is None else dtype)
