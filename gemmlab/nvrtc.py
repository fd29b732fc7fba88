"""CUDA C++ source to PTX, and to the registers, spills and shared memory of an architecture, with no GPU and no driver."""

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from cuda import pathfinder

SOURCE_NAME = "kernel.cu"

_ARCHITECTURE = re.compile(r"(?:sm|compute)_(\d{2,3}[af]?)")
_OPTION_NAMES = {
    "arch": ("-arch", "--gpu-architecture"),
    "std": ("-std", "--std"),
    "lineinfo": ("-lineinfo", "--generate-line-info"),
}


class CompileError(Exception):
    """NVRTC refused a source. `str()` is NVRTC's log beside the lines it speaks of; `.log` is the log alone."""

    def __init__(self, message: str, log: str = "", source: str = ""):
        super().__init__(message)
        self.log = log
        self.source = source


class CompilerUnavailable(RuntimeError):
    """NVRTC, or its Python bindings, cannot be loaded on this machine."""


class KernelNotFound(LookupError):
    """The source compiles, and defines no kernel of the name asked for; `.kernels` are the names it does define."""

    def __init__(self, entry: str, kernels: Iterable[str]):
        self.entry = entry
        self.kernels = tuple(kernels)
        super().__init__(_no_such_kernel(entry, self.kernels))


@dataclass(frozen=True)
class KernelResources:
    """What one kernel takes: 32-bit registers and bytes of local memory a thread, bytes of static shared memory a block."""

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int


def compile_ptx(source: str, options: tuple[str, ...] = (), arch: str = "sm_90") -> str:
    """Return the PTX of a CUDA C++ source for `arch` ('sm_90' or 'compute_90'), with `.loc` lines.

    C++17 unless an option says otherwise; CUDA's headers are found where they are installed. Raises CompileError with
    NVRTC's log, ValueError for an unknown architecture, an empty source or an option that sets the architecture.
    """
    _check_source(source)
    options = _checked_options(options)
    return _compile(source, options, f"compute_{_architecture_number(arch)}")[0]


def resources(source: str, entry: str, options: tuple[str, ...] = (), arch: str = "sm_90") -> KernelResources:
    """Return what ptxas reports for the kernel `entry` on the real architecture `arch`.

    Raises what compile_ptx raises, CompileError also for what only ptxas refuses (too much static shared memory), and
    KernelNotFound when the source defines no kernel of that name.
    """
    _check_source(source)
    options = _checked_options(options) + ("--ptxas-options=-v",)
    log = _compile(source, options, f"sm_{_architecture_number(arch)}")[1]
    kernels = _parse_ptxas(log)
    if entry not in kernels:
        raise KernelNotFound(entry, kernels)
    return kernels[entry]


def version() -> tuple[int, int]:
    """Return NVRTC's (major, minor) version, which is that of its CUDA toolkit."""
    return tuple(_call("nvrtcVersion"))


@functools.cache
def supported_architectures() -> tuple[str, ...]:
    """Return the architectures that this NVRTC compiles for, oldest first: ('sm_75', ...)."""
    return tuple(f"sm_{number}" for number in _call("nvrtcGetSupportedArchs"))


@functools.lru_cache(maxsize=256)
def _compile(source: str, options: tuple[str, ...], arch: str) -> tuple[str, str]:
    """Return (PTX, log)."""
    nvrtc = _bindings()
    arguments = [option.encode() for option in (f"-arch={arch}", *_default_options(options), *options)]
    program = _call("nvrtcCreateProgram", source.encode(), SOURCE_NAME.encode(), 0, [], [])
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(arguments), arguments)[0]
        log = _text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog", program)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(_message(log, source) or status.name, log, source)
        return _text("nvrtcGetPTXSize", "nvrtcGetPTX", program), log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _default_options(options: tuple[str, ...]) -> list[str]:
    given = {_option_kind(option) for option in options}
    defaults = {"std": "-std=c++17", "lineinfo": "-lineinfo"}
    return [option for kind, option in defaults.items() if kind not in given] + list(_include_options())


@functools.cache
def _include_options() -> tuple[str, ...]:
    found = (pathfinder.find_nvidia_header_directory(name) for name in ("cudart", "cccl"))
    return tuple(f"-I{directory}" for directory in found if directory)


