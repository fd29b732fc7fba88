"""What a CUDA source makes of the options that define its tile, as the compiler's own preprocessor sees it."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from gemmlab import nvrtc
from gemmlab.emulator import device
from gemmlab.tile_rules import Tile

_NO_CODE = re.compile(
    r'R"([^()\\\s]*)\(.*?(?:\)\1"|\Z)|"(?:\\.|[^"\\\n])*"'  # strings, raw and plain
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'"  # characters; in a number it parts digits
    r"|//[^\n]*|/\*.*?(?:\*/|\Z)",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"\s*(?:#|%:)\s*(define|undef|if|ifdef|ifndef|elif|else|endif)\b\s*((\w*).*)")


def require_options(source: str, entry: str, options: Sequence[str], tile: Tile) -> None:
    """Raise ValueError where a source defines a parameter of the tile itself for its kernel `entry`, as another number:
    its #define would win over the compiler's options, -D, and the launch be made for another tile than the code.
    """
    code = _code(source)
    if not any(kind in ("define", "undef") and name in tile for _, kind, name, _ in _directives(code)):
        return
    try:
        with suppress(nvrtc.CompilerUnavailable):
            nvrtc.compile_ptx(_probe(code, entry, tile), tuple(options), device.architecture())
    except nvrtc.CompileError as refused:
        # Other errors are those of the directives alone: the compiler will judge the source as a whole.
        if overriding := re.search(r'static assertion failed with "line (\d+)', refused.log):
            raise ValueError(_refusal(code, int(overriding[1]), tile)) from None


def _refusal(code: str, at: int, tile: Tile) -> str:
    kind, name, text = next(each for line, *each in _directives(code) if line == at)
    does, cure = "overrides", f"put it between #ifndef {name} and #endif"
    if kind == "undef":
        does, cure = "takes away", "leave it out"
    return (
        f"line {at} of the source, '#{kind} {text}', {does} the option -D{name}={tile[name]}, for which the launch is "
        f"made: {cure}, and choose {name} where the kernel is launched"
    )


def _probe(code: str, entry: str, tile: Tile) -> str:
    """The directives of a source up to the end of a kernel, and assertions that each parameter of the tile is as the
    launch has it: behind what defines it, and where the kernel stands behind what takes it away.
    """
    begin, end = _lines_of(code, entry)
    probe, gone = ["// the directives alone"], {}
    for line, kind, name, text in [*_directives(code), (end, "endif", "", "")]:
        if line >= begin and kind != "define":
            probe += [f'#ifndef {each}\nstatic_assert(false, "line {at}");\n#endif' for each, at in gone.items()]
            gone = {}
        if line < end or kind not in ("define", "undef"):
            probe.append(f"#{kind} {text}")
        if line < end and name in tile:
            if kind == "undef":
                gone[name] = line
            elif kind == "define":
                probe.append(f'static_assert(({name}) == {tile[name]}, "line {line}");')
    return "\n".join(probe[:-1])


def _code(source: str) -> str:
    """A source without comments and what stands in quotes, its lines joined where a backslash says so; each part stays
    in the line where it began.
    """

    def joined(lines: re.Match[str]) -> str:
        return lines[0].replace("\\\n", "") + "\n" * lines[0].count("\\\n")

    text = re.sub(r"^(?:.*\\\n)+.*", joined, source.replace("\r\n", "\n"), flags=re.MULTILINE)
    return _NO_CODE.sub(lambda left_out: " " + "\n" * left_out[0].count("\n"), text)


def _directives(code: str) -> Iterator[tuple[int, str, str, str]]:
    """Line, kind, first word and text of each directive that defines, takes away or asks."""
    for line, text in enumerate(code.split("\n"), start=1):
        if found := _DIRECTIVE.match(text):
            kind, rest, name = found.groups()
            yield line, kind, name, " ".join(rest.split())


def _lines_of(code: str, entry: str) -> tuple[int, int]:
    """The first line of a function, and the first behind it; the end of the code where there is no such function."""
    found = list(re.finditer(rf"\b{re.escape(entry)}\s*\([^;{{}}]{{0,4000}}{{", code))
    if not found:
        return _line(code, len(code)) + 1, _line(code, len(code)) + 1
    depth = 0
    for brace in re.compile("[{}]").finditer(code, found[-1].end() - 1):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            break
    return _line(code, found[0].start()), _line(code, brace.end()) + 1


def _line(code: str, at: int) -> int:
    return code.count("\n", 0, at) + 1
