"""PTX text to instructions and basic blocks.

Reads what NVRTC emits (PTX ISA, "Syntax" and "Directives"): kernels and functions, their parameters, registers and
variables, and instructions tied to source lines by `.loc`. What an instruction does is decided elsewhere; here an
unknown opcode is only text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

ENDS_BLOCK = ("bra", "brx", "ret", "exit", "bar", "barrier", "trap")

_TYPE_BYTES = {"pred": 1, "8": 1, "16": 2, "32": 4, "64": 8, "128": 16, "16x2": 4}


class PtxError(Exception):
    """PTX that cannot be read or run; the message says which text and where."""


def type_bytes(name: str) -> int:
    """Bytes of a PTX type such as 'f32', 'b64' or 'pred'; PtxError for a name that is not one."""
    size = _TYPE_BYTES.get(name if name == "pred" else name.lstrip("busfe"))
    if size is None or (name != "pred" and name[:1] not in "busfe"):
        raise PtxError(f"unknown PTX type '.{name}'")
    return size


@dataclass(frozen=True)
class Register:
    """A register by its name, unique within the function."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A literal as written: '42', '-1', '0f3F800000' (float bits) or '0d3FF0000000000000' (double bits)."""

    text: str


@dataclass(frozen=True)
class Symbol:
    """A name that is no register: a variable, a label, a function or a special register's base name."""

    name: str


@dataclass(frozen=True)
class Address:
    """[base + offset]; base None stands for an absolute address."""

    base: Register | Symbol | None
    offset: int


@dataclass(frozen=True)
class Vector:
    """{a, b, c, d}, or the two destinations of `d|p`."""

    items: tuple[Operand, ...]


Operand = Register | Immediate | Symbol | Address | Vector


@dataclass(frozen=True)
class Instruction:
    """One PTX instruction: opcode split at its dots, operands in written order, guard (register, negated), and the
    line of the learner's source that it came from (0 when the compiler names none).
    """

    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: tuple[str, bool] | None
    line: int

    @property
    def opcode(self) -> str:
        return ".".join(self.parts)


class UnsupportedInstruction(PtxError):
    """An instruction that the emulator does not run; the message names it and its source line."""

    def __init__(self, instruction: Instruction, why: str = "the emulator does not run this instruction") -> None:
        super().__init__(f"line {instruction.line}: {instruction.opcode}: {why}")


@dataclass(frozen=True)
class Parameter:
    """A kernel or function parameter: its size and alignment in bytes; `type` is 'u32', 'b8' and so on."""

    name: str
    type: str
    bytes: int
    align: int


@dataclass(frozen=True)
class Variable:
    """A named piece of memory: space is 'global', 'shared', 'local' or 'const'; bytes is 0 for `extern x[]`."""

    name: str
    space: str
    bytes: int
    align: int
    extern: bool
    initial: tuple[int | str, ...] = ()
    element_bytes: int = 1


@dataclass(frozen=True)
class Block:
    """A basic block: straight-line code that is left only at its end."""

    instructions: tuple[Instruction, ...]


@dataclass(frozen=True)
class Function:
    """A kernel (`entry`) or a function that was not inlined; `labels` maps a label to its block's index, and
    `tables` a `.branchtargets` name to the labels it lists.
    """

    name: str
    entry: bool
    parameters: tuple[Parameter, ...]
    returns: tuple[Parameter, ...]
    registers: dict[str, str]
    variables: tuple[Variable, ...]
    blocks: tuple[Block, ...]
    labels: dict[str, int]
    tables: dict[str, tuple[str, ...]]
    max_threads: int | None


@dataclass(frozen=True)
class Module:
    """The functions and variables of one PTX text."""

    functions: dict[str, Function]
    variables: tuple[Variable, ...]

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.functions.values() if f.entry)


@dataclass
class _Body:
    """What is gathered while a function's body is read."""

    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    blocks: list[list[Instruction]] = field(default_factory=lambda: [[]])
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    scopes: list[dict[str, str]] = field(default_factory=lambda: [{}])
    scope_count: int = 0


_TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/"
    r"|(?P<loc>\.loc\s+(?P<where>\d+\s+\d+\s+\d+)"
    r"(?:\s*,\s*function_name\s+[^,\n]+,\s*inlined_at\s+(?P<inlined>\d+\s+\d+\s+\d+))?[^\n]*)"
    r"|(?P<skip>\.(?:version|target|address_size|file|pragma)\b[^\n]*|\.section\s+[\w.]+\s*\{[^}]*\})"
    r"|(?P<label>[A-Za-z_$%][\w$]*)\s*:(?!:)"
    r"|(?P<open>\{)(?=[^;{}]*[;{]|\s*\})|(?P<close>\})"
    r"|(?P<head>(?:\.(?:visible|weak|extern|common)\s+)*\.(?:entry|func)\b[^{;]*)(?P<end>[{;])"
    r"|(?P<statement>(?:\"(?:\\.|[^\"])*\"|[^;\"])+);",
    re.S,
)


