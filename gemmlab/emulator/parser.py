"""PTX text to a module: what NVRTC emits, and inline assembly within it.

A basic block ends at a label, and after an instruction that may send lanes elsewhere or make them wait. Instructions
carry the line of the learner's source that `.loc` names. PTX ISA, "Syntax", "Directives" and "Abstracting the ABI".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from .locations import Locations
from .ptx import (
    Address,
    Block,
    Function,
    Immediate,
    Instruction,
    Module,
    Operand,
    Parameter,
    PtxError,
    Register,
    Symbol,
    Variable,
    Vector,
    type_bytes,
)

MOST_REGISTERS = 1 << 20
"""Registers that one declaration may name."""

_Scopes = list[dict[str, str]]


@dataclass
class _Body:
    """What is gathered while a function's body is read. Inline assembly may declare a name again in an inner scope."""

    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    blocks: list[list[Instruction]] = field(default_factory=lambda: [[]])
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    scopes: _Scopes = field(default_factory=lambda: [{}])
    scope_count: int = 0

    def append(self, instruction: Instruction) -> None:
        if instruction.whole_warp and not any(i.whole_warp for i in self.blocks[-1]):
            # lanes that begin a block together stay so to its end
            self.append(instruction.meeting)
        self.blocks[-1].append(instruction)
        if instruction.ends_block:
            self.blocks.append([])

    def label(self, name: str) -> None:
        if self.blocks[-1]:
            self.blocks.append([])
        self.labels[name] = len(self.blocks) - 1


