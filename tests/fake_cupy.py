"""A stand-in for CuPy, sound unless told otherwise: it answers with what it is given, and its kernels do `run`."""

import itertools
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import numpy as np

from gemmlab import emulator

ILLEGAL_ADDRESS = "cudaErrorIllegalAddress: an illegal memory access was encountered"


def store_42(grid, block, arguments):
    """Do what the probe's kernel does."""
    arguments[0][0] = 42


def fake_cupy(
    driver: int = 13000,
    toolkit: int = 13020,
    devices: Callable[[], int] = lambda: 1,
    compiler: Callable[[], tuple[int, int]] = lambda: (13, 0),
    run: Callable = store_42,
) -> ModuleType:
    """Return a module that answers as CuPy 14.2.0 does; versions are CUDA's integers, 12.4 written as 12040."""
    cupy = ModuleType("cupy")
    cupy.__version__ = "14.2.0"
    cupy.zeros = np.zeros
    cupy.RawKernel = lambda source, name: run
    cupy.cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(compute_capability="90", synchronize=lambda: None),
        nvrtc=SimpleNamespace(getVersion=compiler),
        runtime=SimpleNamespace(
            driverGetVersion=lambda: driver, runtimeGetVersion=lambda: toolkit, getDeviceCount=devices
        ),
    )
    return cupy


def raising(message: str) -> Callable:
    """Return a function that fails as CuPy's calls do, whatever it is given."""

    def fail(*arguments):
        raise RuntimeError(message)

    return fail


def breaking_cupy(at: int) -> ModuleType:
    """Return a CuPy whose kernels run on the emulator up to launch `at`, which ends the context as a wild address does:
    the launch itself returns, and every later call fails.
    """
    cupy = fake_cupy()
    launches, ended = itertools.count(1), []

    def until_the_end(function: Callable) -> Callable:
        def call(*arguments):
            if ended:
                raise RuntimeError(ILLEGAL_ADDRESS)
            return function(*arguments)

        return call

    class Kernel(emulator.RawKernel):
        def __call__(self, grid, block, args, *, shared_mem=0):
            if next(launches) == at:
                ended.append(True)
            else:
                super().__call__(grid, block, args, shared_mem=shared_mem)

    cupy.RawKernel = Kernel
    cupy.asarray, cupy.asnumpy = until_the_end(emulator.asarray), until_the_end(emulator.asnumpy)
    synchronize = until_the_end(lambda: None)
    cupy.cuda.Device = lambda: SimpleNamespace(compute_capability="90", synchronize=synchronize)
    return cupy


def install_broken_cupy(folder, monkeypatch) -> None:
    """Put a CuPy that is there and does not import first on the path."""
    (folder / "cupy").mkdir()
    (folder / "cupy" / "__init__.py").write_text("raise ImportError('libcupy.so: wrong ELF class')\n")
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.syspath_prepend(folder)
