"""A CUDA context that a launch has ended: which launch, and what to do.

After an address that is not the kernel's, a misaligned access, a trap or a timeout, CUDA answers every later call of
the process with the same error (CUDA Runtime API, cudaErrorIllegalAddress: "the process must be terminated and
relaunched"). Launches return before they run, so the error shows at some later call, which is innocent. `watched`
waits for the launch inside it, and so lays the error at the right door. A learner's own launch, in a cell, is found out
by the next call; `explain_in_notebook` has IPython say then which cell it was, and what to do.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_ended: list[str] = []  # the launch that ended this process's context, once there is one


class ContextLost(RuntimeError):
    """A launch ended the CUDA context: no call to the GPU succeeds in this process any more."""

    def __init__(self, launch: str, error: object):
        super().__init__(
            f"{launch} ended this process's CUDA context: {error}\n"
            "Every later call to the GPU fails too. Restart the notebook's kernel (Kernel > Restart Kernel), or the "
            "program, before you use the GPU again; results that are NumPy arrays stay until then. To find the line, "
            "run the same launch on the emulator, which needs no GPU and names line, block and thread: xp=emulator."
        )
        self.launch = launch


def require_alive(xp: ModuleType, asker: str) -> None:
    """Raise ContextLost when a launch has ended the context of `xp`; `asker` names in words what is to come."""
    try:
        xp.cuda.Device().synchronize()
    except Exception as error:
        raise ContextLost(_ended[0] if _ended else f"a launch before {asker}", error) from error


@contextmanager
def watched(xp: ModuleType, launch: str) -> Iterator[None]:
    """Wait on `xp`, CuPy or the emulator, for all that is submitted inside; `launch` names it in words.

    Raises ContextLost when it, or a launch before it, has ended the context. Other errors pass through.
    """
    require_alive(xp, launch)
    try:
        yield
        xp.cuda.Device().synchronize()
    except Exception as error:
        if not _is_lost(xp):
            raise
        _ended.append(launch)
        raise ContextLost(launch, error) from error


def explain_in_notebook(cupy: ModuleType) -> None:
    """Have IPython, where it runs, add to a CUDA error of a cell that the context has ended, if it has."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None:
        return

    def explain(shell: Any, kind: type, error: BaseException, traceback: Any, tb_offset: int | None = None) -> None:
        shell.showtraceback((kind, error, traceback), tb_offset=tb_offset)
        if _is_lost(cupy):
            if not _ended:
                cell = len(shell.user_ns["In"]) - 1  # the count of executions moves on before a cell runs, or after
                _ended.append(f"a launch of cell [{cell}], or one before it,")
            print(ContextLost(_ended[0], error))

    shell.set_custom_exc((cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError), explain)


def _is_lost(xp: ModuleType) -> bool:
    try:
        xp.cuda.Device().synchronize()
    except Exception:  # whatever CuPy raises here, no later call can succeed either
        return True
    return False
