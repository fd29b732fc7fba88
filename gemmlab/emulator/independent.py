"""Runs of fma.rn.f32 that do not wait for one another, computed together.

A register tile is an outer product: dozens of fma in a row, none of which needs another's result. On few lanes NumPy's
cost of a call outweighs its cost of a lane, so such a run is stacked and computed by one call, with the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from .datatypes import DTYPES
from .floats import fma32
from .instructions import Code, Frame, Step, build, destination, put, read
from .lanes import Mask
from .ptx import Immediate, Instruction, Register

_LANES = 1 << 14
"""Lanes of all fma in a stack: more would not stay in a core's cache."""


def steps_of(instructions: Sequence[Instruction], code: Code) -> Iterator[Step]:
    """Steps of the instructions of a block: one for each, or for each run of independent fma."""
    for run in runs(instructions):
        steps = [build(instruction, code) for instruction in run]
        yield steps[0] if len(run) == 1 else _together(run, steps, code)


def runs(instructions: Sequence[Instruction]) -> Iterator[list[Instruction]]:
    """The instructions in order, cut into runs: of fma that write no register which a later one reads or writes, or of
    one instruction of any other kind.
    """
    run: list[Instruction] = []
    written: set[str] = set()
    for instruction in instructions:
        stackable = _stackable(instruction)
        if run and (not stackable or not written.isdisjoint(_names(instruction))):
            yield run
            run, written = [], set()
        if stackable:
            run.append(instruction)
            written.add(instruction.operands[0].name)
        else:
            yield [instruction]
    if run:
        yield run


def _stackable(instruction: Instruction) -> bool:
    if instruction.guard is not None or instruction.parts != ("fma", "rn", "f32"):
        return False
    match instruction.operands:
        case [Register(), *sources]:
            return len(sources) == 3 and all(isinstance(source, Register | Immediate) for source in sources)
    return False  # an instruction that makes no sense is left to `build`, which says what is wrong with it


def _names(instruction: Instruction) -> set[str]:
    return {operand.name for operand in instruction.operands if isinstance(operand, Register)}


def _together(run: Sequence[Instruction], steps: Sequence[Step], code: Code) -> Step:
    """Step of a run: as stacks, of as many fma as fit, when their operands are of one shape, or one by one."""
    outputs = [destination(i.operands[0], i, code) for i in run]
    sources = [[read(i.operands[n], DTYPES["f32"], i, code) for i in run] for n in (1, 2, 3)]

    def step(frame: Frame, mask: Mask) -> None:
        registers = frame.registers
        operands = [[get(registers) for get in column] for column in sources]
        alike = all(value.shape == column[0].shape for column in operands for value in column)
        height = _LANES // np.broadcast(*(column[0] for column in operands)).size
        if not alike or height < 2:
            for single in steps:
                single(frame, mask)
            return
        for start in range(0, len(run), height):
            part = slice(start, start + height)
            put(frame, outputs[part], fma32(*(_stack(column[part]) for column in operands)), mask)

    return step


def _stack(values: Sequence[np.ndarray]) -> np.ndarray:
    first = values[0]
    if all(value is first for value in values):
        return first[None]
    return np.concatenate(values).reshape(len(values), *first.shape)
