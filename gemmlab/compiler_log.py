"""What NVRTC and ptxas write about a source that they refuse, made readable."""

import re

SOURCE_NAME = "kernel.cu"

_WARNING = re.compile(r"\S+\(\d+\): warning |Remark: ")
_ERROR = re.compile(r"\berror\b")


def message(log: str, source: str, options: tuple[str, ...], ptx: str) -> str:
    """Return NVRTC's log without ptxas's statistics, and without warnings where there are errors; each located message
    followed by its line of the source, and a cure.
    """
    lines = [line for line in _errors(log).splitlines() if not line.startswith(("ptxas info", "ptxas         ."))]
    shown = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        shown.append(line)
        located = _located_line(line, ptx)
        already_quoted = following.startswith(" ")
        if located and not already_quoted:
            shown.append(_quoted(located, source))
    return "\n".join([*shown, *_cures(log, options)]).strip()


def used_before_set(log: str) -> tuple[tuple[int, str], ...]:
    """Return (line, name) of each variable that a log warns of as used before its value is set."""
    warning = rf"^{re.escape(SOURCE_NAME)}\((\d+)\): warning(?: #549-D)?"
    found = re.findall(rf'{warning}: variable "(.+)" is used before its value is set$', log, re.MULTILINE)
    return tuple((int(line), name) for line, name in found)


def _errors(log: str) -> str:
    """The log without warnings if it has errors, for most of those are only what the error left behind."""
    parts = log.split("\n\n")
    telling = [part for part in parts if not _WARNING.match(part.strip())]
    return "\n\n".join(telling) if any(_ERROR.search(part) for part in telling) else log


def _located_line(message: str, ptx: str) -> int | None:
    """The line of the source that a message of the compiler, or of ptxas about the PTX, speaks of."""
    if match := re.match(rf"{re.escape(SOURCE_NAME)}\((\d+)\): ", message):
        return int(match[1])
    if match := re.match(r"ptxas .*\bline (\d+);", message):
        above = "\n".join(ptx.split("\n")[: int(match[1])])
        file_number = re.search(rf'^\s*\.file\s+(\d+)\s+"[^"]*{re.escape(SOURCE_NAME)}"', ptx, re.MULTILINE)
        locations = re.findall(rf"^\s*\.loc\s+{file_number[1]}\s+(\d+)", above, re.MULTILINE) if file_number else []
        return int(locations[-1]) if locations else None
    return None


def _quoted(line: int, source: str) -> str:
    text = source.split("\n")[line - 1 : line]
    return f"  {SOURCE_NAME}({line}): {text[0].strip() if text else ''}"


def _cures(log: str, options: tuple[str, ...]) -> list[str]:
    cures = []
    if match := re.search(r"too much shared data \(0x(\w+) bytes, 0x(\w+) max\)", log):
        needed, limit = (int(number, 16) for number in match.groups())
        cures.append(
            f"A block declares {needed} bytes of __shared__ arrays and may declare {limit}: make the tiles "
            "smaller, or use extern __shared__ memory with the opt-in to more."
        )
    if re.search(r"(?:cannot|could not) open source file", log):
        cures.append(
            "CUDA's headers come with: pip install nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cuda-crt. "
            "The host's are not for kernels: sqrtf, printf and the like need no header, and <cstdint> is "
            "<cuda/std/cstdint> there."
        )
    macros = [option for option in options if option.startswith("-D")]
    for option in macros:
        name, _, value = option.removeprefix("-D").partition("=")
        if "expected an identifier" in log and re.search(rf"\b(int|unsigned|size_t|auto)\s+{re.escape(name)}\b", log):
            cures.append(
                f"The option {option} puts {value} in place of every {name}, also where the source declares it: leave "
                "the declaration out."
            )
    if macros and "__nv_nvrtc_builtin_header.h(" in log:
        cures.append(
            f"One of the options {' '.join(macros)} redefines a name of NVRTC's own header, which uses T for "
            "one: choose another name."
        )
    return cures
