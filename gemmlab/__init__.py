"""A course in CUDA matrix multiplication: kernels, and the instruments to see what they do.

`from gemmlab import cp` gives CuPy where a CUDA device is usable and the emulator where there is none.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    # The backend is chosen when `cp` is first asked for, so that a machine with a broken CuPy can still import gemmlab.
    if name == "cp":
        from gemmlab.backend import cp

        return cp
    raise AttributeError(f"module 'gemmlab' has no attribute {name!r}")
