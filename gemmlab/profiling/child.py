"""A program in a child process, run to its end or to a limit of time."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence


def run(command: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None) -> str:
    """Run a command to its end and return what went wrong, in words, or ''.

    At the limit of time it is killed with all that it has started, such as the program under a profiler.
    """
    try:
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return f"it did not start: {error}"
    try:
        _, complaint = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        _kill(process)
        process.communicate()
        return f"it was still running after {seconds} s"
    last = (complaint.strip().splitlines() or ["it said nothing"])[-1]
    return f"its process ended with status {process.returncode}: {last}" if process.returncode else ""


def _kill(process: subprocess.Popen) -> None:
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
