"""printf and assert in a kernel: what the compiler calls for them, and `trap`.

printf writes to the standard output of the process, and so into a notebook's cell, in order of blocks and threads among
the lanes that print together; a GPU gathers its output and shows it after the launch. CUDA C++ Programming Guide,
"Formatted Output" and "Assertion"; PTX ISA, "System Calls" and "trap".
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

import numpy as np

from .datatypes import DTYPES
from .faults import Hazard, KernelFault
from .instructions import Code, Frame, Site, Step, UnsupportedInstruction, opcode
from .lanes import Mask, uniform
from .loadstore import by_space, unwatched_load
from .memory import GLOBAL_BASE
from .parameters import argument
from .ptx import Instruction, Vector

LONGEST_STRING = 1 << 12
"""Bytes of a string that printf reads at most, and the widest it writes a value."""

MOST_PRINTED = 1 << 20
"""Characters that a launch prints at most: a GPU's buffer has 1 MiB (cudaLimitPrintfFifoSize) and keeps the newest."""

_CONVERSION = re.compile(r"%([-+ #0]*)(\*|\d+)?(?:\.(\d+))?(hh|h|ll|l|j|z|t|L)?([diouxXcsfFeEgGaAp%])")
_U32, _U64 = DTYPES["u32"], DTYPES["u64"]


@dataclass
class Output:
    """What a launch prints: `characters` so far, and the calls by single threads that were `left_out` after that."""

    characters: int = 0
    left_out: int = 0

    @property
    def full(self) -> bool:
        """Whether there was too much, so that nothing more is shown."""
        return self.characters > MOST_PRINTED

    def write(self, text: str) -> None:
        """Show what one thread prints, or say once that there is too much."""
        already = self.full
        self.characters += len(text)
        self.left_out += self.full
        if not self.full:
            sys.stdout.write(text)
        elif not already:
            sys.stdout.write(f"\n(printf stops here: a launch shows {MOST_PRINTED:,} characters at most)\n")

    def end(self) -> None:
        """Say how much was left out, if anything was: the launch is over."""
        if self.left_out:
            sys.stdout.write(f"(printf: {self.left_out:,} more calls, each by one thread, were left out)\n")


