"""CuPy's face of the emulated GPU: RawKernel, and the architecture that it stands for."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import re
import time
from collections.abc import Iterator
from math import prod

from gemmlab import gpus, nvrtc

from . import arguments, limits, parser, ptx
from .arrays import MEMORY
from .code import Program, compile_kernel
from .faults import Hazard, KernelFault
from .machine import Machine
from .observer import Observer

DEFAULT_ARCHITECTURE = "sm_90"

MOST_PTX = 1 << 23
"""Characters of PTX that are read of a source: three times what 20,000 statements make."""

_settings = {
    "architecture": os.environ.get("GEMMLAB_ARCHITECTURE", DEFAULT_ARCHITECTURE),
    "seconds": float(os.environ.get("GEMMLAB_TIME_LIMIT", "120")),
    "deadline": math.inf,
}


REPORTS = (KernelFault, nvrtc.CompileError, nvrtc.KernelNotFound, KeyboardInterrupt)
"""What speaks of the kernel and its lines; the emulator's own frames would only push that out of sight."""


def architecture() -> str:
    """The compute capability that the emulated GPU stands for, such as 'sm_90'."""
    return _settings["architecture"]


def use_architecture(name: str) -> None:
    """Stand for another compute capability from now on; kernels made earlier keep theirs. ValueError for an unknown
    one.
    """
    _settings["architecture"] = gpus.architecture(name).name


def time_limit(seconds: float | None = None) -> float:
    """The seconds after which a launch is stopped; given a number, set them."""
    if seconds is not None:
        if not seconds > 0:
            raise ValueError(f"the time limit is {seconds}, but must be more than 0 seconds")
        _settings["seconds"] = float(seconds)
    return _settings["seconds"]


@contextlib.contextmanager
def time_budget(seconds: float) -> Iterator[None]:
    """Within it, all launches together are stopped after so many seconds, whatever the time limit of each."""
    before = _settings["deadline"]
    _settings["deadline"] = min(before, time.monotonic() + seconds)
    try:
        yield
    finally:
        _settings["deadline"] = before


@functools.lru_cache(maxsize=128)
def _module(source: str, options: tuple[str, ...], arch: str) -> ptx.Module:
    text = nvrtc.compile_ptx(source, options, arch)
    if len(text) > MOST_PTX:
        raise nvrtc.CompileError(
            f"NVRTC makes {len(text):,} characters of PTX of this source, more than the {MOST_PTX:,} that the emulator "
            "reads: unroll less, and fill large arrays in a loop instead of by initial values.",
            source=source,
        )
    return parser.parse(text)


@functools.lru_cache(maxsize=128)
def _program(source: str, options: tuple[str, ...], arch: str, kernel: str) -> Program:
    if re.search(r"\basm\b", source):
        # NVRTC passes inline PTX on unread; ptxas alone knows what the architecture has of it
        nvrtc.resources(source, kernel, options, arch)
    module = _module(source, options, arch)
    if kernel not in module.kernels:
        raise nvrtc.KernelNotFound(kernel, module.kernels)
    return compile_kernel(module, kernel, MEMORY)


