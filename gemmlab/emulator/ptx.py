"""A PTX program as data: functions, basic blocks, instructions and their operands, variables.

`parser` makes it from text and `calls` puts the functions that a kernel calls into it. What an instruction does is
decided elsewhere: here an unknown opcode is only text. PTX ISA, "Syntax" and "Directives".
"""

from __future__ import annotations

from dataclasses import dataclass

_TYPE_BYTES = {"pred": 1, "8": 1, "16": 2, "32": 4, "64": 8, "128": 16, "16x2": 4}
_ENDS_BLOCK = {"bra", "brx", "call", "ret", "exit", "bar", "barrier"}
_WARP_WIDE = {"shfl", "vote", "match", "redux", "elect", "meet"}
_WHOLE_WARP = {"ldmatrix", "stmatrix", "movmatrix", "mma", "wmma"}


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

    @property
    def warp_wide(self) -> bool:
        """Whether the lanes that its last operand names wait for each other here and exchange values."""
        return self.parts[0] in _WARP_WIDE

    @property
    def whole_warp(self) -> bool:
        """Whether all 32 lanes of a warp run it together (PTX ISA, ".aligned")."""
        return self.parts[0] in _WHOLE_WARP

    @property
    def meeting(self) -> Instruction:
        """What stands before an instruction of the whole warp: there its lanes wait for each other."""
        return Instruction(("meet", *self.parts), (Immediate("0xffffffff"),), self.guard, self.line)

    @property
    def ends_block(self) -> bool:
        """Whether lanes may go elsewhere from here, or have to wait."""
        return self.parts[0] in _ENDS_BLOCK or self.warp_wide


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
    """A named piece of memory: space is 'global', 'shared', 'local' or 'const'; bytes is 0 for `extern x[]`. `initial`
    holds integers, bits of floats, and addresses of names.
    """

    name: str
    space: str
    bytes: int
    align: int
    extern: bool
    initial: tuple[int | Address, ...] = ()
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
