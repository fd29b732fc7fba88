"""wmma: matrices loaded, multiplied and stored by a warp, in fragments whose layout is the implementation's own.

PTX ISA, "Warp-level Matrix Instructions: wmma.load, wmma.store, wmma.mma". Which lane holds which element is left open;
`fragments.runs` says how it is here. A load or store moves 16 bytes a lane (8 where a row has no more), in as many
requests as that takes: the hardware's own split is not documented, so its counts of requests may differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .fragments import WIDTHS, Fragment, extents, runs
from .instructions import Code, Frame, Site, Step, UnsupportedInstruction, opcode, read, registers_of
from .lanes import WARP, Mask, both, uniform
from .loadstore import SPACES, address_of, by_space, load, store
from .matrix import by_warp, lattice, outputs_of, product, put, warp_wide, words_of
from .memory import UNITS
from .ptx import Instruction

U64 = np.dtype(np.uint64)

SHAPES = {
    "f16": ("m16n16k16", "m32n8k16", "m8n32k16"),
    "bf16": ("m16n16k16", "m32n8k16", "m8n32k16"),
    "s8": ("m16n16k16", "m32n8k16", "m8n32k16"),
    "u8": ("m16n16k16", "m32n8k16", "m8n32k16"),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
}
"""Shapes of wmma by the type of A and B (PTX ISA, "wmma.mma"), without sub-byte types."""


@opcode("wmma")
def wmma(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "wmma.load", "wmma.store" and "wmma.mma"."""
    kind = instruction.parts[1]
    if kind == "load":
        return _load(instruction, code)
    if kind == "store":
        return _store(instruction, code)
    if kind == "mma":
        return _mma(instruction, code)
    raise UnsupportedInstruction(instruction)


def _shape(instruction: Instruction) -> tuple[int, int, int]:
    known = {shape for shapes in SHAPES.values() for shape in shapes}
    shape = next((p for p in instruction.parts if p in known), None)
    if shape is None:
        raise UnsupportedInstruction(instruction, "the emulator has no wmma of this shape")
    return extents(shape)


def _operand(instruction: Instruction, name: str, type_: str, registers: int) -> Fragment:
    """The fragment of operand 'a', 'b', 'c' or 'd' that fills so many registers."""
    m, n, k = _shape(instruction)
    if type_ not in WIDTHS:
        raise UnsupportedInstruction(instruction, f"the emulator has no wmma of .{type_}")
    rows, columns = {"a": (m, k), "b": (k, n)}.get(name, (m, n))
    fragment = runs(rows, columns, type_, registers)
    # A and B of f16 have 16 elements a lane in every shape, so that some are held twice
    held, own = fragment.layout.shape[1], rows * columns // WARP
    if held % own or (held > own and type_ != "f16"):
        raise UnsupportedInstruction(instruction, f"a fragment of this shape does not have {registers} registers")
    return fragment


