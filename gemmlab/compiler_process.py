"""NVRTC in a process of its own: no source can crash this one, hold it up, or take its memory.

The process lives on from one compilation to the next, and ends with this one or where a compilation has to be stopped.
"""

import atexit
import faulthandler
import functools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

MEMORY_BYTES = 2 << 30
"""Bytes of address space that the compiler may have, where the system limits them (Linux)."""

_LONGEST = 1e6  # seconds; more would be more than a timer takes
_LAST_MOMENT = 10.0  # seconds; Python closes its output before it is gone


class CompilerStopped(Exception):
    """The compiler ended without an answer; `str()` says why."""


def compiled(name: str, source: str, options: tuple[str, ...], seconds: float) -> tuple[str, str, str]:
    """Compile a source that messages call `name`; return NVRTC's status ('' for success), its log and the PTX.

    Raises CompilerStopped where it takes more than `seconds` or MEMORY_BYTES, or crashes. An interrupt stops it.
    """
    with _turn(os.getpid()):
        process, begun = _living(), time.monotonic()
        try:
            pickle.dump((name, source, options, min(seconds, _LONGEST)), process.stdin)
            process.stdin.flush()
            return pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):  # the last of an answer that breaks off
            late, death = time.monotonic() - begun >= seconds, _death(process)
            raise CompilerStopped(f"took more than {seconds:g} s" if late else death) from None
        except BaseException:
            _end(process)
            raise


def _living() -> subprocess.Popen:
    """The compiler's process, or another where that died with nothing to do."""
    process = _process(os.getpid())
    if process.poll() is not None:
        _end(process)
    return _process(os.getpid())


@functools.cache
def _turn(owner: int) -> threading.Lock:
    """Lets one thread at a time ask; one of its own for a process that was forked while another thread was asking."""
    return threading.Lock()


@functools.cache
def _process(owner: int) -> subprocess.Popen:
    """The compiler's process; one that was forked, whose number `owner` is another, starts its own."""
    command = [sys.executable, "-P", __file__]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    atexit.register(_end, process)
    return process


def _end(process: subprocess.Popen) -> None:
    atexit.unregister(_end)
    _process.cache_clear()
    process.kill()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):  # of what was still to be written to it
            pipe.close()
    process.wait()


def _death(process: subprocess.Popen) -> str:
    """End a process that gave no answer; return how it ended."""
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LAST_MOMENT)
    finally:
        _end(process)
    code = process.returncode
    ended = f"crashed with {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
    return f"{ended}; it may have {MEMORY_BYTES >> 20:,} MiB of memory"


def _serve() -> None:
    """Compile what comes in by standard input, one after the other, until it is closed."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked is interrupted too, and ends this
    _limit_memory()
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())  # what the compiler prints is no answer
        while True:
            try:
                name, source, options, seconds = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)  # needs no turn of Python's lock
            answer = _compile(name, source, options)
            faulthandler.cancel_dump_traceback_later()
            pickle.dump(answer, answers)
            answers.flush()


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MEMORY_BYTES, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def _compile(name: str, source: str, options: tuple[str, ...]) -> tuple[str, str, str]:
    from cuda.bindings import nvrtc

    arguments = [option.encode() for option in options]
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(arguments), arguments)
    log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
    ptx = _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    nvrtc.nvrtcDestroyProgram(program)
    return status.name if status.value else "", log, ptx


def _text(size_of: object, fill: object, program: object) -> str:
    # NVRTC writes into the buffer. Python shares the one bytes object of each single byte, so only a lone zero,
    # which NVRTC overwrites with zero, is safe to pass.
    status, size = size_of(program)
    if status.value:
        return ""
    buffer = b"\0" * size
    fill(program, buffer)
    return buffer.decode(errors="replace").replace("\0", "")


if __name__ == "__main__":
    _serve()
