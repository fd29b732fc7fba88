"""What a run ran on: versions, the GPU and its state, in the form of a record's `environment`."""

import platform
from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np

from gemmlab import nvrtc, sensors
from gemmlab.backend import Backend, architecture, cuda_version

AFTER_SAMPLES = "after the last sample"


def card_name(where: Backend) -> str | None:
    """Return the GPU of a backend as the driver names it, such as 'NVIDIA H200'; None for the emulator."""
    if where.name == "emulator":
        return None
    runtime = where.cp.cuda.runtime
    name = runtime.getDeviceProperties(runtime.getDevice())["name"]
    return name.decode() if isinstance(name, bytes) else name


def environment(where: Backend, conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `environment` of a run on a backend, as records.ENVIRONMENT describes it.

    `conditions` are the run's own; "clocks" is None among them unless they hold what `clocks` gave. What there is none
    of, or cannot be read, is None.
    """
    common = {
        "architecture": architecture(where),
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "conditions": {"clocks": None, **conditions},
    }
    if where.name == "emulator":
        return common | _no_gpu() | {"nvrtc": _dotted(nvrtc.version())}
    cupy = where.cp
    return common | {
        "card": card_name(where),
        "driver": sensors.driver(),
        "cuda": cuda_version(cupy.cuda.runtime.runtimeGetVersion()),
        "cupy": cupy.__version__,
        "nvrtc": _dotted(cupy.cuda.nvrtc.getVersion()),
    }


def clocks(where: Backend, when: str) -> str | None:
    """Return clocks and temperature of a backend's GPU, as they stand now, in words; `when` says what that moment is.

    None for the emulator, and for a GPU that cannot be asked.
    """
    if where.name == "emulator":
        return None
    runtime = where.cp.cuda.runtime
    reading = sensors.reader(runtime.deviceGetPCIBusId(runtime.getDevice()))()
    return f"{reading}, {when}" if reading else None


def _no_gpu() -> dict[str, None]:
    return dict.fromkeys(("card", "driver", "cuda", "cupy"))


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