class RawKernel:
    """A kernel from CUDA C++ source, as cupy.RawKernel: `kernel(grid, block, args, shared_mem=0)`.

    Raises, at the first use: nvrtc.CompileError with the compiler's own log; nvrtc.KernelNotFound;
    UnsupportedInstruction for PTX that the emulator does not run, and PtxError, of which that is a kind, for PTX that
    it cannot read. A launch raises KernelFault for what the GPU would refuse or fault on, and TypeError for an argument
    that no kernel takes.
    """

    def __init__(
        self,
        code: str,
        name: str,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        *,
        translate_cucomplex: bool = False,
        enable_cooperative_groups: bool = False,
        jitify: bool = False,
    ):
        if not isinstance(code, str) or not isinstance(name, str):
            raise TypeError("RawKernel(code, name) takes two strings: the source and the kernel's name")
        if not isinstance(options, tuple):
            raise TypeError(f"options is {options!r}, but must be a tuple of strings, such as ('-DBX=32',)")
        if backend != "nvrtc":
            raise ValueError(f"the emulator compiles with NVRTC only, not with {backend!r}")
        self.code, self.name, self.options, self.backend = code, name, options, backend
        self.architecture = architecture()
        self.max_dynamic_shared_size_bytes = 0

    def compile(self) -> None:
        """Compile now, not at the first launch."""
        self.program  # noqa: B018

    @property
    def program(self) -> Program:
        return _program(self.code, self.options, self.architecture, self.name)

    @property
    def debug_program(self) -> Program:
        """The kernel compiled for a debugger: slow, but with every variable that the source has."""
        return _program(self.code, (*self.options, "-G"), self.architecture, self.name)

    @property
    def function(self) -> ptx.Function:
        """The kernel as its PTX declares it."""
        return self.program.kernel.function

    @property
    def resources(self) -> nvrtc.KernelResources:
        """Registers, spills, stack and shared memory, from ptxas."""
        return nvrtc.resources(self.code, self.name, self.options, self.architecture)

    @property
    def num_regs(self) -> int:
        """Registers of a thread."""
        return self.resources.registers

    @property
    def local_size_bytes(self) -> int:
        """Bytes of local memory of a thread."""
        return self.resources.stack_bytes

    @property
    def shared_size_bytes(self) -> int:
        """Bytes of static shared memory of a block."""
        return self.resources.shared_bytes

    @property
    def max_threads_per_block(self) -> int:
        """Threads of the largest block that this kernel's registers and launch bounds allow."""
        arch = gpus.architecture(self.architecture)
        bound = self.function.max_threads
        return min(limits.most_threads(arch, self.num_regs), bound or arch.max_threads_per_block)

    def __call__(self, grid: object, block: object, args: tuple[object, ...], *, shared_mem: int = 0) -> None:
        """Launch and wait. KernelFault names line, block and thread of what went wrong."""

        def stop(hazard: Hazard) -> None:
            raise KernelFault(hazard)

        try:
            launch(self, grid, block, args, shared_mem, stop)
        except REPORTS as stopped:
            raise stopped.with_traceback(None) from None


def launch(
    kernel: RawKernel,
    grid: object,
    block: object,
    args: tuple[object, ...],
    shared_mem: int,
    on_fault: object,
    observers: tuple[Observer, ...] = (),
    program: Program | None = None,
) -> None:
    """Check a launch against the GPU's limits and run it, by another `program` than the kernel's own if given. Every
    hazard goes to `on_fault`, which may raise; a launch that a GPU refuses is not run.
    """
    grid, block = limits.extent(grid, "grid"), limits.extent(block, "block")
    program = program or kernel.program
    problem = _problem(kernel, program, grid, block, int(shared_mem))
    if problem:
        on_fault(Hazard("launch", 0, f"{kernel.name} cannot be launched: {problem}"))
        return
    bound = arguments.bind(kernel.function, kernel.code, args)
    for hazard in bound.hazards:
        on_fault(hazard)
    if not bound.refused:
        until = _settings["deadline"]
        machine = Machine(program, MEMORY, on_fault, observers, min(time_limit(), until - time.monotonic()), until)
        for observer in observers:
            observer.begin(bound.arrays)
        machine.run(grid, block, bound.parameters, int(shared_mem))
        for observer in observers:
            observer.end()


def _problem(
    kernel: RawKernel, program: Program, grid: limits.Extent, block: limits.Extent, dynamic: int
) -> str | None:
    arch = gpus.architecture(kernel.architecture)
    threads = prod(block)
    static = program.shared.static_bytes
    if static > arch.shared_bytes_per_block:
        _refuse_static_shared(kernel, program)
    return (
        limits.shape_problem(arch, grid, block)
        or limits.bounds_problem(threads, kernel.function.max_threads)
        or limits.local_problem(program.local_bytes)
        or limits.shared_problem(arch, static, dynamic, kernel.max_dynamic_shared_size_bytes)
        # even at 255 registers a block of 256 threads fits, so only larger ones need the compiler's count
        or (limits.register_problem(arch, threads, kernel.num_regs) if threads > 256 else None)
    )


def _refuse_static_shared(kernel: RawKernel, program: Program) -> None:
    """Raises nvrtc.CompileError in ptxas's words, with the size of each array."""
    try:
        kernel.resources  # noqa: B018
    except nvrtc.CompileError as error:
        sizes = " + ".join(f"{array.name} {array.bytes}" for array in program.shared.arrays)
        text = f"{error}\nThe arrays of {kernel.name}: {sizes} = {program.shared.static_bytes} bytes."
        raise nvrtc.CompileError(text, error.log, error.source) from None