@opcode("call")
def call(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "call" and "System Calls": of a function that the emulator provides; all others were put in place of
    their calls.
    """
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
        batch, active = frame.batch, frame.batch.active(mask)
        forms, addresses = batch.flat(form_of(frame)), values_of(frame)
        texts: dict[tuple[int, int], str] = {}
        printed = np.zeros(active.shape, np.int32)
        frame.machine.look_at_the_clock(instruction.line)
        output = frame.machine.output
        for form in () if output.full else np.unique(forms[active]):
            lanes = active & (forms == form)
            first = tuple(np.argwhere(lanes)[0])
            memory = _Memory(frame, instruction.line, addresses, lanes)
            texts |= _formatted(memory.string(*first, int(form)), memory)
            printed[lanes] = memory.taken
        for lane in sorted(texts):
            output.write(texts[lane])
        output.left_out += int(active.sum()) - len(texts)
        frame.arguments[result] = printed.reshape(batch.shape)[..., None].view(np.uint8)

    return step


class _Memory:
    """What lanes that print alike passed to printf: values one after another, and strings."""

    def __init__(self, frame: Frame, line: int, addresses: np.ndarray, lanes: np.ndarray) -> None:
        self.lanes, self.taken = lanes, 0
        self._frame, self._line, self._addresses = frame, line, addresses
        self._offset = 0
        self._strings: dict[int, str] = {}

    def take(self, dtype: np.dtype) -> np.ndarray:
        """The next value of each lane, as (blocks, threads)."""
        self._offset = -(-self._offset // dtype.itemsize) * dtype.itemsize
        values = self._read(self._addresses + np.uint64(self._offset), self.lanes, dtype)
        self._offset += dtype.itemsize
        self.taken += 1
        return values

    def _read(self, addresses: np.ndarray, lanes: np.ndarray, dtype: np.dtype) -> np.ndarray:
        batch, result = self._frame.batch, np.zeros(lanes.shape, dtype)
        for space, offset, found in by_space(self._frame, addresses, lanes.reshape(batch.shape)):
            site = Site(f"ld.{space}", space, dtype.itemsize, self._line)
            value = batch.flat(unwatched_load(site, self._frame, offset, found)).view(dtype)
            result = np.where(batch.flat(found), value, result)
        return result

    def strings(self, addresses: np.ndarray) -> dict[tuple[int, int], str]:
        """What each lane's pointer points to, up to its zero; '(null)' for a null pointer."""
        ahead, columns = self.lanes & (addresses != 0), []
        while ahead.any() and len(columns) < LONGEST_STRING:
            self._frame.machine.look_at_the_clock(self._line)
            where = (addresses + np.uint64(len(columns))).reshape(self._frame.batch.shape)
            columns.append(self._read(where, ahead, DTYPES["u8"]))
            ahead = ahead & (columns[-1] != 0)
        raw = np.stack([*columns, np.zeros_like(self.lanes, np.uint8)], axis=-1)
        texts = {(int(row), int(thread)): bytes(raw[row, thread]) for row, thread in np.argwhere(self.lanes)}
        return {
            lane: text.partition(b"\0")[0].decode("utf-8", "replace") if addresses[lane] else "(null)"
            for lane, text in texts.items()
        }

    def string(self, row: int, thread: int, address: int) -> str:
        """What a pointer of one lane points to, up to its zero."""
        if address in self._strings:
            return self._strings[address]
        lane, raw = np.zeros(self.lanes.shape, bool), bytearray()
        lane[row, thread] = True
        while len(raw) < LONGEST_STRING:
            self._frame.machine.look_at_the_clock(self._line)
            where = uniform((address + len(raw)) % (1 << 64), np.uint64)
            byte = int(self._read(where, lane, DTYPES["u8"])[row, thread])
            if not byte:
                break
            raw.append(byte)
        text = raw.decode("utf-8", "replace")
        if address >= GLOBAL_BASE:
            # only there all lanes see the same
            self._strings[address] = text
        return text


def _formatted(form: str, memory: _Memory) -> dict[tuple[int, int], str]:
    """What each lane prints. What C's printf would not take as a conversion stays as it is written."""
    lanes = [(int(row), int(thread)) for row, thread in np.argwhere(memory.lanes)]
    texts, at = dict.fromkeys(lanes, ""), 0
    for match in _CONVERSION.finditer(form):
        before, at = form[at : match.start()], match.end()
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            for lane in lanes:
                texts[lane] += before + "%"
            continue
        widths = memory.take(DTYPES["s32"]) if width == "*" else None
        values = memory.take(_type_of(kind, length))
        given = memory.strings(values) if kind == "s" else {lane: values[lane].item() for lane in lanes}
        for lane in lanes:
            wide = int(width or 0) if widths is None else int(widths[lane])
            shape = f"%{flags}{max(-LONGEST_STRING, min(wide, LONGEST_STRING)) or ''}"
            texts[lane] += before + _converted(shape, precision, kind, given[lane])
    for lane in lanes:
        texts[lane] += form[at:]
    return texts


def _type_of(kind: str, length: str | None) -> np.dtype:
    """Type that the compiler passes for a conversion."""
    if kind in "fFeEgGaA":
        return DTYPES["f64"]
    if kind in "sp":
        return _U64
    long = length in ("l", "ll", "j", "z", "t") and kind != "c"
    return DTYPES[("s" if kind in "dic" else "u") + ("64" if long else "32")]


def _converted(shape: str, precision: str | None, kind: str, value: float | str) -> str:
    """One value in the form of one conversion; `shape` holds its flags and width."""
    if kind == "p":
        return f"{shape}s" % hex(int(value))
    if kind in "aA":
        return f"{shape}s" % _hexadecimal(value, kind)
    if precision is not None:
        shape = f"{shape}.{min(int(precision), LONGEST_STRING)}"
    if kind == "s":
        return f"{shape}s" % value
    if kind == "c":
        return f"{shape}c" % (int(value) & 0xFF)
    text = f"{shape}{'d' if kind in 'iu' else kind}" % value
    return text.replace("0o", "0") if kind == "o" else text


def _hexadecimal(value: float, kind: str) -> str:
    """%a as C writes it: no trailing zeros in the fraction."""
    text = re.sub(r"\.?0*p", "p", value.hex())
    return text.upper() if kind == "A" else text


def _assertfail(instruction: Instruction, message: str, file: str, line: str, function: str) -> Step:
    pointers = [argument(name, _U64) for name in (message, file, function)]
    number = argument(line, _U32)

    def step(frame: Frame, mask: Mask) -> None:
        active = frame.batch.active(mask)
        row, thread = (int(i) for i in np.argwhere(active)[0])
        memory = _Memory(frame, instruction.line, uniform(0, np.uint64), active)
        said, _, where = (memory.string(row, thread, int(frame.batch.flat(p(frame))[row, thread])) for p in pointers)
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
