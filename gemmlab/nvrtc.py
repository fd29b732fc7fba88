"""CUDA C++ source to PTX, and to registers, spills and shared memory, by NVRTC: no GPU and no driver needed."""

import difflib
import functools
import re
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType

from gemmlab import compiler_log, compiler_process
from gemmlab.compiler_log import SOURCE_NAME

SECONDS = 120.0
"""A compilation is stopped after so long, as a launch is unless told otherwise."""

_ARCHITECTURE = re.compile(r"(?:sm|compute)_(\d{2,3})([af]?)")
_OPTION_KINDS = {
    "-arch": "architecture",
    "--gpu-architecture": "architecture",
    "-std": "standard",
    "--std": "standard",
    "-lineinfo": "lines",
    "--generate-line-info": "lines",
}
_DEFAULT_OPTIONS = {"standard": "-std=c++17", "lines": "-lineinfo"}
_CURE_OF_EXCESS = (
    "What takes long to compile, or much memory: large arrays with initial values, loops unrolled far, long or deeply "
    "nested expressions, and templates that multiply. Make these smaller."
)


class CompileError(Exception):
    """NVRTC refused a source. `str()` is its log with the lines of the source it speaks of; `.log` is the log alone."""

    def __init__(self, message: str, log: str = "", source: str = ""):
        super().__init__(message)
        self.log = log
        self.source = source

    def _render_traceback_(self) -> list[str]:
        # IPython prints this in place of a traceback, whose frames say nothing about the source.
        frames = traceback.extract_tb(self.__traceback__)
        cell = [f"line {f.lineno} of the cell: {f.line}" for f in frames if "ipykernel_" in f.filename]
        return [f"CompileError: {self}", *cell[:1]]


class CompilerUnavailable(RuntimeError):
    """NVRTC, or its Python bindings, cannot be loaded on this machine."""


class KernelNotFound(LookupError):
    """A source that compiles defines no kernel of the name asked for; `.kernels` are the names that it does define."""

    def __init__(self, entry: str, kernels: Iterable[str]):
        self.entry = entry
        self.kernels = tuple(kernels)
        super().__init__(entry, self.kernels)

    def __str__(self) -> str:
        return _why_not_found(self.entry, self.kernels)


@dataclass(frozen=True)
class KernelResources:
    """What ptxas gave one kernel: registers and bytes of local memory a thread, bytes of static shared memory a block.

    Functions that the kernel calls and that were not inlined are not counted in.
    """

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int


def compile_ptx(source: str, options: tuple[str, ...] = (), arch: str = "sm_90") -> str:
    """Return the PTX of a CUDA C++ source for `arch` ('sm_90' or 'compute_90'), with `.loc` lines.

    The source is C++17 unless an option says otherwise. Raises CompileError when NVRTC refuses it, crashes over it, or
    takes more than SECONDS or compiler_process.MEMORY_BYTES; ValueError for an empty source, an unknown architecture,
    an option that sets one, or NUL and halves of characters; CompilerUnavailable where NVRTC is not installed.
    """
    ptx, _ = _compile(_checked_source(source), _checked_options(options), f"compute_{_compute_capability(arch)}")
    return ptx


def used_before_set(source: str, options: tuple[str, ...] = (), arch: str = "sm_90") -> tuple[tuple[int, str], ...]:
    """Return (line, name) of each variable of a source that NVRTC warns of as used before its value is set.

    Raises what compile_ptx raises.
    """
    _, log = _compile(_checked_source(source), _checked_options(options), f"compute_{_compute_capability(arch)}")
    return compiler_log.used_before_set(log)


def resources(source: str, entry: str, options: tuple[str, ...] = (), arch: str = "sm_90") -> KernelResources:
    """Return what the kernel `entry` takes on the architecture `arch`, as ptxas counts it.

    Raises what compile_ptx raises, CompileError also for what only ptxas refuses (too much static shared memory), and
    KernelNotFound when the source defines no kernel of that name.
    """
    options = (*_checked_options(options), "--ptxas-options=-v", *_uncached())
    _, log = _compile(_checked_source(source), options, f"sm_{_compute_capability(arch)}")
    kernels = _parse_ptxas(log)
    if entry not in kernels:
        raise KernelNotFound(entry, kernels)
    return kernels[entry]


def version() -> tuple[int, int]:
    """Return NVRTC's (major, minor) version, which is that of its CUDA toolkit."""
    major, minor = _call("nvrtcVersion")
    return major, minor


@functools.cache
def supported_architectures() -> tuple[str, ...]:
    """Return the architectures that this NVRTC compiles for, oldest first: ('sm_75', ...)."""
    return tuple(f"sm_{number}" for number in _call("nvrtcGetSupportedArchs"))


@functools.lru_cache(maxsize=256)
def _compile(source: str, options: tuple[str, ...], arch: str) -> tuple[str, str]:
    """Return the PTX and the log. A real architecture (sm_90) makes NVRTC run ptxas as well, a virtual one does not."""
    _bindings()
    all_options = (f"-arch={arch}", *_default_options(options), *options, *_include_options())
    try:
        status, log, ptx = compiler_process.compiled(SOURCE_NAME, source, all_options, SECONDS)
    except compiler_process.CompilerStopped as stopped:
        raise CompileError(f"NVRTC {stopped}. {_CURE_OF_EXCESS}", source=source) from None
    if status:
        raise CompileError(compiler_log.message(log, source, options, ptx) or status, log, source)
    if not ptx:
        raise ValueError(f"options {options} make NVRTC write something other than PTX: leave out -dlto and -optix-ir")
    return ptx, log


