"""What a GPU reports of itself: clocks, temperature, power, and what holds its clocks down.

The numbers come from NVML, a library of the driver, and a read takes microseconds: it can be made while a kernel runs.
What cannot be read is None. On GPUs after the A100 NVML averages power over a second, so that watts lag behind a kernel
and say little of one that ran for less.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml

SLOWDOWNS = {
    pynvml.nvmlClocksEventReasonSwPowerCap: "power cap",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power brake",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "temperature, by the driver",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "temperature, by the hardware",
    pynvml.nvmlClocksEventReasonHwSlowdown: "hardware slowdown",
}
"""NVML's reasons for clocks below what was asked for, by their bit. Idleness and clocks that a user set are none."""


@dataclass(frozen=True)
class Reading:
    """Clocks in MHz, degrees Celsius and watts at one moment, and the SLOWDOWNS in force; None for what is unknown."""

    sm_mhz: int | None
    memory_mhz: int | None
    celsius: int | None
    watts: float | None
    slowed_by: tuple[str, ...]

    def __str__(self) -> str:
        slowed = f", slowed by {', '.join(self.slowed_by)}" if self.slowed_by else ""
        clocks = f"multiprocessors {_known(self.sm_mhz)} MHz, memory {_known(self.memory_mhz)} MHz"
        return f"{clocks}, {_known(self.celsius)} C{slowed}"


def reader(bus_id: str) -> Callable[[], Reading | None]:
    """Return a function that reads the GPU at an address on the PCI bus, such as '0000:18:00.0', as CuPy gives it.

    By address, because CUDA_VISIBLE_DEVICES renumbers CuPy's devices and not NVML's. Where the driver has no NVML, or
    none that knows the GPU, the function returns None.
    """
    try:
        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByPciBusId(bus_id)
    except pynvml.NVMLError:
        return lambda: None
    return lambda: _read(gpu)


def driver() -> str | None:
    """Return the driver's version, such as '580.159.04', or None where there is none."""
    try:
        pynvml.nvmlInit()
        return pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError:
        return None


def _read(gpu: Any) -> Reading:
    milliwatts = _ask(pynvml.nvmlDeviceGetPowerUsage, gpu)
    reasons = _ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons, gpu) or 0
    return Reading(
        sm_mhz=_ask(pynvml.nvmlDeviceGetClockInfo, gpu, pynvml.NVML_CLOCK_SM),
        memory_mhz=_ask(pynvml.nvmlDeviceGetClockInfo, gpu, pynvml.NVML_CLOCK_MEM),
        celsius=_ask(pynvml.nvmlDeviceGetTemperature, gpu, pynvml.NVML_TEMPERATURE_GPU),
        watts=None if milliwatts is None else milliwatts / 1e3,
        slowed_by=tuple(name for bit, name in SLOWDOWNS.items() if reasons & bit),
    )


def _ask(question: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return question(*arguments)
    except pynvml.NVMLError:  # a virtual or an older GPU does not answer every question
        return None


def _known(figure: int | None) -> str:
    return "-" if figure is None else str(figure)
