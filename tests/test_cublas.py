"""The call of cuBLAS, against a stand-in that computes what cuBLAS documents for column-major operands."""

import ctypes
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from gemmlab import tolerance
from gemmlab.cublas import SHORT_SUM, cublas_sgemm, require_float32
from gemmlab.gemm import Gemm, inputs, reference


class HostArray(np.ndarray):
    """A NumPy array with the pointer where a CuPy array has it."""

    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


class FakeCublas(ModuleType):
    """cuBLAS's SGEMM without transposition, over host memory, and the modes of its handle."""

    CUBLAS_OP_N = 0
    CUBLAS_DEFAULT_MATH = 0
    CUBLAS_POINTER_MODE_HOST = 0

    def __init__(self):
        super().__init__("cupy_backends.cuda.libs.cublas")
        self.modes = {"math": 3, "pointer": 1}  # TF32, scalars on the device: what the call must not keep
        self.modes_of_the_call = None

    def getMathMode(self, handle):
        return self.modes["math"]

    def setMathMode(self, handle, mode):
        self.modes["math"] = mode

    def getPointerMode(self, handle):
        return self.modes["pointer"]

    def setPointerMode(self, handle, mode):
        self.modes["pointer"] = mode

    def sgemm(self, handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc):
        assert (transa, transb) == (self.CUBLAS_OP_N, self.CUBLAS_OP_N)
        self.modes_of_the_call = dict(self.modes)
        left, right, out = (columns(*operand) for operand in ((A, m, k, lda), (B, k, n, ldb), (C, m, n, ldc)))
        out[:] = scalar(alpha) * (left @ right) + (scalar(beta) * out if scalar(beta) else 0)


def scalar(address):
    return ctypes.c_float.from_address(address).value


def columns(address, rows, count, leading_dimension):
    """A column-major matrix at an address, as a view."""
    floats = np.ctypeslib.as_array((ctypes.c_float * (leading_dimension * count)).from_address(address))
    return floats.reshape(count, leading_dimension).T[:rows]


@pytest.fixture
def cublas(monkeypatch):
    fake = FakeCublas()
    libs = ModuleType("cupy_backends.cuda.libs")
    libs.cublas = fake
    cuda = ModuleType("cupy.cuda")
    cuda.device = SimpleNamespace(get_cublas_handle=lambda: 1)
    for name, module in {
        "cupy": ModuleType("cupy"),
        "cupy.cuda": cuda,
        "cupy_backends": ModuleType("cupy_backends"),
        "cupy_backends.cuda": ModuleType("cupy_backends.cuda"),
        "cupy_backends.cuda.libs": libs,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    return fake


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-0.5, 2.0)])
def test_the_row_major_product_comes_out_of_the_column_major_call(cublas, alpha, beta):
    problem = Gemm(3, 5, 4, alpha, beta)
    A, B, C = (matrix.view(HostArray) for matrix in inputs(problem, "distinct"))
    want = reference(problem, *map(np.asarray, (A, B, C)))
    cublas_sgemm(problem, A, B, C)
    np.testing.assert_allclose(np.asarray(C), want, rtol=1e-6)


def test_tf32_is_off_during_the_call_and_the_handle_is_left_as_it_was(cublas):
    problem = Gemm(2, 2, 2)
    cublas_sgemm(problem, *(matrix.view(HostArray) for matrix in inputs(problem)))
    assert cublas.modes_of_the_call == {"math": 0, "pointer": 0}
    assert cublas.modes == {"math": 3, "pointer": 1}


@pytest.mark.parametrize(
    ("B", "error", "message"),
    [
        (np.zeros((5, 4), np.float32).T, ValueError, r"B has strides \(4, 16\), but must be row-major"),
        (np.zeros((5, 4), np.float32), ValueError, r"B has shape \(5, 4\), but must be \(4, 5\)"),
        (np.zeros((4, 5)), TypeError, "B has dtype float64"),
    ],
)
def test_an_operand_that_cublas_would_misread_is_refused(cublas, B, error, message):
    problem = Gemm(3, 5, 4)
    A, _, C = inputs(problem)
    with pytest.raises(error, match=message):
        cublas_sgemm(problem, A.view(HostArray), B.view(HostArray), C.view(HostArray))


def to_tf32(matrix):
    """Round float32 to the 10 bits of TF32's fraction, halves away from zero, as the H200's conversion does."""
    bits = np.ascontiguousarray(matrix, np.float32).view(np.uint32)
    return ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(np.float32)


HOST = SimpleNamespace(asarray=np.array, asnumpy=np.asarray)


def sgemm_in_float32(problem, A, B, C):
    C[:] = A @ B


def sgemm_in_tf32(problem, A, B, C):
    C[:] = to_tf32(A) @ to_tf32(B)


def test_the_yardstick_in_float32_passes():
    require_float32(HOST, sgemm_in_float32)


def test_the_yardstick_in_tf32_is_refused_with_what_may_have_switched_it():
    with pytest.raises(AssertionError, match=r"(?s)does not compute in float32 here: wrong.*NVIDIA_TF32_OVERRIDE"):
        require_float32(HOST, sgemm_in_tf32)


def test_over_thousands_of_terms_the_error_bound_would_let_tf32_pass():
    long_sum = Gemm(32, 32, 4096)
    for problem, passes in ((SHORT_SUM, False), (long_sum, True)):
        A, B, C = inputs(problem)
        sgemm_in_tf32(problem, A, B, C)
        assert tolerance.compare(tolerance.expect(problem, A, B), C).correct is passes
