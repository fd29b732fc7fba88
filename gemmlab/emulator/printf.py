"""printf and assert in a kernel: what the compiler calls for them, and `trap`.

printf writes to the standard output of the process, and so into a notebook's cell, in order of blocks and threads among
the lanes that print together; a GPU gathers its output and shows it after the launch. CUDA C++ Programming Guide,
"Formatted Output" and "Assertion"; PTX ISA, "System Calls" and "trap".
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import numpy as np

from .datatypes import DTYPES
from .faults import Hazard, KernelFault
from .instructions import Code, Frame, Site, Step, UnsupportedInstruction, opcode
from .lanes import Mask, uniform
from .loadstore import by_space, unwatched_load
from .parameters import argument
from .ptx import Instruction, Vector

LONGEST_STRING = 1 << 12
"""Bytes of a string that printf reads at most."""

MOST_PRINTED = 1 << 20
"""Characters that a launch prints at most: a GPU's buffer of 1 MiB holds about as many."""

_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXcsfFeEgGaAp%])")
_U32, _U64 = DTYPES["u32"], DTYPES["u64"]


@opcode("call")
def call(instruction: Instruction, code: Code) -> Step:
    """A call of a function that the emulator provides; all others were put in place of their calls."""
    returns = instruction.operands[0] if isinstance(instruction.operands[0], Vector) else Vector(())
    passed = instruction.operands[-1]
    name = next(o.name for o in instruction.operands if not isinstance(o, Vector))
    if name == "vprintf":
        return _vprintf(instruction, returns.items[0].name, *(item.name for item in passed.items))
    if name == "__assertfail":
        return _assertfail(instruction, *(item.name for item in passed.items[:4]))
    raise UnsupportedInstruction(instruction, f"the emulator provides no {name}()")


def _vprintf(instruction: Instruction, result: str, form: str, values: str) -> Step:
    form_of, values_of = argument(form, _U64), argument(values, _U64)

    def step(frame: Frame, mask: Mask) -> None:
        reader = _Reader(frame, instruction.line)
        forms, addresses = (frame.batch.flat(get(frame)) for get in (form_of, values_of))
        printed = np.zeros((frame.batch.blocks, frame.batch.threads), np.int32)
        for row, thread in np.argwhere(frame.batch.active(mask)):
            frame.machine.look_at_the_clock(instruction.line)
            if frame.machine.printed > MOST_PRINTED:
                break
            text = reader.string(row, thread, int(forms[row, thread]))
            pieces = list(_formatted(text, reader, row, thread, int(addresses[row, thread])))
            _print("".join(text for text, _ in pieces), frame)
            printed[row, thread] = sum(values for _, values in pieces)
        raw = np.ascontiguousarray(printed.reshape(frame.batch.shape))[..., None].view(np.uint8)
        frame.arguments[result] = raw

    return step


def _print(text: str, frame: Frame) -> None:
    frame.machine.printed += len(text)
    if frame.machine.printed > MOST_PRINTED:
        text = f"\n(printf stops here: the launch has printed {MOST_PRINTED:,} characters)\n"
    sys.stdout.write(text)


class _Reader:
    """Reads memory for one thread at a time, by generic address."""

    def __init__(self, frame: Frame, line: int) -> None:
        self.frame, self.line = frame, line
        self._strings: dict[int, str] = {}

    def number(self, row: int, thread: int, address: int, dtype: np.dtype) -> int | float:
        mask = np.zeros((self.frame.batch.blocks, self.frame.batch.threads), bool)
        mask[row, thread] = True
        lanes = mask.reshape(self.frame.batch.shape)
        for space, offset, found in by_space(self.frame, uniform(address, np.uint64), lanes):
            site = Site(f"ld.{space}", space, dtype.itemsize, self.line)
            value = unwatched_load(site, self.frame, offset, found)
            return np.broadcast_to(value, self.frame.batch.shape)[lanes].view(dtype)[0].item()
        return 0

    def string(self, row: int, thread: int, address: int) -> str:
        if address not in self._strings:
            raw = bytearray()
            while len(raw) < LONGEST_STRING and (byte := self.number(row, thread, address + len(raw), DTYPES["u8"])):
                raw.append(byte)
            self._strings[address] = raw.decode("utf-8", "replace")
        return self._strings[address]


