"""NVIDIA's command-line tools, Nsight Compute and compute-sanitizer: finding them, and why one gave no answer."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gemmlab import backend

CUDA_FOLDERS = ("CUDA_PATH", "CUDA_HOME")  # variables that name an installed CUDA toolkit
TOOLKIT = Path("/usr/local/cuda")  # where its installer puts it on Linux
LAST_WORDS = 400  # characters of a tool's output that an error quotes


class ToolFailed(RuntimeError):
    """A tool gave no answer: `wrong` says what happened, `cure` what to do."""

    def __init__(self, wrong: str, cure: str):
        super().__init__(f"{wrong}. {cure}.")
        self.wrong = wrong
        self.cure = cure

    def _render_traceback_(self) -> list[str]:
        # IPython prints this in place of a traceback, whose frames say nothing about the tool.
        return [f"{type(self).__name__}: {self}"]


class NotInstalled(ToolFailed):
    """The tool's program is not on this machine."""


class NotPermitted(ToolFailed):
    """This user may not read the GPU's counters."""


class NoKernel(ToolFailed):
    """No kernel ran on a GPU under the tool: there is none, or the launch failed."""


class NotUnderstood(ToolFailed):
    """The tool ended without the answer that its documentation promises."""


@dataclass(frozen=True)
class Tool:
    """A tool: its name, its program, and where else than on PATH a program may be, as patterns under `folder`."""

    name: str
    program: str
    package: str
    folder: Path = TOOLKIT
    pattern: str = "bin"

    def find(self) -> str:
        """Return the path of the program. Raises NotInstalled that says how to get it."""
        toolkits = [Path(os.environ[name]) / "bin" for name in CUDA_FOLDERS if name in os.environ]
        # Newest last by name, as the installers number their folders.
        installed = sorted(self.folder.glob(self.pattern), reverse=True)
        for folder in (None, *toolkits, TOOLKIT / "bin", *installed):
            found = shutil.which(self.program, path=None if folder is None else str(folder))
            if found:
                return found
        raise NotInstalled(
            f"{self.name} is not installed: there is no {self.program} on PATH or in a CUDA toolkit",
            f"It comes with the CUDA toolkit; alone: conda install -c nvidia {self.package}. Until then read the "
            "emulator's findings and the shipped captures",
        )


NSIGHT_COMPUTE = Tool("Nsight Compute", "ncu", "nsight-compute", Path("/opt/nvidia/nsight-compute"), "*")
COMPUTE_SANITIZER = Tool("compute-sanitizer", "compute-sanitizer", "cuda-sanitizer-api")


def version(program: str) -> str:
    """Return such as '2025.3.1.0'. Raises OSError where there is no such program, ValueError when it says nothing."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    match = re.search(r"[Vv]ersion\s+([\d.]+)", said)
    if match is None:
        raise ValueError(f"{program} --version names no version: {last_words(said)}")
    return match[1]


def require_gpu(tool: Tool) -> None:
    """Raise NoKernel where kernels run on the emulator, which has nothing that a tool could watch."""
    if backend.name != "cuda":
        raise NoKernel(
            f"{tool.name} watches a GPU, and kernels run on the emulator here ({backend.reason})",
            "Read the emulator's findings and the shipped captures, or run this on a machine with a GPU",
        )


def last_words(text: str) -> str:
    """Return the end of what a tool said, in one line, or that it said nothing."""
    return " / ".join(line.strip() for line in text.strip()[-LAST_WORDS:].splitlines()) or "it said nothing"
