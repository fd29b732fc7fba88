"""A stand-in for a GPU: kernels run on the emulator, and events read a clock that each launch moves on."""

from types import SimpleNamespace

from gemmlab import emulator


class FakeGpu:
    """Answers as CuPy does; `launch_ms` holds what a launch takes by a kernel's entry, `launches` what was launched."""

    __version__ = "14.2.0"
    asarray, asnumpy = staticmethod(emulator.asarray), staticmethod(emulator.asnumpy)

    def __init__(self, launch_ms):
        self.now, self.launch_ms, self.launches = 0.0, launch_ms, []
        self.cuda = SimpleNamespace(
            Device=lambda: SimpleNamespace(compute_capability="90", synchronize=lambda: None),
            Event=lambda: FakeEvent(self),
            get_elapsed_time=lambda start, stop: stop.time - start.time,
            nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)),
            runtime=SimpleNamespace(
                getDevice=lambda: 0,
                getDeviceProperties=lambda device: {"name": b"NVIDIA H200"},
                deviceGetPCIBusId=lambda device: "0000:18:00.0",
                runtimeGetVersion=lambda: 13000,
            ),
        )

    def passes(self, name):
        self.launches.append(name)
        self.now += self.launch_ms[name]

    def sgemm(self, problem, A, B, C):
        """Do what cublas.cublas_sgemm does, for alpha 1 and beta 0."""
        C.set(A.get() @ B.get())
        self.passes("cublas")

    def RawKernel(self, code, name, options):
        return FakeKernel(self, code, name, options)


class FakeKernel(emulator.RawKernel):
    def __init__(self, gpu, code, name, options):
        super().__init__(code, name, options)
        self.gpu = gpu

    def __call__(self, grid, block, args, *, shared_mem=0):
        super().__call__(grid, block, args, shared_mem=shared_mem)
        self.gpu.passes(self.name)


class FakeEvent:
    def __init__(self, gpu):
        self.gpu = gpu

    def record(self):
        self.time = self.gpu.now

    def synchronize(self):
        pass
