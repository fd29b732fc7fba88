"""Which instructions may read a register before anything has been written to it, by all ways through the blocks, and
which have a NaN that the compiler may have put in place of a value that there is none of.

Sets of registers are integers here, a bit for each register.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isnan
from struct import unpack

from .ptx import Address, Function, Immediate, Instruction, Operand, Register, Symbol, Vector

_WITHOUT_RESULT = frozenset(
    "st red bra brx bar barrier membar fence call cp ret exit trap brkpt prefetch nanosleep stmatrix".split()
)
"""Opcodes whose first operand is no register that they write."""

_NANS = ("2143289344", "9221120237041090560")
"""The bits 0x7FC00000 and 0x7FF8000000000000, which LLVM stores for a NaN."""

Reads = list[tuple[int, int, int]]  # of each instruction: its line, the registers it reads and those it writes


def early_reads(function: Function, onward: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the lines of instructions that read a register which, on some way there, nobody wrote; in order.

    `onward` gives for each block those that lanes may go to from it.
    """
    bits = {name: 1 << i for i, name in enumerate(function.registers)}
    blocks = [[(i.line, *_registers(i, bits)) for i in block.instructions] for block in function.blocks]
    written = [_union(writes for _, _, writes in block) for block in blocks]
    unwritten, ahead = {0: _union(bits.values())}, {0}
    while ahead:
        number = min(ahead)
        ahead.remove(number)
        left = unwritten[number] & ~written[number]
        for target in onward[number]:
            if target < len(blocks) and left & ~unwritten.get(target, 0):
                unwritten[target] = unwritten.get(target, 0) | left
                ahead.add(target)
    early = {line for number, left in unwritten.items() for line in _early(blocks[number], left)}
    return tuple(sorted(early - {0}))


def nan_constants(function: Function) -> tuple[int, ...]:
    """Return the lines of instructions that have NaN for a constant, in order."""
    lines = {i.line for block in function.blocks for i in block.instructions if any(map(_has_nan, i.operands))}
    return tuple(sorted(lines - {0}))


def _has_nan(operand: Operand) -> bool:
    match operand:
        case Immediate(text):
            form = {"0f": ">f", "0d": ">d"}.get(text[:2].lower())
            return text in _NANS or (form is not None and isnan(*unpack(form, bytes.fromhex(text[2:]))))
        case Vector(items):
            return any(map(_has_nan, items))
    return False


def _early(block: Reads, unwritten: int) -> Iterator[int]:
    """Lines of a block that read registers of a set before the block writes them."""
    for line, reads, writes in block:
        if reads & unwritten:
            yield line
        unwritten &= ~writes


def _registers(instruction: Instruction, bits: dict[str, int]) -> tuple[int, int]:
    """The registers that an instruction reads, and those that it writes whatever its guard says."""
    written, read = instruction.operands[:1], instruction.operands[1:]
    opcode, *how = instruction.parts
    if (opcode in _WITHOUT_RESULT and "red" not in how) or "store" in how:
        written, read = (), instruction.operands
    reads, writes = (
        _union(bits.get(name, 0) for operand in operands for name in _names(operand)) for operands in (read, written)
    )
    if instruction.guard is None:
        return reads, writes
    return reads | bits.get(instruction.guard[0], 0), 0


def _names(operand: Operand) -> Iterator[str]:
    match operand:
        case Register(name) | Address(base=Register(name)):
            yield name
        case Vector(items):
            for item in items:
                yield from _names(item)
        case Symbol(name) if name.startswith("!"):
            yield name[1:]


def _union(sets: Iterable[int]) -> int:
    together = 0
    for each in sets:
        together |= each
    return together
