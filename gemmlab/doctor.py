"""What this machine has of what gemmlab needs: one check a part, each failure with its cure."""

import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gemmlab import backend
from gemmlab.quoting import first_line

DRIVER_PARAMETERS = Path("/proc/driver/nvidia/params")
PROCESS_STATUS = Path("/proc/self/status")

PERMIT = (
    "Put 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' into /etc/modprobe.d/nvidia.conf and restart; on a "
    "rented GPU, where you cannot, read the emulator's counts"
)
"""What gives every user of a machine the right to read its GPU's counters."""

IMPORTED = ("numpy", "matplotlib.pyplot", "ipywidgets", "ipykernel", "tqdm")
"""What notebooks import, or run in, beside a backend."""

_CAP_SYS_ADMIN = 21
_SMI_S = 60.0  # a driver that wakes up answers within a few
_ENVIRONMENT = Path(__file__).parent.parent / ".venv"  # that make sets up, in a checkout
_PROBE = """
extern "C" __global__ void probe(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + 1.0f;
}
"""


@dataclass(frozen=True)
class Check:
    """One part that was looked at: whether it is in order, what was found and, where it is not, the cure."""

    name: str
    ok: bool
    detail: str
    cure: str = ""


@dataclass(frozen=True)
class Card:
    """A GPU as the driver names it: `architecture` such as 'sm_90', `driver` such as '580.159.04'."""

    name: str
    architecture: str
    driver: str


class DriverFailed(RuntimeError):
    """nvidia-smi is installed and could not list the GPUs; the message is its own."""


def examine() -> tuple[Check, ...]:
    """Return every check, in the order of the report."""
    return tuple(_examined(name, check) for name, check in CHECKS.items())


def can_run(checks: tuple[Check, ...]) -> bool:
    """Say whether the notebooks can run on some backend."""
    return all(check.ok for check in checks if check.name in ("imports", "backend"))


def report(checks: tuple[Check, ...]) -> str:
    """Return a line [OK] or [FAIL] a check, each failure followed by its cure."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{'[OK]' if check.ok else '[FAIL]':<6} {check.name:<{width}}  {check.detail}")
        if not check.ok:
            lines.append(f"{'':<6} {'':<{width}}  cure: {check.cure}")
    return "\n".join(lines)


def as_data(checks: tuple[Check, ...]) -> dict[str, Any]:
    """Return the checks as JSON's types: {"ok": can_run, "checks": [{"name", "ok", "detail", "cure"}]}."""
    return {"ok": can_run(checks), "checks": [asdict(check) for check in checks]}


def missing_cure(otherwise: str = "Install gemmlab again, with all that it needs: pip install --editable .") -> str:
    """Return what to do about packages that this Python lacks: `otherwise`, unless make has set up another Python."""
    if _ENVIRONMENT.is_dir() and Path(sys.prefix).resolve() != _ENVIRONMENT.resolve():
        return f"This is {sys.executable}; gemmlab is set up in .venv: source .venv/bin/activate, and run it again"
    return otherwise


def check_python() -> Check:
    """Check the interpreter against the versions that gemmlab's metadata asks for."""
    from packaging.specifiers import SpecifierSet

    needed = importlib.metadata.metadata("gemmlab")["Requires-Python"]
    found = platform.python_version()
    if SpecifierSet(needed).contains(found, prereleases=True):
        return Check("Python", True, found)
    cure = "Make .venv anew with a newer one: make clean, then make lab PYTHON=python3.12"
    return Check("Python", False, f"{found}, but gemmlab needs {needed}", cure)


def check_packages() -> Check:
    """Check every dependency in gemmlab's metadata against its bounds; extras, such as CuPy, are left out."""
    from packaging.requirements import Requirement

    requirements = [Requirement(line) for line in importlib.metadata.requires("gemmlab") or ()]
    needed = [each for each in requirements if not each.marker or each.marker.evaluate({"extra": ""})]
    faults = {f"'{each.name}{each.specifier}'": fault for each in needed if (fault := _fault(each))}
    if faults:
        return Check("packages", False, "; ".join(faults.values()), missing_cure(f"pip install {' '.join(faults)}"))
    return Check("packages", True, f"{len(needed)}, all within their bounds")


