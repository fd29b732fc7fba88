"""NVIDIA's own SGEMM, the yardstick of the ladder, through CuPy."""

import ctypes
from typing import Any

from gemmlab.gemm import Gemm


def cublas_sgemm(problem: Gemm, A: Any, B: Any, C: Any) -> None:
    """Compute C = alpha * A @ B + beta * C on the current stream with cuBLAS in float32, TF32 off.

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


def _check_operand(problem: Gemm, name: str, array: Any) -> None:
    if array.dtype != "float32":
        raise TypeError(f"{name} has dtype {array.dtype}, but cuBLAS's SGEMM takes float32")
    if array.shape != problem.shapes[name]:
        raise ValueError(f"{name} has shape {array.shape}, but must be {problem.shapes[name]} for {problem}")
    if not array.flags.c_contiguous:
        raise ValueError(
            f"{name} has strides {array.strides}, but must be row-major and contiguous: use cp.ascontiguousarray"
        )