def _formatted(text: str, reader: _Reader, row: int, thread: int, address: int) -> Iterator[tuple[str, int]]:
    """Pieces of the text with values in place of conversions, each with the number of values it took.

    What C's printf would not take as a conversion stays as it is written.
    """
    at, offset = 0, 0

    def take(dtype: np.dtype) -> int | float:
        nonlocal offset
        offset = -(-offset // dtype.itemsize) * dtype.itemsize
        value = reader.number(row, thread, address + offset, dtype)
        offset += dtype.itemsize
        return value

    for match in _CONVERSION.finditer(text):
        yield text[at : match.start()], 0
        at = match.end()
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            yield "%", 0
            continue
        if width == "*":
            width = str(take(DTYPES["s32"]))
        shape = f"%{flags}{width or ''}" + (f".{precision}" if precision is not None else "")
        if kind == "s":
            pointer = int(take(_U64))
            yield (shape + "s") % (reader.string(row, thread, pointer) if pointer else "(null)"), 1
        elif kind == "p":
            yield (f"%{flags}{width or ''}s") % hex(int(take(_U64))), 1
        elif kind == "c":
            yield (shape + "c") % (int(take(DTYPES["s32"])) & 0xFF), 1
        elif kind in "fFeEgG":
            yield (shape + kind) % take(DTYPES["f64"]), 1
        elif kind in "aA":
            yield (f"%{flags}{width or ''}s") % _hexadecimal(float(take(DTYPES["f64"])), kind), 1
        else:
            long = length in ("l", "ll", "j", "z", "t")
            signed = kind in "di"
            dtype = DTYPES[("s" if signed else "u") + ("64" if long else "32")]
            yield (shape + ("d" if kind in "diu" else kind)) % take(dtype), 1
    yield text[at:], 0


def _hexadecimal(value: float, kind: str) -> str:
    """%a as C writes it: no trailing zeros in the fraction."""
    text = re.sub(r"\.?0*p", "p", value.hex())
    return text.upper() if kind == "A" else text


def _assertfail(instruction: Instruction, message: str, file: str, line: str, function: str) -> Step:
    pointers = [argument(name, _U64) for name in (message, file, function)]
    number = argument(line, _U32)

    def step(frame: Frame, mask: Mask) -> None:
        row, thread = (int(i) for i in np.argwhere(frame.batch.active(mask))[0])
        reader = _Reader(frame, instruction.line)
        said, _, where = (reader.string(row, thread, int(frame.batch.flat(p(frame))[row, thread])) for p in pointers)
        at = int(frame.batch.flat(number(frame))[row, thread])
        raise KernelFault(_stopped(instruction, frame, mask, f"the assertion `{said}` failed in {where}, line {at}"))

    return step


@opcode("trap", "brkpt")
def trap(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "trap": the launch ends here."""

    def step(frame: Frame, mask: Mask) -> None:
        raise KernelFault(_stopped(instruction, frame, mask, f"the kernel stopped itself by {instruction.parts[0]}"))

    return step


def _stopped(instruction: Instruction, frame: Frame, mask: Mask, what: str) -> Hazard:
    lanes = frame.batch.active(mask)
    row, thread = (int(i) for i in np.argwhere(lanes)[0])
    block, first = frame.batch.block_index(row), frame.batch.thread_index(thread)
    return Hazard(
        "trap",
        instruction.line,
        f"thread {first} of block {block}: {what}",
        block,
        (first,),
        int(lanes.sum()),
        counted="threads",
    )
