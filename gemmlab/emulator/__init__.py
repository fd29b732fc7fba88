"""CUDA kernels with no GPU: the real compiler's PTX, run over NumPy arrays, with CuPy's face.

`from gemmlab import cp` gives this module where there is no CUDA device. Beyond CuPy's names it has `trace`, which
runs one launch and reports memory traffic and hazards by source line.
"""

from numpy import bool_, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64

from gemmlab.nvrtc import CompileError, KernelNotFound

from . import cuda
from .arrays import (
    arange,
    array,
    asarray,
    ascontiguousarray,
    asnumpy,
    empty,
    empty_like,
    full,
    full_like,
    ndarray,
    ones,
    zeros,
    zeros_like,
)
from .device import RawKernel, architecture, time_budget, time_limit, use_architecture
from .faults import Hazard, KernelFault
from .instructions import UnsupportedInstruction
from .ptx import PtxError
from .requests import Request, request
from .trace import Trace, trace
from .traffic import Access

__all__ = [
    "Access",
    "CompileError",
    "Hazard",
    "KernelFault",
    "KernelNotFound",
    "PtxError",
    "RawKernel",
    "Request",
    "Trace",
    "UnsupportedInstruction",
    "arange",
    "architecture",
    "array",
    "asarray",
    "ascontiguousarray",
    "asnumpy",
    "bool_",
    "cuda",
    "empty",
    "empty_like",
    "float16",
    "float32",
    "float64",
    "full",
    "full_like",
    "int8",
    "int16",
    "int32",
    "int64",
    "ndarray",
    "ones",
    "request",
    "time_budget",
    "time_limit",
    "trace",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "use_architecture",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> object:
    if name.startswith("_"):
        raise AttributeError(name)
    raise AttributeError(
        f"the emulator has no cp.{name}: it runs kernels and holds their arrays. Bring an array home with "
        "cp.asnumpy(array), use NumPy there, and send the result back with cp.asarray"
    )