@dataclass(frozen=True)
class _Pieces:
    """How a matrix in memory is moved: in pieces of `bytes`, line by line, 32 pieces a request.

    A line is a row, or a column where the layout is .col; `length` is its elements and `element` the bytes of one.
    """

    by_rows: bool
    lines: int
    length: int
    element: int

    @property
    def bytes(self) -> int:
        return min(16, self.length * self.element)

    @property
    def total(self) -> int:
        return self.lines * self.length * self.element // self.bytes

    @property
    def requests(self) -> int:
        return -(-self.total // WARP)

    def of_request(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """By lane: the line, the byte within it, and whether there is a piece for the lane."""
        piece = number * WARP + np.arange(WARP)
        a_line = self.length * self.element // self.bytes
        return piece // a_line, piece % a_line * self.bytes, piece < self.total


def _pieces(instruction: Instruction, fragment: Fragment) -> _Pieces:
    by_rows = "row" in instruction.parts
    rows, columns = fragment.shape if by_rows else fragment.shape[::-1]
    return _Pieces(by_rows, rows, columns, WIDTHS[fragment.type])


def _places(instruction: Instruction, code: Code, address_operand: int, pieces: _Pieces):
    """Reader of every request as (space, addresses, lanes)."""
    address = address_of(instruction.operands[address_operand], instruction, code)
    given = instruction.operands[2:]
    stride = read(given[0], np.dtype(np.uint32), instruction, code) if given else None
    space = next((SPACES[p] for p in instruction.parts if p in SPACES), None)

    def requests(frame: Frame, mask: Mask):
        base = address(frame.registers)
        step = uniform(pieces.length, U64) if stride is None else stride(frame.registers).astype(U64)
        lane = frame.batch.linear_thread % np.uint32(WARP)
        for request in range(pieces.requests):
            line, byte, used = (by_lane[lane] for by_lane in pieces.of_request(request))
            where = base + line.astype(U64) * step * U64.type(pieces.element) + byte.astype(U64)
            lanes = mask if used.all() else both(mask, used)
            if space is not None:
                yield space, where, lanes
                continue
            found = by_space(frame, where, lanes)
            if len(found) != 1:
                raise UnsupportedInstruction(instruction, "a matrix that lies in two memories is not emulated")
            yield found[0]

    return requests


def _load(instruction: Instruction, code: Code) -> Step:
    type_, name = instruction.parts[-1], instruction.parts[2]
    fragment = _operand(instruction, name, type_, len(registers_of(instruction.operands[0])))
    outputs = outputs_of(instruction.operands[0], fragment.registers, instruction, code)
    pieces = _pieces(instruction, fragment)
    places = _places(instruction, code, 1, pieces)

    def step(frame: Frame, mask: Mask) -> None:
        loaded = [
            by_warp(frame.batch, [load(_site("ld", space, pieces, instruction), frame, where, lanes)])[..., 0]
            for space, where, lanes in places(frame, mask)
        ]
        flat = np.ascontiguousarray(np.concatenate(loaded, axis=1)[:, : pieces.total])
        matrix = flat.view(f"u{pieces.element}").reshape(-1, pieces.lines, pieces.length)
        put(frame, mask, outputs, fragment.scatter(matrix if pieces.by_rows else matrix.swapaxes(-1, -2)))

    return warp_wide(instruction, step)


def _store(instruction: Instruction, code: Code) -> Step:
    fragment = _operand(instruction, "d", instruction.parts[-1], len(registers_of(instruction.operands[1])))
    values = words_of(instruction.operands[1], fragment.registers, instruction, code, fragment.word)
    pieces = _pieces(instruction, fragment)
    places = _places(instruction, code, 0, pieces)

    def step(frame: Frame, mask: Mask) -> None:
        matrix = fragment.gather(values(frame))
        flat = np.ascontiguousarray(matrix if pieces.by_rows else matrix.swapaxes(-1, -2))
        units = np.zeros((len(flat), pieces.requests * WARP), UNITS[pieces.bytes])
        units[:, : pieces.total] = flat.reshape(len(flat), -1).view(units.dtype)
        for i, (space, where, lanes) in enumerate(places(frame, mask)):
            value = lattice(frame.batch, units[:, i * WARP : (i + 1) * WARP])
            store(_site("st", space, pieces, instruction), frame, where, value, lanes)

    return warp_wide(instruction, step)


def _site(kind: str, space: str, pieces: _Pieces, instruction: Instruction) -> Site:
    return Site(f"{kind}.{space}", space, pieces.bytes, instruction.line)


def _mma(instruction: Instruction, code: Code) -> Step:
    types = [p for p in instruction.parts if p in WIDTHS]
    if len(types) == 2:
        # of f16 the instruction names only the types of D and C
        types = [types[0], "f16", "f16", types[1]]
    if len(types) != 4 or not any(p in SHAPES.get(types[1], ()) for p in instruction.parts):
        raise UnsupportedInstruction(instruction, "the emulator has no wmma of this shape and these types")
    fragments = [
        _operand(instruction, name, type_, len(registers_of(operand)))
        for name, type_, operand in zip("dabc", types, instruction.operands, strict=True)
    ]
    d, *sources = fragments
    reads = [
        words_of(operand, fragment.registers, instruction, code, fragment.word)
        for operand, fragment in zip(instruction.operands[1:], sources, strict=True)
    ]
    outputs = outputs_of(instruction.operands[0], d.registers, instruction, code)
    return product(instruction, outputs, d, tuple(sources), reads)
