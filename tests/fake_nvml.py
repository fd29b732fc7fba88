"""A stand-in for NVML: a driver whose one GPU answers what it is told to."""

from types import SimpleNamespace

import pynvml

BUS_ID = "0000:18:00.0"
DRIVER = "580.159.04"


def install(monkeypatch, **answers) -> SimpleNamespace:
    """Put a driver and one GPU at BUS_ID in the place of this machine's, and return its answers, which may be changed.

    Clocks are in MHz, power in milliwatts, `reasons` NVML's bits; an answer of None is a question not supported.
    """
    gpu = SimpleNamespace(sm=1980, memory=3201, celsius=36, milliwatts=300_000, reasons=0)
    vars(gpu).update(answers)

    def answer(value):
        if value is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return value

    def handle(bus_id):
        if bus_id != BUS_ID:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return gpu

    clocks = {pynvml.NVML_CLOCK_SM: "sm", pynvml.NVML_CLOCK_MEM: "memory"}
    for name, function in {
        "nvmlInit": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: DRIVER,
        "nvmlDeviceGetHandleByPciBusId": handle,
        "nvmlDeviceGetClockInfo": lambda device, kind: answer(getattr(device, clocks[kind])),
        "nvmlDeviceGetTemperature": lambda device, sensor: answer(device.celsius),
        "nvmlDeviceGetPowerUsage": lambda device: answer(device.milliwatts),
        "nvmlDeviceGetCurrentClocksEventReasons": lambda device: answer(device.reasons),
    }.items():
        monkeypatch.setattr(pynvml, name, function)
    return gpu


def remove(monkeypatch) -> None:
    """Take the driver away: NVML is not found."""

    def missing():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