_TOKEN = re.compile(
    r"\s+|//[^\n]*|/\*.*?\*/"
    r"|(?P<loc>\.loc\s+(?P<where>\d+\s+\d+\s+\d+)"
    r"(?:\s*,\s*function_name\s+[^,\n]+,\s*inlined_at\s+(?P<inlined>\d+\s+\d+\s+\d+))?[^\n]*)"
    r"|(?P<skip>\.(?:version|target|address_size|file|pragma)\b[^\n]*|\.section\s+[\w.]+\s*\{[^}]*\})"
    r"|(?P<list>[A-Za-z_$%][\w$]*)\s*:\s*\.(?:branchtargets|calltargets|callprototype)\b(?P<items>[^;]*);"
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
    locations = Locations.of(text)
    head, body, line = "", None, 0
    for match in _tokens(text):
        try:
            if match["loc"]:
                line = locations.line(match["where"], match["inlined"]) or line  # the compiler's own: a memset's loop
            elif match["head"]:
                if match["end"] == "{":
                    head, body, line = match["head"], _Body(), 0
            elif body is None:
                if match["statement"]:
                    variables.append(_variable(match["statement"].strip()))
                elif match["close"]:
                    raise PtxError("a '}' without its '{'")
            elif match["close"] and len(body.scopes) == 1:
                function = _function(head, body)
                functions[function.name] = function
                body = None
            else:
                _read(match, line, body)
        except (ValueError, IndexError, RecursionError) as error:
            raise PtxError(f"cannot read {match[0].strip()[:80]!r} in the PTX ({error})") from None
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


def _read(match: re.Match[str], line: int, body: _Body) -> None:
    """One token of a function's body."""
    if match["open"]:
        body.scope_count += 1
        body.scopes.append({})
    elif match["close"]:
        body.scopes.pop()
    elif match["list"]:
        body.tables[match["list"]] = tuple(name.strip() for name in match["items"].split(","))
    elif match["label"]:
        body.label(match["label"])
    elif match["statement"]:
        statement = match["statement"].strip()
        if statement.startswith("."):
            _declare(statement, body)
        else:
            body.append(_instruction(statement, line, body.scopes))


def _function(head: str, body: _Body) -> Function:
    match = re.match(r"(?:\.\w+\s+)*\.(entry|func)\s*(?:\(([^)]*)\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?(.*)", head, re.S)
    if match is None:
        raise PtxError(f"cannot read the function header {head!r}")
    kind, returns, name, parameters, directives = match.groups()
    limit = re.search(r"\.(?:maxntid|reqntid)\s+([\d,\s]+)", directives)
    max_threads = prod(int(extent) for extent in limit[1].split(",")) if limit else None
    # lanes that run past the end of a body return, and a label there needs a block to point at
    body.append(Instruction(("ret",), (), None, 0))
    return Function(
        name,
        kind == "entry",
        _parameters(parameters),
        _parameters(returns),
        body.registers,
        tuple(body.variables),
        tuple(Block(tuple(b)) for b in body.blocks[:-1]),
        body.labels,
        body.tables,
        max_threads,
    )


def _parameters(text: str | None) -> tuple[Parameter, ...]:
    return tuple(_parameter(item) for item in (text or "").split(",") if item.strip())


def _parameter(text: str) -> Parameter:
    align = re.search(r"\.align\s+([1-9]\d*)", text)
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
    count = prod(int(extent or 0) for extent in re.findall(r"\[(\d*)\]", extents))
    align = re.search(r"\.align\s+([1-9]\d*)", modifiers)
    values = tuple(_initial(v) for v in re.findall(r"[^\s,{}]+", initial or ""))
    return Variable(
        name, space, element * count, int(align[1]) if align else element, "extern" in flags, values, element
    )


def _initial(text: str) -> int | Address:
    if re.match(r"0[fFdD][0-9A-Fa-f]+$", text):
        return int(text[2:], 16)
    if re.match(r"-?\d", text):
        return int(text.rstrip("U"), 0)
    match = re.fullmatch(r"(?:generic\(([\w$]+)\)|([\w$]+))(?:\+(\d+))?", text)
    if match is None:
        raise PtxError(f"cannot read the initial value {text!r}")
    return Address(Symbol(match[1] or match[2]), int(match[3] or 0))


def _declare(statement: str, body: _Body) -> None:
    register = re.match(r"\.reg\s*\.(\w+)\s+(.*)$", statement, re.S)
    if register:
        for name in register[2].split(","):
            _declare_register(name.strip(), register[1], body)
    elif not re.match(r"\.(?:param|callprototype|pragma)\b", statement):
        body.variables.append(_variable(statement))


def _declare_register(name: str, type_: str, body: _Body) -> None:
    ranged = re.match(r"(.*)<(\d+)>$", name)
    if ranged and int(ranged[2]) > MOST_REGISTERS:
        raise PtxError(f"{ranged[2]} registers {ranged[1]} are more than {MOST_REGISTERS}")
    for each in [f"{ranged[1]}{i}" for i in range(int(ranged[2]))] if ranged else [name]:
        if len(body.scopes) == 1 and each.startswith("%"):
            body.registers[each] = type_
        else:
            body.scopes[-1][each] = unique = f"{each}@{body.scope_count}"
            body.registers[unique] = type_


def _instruction(statement: str, line: int, scopes: _Scopes) -> Instruction:
    match = re.match(r"(?:@(!?)([%\w$]+)\s+)?(\w[\w.:]*)\s*(.*)$", statement, re.S)
    if match is None:
        raise PtxError(f"line {line}: cannot read the instruction {statement[:60]!r}")
    negated, guard, opcode, rest = match.groups()
    operands = tuple(_operand(item, scopes) for item in _split(rest))
    lanes = (_scoped(guard, scopes), negated == "!") if guard else None
    return Instruction(tuple(opcode.split(".")), operands, lanes, line)


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


def _scoped(name: str, scopes: _Scopes) -> str:
    for scope in reversed(scopes):
        if name in scope:
            return scope[name]
    return name


def _operand(text: str, scopes: _Scopes) -> Operand:
    if text[:1] in ("{", "("):
        return Vector(tuple(_operand(item, scopes) for item in _split(text[1:-1])))
    if text[:1] == "[":
        return _address(text, scopes)
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


def _address(text: str, scopes: _Scopes) -> Address:
    match = re.match(r"\[\s*([%\w$.]+)\s*(?:([+-])\s*(-?\w+))?\s*[,\]]", text)
    if match is None:
        raise PtxError(f"cannot read the address {text!r}")
    distance = int(match[3] or "0", 0) * (-1 if match[2] == "-" else 1)
    base = _operand(match[1], scopes)
    if isinstance(base, Immediate):
        return Address(None, int(base.text, 0) + distance)
    if not isinstance(base, Register | Symbol):
        raise PtxError(f"cannot read the address {text!r}")
    return Address(base, distance)
