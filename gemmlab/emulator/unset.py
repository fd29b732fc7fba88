"""Variables that are read before they have a value, told where what a launch leaves behind depends on them.

Where a variable has no value on some way to its use, as a sum in a loop that nobody set to zero, PTX reads a register
that nobody wrote. Where it has none on any way, the optimiser drops what depends on it or makes it a constant NaN, and
NVRTC may warn; what would come of it shows the code that it makes for debuggers (-G), which keeps all variables.

A right program may do either, and throw away what it read. So such a launch is repeated, with other values in the
registers and the local memory that nobody wrote. It is at fault if results, what it prints or its faults then differ.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gemmlab import nvrtc

from .arrays import MEMORY
from .code import Program
from .device import RawKernel, launch, time_budget
from .faults import Hazard, KernelFault
from .instructions import UnsupportedInstruction
from .memory import Allocation

FILLS = (0x00, 0xFF, 0x7B, 0xFA)
"""Bytes that fill what nobody wrote: as a float or an integer of any width they are zero, NaN, a number above most
others and one below them, so that no product with zero and no largest or smallest value hides them. A predicate is true
where the byte is odd."""

SECONDS = 5.0
"""Repeating a launch takes this long at most, or three times as long as it took itself."""

CURE = "give the variable a value where it is declared"

Contents = list[tuple[Allocation, np.ndarray, int]]
Outcome = tuple[object, ...]
Launching = tuple[RawKernel, object, object, tuple[object, ...], int]  # kernel, grid, block, args, shared_mem


@dataclass(frozen=True)
class Suspect:
    """Code that may read what has no value, made with some byte there, and the findings if it does. `said` when the
    compiler says so, `certain` when that is all there is to know, for the code shows nothing of it.
    """

    filled: Callable[[int], Program]
    hazards: tuple[Hazard, ...]
    said: bool = False
    certain: bool = False


def suspects(kernel: RawKernel) -> tuple[Suspect, ...]:
    """Return what is to be repeated to find out whether the kernel's results depend on variables without a value."""
    function = kernel.program.kernel
    found = [Suspect(_started(kernel.program), _read(function.early_reads))] if function.early_reads else []
    warned = nvrtc.used_before_set(kernel.code, kernel.options, kernel.architecture)
    if warned or function.nans:
        with contextlib.suppress(nvrtc.CompileError, UnsupportedInstruction):
            found += _kept(kernel.debug_program, warned, function.nans)
    return tuple(found)


def contents() -> Contents:
    """Return a copy of all that lies in global memory."""
    return [(each, each.buffer.copy(), each.stores) for each in MEMORY.allocations()]


def findings(suspected: Sequence[Suspect], launching: Launching, before: Contents, took: float) -> Iterator[Hazard]:
    """Yield the findings of suspects on which results depend, of a launch that was just made from the memory `before`
    and took so many seconds; what the compiler says also where that cannot be told in time. Memory is then as that
    launch left it.
    """
    if not suspected:
        return
    after = contents()
    try:
        with time_budget(max(SECONDS, 3 * took)):
            for suspect in suspected:
                if suspect.certain or _depends(suspect, launching, before):
                    yield from suspect.hazards
    finally:
        _restore(after)


def _kept(program: Program, warned: Iterable[tuple[int, str]], nans: tuple[int, ...]) -> Iterator[Suspect]:
    """The code for debuggers, where it reads what it may not have written, or may do so in local memory."""
    function = program.kernel
    here = {i.line for block in function.function.blocks for i in block.instructions} - {0}
    names: dict[int, list[str]] = {}
    for line, name in warned:
        if min(here, default=line) <= line <= max(here, default=line):  # others are not of this kernel
            names.setdefault(line, []).append(name)
    seen = bool(function.early_reads or program.local_bytes)
    if names:
        # What is calculated from nothing may become a constant here too.
        yield Suspect(
            _started(program), tuple(map(_said, names.items())), said=True, certain=not seen or bool(function.nans)
        )
    elif nans and seen:
        yield Suspect(_started(program), _read(function.early_reads or nans))


def _started(program: Program) -> Callable[[int], Program]:
    return lambda fill: replace(program, kernel=program.kernel.started_with(fill))


def _said(at: tuple[int, list[str]]) -> Hazard:
    line, names = at
    are = "is used before it has a value" if len(names) == 1 else "are used before they have a value"
    return Hazard("uninitialized", line, f"{' and '.join(sorted(names))} {are}, says the compiler", cure=CURE)


def _read(lines: tuple[int, ...]) -> tuple[Hazard]:
    what = "a variable is read here that has no value yet, and the results depend on it"
    return (Hazard("uninitialized", lines[0], what, lines=lines[1:], cure=CURE),)


def _depends(suspect: Suspect, launching: Launching, before: Contents) -> bool:
    """Say whether other values change the outcome, and not only whatever else does, such as the clock."""
    try:
        first = _outcome(suspect.filled(FILLS[0]), launching, before)
        others = (fill for fill in FILLS[1:] if _outcome(suspect.filled(fill), launching, before) != first)
        return next(others, None) is not None and _outcome(suspect.filled(FILLS[0]), launching, before) == first
    except TimeoutError:
        return suspect.said


def _outcome(program: Program, launching: Launching, before: Contents) -> Outcome:
    """What a launch leaves in memory, prints and does wrong. Raises TimeoutError when it takes too long."""
    kernel, *how = launching
    _restore(before)
    said, wrong = io.StringIO(), []
    try:
        with contextlib.redirect_stdout(said):
            launch(kernel, *how, lambda hazard: wrong.append((hazard.kind, hazard.line)), program=program)
    except KernelFault as stopped:
        if stopped.hazard.kind == "timeout":
            raise TimeoutError from None
        wrong.append((stopped.hazard.kind, stopped.hazard.line))
    left = hashlib.blake2b()
    for allocation, _, _ in before:
        left.update(allocation.buffer)
    return left.digest(), said.getvalue(), tuple(wrong)


def _restore(held: Contents) -> None:
    for allocation, content, stores in held:
        allocation.buffer[:] = content
        allocation.stores = stores
