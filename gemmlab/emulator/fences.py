"""Memory fences: membar, fence (PTX ISA, "Parallel Synchronization and Communication Instructions").

Lanes run in one order here and every store is seen at once, so a fence changes no value; observers are told, since it
lets a block publish what it wrote.
"""

from __future__ import annotations

from .instructions import Code, Frame, Step, UnsupportedInstruction, opcode
from .lanes import Mask
from .ptx import Instruction

_BLOCK_ONLY = {"cta", "cluster"}


@opcode("membar", "fence")
def fence(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "membar, fence, fence.proxy": tell observers of the fence and of how far it reaches."""
    if "proxy" in instruction.parts:
        raise UnsupportedInstruction(instruction, "proxies belong to bulk copies, which are not emulated")
    wide = not _BLOCK_ONLY & set(instruction.parts)

    def step(frame: Frame, mask: Mask) -> None:
        for observer in frame.observers:
            observer.fence(frame, instruction.line, mask, wide)

    return step
