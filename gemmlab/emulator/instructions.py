"""From a PTX instruction to what it does: registry, operands, and the frame that steps run in.

Each instruction becomes one Python closure, a `Step`, made once when the kernel is compiled. A step computes on the
lattice of `lanes.py` and writes its destination on active lanes only. The opcodes themselves live in the modules that
`code.py` imports; each registers its own with `@opcode`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .lanes import Batch, Mask, both, select, uniform
from .memory import Fault, GlobalMemory
from .onchip import BlockMemory, ThreadMemory
from .ptx import Address, Function, Immediate, Instruction, Operand, PtxError, Register, Symbol, Vector

DTYPES = {
    "pred": np.dtype(bool),
    "b8": np.dtype(np.uint8),
    "u8": np.dtype(np.uint8),
    "s8": np.dtype(np.int8),
    "b16": np.dtype(np.uint16),
    "u16": np.dtype(np.uint16),
    "s16": np.dtype(np.int16),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "b32": np.dtype(np.uint32),
    "u32": np.dtype(np.uint32),
    "s32": np.dtype(np.int32),
    "f32": np.dtype(np.float32),
    "f16x2": np.dtype(np.uint32),
    "bf16x2": np.dtype(np.uint32),
    "b64": np.dtype(np.uint64),
    "u64": np.dtype(np.uint64),
    "s64": np.dtype(np.int64),
    "f64": np.dtype(np.float64),
}

UNSIGNED = {1: DTYPES["u8"], 2: DTYPES["u16"], 4: DTYPES["u32"], 8: DTYPES["u64"]}

Registers = list[np.ndarray]
Read = Callable[[Registers], np.ndarray]


class UnsupportedInstruction(PtxError):
    """An instruction that the emulator does not run; the message names it and its source line."""

    def __init__(self, instruction: Instruction, why: str = "the emulator does not run this instruction") -> None:
        super().__init__(f"line {instruction.line}: {instruction.opcode}: {why}")


@dataclass(frozen=True)
class Site:
    """Where an access stands: one memory instruction of a kernel. `op` is 'ld.global', 'st.shared', 'atom.global'
    and so on, `bytes` the width of the access per lane, `order` its memory order ('' for a plain, weak access)."""

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
            kind = self.function.registers.get(name)
            if kind is None and name not in SPECIAL_REGISTERS and not name.startswith(("%envreg", "%pm")):
                if name in ("%SP", "%SPL"):
                    kind = "b64"
                else:
                    raise UnsupportedInstruction(instruction, f"the emulator has no register {name}")
            self.slots[name] = len(self.initial)
            if kind is None:
                self.specials[name] = self.slots[name]
            self.initial.append(uniform(0, DTYPES.get(kind or "u32", DTYPES["u32"])))
        return self.slots[name]


SPECIAL_REGISTERS: dict[str, Callable[[Batch], np.ndarray]] = {
    "%tid.x": lambda b: b.index(5),
    "%tid.y": lambda b: b.index(4),
    "%tid.z": lambda b: b.index(3),
    "%ctaid.x": lambda b: b.index(2),
    "%ctaid.y": lambda b: b.index(1),
    "%ctaid.z": lambda b: b.index(0),
    "%ntid.x": lambda b: uniform(b.block[2], np.uint32),
    "%ntid.y": lambda b: uniform(b.block[1], np.uint32),
    "%ntid.z": lambda b: uniform(b.block[0], np.uint32),
    "%nctaid.x": lambda b: uniform(b.grid[2], np.uint32),
    "%nctaid.y": lambda b: uniform(b.grid[1], np.uint32),
    "%nctaid.z": lambda b: uniform(b.grid[0], np.uint32),
    "%laneid": lambda b: b.linear_thread % np.uint32(32),
    "%warpid": lambda b: b.linear_thread // np.uint32(32),
    "%WARP_SZ": lambda b: uniform(32, np.uint32),
    "%lanemask_eq": lambda b: np.uint32(1) << (b.linear_thread % np.uint32(32)),
    "%lanemask_lt": lambda b: (np.uint32(1) << (b.linear_thread % np.uint32(32))) - np.uint32(1),
    "%lanemask_le": lambda b: (np.uint32(2) << (b.linear_thread % np.uint32(32))) - np.uint32(1),
    "%lanemask_gt": lambda b: ~((np.uint32(2) << (b.linear_thread % np.uint32(32))) - np.uint32(1)),
    "%lanemask_ge": lambda b: ~((np.uint32(1) << (b.linear_thread % np.uint32(32))) - np.uint32(1)),
}
"""PTX ISA, "Special Registers": those that depend on the launch alone."""

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
    try:
        step = builder(instruction, code)
    except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
        raise UnsupportedInstruction(instruction, f"the emulator does not know this form ({error})") from None
    if instruction.guard is None:
        return step
    return guarded(step, guard(instruction, code))


def guard(instruction: Instruction, code: Code) -> Read:
    """Lanes on which a guarded instruction runs."""
    name, negated = instruction.guard
    index = code.slot(instruction, name)
    return (lambda registers: ~registers[index]) if negated else (lambda registers: registers[index])


def guarded(step: Step, lanes: Read) -> Step:
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


def dtype_of(instruction: Instruction, name: str) -> np.dtype:
    """NumPy type of a PTX type; UnsupportedInstruction for one that has none."""
    if name not in DTYPES:
        raise UnsupportedInstruction(instruction, f"the emulator has no type .{name}")
    return DTYPES[name]


def read(operand: Operand, dtype: np.dtype, instruction: Instruction, code: Code) -> Read:
    """Reader of a source operand as `dtype`. A register wider than the type gives its low bits (PTX ISA, "Operand
    Size Exceeding Instruction-Type Size"), a narrower one is zero-extended."""
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
        constant = uniform(code.symbols[name][1] + offset, np.uint64).astype(dtype)
        return lambda registers: constant
    if not isinstance(operand, Register):
        raise UnsupportedInstruction(instruction, f"cannot use {operand} as a source")
    index = code.slot(instruction, operand.name)

    def get(registers: Registers) -> np.ndarray:
        value = registers[index]
        if value.dtype is dtype:
            return value
        if value.dtype.itemsize == dtype.itemsize and dtype.kind != "b":
            return value.view(dtype)
        return resize(value, dtype)

    return get


def resize(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Low bits of a value, or the value zero-extended, as another width."""
    bits = value.view(UNSIGNED[value.dtype.itemsize]) if value.dtype.kind != "b" else value
    if dtype.kind == "b":
        return bits.astype(bool)
    return bits.astype(UNSIGNED[dtype.itemsize]).view(dtype)


def immediate(text: str, dtype: np.dtype) -> np.ndarray:
    """A literal as a uniform value of `dtype`; integers wrap to its width."""
    if text[:2] in ("0f", "0F"):
        value = np.array(int(text[2:], 16), np.uint32).view(np.float32)
    elif text[:2] in ("0d", "0D"):
        value = np.array(int(text[2:], 16), np.uint64).view(np.float64)
    else:
        number = int(text.rstrip("U"), 0)
        if dtype.kind == "b":
            return uniform(bool(number), bool)
        if dtype.kind == "f":
            return uniform(number, dtype)
        unsigned = UNSIGNED[dtype.itemsize]
        return uniform(number & ((1 << 8 * dtype.itemsize) - 1), unsigned).view(dtype)
    if dtype.kind == "f":
        return uniform(value, dtype)
    return resize(uniform(value, value.dtype), dtype)


def destination(operand: Operand, instruction: Instruction, code: Code) -> int:
    if not isinstance(operand, Register):
        raise UnsupportedInstruction(instruction, f"cannot write to {operand}")
    return code.slot(instruction, operand.name)


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
    if new.dtype.itemsize != old.dtype.itemsize:
        old = resize(old, new.dtype)
    return select(mask, new, old)


def elementwise(
    function: Callable[..., np.ndarray], instruction: Instruction, code: Code, *dtypes: np.dtype
) -> Step:
    """Step `d = function(a, b, ...)`: operand i is read as dtypes[i]."""
    index = destination(instruction.operands[0], instruction, code)
    sources = instruction.operands[1:]
    if len(sources) != len(dtypes):
        raise UnsupportedInstruction(instruction, f"expected {len(dtypes)} source operands, found {len(sources)}")
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
