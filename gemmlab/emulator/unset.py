"""Variables that are read before they have a value: as the compiler says, and as results show.

Where a variable has no value on any way to its use, NVRTC drops what depends on it, stores among them, and warns.
Where it has none on some, as a sum in a loop that nobody set to zero, PTX reads a register that nobody wrote. A right
program may do so too, and throw away what it read. So such a launch is made twice, with other values in the registers
that nobody wrote: what it leaves in memory must not depend on them.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gemmlab import nvrtc

from .arrays import MEMORY
from .device import RawKernel, launch
from .faults import Hazard, KernelFault
from .memory import Allocation

CURE = "give the variable a value where it is declared"

Contents = list[tuple[Allocation, np.ndarray, int]]


def never_set(kernel: RawKernel) -> Iterator[Hazard]:
    """Yield a finding for each variable of the source that NVRTC warns of: it is used before any value is set."""
    for line, name in nvrtc.used_before_set(kernel.code, kernel.options, kernel.architecture):
        yield Hazard("uninitialized", line, f"{name} is used before it has a value, says the compiler", cure=CURE)


def contents() -> Contents:
    """Return a copy of all that lies in global memory."""
    return [(each, each.buffer.copy(), each.stores) for each in MEMORY.allocations()]


def dependence(
    kernel: RawKernel, grid: object, block: object, args: tuple[object, ...], shared_mem: int, before: Contents
) -> Hazard | None:
    """Launch once more from the memory `before`, with other values in registers that nobody wrote, and return a finding
    where this leaves other results than the launch just made. Memory is then as that one left it.
    """
    after, program = contents(), kernel.program
    code = program.kernel.code
    others = [~each if each.dtype.kind == "b" else np.zeros_like(each) for each in code.initial]
    changed = replace(program, kernel=replace(program.kernel, code=replace(code, initial=others)))
    _restore(before)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            launch(kernel, grid, block, args, shared_mem, lambda hazard: None, program=changed)
        alike = all(np.array_equal(each.buffer, held) for each, held, _ in after)
    except KernelFault:
        alike = False
    finally:
        _restore(after)
    if alike:
        return None
    line, *lines = program.kernel.early_reads
    what = "a variable is read here that has no value yet, and the results depend on it"
    return Hazard("uninitialized", line, what, lines=tuple(lines), cure=CURE)


def _restore(held: Contents) -> None:
    for allocation, content, stores in held:
        allocation.buffer[:] = content
        allocation.stores = stores