def _option_kind(option: str) -> str | None:
    name = re.split(r"[=\s]", option.strip(), maxsplit=1)[0]
    return next((kind for kind, names in _OPTION_NAMES.items() if name in names), None)


def _checked_options(options: Iterable[str]) -> tuple[str, ...]:
    if isinstance(options, str):
        raise TypeError(f"options must be a tuple of strings, not the string {options!r}: write ({options!r},)")
    options = tuple(options)
    for option in options:
        if not isinstance(option, str):
            raise TypeError(f"every compiler option must be a string, but {option!r} is a {type(option).__name__}")
        if _option_kind(option) == "arch":
            raise ValueError(
                f"option {option!r} sets the architecture, which the backend sets itself: leave it out of the options"
            )
    return options


def _check_source(source: str) -> None:
    if not isinstance(source, str):
        raise TypeError(f"a CUDA source must be a str, not {type(source).__name__}")
    if not source.strip():
        raise ValueError("the CUDA source is empty: it must define at least one __global__ function")
    if "\0" in source:
        raise ValueError(f"the CUDA source holds a NUL character on line {_line_of(source, source.index(chr(0)))}")


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _architecture_number(arch: str) -> str:
    match = _ARCHITECTURE.fullmatch(arch)
    if match is None or f"sm_{match[1].rstrip('af')}" not in supported_architectures():
        raise ValueError(f"NVRTC {'.'.join(map(str, version()))} does not compile for {arch!r}; "
                         f"it knows {', '.join(supported_architectures())}")
    return match[1]


def _message(log: str, source: str) -> str:
    """NVRTC's log, without ptxas's statistics, with the source line under each message that lacks it."""
    lines = [line for line in log.splitlines() if not line.startswith(("ptxas info", "ptxas         ."))]
    source_lines = source.splitlines()
    shown = []
    for line, following in zip(lines, [*lines[1:], ""]):
        shown.append(line)
        located = re.match(rf"{re.escape(SOURCE_NAME)}\((\d+)\): ", line)
        if located and not following.startswith(" ") and int(located[1]) <= len(source_lines):
            shown.append(f"  {source_lines[int(located[1]) - 1]}")
    return "\n".join(shown).strip()


def _parse_ptxas(log: str) -> dict[str, KernelResources]:
    sections = re.split(r"Compiling entry function '([^']+)' for '[^']+'", log)[1:]
    return {name: _parse_section(text) for name, text in zip(sections[::2], sections[1::2])}


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


def _no_such_kernel(entry: str, kernels: tuple[str, ...]) -> str:
    if not kernels:
        return f"no kernel {entry!r}: the source defines no kernel at all; a kernel is declared __global__ void"
    mangled = [name for name in kernels if re.match(rf"_Z{len(entry)}{re.escape(entry)}(?!\w*{entry})", name)]
    if mangled:
        return (f'no kernel {entry!r}: C++ named it {mangled[0]!r}; '
                f'put extern "C" before it: extern "C" __global__ void {entry}(...)')
    return f"no kernel {entry!r}: the source defines {', '.join(kernels)}; is the name misspelt, or extern \"C\" missing?"


@functools.cache
def _bindings():
    try:
        from cuda.bindings import nvrtc
        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise CompilerUnavailable(
            f"NVRTC, NVIDIA's run-time compiler, cannot be loaded ({error}). On Linux and Windows: "
            "pip install cuda-bindings nvidia-cuda-nvrtc. NVIDIA ships none for macOS: use Linux, Windows or Colab."
        ) from None
    return nvrtc


def _call(function: str, *arguments):
    status, *values = getattr(_bindings(), function)(*arguments)
    if status.value:
        raise RuntimeError(f"{function} failed with {status.name}")
    return values[0] if len(values) == 1 else values


def _text(size_function: str, function: str, program) -> str:
    # NVRTC writes into the buffer, so it must not be a bytes object that Python shares: b"\0" is rewritten with itself.
    buffer = b"\0" * _call(size_function, program)
    _call(function, program, buffer)
    return buffer.decode(errors="replace").replace("\0", "")
