"""The array module that kernels run on: CuPy where a CUDA device is usable, the emulator otherwise.

`cp`, `name` and `reason` are chosen when one of them is first asked for; GEMMLAB_BACKEND=emulator|cuda forces one.
"""

import ctypes
import functools
import importlib.metadata
import os
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from gemmlab import context
from gemmlab.quoting import first_line

VARIABLE = "GEMMLAB_BACKEND"
NAMES = ("emulator", "cuda")

_PROBE = 'extern "C" __global__ void probe(int* answer) { *answer = 42; }'


class CudaUnavailable(RuntimeError):
    """No CUDA device can run a kernel through CuPy: `missing` says what is not there, `cure` what to do."""

    def __init__(self, missing: str, cure: str):
        super().__init__(f"{missing}. {cure}.")
        self.missing = missing
        self.cure = cure


@dataclass(frozen=True)
class Backend:
    """A chosen backend: `cp` is CuPy ('cuda') or gemmlab.emulator ('emulator'); `reason` says why it was chosen."""

    name: str
    cp: ModuleType
    reason: str


def choose(requested: str = "") -> Backend:
    """Return the backend `requested` by name or, for an empty string, CUDA where it is usable and else the emulator.

    Raises ValueError for another name, and CudaUnavailable when CUDA is requested and cannot be used.
    """
    if requested not in ("", *NAMES):
        raise ValueError(f"{VARIABLE} is {requested!r}, but must be one of {', '.join(NAMES)}, or not set")
    if requested == "emulator":
        return _emulator(f"{VARIABLE}=emulator asks for it")
    try:
        cupy = find_cuda()
    except CudaUnavailable as error:
        if requested == "cuda":
            raise
        return _emulator(error.missing)
    return Backend("cuda", cupy, "a kernel of CuPy ran on the GPU")


def find_cuda() -> ModuleType:
    """Return CuPy, once a kernel of its has run here and its answer has come back. Raises CudaUnavailable."""
    cupy = _import_cupy()
    try:
        _require_driver(cupy.cuda.runtime)
        _require_device(cupy.cuda.runtime)
        _require_compiler(cupy)
        _require_answer(cupy)
    except CudaUnavailable:
        raise
    except Exception as error:
        raise CudaUnavailable(
            f"CuPy {cupy.__version__} finds a GPU and cannot run a kernel on it: {first_line(error)}",
            "Install CuPy with the parts of CUDA that it needs: pip install 'cupy-cuda13x[ctk]', or cupy-cuda12x[ctk] "
            "for a driver of CUDA 12",
        ) from error
    return cupy


def architecture(where: Backend | None = None) -> str:
    """Return the architecture that a backend, the chosen one unless given, compiles for, such as 'sm_90': the GPU's
    own, or the one that the emulator stands for.
    """
    return f"sm_{(where or _chosen()).cp.cuda.Device().compute_capability}"


def cuda_version(number: int) -> str:
    """Return a version as people write it, such as '12.4' for 12040, which is how CUDA's runtime gives it."""
    return f"{_major(number)}.{number % 1000 // 10}"


def __getattr__(attribute: str) -> Any:
    # Chosen late, so that importing gemmlab touches no GPU, and the doctor can speak where the choice fails.
    if attribute in ("cp", "name", "reason"):
        return getattr(_chosen(), attribute)
    raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")


@functools.cache
def _chosen() -> Backend:
    chosen = choose(os.environ.get(VARIABLE, ""))
    if chosen.name == "cuda":
        context.explain_in_notebook(chosen.cp)
    return chosen


def _emulator(reason: str) -> Backend:
    from gemmlab import emulator

    return Backend("emulator", emulator, reason)


def _import_cupy() -> ModuleType:
    try:
        import cupy
    except ModuleNotFoundError as error:
        if error.name != "cupy":
            raise _broken_cupy(error) from error
        raise CudaUnavailable(
            "CuPy is not installed",
            "With an NVIDIA GPU, install the wheel for its driver: pip install 'cupy-cuda13x[ctk]', or "
            "cupy-cuda12x[ctk] for a driver of CUDA 12",
        ) from None
    except Exception as error:
        raise _broken_cupy(error) from error
    return cupy


def _broken_cupy(error: Exception) -> CudaUnavailable:
    return CudaUnavailable(
        f"CuPy is installed and does not import: {first_line(error)}",
        "Uninstall every CuPy wheel that 'pip list' shows, then install the one for your driver",
    )


def _require_driver(runtime: ModuleType) -> None:
    toolkit, driver = runtime.runtimeGetVersion(), runtime.driverGetVersion()
    if not driver:
        raise CudaUnavailable(
            "CuPy is installed, but there is no NVIDIA driver",
            "If this machine has an NVIDIA GPU, install its driver; if it has none, the emulator needs neither",
        )
    # A toolkit runs on a driver of its own major version, whatever the minor ones (CUDA Compatibility guide).
    if _major(toolkit) > _major(driver):
        other = ", or replace CuPy by cupy-cuda12x[ctk]" if _major(driver) == 12 else ""
        raise CudaUnavailable(
            f"CuPy is built for CUDA {cuda_version(toolkit)}, but the driver runs CUDA {cuda_version(driver)} at most",
            f"Install a driver of CUDA {_major(toolkit)}{other}",
        )


def _require_device(runtime: ModuleType) -> None:
    cure = "Check that nvidia-smi lists a GPU and that CUDA_VISIBLE_DEVICES does not hide it"
    try:
        devices = runtime.getDeviceCount()
    except Exception as error:
        raise CudaUnavailable(f"CuPy finds no CUDA device: {first_line(error)}", cure) from error
    if not devices:
        raise CudaUnavailable("CuPy finds no CUDA device", cure)


def _require_compiler(cupy: ModuleType) -> None:
    driver = cupy.cuda.runtime.driverGetVersion()
    if _major(driver) == 12:
        _load_nvrtc_12()
    compiler = cupy.cuda.nvrtc.getVersion()
    if compiler[0] > _major(driver):
        raise CudaUnavailable(
            f"CuPy compiles with NVRTC {'.'.join(map(str, compiler))}, whose code the driver (CUDA "
            f"{cuda_version(driver)}) does not load",
            "Install the NVRTC of CUDA 12 too: pip install nvidia-cuda-nvrtc-cu12",
        )


def _load_nvrtc_12() -> None:
    # CuPy and cuda-bindings take the NVRTC that is loaded already and, where none is, the newest they find.
    for library in (*_files_of("nvidia-cuda-nvrtc-cu12", "libnvrtc.so.12"), "libnvrtc.so.12"):
        try:
            ctypes.CDLL(library)
        except OSError:
            continue
        return


def _files_of(distribution: str, name: str) -> tuple[str, ...]:
    try:
        files = importlib.metadata.files(distribution) or ()
    except importlib.metadata.PackageNotFoundError:
        return ()
    return tuple(str(file.locate()) for file in files if file.name == name)


def _require_answer(cupy: ModuleType) -> None:
    answer = cupy.zeros(1, dtype="int32")
    cupy.RawKernel(_PROBE, "probe")((1,), (1,), (answer,))
    if int(answer[0]) != 42:
        raise RuntimeError(f"a kernel that stores 42 left {int(answer[0])}")


def _major(version: int) -> int:
    return version // 1000
