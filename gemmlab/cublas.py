"""NVIDIA's own SGEMM, the yardstick of the ladder, through CuPy."""

import ctypes
from collections.abc import Callable
from typing import Any

from gemmlab import tolerance
from gemmlab.gemm import Gemm, inputs

# The bound of an error grows with K and that of TF32's inputs does not: over thousands of terms TF32 would pass.
SHORT_SUM = Gemm(256, 256, 32)


def cublas_sgemm(problem: Gemm, A: Any, B: Any, C: Any) -> None:
    """Compute C = alpha * A @ B + beta * C on the current stream with cuBLAS in float32, TF32 off.

    The default math mode keeps to float32 or better for float32 operands; TF32 needs another (cuBLAS, cublasMath_t).
    Its flag on reduced precision concerns products whose sums might be kept in half precision, which SGEMM has not.

    A, B and C are contiguous row-major CuPy arrays of float32. cuBLAS reads columns first, to which they look
    transposed: it is asked for C^T = B^T @ A^T, which is C row by row. Raises TypeError or ValueError for an array
    of another dtype, shape or layout.
    """
    from cupy.cuda import device
    from cupy_backends.cuda.libs import cublas

    for name, array in (("A", A), ("B", B), ("C", C)):
        _check_operand(problem, name, array)
    M, N, K = problem.M, problem.N, problem.K
    alpha, beta = ctypes.c_float(problem.alpha), ctypes.c_float(problem.beta)
    handle = device.get_cublas_handle()
    math_mode, pointer_mode = cublas.getMathMode(handle), cublas.getPointerMode(handle)
    cublas.setMathMode(handle, cublas.CUBLAS_DEFAULT_MATH)
    cublas.setPointerMode(handle, cublas.CUBLAS_POINTER_MODE_HOST)
    try:
        cublas.sgemm(
            handle,
            cublas.CUBLAS_OP_N,
            cublas.CUBLAS_OP_N,
            N,
            M,
            K,
            ctypes.addressof(alpha),
            B.data.ptr,
            N,
            A.data.ptr,
            K,
            ctypes.addressof(beta),
            C.data.ptr,
            N,
        )
    finally:
        cublas.setMathMode(handle, math_mode)
        cublas.setPointerMode(handle, pointer_mode)


def require_float32(cp: Any, sgemm: Callable[[Gemm, Any, Any, Any], None] = cublas_sgemm) -> None:
    """Raise AssertionError unless `sgemm` is right on a sum so short that inputs rounded to TF32 would show.

    A variable of the environment can switch cuBLAS to TF32 or to emulated float32 behind every setting of a program.
    """
    A, B, C = inputs(SHORT_SUM)
    device_C = cp.asarray(tolerance.initial_output(SHORT_SUM, C))
    sgemm(SHORT_SUM, cp.asarray(A), cp.asarray(B), device_C)
    verdict = tolerance.compare(tolerance.expect(SHORT_SUM, A, B), cp.asnumpy(device_C))
    if not verdict.correct:
        raise AssertionError(
            f"cuBLAS, the yardstick, does not compute in float32 here: {verdict.message}\n"
            "Unset NVIDIA_TF32_OVERRIDE and CUBLAS_EMULATE_SINGLE_PRECISION, if they are set, and start again"
        )


def _check_operand(problem: Gemm, name: str, array: Any) -> None:
    if array.dtype != "float32":
        raise TypeError(f"{name} has dtype {array.dtype}, but cuBLAS's SGEMM takes float32")
    if array.shape != problem.shapes[name]:
        raise ValueError(f"{name} has shape {array.shape}, but must be {problem.shapes[name]} for {problem}")
    if not array.flags.c_contiguous:
        raise ValueError(
            f"{name} has strides {array.strides}, but must be row-major and contiguous: use cp.ascontiguousarray"
        )
