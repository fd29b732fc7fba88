"""A stand-in for cupy.cuda: one stream whose clock launches move on, events that read it, and a log of all calls."""

from types import SimpleNamespace

import fake_nvml

from gemmlab import emulator

L2 = 60 << 20


class FakeCuda:
    """Stands for cupy.cuda on one stream: every launch takes the next of `launch_ms`, or the last again and again.

    All that happens is in `log`. `fails_at`, a number of a launch from 1, makes its event raise when it is waited for.
    """

    def __init__(self, *launch_ms, fails_at=None):
        self.log = []
        self.now = 0.0
        self.launches = self.records = self.waited = 0
        self.capturing = None
        self._ms = list(launch_ms)
        self._fails_at = fails_at
        self.Event = lambda: FakeEvent(self)
        self.Stream = lambda: FakeStream(self)
        self.Device = lambda: SimpleNamespace(
            id=0, compute_capability="90", attributes={"L2CacheSize": L2}, synchronize=self.check
        )
        self.alloc = lambda size: SimpleNamespace(memset_async=self.memset_async)
        self.runtime = SimpleNamespace(getDevice=lambda: 0, deviceGetPCIBusId=lambda device: fake_nvml.BUS_ID)

    def launch(self, milliseconds=None):
        if self.capturing is not None:
            self.capturing.append(lambda: self.launch(milliseconds))
            return
        self.log.append("launch")
        self.launches += 1
        if milliseconds is None:
            milliseconds = self._ms.pop(0) if len(self._ms) > 1 else self._ms[0]
        self.now += milliseconds

    def memset_async(self, value, size):
        assert size == 2 * L2
        self.log.append("flush")
        self.now += 1000.0

    def check(self):
        if self._fails_at is not None and self.launches >= self._fails_at:
            raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")

    def get_elapsed_time(self, start, stop):
        assert stop.number <= self.waited, "the stop event was read before it, or one after it, was waited for"
        return stop.time - start.time


class FakeEvent:
    def __init__(self, cuda):
        self.cuda = cuda

    def record(self):
        self.cuda.log.append("record")
        self.cuda.records += 1
        self.number = self.cuda.records
        self.time = self.cuda.now

    def synchronize(self):
        self.cuda.log.append("wait")
        self.cuda.check()
        self.cuda.waited = self.number


class FakeStream:
    def __init__(self, cuda):
        self.cuda = cuda

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def begin_capture(self):
        self.cuda.capturing = []

    def end_capture(self):
        captured, self.cuda.capturing = self.cuda.capturing, None

        def launch():
            self.cuda.log.append("graph")
            for each in captured:
                each()

        return SimpleNamespace(launch=launch)


class FakeGpu:
    """Stands for CuPy: a kernel runs on the emulator at its first launch, and each launch moves the clock on.

    `launch_ms` gives the time of a launch by the kernel's entry; all that was launched is in `launches`.
    """

    __version__ = "14.2.0"
    asarray, asnumpy = staticmethod(emulator.asarray), staticmethod(emulator.asnumpy)

    def __init__(self, launch_ms):
        self.launch_ms = launch_ms
        self.launches = []
        self.cuda = FakeCuda(0)
        vars(self.cuda.runtime).update(
            getDeviceProperties=lambda device: {"name": b"NVIDIA H200"}, runtimeGetVersion=lambda: 13000
        )
        self.cuda.nvrtc = SimpleNamespace(getVersion=lambda: (13, 0))

    def RawKernel(self, code, name, options=()):
        kernel = emulator.RawKernel(code, name, options)
        waiting = [kernel]  # until its first launch

        def launch(grid, block, args, *, shared_mem=0):
            if waiting:
                waiting.pop()(grid, block, args, shared_mem=shared_mem)
            self.passes(name)

        launch.num_regs, launch.shared_size_bytes = kernel.num_regs, kernel.shared_size_bytes
        return launch

    def sgemm(self, problem, A, B, C):
        C.set(A.get() @ B.get())
        self.passes("cuBLAS")

    def passes(self, name):
        """Launch something that takes the time of its name."""
        self.launches.append(name)
        self.cuda.launch(self.launch_ms[name])