def check_imports() -> Check:
    """Check that what notebooks need beside a backend imports: an installed package may be broken all the same."""
    faults = {}
    for name in IMPORTED:
        try:
            importlib.import_module(name)
        except Exception as error:  # a broken package can raise anything
            faults[name] = first_line(error)
    if not faults:
        return Check("imports", True, ", ".join(IMPORTED))
    broken = " ".join(name.partition(".")[0] for name in faults)
    detail = "; ".join(f"{name} does not import: {fault}" for name, fault in faults.items())
    return Check("imports", False, detail, missing_cure(f"pip install --force-reinstall {broken}"))


def check_cupy() -> Check:
    """Check that at most one CuPy is installed and, where one is, that its kernels run."""
    wheels = _cupy_wheels()
    if len(wheels) > 1:
        names = " ".join(wheels)
        return Check(
            "CuPy",
            False,
            f"{len(wheels)} are installed, and each overwrites files of the other: {names}",
            f"pip uninstall {names}, then install only the one for your driver",
        )
    if not wheels and not _has_driver():
        return Check("CuPy", True, "not installed, and none is needed without an NVIDIA GPU")
    try:
        cupy = backend.find_cuda()
    except backend.CudaUnavailable as error:
        return Check("CuPy", False, error.missing, error.cure)
    return Check("CuPy", True, f"{cupy.__version__}, and its kernels run")


def check_nvrtc() -> Check:
    """Check NVRTC by compiling a kernel."""
    from gemmlab import nvrtc

    try:
        nvrtc.compile_ptx(_PROBE)
    except (nvrtc.CompilerUnavailable, nvrtc.CompileError) as error:
        cure = "pip install cuda-bindings nvidia-cuda-nvrtc (NVIDIA makes no NVRTC for macOS: use Linux or Colab)"
        return Check("NVRTC", False, first_line(error), cure)
    return Check("NVRTC", True, f"{_dotted(nvrtc.version())}, and it compiles")


def check_emulator() -> Check:
    """Check the emulator by running y = 2x + 1 on more threads than elements."""
    import numpy as np

    from gemmlab import emulator

    x = np.arange(5, dtype=np.float32)
    y = emulator.zeros(5, dtype=np.float32)
    emulator.RawKernel(_PROBE, "probe")((2,), (4,), (np.int32(5), np.float32(2), emulator.asarray(x), y))
    result = emulator.asnumpy(y).tolist()
    if result != [1, 3, 5, 7, 9]:
        raise RuntimeError(f"a kernel for 2x + 1 of 0, 1, 2, 3, 4 gave {result}")
    return Check("emulator", True, "its kernels run")


def check_gpu() -> Check:
    """Check what nvidia-smi lists, and that NVRTC compiles for the first GPU. No GPU at all is in order."""
    from gemmlab import nvrtc

    if not _has_driver():
        return Check("GPU", True, "nvidia-smi is not installed, so none is expected: the emulator runs every notebook")
    try:
        cards = list_cards()
    except DriverFailed as error:
        cure = "Restart the machine; if that does not help, install NVIDIA's driver again"
        return Check("GPU", False, f"nvidia-smi: {error}", cure)
    first = cards[0]
    found = f"{first.name}, {first.architecture}, driver {first.driver}"
    known = nvrtc.supported_architectures()
    if first.architecture not in known:
        return Check(
            "GPU",
            False,
            f"{found}, but NVRTC {_dotted(nvrtc.version())} compiles for {known[0]} to {known[-1]}",
            f"Run the notebooks on the emulator: set {backend.VARIABLE}=emulator",
        )
    return Check("GPU", True, found + (f", and {len(cards) - 1} more" if len(cards) > 1 else ""))


