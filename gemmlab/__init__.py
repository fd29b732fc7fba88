"""A course in CUDA matrix multiplication: kernels, and the instruments to see what they do.

`from gemmlab import cp` gives CuPy where a CUDA device is usable and the emulator where there is none.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "cp":
        from gemmlab import backend

        return backend.cp
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