def _default_options(options: tuple[str, ...]) -> tuple[str, ...]:
    given = {_option_kind(option) for option in options}
    return tuple(option for kind, option in _DEFAULT_OPTIONS.items() if kind not in given)


def _option_kind(option: str) -> str | None:
    return _OPTION_KINDS.get(option.strip().partition("=")[0])


def _uncached() -> tuple[str, ...]:
    # Where there is a driver, NVRTC keeps what it compiled for the next process, without ptxas's log (its user guide,
    # "Caching (CUDA 12.9+)").
    return ("--no-cache",) if version() >= (12, 9) else ()


@functools.cache
def _include_options() -> tuple[str, ...]:
    """Where CUDA's headers are installed, by pip, by conda or as a toolkit; none of them is needed."""
    from cuda import pathfinder

    directories = (pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl"))
    return tuple(f"-I{directory}" for directory in directories if directory)


def _checked_options(options: Iterable[str]) -> tuple[str, ...]:
    if isinstance(options, str):
        raise TypeError(f"options must be a tuple of strings, not the string {options!r}: write ({options!r},)")
    options = tuple(options)
    for option in options:
        if not isinstance(option, str):
            raise TypeError(f"a compiler option must be a string, but {option!r} is of type {type(option).__name__}")
        if odd := re.search("[\0\ud800-\udfff]", option):
            raise ValueError(f"the compiler option {option!r} holds {odd[0]!r}, which no compiler takes: leave it out")
        if _option_kind(option) == "architecture":
            raise ValueError(
                f"leave {option!r} out of the options: the architecture is no option, it follows from the "
                "GPU that the kernel is compiled for"
            )
    return options


def _checked_source(source: str) -> str:
    if not isinstance(source, str):
        raise TypeError(f"a CUDA source must be a str, not {type(source).__name__}")
    if not source.strip():
        raise ValueError("the CUDA source is empty: it must define at least one __global__ function")
    if "\0" in source:
        line = source.count("\n", 0, source.index("\0")) + 1
        raise ValueError(f"line {line} of the CUDA source holds a NUL character, where C++ would stop reading")
    if odd := re.search("[\ud800-\udfff]", source):
        line = source.count("\n", 0, odd.start()) + 1
        raise ValueError(f"line {line} of the CUDA source holds {odd[0]!r}, half of a character: write the whole one")
    return source


def _compute_capability(arch: str) -> str:
    match = _ARCHITECTURE.fullmatch(arch)
    if match is None or f"sm_{match[1]}" not in supported_architectures():
        raise ValueError(
            f"NVRTC {'.'.join(map(str, version()))} does not compile for {arch!r}, only for "
            f"{', '.join(supported_architectures())}"
        )
    return match[1] + match[2]


def _parse_ptxas(log: str) -> dict[str, KernelResources]:
    sections = re.split(r"Compiling entry function '([^']+)'", log)[1:]
    return {name: _parse_section(text) for name, text in zip(sections[::2], sections[1::2], strict=True)}


def _parse_section(text: str) -> KernelResources:
    def number(pattern: str) -> int:
        match = re.search(pattern, text)
        return int(match[1]) if match else 0

    return KernelResources(
        registers=number(r"Used (\d+) registers"),
        stack_bytes=number(r"(\d+) bytes stack frame"),
        spill_store_bytes=number(r"(\d+) bytes spill stores"),
        spill_load_bytes=number(r"(\d+) bytes spill loads"),
        shared_bytes=number(r"(\d+) bytes smem"),
    )


def _why_not_found(entry: str, kernels: tuple[str, ...]) -> str:
    if not kernels:
        return f"no kernel {entry!r}: the source defines none; a kernel is a function declared __global__ void"
    plain_names = {_plain_name(kernel): kernel for kernel in kernels}
    if entry in plain_names:
        return (
            f"no kernel {entry!r}: C++ changed its name to {plain_names[entry]!r}; keep it with "
            f'extern "C" __global__ void {entry}(...)'
        )
    close = difflib.get_close_matches(entry, plain_names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else 'is the name misspelt, or extern "C" missing?'
    return f"no kernel {entry!r}: the source defines {', '.join(kernels)}; {hint}"


def _plain_name(kernel: str) -> str:
    """The name as written, from one that C++ mangled: the Itanium ABI puts its length before it, as in _Z4gemmPf."""
    match = re.match(r"_Z(\d+)", kernel)
    return kernel[match.end() : match.end() + int(match[1])] if match else kernel


@functools.cache
def _bindings() -> ModuleType:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise CompilerUnavailable(
            f"NVRTC, NVIDIA's run-time compiler, cannot be loaded ({error}). On Linux and Windows: "
            "pip install cuda-bindings nvidia-cuda-nvrtc. NVIDIA makes none for macOS: use Linux, Windows or Colab."
        ) from None
    return nvrtc


def _call(function: str, *arguments):
    status, *values = getattr(_bindings(), function)(*arguments)
    if status.value:
        raise RuntimeError(f"{function} failed with {status.name}")
    return values[0] if len(values) == 1 else values