def parse(text: str) -> Module:
    """Module of PTX text; PtxError with the text at fault when it is not PTX of the form that NVRTC emits."""
    functions: dict[str, Function] = {}
    variables: list[Variable] = []
    locations: dict[tuple[int, ...], tuple[int, ...] | None] = {}
    head, body, line = "", None, 0
    for match in _tokens(text):
        if match["loc"]:
            line = _source_line(match, locations)
        elif match["head"]:
            if match["end"] == "{":
                head, body, line = match["head"], _Body(), 0
        elif match["open"] and body is not None:
            body.scope_count += 1
            body.scopes.append({})
        elif match["close"]:
            if body is None:
                raise PtxError("a '}' without its '{' in the PTX")
            body.scopes.pop()
            if not body.scopes:
                function = _function(head, body)
                functions[function.name] = function
                body = None
        elif match["label"] and body is not None:
            if body.blocks[-1]:
                body.blocks.append([])
            body.labels[match["label"]] = len(body.blocks) - 1
        elif match["statement"]:
            statement = match["statement"].strip()
            if body is None:
                variables.append(_variable(statement))
            elif statement.startswith("."):
                _declare(statement, body)
            else:
                _append(_instruction(statement, line, body.scopes), body)
    if body is not None:
        raise PtxError(f"the PTX ends inside {head.split('(')[0].strip()}")
    return Module(functions, tuple(variables))


