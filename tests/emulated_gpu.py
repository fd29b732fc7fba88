"""A GPU for sweeps: kernels run on the emulator, once a problem, and events read a clock that launches move on."""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np

from gemmlab import emulator

CARD = "NVIDIA H200"


class EmulatedGpu:
    """Stands for CuPy, also for kernel_tuner's backend. `cost_ms` gives a launch's time from its grid and block."""

    __version__ = "14.2.0"
    asarray, asnumpy, array = map(staticmethod, (emulator.asarray, emulator.asnumpy, emulator.asarray))
    ndarray = type(emulator.asarray(np.zeros(1, np.float32)))

    def __init__(self, cost_ms: Callable[[tuple, tuple], float] = lambda grid, block: 1.0):
        self.now, self.cost_ms = 0.0, cost_ms
        self.launched: dict[tuple, object] = {}  # and the C of each, which keeps its identity while it is kept
        self.compiled: list[tuple[str, ...]] = []
        self.cuda = SimpleNamespace(
            Device=lambda device=0: SimpleNamespace(
                compute_capability="90",
                attributes={"MaxThreadsPerBlock": 1024},
                synchronize=lambda: None,
                use=lambda: None,
            ),
            Event=lambda: Event(self),
            Stream=lambda: SimpleNamespace(synchronize=lambda: None),
            get_elapsed_time=lambda start, stop: stop.time - start.time,
            nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)),
            runtime=SimpleNamespace(
                driverGetVersion=lambda: 13000,
                getDevice=lambda: 0,
                getDeviceProperties=lambda device: {"name": CARD.encode(), "uuid": bytes(16)},
                deviceGetPCIBusId=lambda device: "0000:18:00.0",
                runtimeGetVersion=lambda: 13000,
            ),
        )

    def RawKernel(self, code, name, options=()):
        self.compiled.append(tuple(options))
        return Kernel(self, code, name, options)

    def RawModule(self, code, options, name_expressions):
        return SimpleNamespace(get_function=lambda name: self.RawKernel(code, name, options))

    def copyto(self, destination, source):
        destination.set(emulator.asnumpy(source))
        self.launched.clear()


class Kernel(emulator.RawKernel):
    """A kernel that runs at its first launch on each problem; later ones would repeat it, and move the clock alone."""

    def __init__(self, gpu, code, name, options):
        super().__init__(code, name, tuple(options))
        self.gpu, self.text = gpu, (code, tuple(options))

    def __call__(self, grid, block, args, *, shared_mem=0, stream=None):
        launch = (*self.text, tuple(grid), id(args[7]))
        if launch not in self.gpu.launched:
            self.gpu.launched[launch] = args[7]
            super().__call__(tuple(grid), tuple(block), tuple(args), shared_mem=shared_mem)
        self.gpu.now += self.gpu.cost_ms(tuple(grid), tuple(block))


class Event:
    """A CUDA event of that clock."""

    done = True

    def __init__(self, gpu):
        self.gpu = gpu

    def record(self, stream=None):
        self.time = self.gpu.now

    def synchronize(self):
        pass


def runtime_info() -> str:
    """Return what cupyx.get_runtime_info prints, as far as kernel_tuner reads it."""
    return f"Device 0 Name                : {CARD}\nDevice 0 PCI Bus ID          : 0000:18:00.0\n"
