"""From a PTX instruction to what it does: registry, operands, and the frame that steps run in.

Each instruction becomes one Python closure, a `Step`, made once when the kernel is compiled. A step computes on the
lattice of `lanes.py` and writes its destination on active lanes only. The opcodes themselves live in the modules that
`code.py` imports; each registers its own with `@opcode`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from .datatypes import DTYPES, UNSIGNED, dtype_of, immediate, resize, undefined
from .lanes import Batch, Mask, both, select, uniform
from .memory import Fault, GlobalMemory
from .onchip import BlockMemory, ThreadMemory
from .ptx import (
    Address,
    Function,
    Immediate,
    Instruction,
    Operand,
    Register,
    Symbol,
    UnsupportedInstruction,
    Vector,
)
from .special import CLOCKS, SPECIAL_REGISTERS

BOOLEAN: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
"""How a comparison may be combined with a predicate (PTX ISA, "setp", BoolOp)."""

T = TypeVar("T")
Registers = list[np.ndarray]
Read = Callable[[Registers], np.ndarray]


@dataclass(frozen=True)
class Site:
    """Where an access stands: one memory instruction of a kernel. `op` is 'ld.global', 'st.shared', 'atom.global'
    and so on, `bytes` the width of the access per lane, `order` its memory order ('' for a plain, weak access).
    """

    op: str
    space: str
    bytes: int
    line: int
    order: str = ""


@dataclass
class Frame:
    """One activation of a function over a batch: its registers and the memories that it sees."""

    registers: Registers
    batch: Batch
    memory: GlobalMemory
    shared: BlockMemory
    local: ThreadMemory
    parameters: dict[str, np.ndarray]
    machine: object
    arguments: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)

    @property
    def observers(self) -> tuple:
        return self.machine.observers

    def fault(self, site: Site, found: Fault) -> None:
        self.machine.fault(site, self.batch, found)


Step = Callable[[Frame, Mask], None]


@dataclass
class Code:
    """What steps of one function are compiled against: register slots and the addresses of variables."""

    function: Function
    symbols: dict[str, tuple[str, int]]
    slots: dict[str, int] = field(default_factory=dict)
    initial: list[np.ndarray] = field(default_factory=list)
    specials: dict[str, int] = field(default_factory=dict)

    def slot(self, instruction: Instruction, name: str) -> int:
        """Index of a register; special registers such as %tid.x get theirs on first use."""
        if name not in self.slots:
            kind = self.function.registers.get(name) or _IMPLICIT.get(name)
            if kind is None and name not in SPECIAL_REGISTERS:
                raise UnsupportedInstruction(instruction, f"the emulator has no register {name}")
            self.slots[name] = len(self.initial)
            if kind is None:
                self.specials[name] = self.slots[name]
            self.initial.append(undefined(dtype_of(instruction, kind or "u32")))
        return self.slots[name]


_IMPLICIT = {"%SP": "b64", "%SPL": "b64", "%CC.CF": "pred"}
"""Registers that no declaration names: the stack pointers, and the carry flag of each lane."""

Builder = Callable[[Instruction, Code], Step]
_BUILDERS: dict[str, Builder] = {}


def opcode(*names: str) -> Callable[[Builder], Builder]:
    """Register a builder for instructions whose opcode begins with one of the names ('add', 'ld', 'shfl')."""

    def register(builder: Builder) -> Builder:
        _BUILDERS.update(dict.fromkeys(names, builder))
        return builder

    return register


def build(instruction: Instruction, code: Code) -> Step:
    """Step of an instruction; UnsupportedInstruction where there is none."""
    builder = _BUILDERS.get(instruction.parts[0])
    if builder is None:
        raise UnsupportedInstruction(instruction)
    step = understood(builder, instruction, code)
    if instruction.guard is None:
        return step
    return guarded(step, guard(instruction, code))


_NOT_UNDERSTOOD = (LookupError, ValueError, AttributeError, TypeError, StopIteration, ArithmeticError)


def understood(reader: Callable[[Instruction, Code], T], instruction: Instruction, code: Code) -> T:
    """What a reader makes of an instruction; UnsupportedInstruction where its opcode or operands have a form that the
    reader does not know.
    """
    try:
        return reader(instruction, code)
    except _NOT_UNDERSTOOD as error:
        raise UnsupportedInstruction(instruction, f"the emulator does not know this form ({error})") from None


def guard(instruction: Instruction, code: Code) -> Read:
    """Lanes on which a guarded instruction runs."""
    name, negated = instruction.guard
    if code.function.registers.get(name) != "pred":
        raise UnsupportedInstruction(instruction, f"its guard {name} is no predicate")
    index = code.slot(instruction, name)
    return (lambda registers: ~registers[index]) if negated else (lambda registers: registers[index])


def guarded(step: Step, lanes: Read) -> Step:
    """The step on those lanes only; none of them, and it does not run."""

    def run(frame: Frame, mask: Mask) -> None:
        predicate = lanes(frame.registers)
        if predicate.size == 1:
            if predicate.item():
                step(frame, mask)
            return
        active = both(mask, predicate)
        if active.any():
            step(frame, active)

    return run


def read(operand: Operand, dtype: np.dtype, instruction: Instruction, code: Code) -> Read:
    """Reader of a source operand as `dtype`. A register wider than the type gives its low bits (PTX ISA, "Operand
    Size Exceeding Instruction-Type Size"), a narrower one is zero-extended.
    """
    if isinstance(operand, Immediate):
        constant = immediate(operand.text, dtype)
        return lambda registers: constant
    if isinstance(operand, Symbol) and operand.name == "WARP_SZ":
        operand = Register("%WARP_SZ")
    if isinstance(operand, Symbol | Address):
        name = operand.name if isinstance(operand, Symbol) else operand.base.name
        if name not in code.symbols:
            raise UnsupportedInstruction(instruction, f"the emulator does not know the name {name}")
        offset = operand.offset if isinstance(operand, Address) else 0
        constant = uniform((code.symbols[name][1] + offset) % (1 << 64), np.uint64).astype(dtype)
        return lambda registers: constant
    if not isinstance(operand, Register):
        raise UnsupportedInstruction(instruction, f"cannot use {operand} as a source")
    if operand.name in CLOCKS:
        clock, mask = CLOCKS[operand.name], (1 << 8 * dtype.itemsize) - 1
        return lambda registers: uniform(clock() & mask, UNSIGNED[dtype.itemsize]).view(dtype)
    index = code.slot(instruction, operand.name)

    def get(registers: Registers) -> np.ndarray:
        value = registers[index]
        if value.dtype is dtype:
            return value
        if value.dtype.itemsize == dtype.itemsize and dtype.kind != "b":
            return value.view(dtype)
        return resize(value, dtype)

    return get


def read_predicate(operand: Operand, instruction: Instruction, code: Code) -> Read:
    """Reader of a predicate operand, which a ! may negate."""
    if isinstance(operand, Symbol) and operand.name.startswith("!"):
        get = read(Register(operand.name[1:]), DTYPES["pred"], instruction, code)
        return lambda registers: ~get(registers)
    return read(operand, DTYPES["pred"], instruction, code)


def destination(operand: Operand, instruction: Instruction, code: Code) -> int:
    """Index of the register that an operand names."""
    if not isinstance(operand, Register):
        raise UnsupportedInstruction(instruction, f"cannot write to {operand}")
    return code.slot(instruction, operand.name)


def outputs_of(operand: Operand, instruction: Instruction, code: Code) -> list[int | None]:
    """Indices of the registers of a destination such as d, d|p or {a, b}; None for the sink _."""
    return [
        None if isinstance(item, Symbol) and item.name == "_" else destination(item, instruction, code)
        for item in registers_of(operand)
    ]


def put(frame: Frame, outputs: Sequence[int | None], values: Sequence[np.ndarray], mask: Mask) -> None:
    """Write values to registers on active lanes; a None takes nothing."""
    registers = frame.registers
    for index, value in zip(outputs, values, strict=False):
        if index is not None:
            registers[index] = value if mask is None else merge(mask, value, registers[index])


def assign(index: int, compute: Read) -> Step:
    """Step that writes a computed value to a register on active lanes."""

    def step(frame: Frame, mask: Mask) -> None:
        registers = frame.registers
        value = compute(registers)
        if mask is not None:
            value = merge(mask, value, registers[index])
        registers[index] = value

    return step


def merge(mask: Mask, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """A new value on active lanes of a register, and the old one, brought to its width, on the others."""
    if new.dtype.itemsize != old.dtype.itemsize:
        old = resize(old, new.dtype)
    return select(mask, new, old)


def elementwise(function: Callable[..., np.ndarray], instruction: Instruction, code: Code, *dtypes: np.dtype) -> Step:
    """Step `d = function(a, b, ...)`: operand i is read as dtypes[i]."""
    index = destination(instruction.operands[0], instruction, code)
    sources = instruction.operands[1:]
    if len(sources) != len(dtypes):
        raise UnsupportedInstruction(instruction, f"expected {len(dtypes)} source operands, found {len(sources)}")
    function(*(uniform(0, t) for t in dtypes))  # a type that the function does not take shows here
    reads = [read(o, t, instruction, code) for o, t in zip(sources, dtypes, strict=True)]
    if len(reads) == 1:
        (a,) = reads
        return assign(index, lambda registers: function(a(registers)))
    if len(reads) == 2:
        a, b = reads
        return assign(index, lambda registers: function(a(registers), b(registers)))
    if len(reads) == 3:
        a, b, c = reads
        return assign(index, lambda registers: function(a(registers), b(registers), c(registers)))
    return assign(index, lambda registers: function(*[r(registers) for r in reads]))


def registers_of(operand: Operand) -> tuple[Operand, ...]:
    """Elements of a vector operand, or the operand alone."""
    return operand.items if isinstance(operand, Vector) else (operand,)