def check_profiler() -> Check:
    """Check whether this user may read the GPU's counters, as Nsight Compute does."""
    if not _has_driver():
        return Check("profiler", True, "no GPU to profile; the emulator counts sectors and wavefronts by itself")
    try:
        restricted = re.search(r"^RmProfilingAdminOnly: 1$", DRIVER_PARAMETERS.read_text(), re.MULTILINE)
    except OSError:
        return Check("profiler", True, f"this system does not say who may profile ({DRIVER_PARAMETERS} cannot be read)")
    if not restricted:
        return Check("profiler", True, "every user may read the GPU's counters")
    if _is_administrator():
        return Check("profiler", True, "only an administrator may read the GPU's counters, and you are one")
    return Check(
        "profiler",
        False,
        "only an administrator may read the GPU's counters (NVreg_RestrictProfilingToAdminUsers=1)",
        PERMIT,
    )


def check_backend() -> Check:
    """Check that the backend which the notebooks would use can be chosen and works; say why it is the one."""
    requested = os.environ.get(backend.VARIABLE, "")
    try:
        chosen = backend.choose(requested)
    except (ValueError, backend.CudaUnavailable) as error:
        return Check("backend", False, str(error).rstrip("."), f"Unset {backend.VARIABLE}, or set it to emulator")
    if chosen.name == "emulator" and not (emulator := _examined("emulator", check_emulator)).ok:
        return Check("backend", False, f"none: {chosen.reason}, and the emulator does not run", emulator.cure)
    return Check("backend", True, f"{chosen.name}: {chosen.reason}")


# CuPy comes before NVRTC, because it picks an NVRTC that the driver can follow, and a process keeps the first it loads.
CHECKS: dict[str, Callable[[], Check]] = {
    "Python": check_python,
    "packages": check_packages,
    "imports": check_imports,
    "CuPy": check_cupy,
    "NVRTC": check_nvrtc,
    "emulator": check_emulator,
    "GPU": check_gpu,
    "profiler": check_profiler,
    "backend": check_backend,
}


def list_cards() -> tuple[Card, ...]:
    """Return the GPUs that nvidia-smi lists. Raises DriverFailed when it fails, lists none, or says something else."""
    query = ["nvidia-smi", "--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, check=False, timeout=_SMI_S)
    except subprocess.TimeoutExpired:
        raise DriverFailed(f"it has not answered for {_SMI_S:g} s") from None
    rows = [re.fullmatch(r"(.+), (\d+)\.(\d+), (\S+)", line) for line in answer.stdout.splitlines()]
    if answer.returncode or not rows or None in rows:
        raise DriverFailed(" ".join((answer.stdout + answer.stderr).split()) or "it lists no GPU")
    return tuple(Card(row[1], f"sm_{row[2]}{row[3]}", row[4]) for row in rows)


def _examined(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except Exception as error:  # a broken package can raise anything, and the other checks must still be made
        return Check(name, False, f"{type(error).__name__}: {first_line(error)}", missing_cure())


def _fault(requirement: Any) -> str:
    try:
        found = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{requirement.name} is missing"
    if requirement.specifier.contains(found, prereleases=True):
        return ""
    return f"{requirement.name} is {found}, outside {requirement.specifier}"


def _cupy_wheels() -> list[str]:
    names = {distribution.metadata["Name"] or "" for distribution in importlib.metadata.distributions()}
    return sorted(name for name in names if re.fullmatch(r"cupy(-cuda\d+x?|-rocm.*)?", name))


def _has_driver() -> bool:
    return shutil.which("nvidia-smi") is not None


def _is_administrator() -> bool:
    # Root inside a container may lack the capability, so the capability is what is looked at.
    match = re.search(r"^CapEff:\s*(\w+)$", PROCESS_STATUS.read_text(), re.MULTILINE)
    return bool(match) and bool(int(match[1], 16) >> _CAP_SYS_ADMIN & 1)


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