def _tokens(text: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            if text[position:].strip(" \t\r\n\0"):
                raise PtxError(f"cannot read the PTX at: {text[position : position + 60]!r}")
            return
        position = match.end()
        if match.lastgroup:
            yield match


def _source_line(match: re.Match[str], locations: dict[tuple[int, ...], tuple[int, ...] | None]) -> int:
    """Line in file 1, the learner's source; code inlined from a header counts at the line that called it."""
    where = tuple(map(int, match["where"].split()))
    locations[where] = tuple(map(int, match["inlined"].split())) if match["inlined"] else None
    seen = set()
    while where[0] != 1 and locations.get(where) and where not in seen:
        seen.add(where)
        where = locations[where]
    return where[1] if where[0] == 1 else 0


def _append(instruction: Instruction, body: _Body) -> None:
    body.blocks[-1].append(instruction)
    if instruction.parts[0] in ENDS_BLOCK:
        body.blocks.append([])


def _function(head: str, body: _Body) -> Function:
    match = re.match(r"(?:\.\w+\s+)*\.(entry|func)\s*(?:\(([^)]*)\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?(.*)", head, re.S)
    if match is None:
        raise PtxError(f"cannot read the function header {head!r}")
    kind, returns, name, parameters, directives = match.groups()
    limit = re.search(r"\.(?:maxntid|reqntid)\s+([\d,\s]+)", directives)
    max_threads = None
    if limit:
        max_threads = 1
        for extent in limit[1].split(","):
            max_threads *= int(extent)
    if not body.blocks[-1]:
        # a label at the very end of a body needs a block to point at
        body.blocks[-1].append(Instruction(("ret",), (), None, 0))
    return Function(
        name,
        kind == "entry",
        _parameters(parameters),
        _parameters(returns),
        body.registers,
        tuple(body.variables),
        tuple(Block(tuple(b)) for b in body.blocks),
        body.labels,
        body.tables,
        max_threads,
    )


def _parameters(text: str | None) -> tuple[Parameter, ...]:
    return tuple(_parameter(item) for item in (text or "").split(",") if item.strip())


def _parameter(text: str) -> Parameter:
    align = re.search(r"\.align\s+(\d+)", text)
    words = re.sub(r"\.align\s+\d+|\.ptr|\.(?:global|shared|const|local)\b|\.(?:param|reg)\b", " ", text).split()
    if len(words) < 2:
        raise PtxError(f"cannot read the parameter {text.strip()!r}")
    type_ = words[0].lstrip(".")
    name, _, count = words[-1].partition("[")
    size = type_bytes(type_) * (int(count.rstrip("]")) if count else 1)
    return Parameter(name, type_, size, int(align[1]) if align else type_bytes(type_))


def _variable(text: str) -> Variable:
    match = re.match(
        r"((?:\.\w+\s+)*?)\.(global|shared|local|const)\s+((?:\.(?:align\s+\d+|attribute\([^)]*\)|v[24])\s+)*)"
        r"\.(\w+)\s+([\w$]+)((?:\[\d*\])*)\s*(?:=\s*(.*))?$",
        text,
        re.S,
    )
    if match is None:
        raise PtxError(f"cannot read the declaration {text[:80]!r}")
    flags, space, modifiers, type_, name, extents, initial = match.groups()
    element = type_bytes(type_)
    count = 1
    for extent in re.findall(r"\[(\d*)\]", extents):
        count *= int(extent or 0)
    align = re.search(r"\.align\s+(\d+)", modifiers)
    values = tuple(_initial(v) for v in re.findall(r"[^\s,{}]+", initial or ""))
    return Variable(
        name, space, element * count, int(align[1]) if align else element, "extern" in flags, values, element
    )


def _initial(text: str) -> int | str:
    text = re.sub(r"^generic\((.*)\)$", r"\1", text)
    if re.match(r"0[fFdD][0-9A-Fa-f]+$", text):
        return int(text[2:], 16)
    return int(text.rstrip("U"), 0) if re.match(r"-?\d", text) else text


def _declare(statement: str, body: _Body) -> None:
    kind = statement.split(None, 1)[0]
    register = re.match(r"\.reg\s*(\.\w+)\s+(.*)$", statement, re.S)
    if register:
        type_, names = register.groups()
        for name in names.split(","):
            _declare_register(name.strip(), type_.lstrip("."), body)
    elif kind == ".branchtargets":
        label = next(reversed(body.labels))
        body.tables[label] = tuple(name.strip() for name in statement.split(None, 1)[1].split(","))
    elif kind not in (".param", ".callprototype"):
        body.variables.append(_variable(statement))


def _declare_register(name: str, type_: str, body: _Body) -> None:
    ranged = re.match(r"(.*)<(\d+)>$", name)
    if ranged:
        body.registers.update({f"{ranged[1]}{i}": type_ for i in range(int(ranged[2]))})
    elif len(body.scopes) == 1:
        body.registers[name] = type_
    else:
        # inline assembly may declare the same name again in another scope
        unique = f"{name}@{body.scope_count}"
        body.scopes[-1][name] = unique
        body.registers[unique] = type_


def _instruction(statement: str, line: int, scopes: list[dict[str, str]]) -> Instruction:
    match = re.match(r"(?:@(!?)([%\w$]+)\s+)?([\w.:]+)\s*(.*)$", statement, re.S)
    if match is None:
        raise PtxError(f"line {line}: cannot read the instruction {statement[:60]!r}")
    negated, guard, opcode, rest = match.groups()
    operands = tuple(_operand(item, scopes) for item in _split(rest))
    return Instruction(
        tuple(opcode.split(".")), operands, (_scoped(guard, scopes), negated == "!") if guard else None, line
    )


def _split(text: str) -> list[str]:
    """Operands at the commas that stand outside brackets."""
    items, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "[{(":
            depth += 1
        elif c in "]})":
            depth -= 1
        elif c == "," and depth == 0:
            items.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*items, last] if last else items


def _scoped(name: str, scopes: list[dict[str, str]]) -> str:
    for scope in reversed(scopes):
        if name in scope:
            return scope[name]
    return name


def _operand(text: str, scopes: list[dict[str, str]]) -> Operand:
    if text[:1] in "{(":
        return Vector(tuple(_operand(item, scopes) for item in _split(text[1:-1])))
    if text[:1] == "[":
        base, sign, offset = re.match(r"\[\s*([%\w$.]+)\s*(?:([+-])\s*(-?\w+))?\s*[,\]]", text).groups()
        distance = int(offset or "0", 0) * (-1 if sign == "-" else 1)
        operand = _operand(base, scopes)
        if isinstance(operand, Immediate):
            return Address(None, int(operand.text, 0) + distance)
        return Address(operand, distance)
    if text[:1] == "!":
        return Symbol("!" + _scoped(text[1:].strip(), scopes))
    if "|" in text:
        return Vector(tuple(_operand(item.strip(), scopes) for item in text.split("|")))
    if re.match(r"[-+]?\d", text):
        return Immediate(text)
    symbol = re.match(r"([\w$]+)\s*\+\s*(\d+)$", text)
    if symbol:
        return Address(Symbol(symbol[1]), int(symbol[2]))
    name = _scoped(text, scopes)
    return Register(name) if name.startswith("%") or name != text else Symbol(name)
