"""Warp-level matrix instructions: ldmatrix, stmatrix, movmatrix, mma.sync.

PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions". All 32 lanes of a warp run these together: those that
come first wait for the others ("mma", .sync and .aligned), and where part of a warp has returned or never was, that is
a fault, not a guess. Products and their rounding are described in `fragments.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .faults import Hazard, KernelFault
from .fragments import (
    MIXED,
    SHAPES,
    U32,
    Fragment,
    accumulator,
    extents,
    multiplicand_a,
    multiplicand_b,
    quad_pairs,
)
from .instructions import (
    Code,
    Frame,
    Read,
    Site,
    Step,
    UnsupportedInstruction,
    destination,
    merge,
    opcode,
    read,
    registers_of,
)
from .lanes import WARP, Batch, Mask, both, uniform
from .loadstore import address_of, by_space, load, store
from .ptx import Instruction, Operand

ROW = np.dtype(np.complex128)
"""A row of 8 16-bit elements, as the 16 bytes that one address stands for."""


def by_warp(batch: Batch, values: list[np.ndarray]) -> np.ndarray:
    """Lattices of one type as (warps, 32, values); lanes that a partial warp lacks are zero."""
    rows = np.stack([batch.flat(value) for value in values], axis=-1)
    missing = -batch.threads % WARP
    if missing:
        rows = np.pad(rows, ((0, 0), (0, missing), (0, 0)))
    return rows.reshape(-1, WARP, len(values))


def lattice(batch: Batch, lanes: np.ndarray) -> np.ndarray:
    """(warps, 32) as a full lattice: undoes `by_warp`."""
    return lanes.reshape(batch.blocks, -1)[:, : batch.threads].reshape(batch.shape)


def warp_wide(instruction: Instruction, step: Step) -> Step:
    """The step as one that whole warps take together: lanes are in step before it and after it."""

    def met(frame: Frame, mask: Mask) -> None:
        for observer in frame.observers:
            observer.warp_met(frame, instruction.line, mask)

    def together(frame: Frame, mask: Mask) -> None:
        _require_whole_warps(frame, mask, instruction)
        met(frame, mask)
        step(frame, mask)
        met(frame, mask)

    return together


def _require_whole_warps(frame: Frame, mask: Mask, instruction: Instruction) -> None:
    """KernelFault where a warp has some of its 32 lanes here and not all."""
    batch = frame.batch
    if mask is None and batch.threads % WARP == 0:
        return
    arrived = by_warp(batch, [uniform(True, bool) if mask is None else mask])[..., 0]
    partial = arrived.any(axis=1) & ~arrived.all(axis=1)
    if not partial.any():
        return
    warp = int(partial.argmax())
    row, number = divmod(warp, -(-batch.threads // WARP))
    here, block = int(arrived[warp].sum()), batch.block_index(row)
    what = f"{instruction.parts[0]} needs all {WARP} lanes, but {here} of warp {number} of block {block} run it"
    if number * WARP + WARP > batch.threads:
        cure = f"the block has {batch.threads} threads: launch a multiple of {WARP}"
    else:
        cure = "take it out of the branch, or let the condition be the same for the whole warp"
    raise KernelFault(
        Hazard(
            "divergent-barrier",
            instruction.line,
            what,
            block,
            (batch.thread_index(number * WARP + int(arrived[warp].argmax())),),
            cure=cure,
        )
    )


def put(frame: Frame, mask: Mask, outputs: list[int], words: np.ndarray) -> None:
    """Write (warps, 32, registers) to registers on active lanes."""
    for i, index in enumerate(outputs):
        value = lattice(frame.batch, words[..., i])
        frame.registers[index] = value if mask is None else merge(mask, value, frame.registers[index])


def words_of(
    operand: Operand, count: int, instruction: Instruction, code: Code, word: np.dtype = U32
) -> Callable[[Frame], np.ndarray]:
    """Reader of a vector operand as (warps, 32, count) words."""
    items = registers_of(operand)
    if len(items) != count:
        raise UnsupportedInstruction(instruction, f"this shape takes {count} registers here, not {len(items)}")
    reads = [read(item, word, instruction, code) for item in items]
    return lambda frame: by_warp(frame.batch, [get(frame.registers) for get in reads])


def outputs_of(operand: Operand, count: int, instruction: Instruction, code: Code) -> list[int]:
    """Slots of the registers that a vector operand names."""
    items = registers_of(operand)
    if len(items) != count:
        raise UnsupportedInstruction(instruction, f"this shape gives {count} registers, not {len(items)}")
    return [destination(item, instruction, code) for item in items]


def _matrices(instruction: Instruction) -> int:
    """1, 2 or 4 for .x1, .x2 or .x4 of 8 x 8 matrices of 16-bit elements."""
    if "m8n8" not in instruction.parts or instruction.parts[-1] != "b16":
        raise UnsupportedInstruction(instruction, "only the shape m8n8 of .b16 elements is emulated")
    return int(next(p for p in instruction.parts if p in ("x1", "x2", "x4"))[1])


def _row_addresses(address: Read, instruction: Instruction, count: int) -> Callable[[Frame, Mask], tuple]:
    """Shared-memory offsets of the rows and the lanes that give them: lane i gives row i % 8 of matrix i / 8."""
    generic = not any(p.startswith("shared") for p in instruction.parts)

    def find(frame: Frame, mask: Mask) -> tuple[np.ndarray, Mask]:
        where = address(frame.registers)
        lanes = mask if count == 4 else both(mask, frame.batch.linear_thread % WARP < 8 * count)
        if not generic:
            return where, lanes
        (space, where, lanes), *others = by_space(frame, where, lanes)
        if others or space != "shared":
            raise KernelFault(
                Hazard(
                    "out-of-bounds",
                    instruction.line,
                    f"{instruction.parts[0]} takes addresses of shared memory and was given another",
                    cure="copy the tile to a __shared__ array first",
                )
            )
        return where, lanes

    return find


def _site(instruction: Instruction, count: int) -> Site:
    return Site(f"{instruction.parts[0]}.x{count}", "shared", ROW.itemsize, instruction.line)


@opcode("ldmatrix")
def ldmatrix(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "ldmatrix": load 1, 2 or 4 matrices of 8 x 8 16-bit elements from rows in shared memory, each row 16
    bytes anywhere.
    """
    count = _matrices(instruction)
    outputs = outputs_of(instruction.operands[0], count, instruction, code)
    rows = _row_addresses(address_of(instruction.operands[1], instruction, code), instruction, count)
    site, transposed = _site(instruction, count), "trans" in instruction.parts

    def step(frame: Frame, mask: Mask) -> None:
        where, lanes = rows(frame, mask)
        loaded = by_warp(frame.batch, [load(site, frame, where, lanes)])[:, : 8 * count]
        halves = loaded.view(np.uint16).reshape(-1, count, 8, 8)
        if transposed:
            halves = halves.swapaxes(-1, -2)
        # lane 4 r + c holds elements 2 c and 2 c + 1 of row r: the matrix's words in their own order
        words = np.ascontiguousarray(halves).view(U32).reshape(-1, count, WARP)
        put(frame, mask, outputs, words.swapaxes(-1, -2))

    return warp_wide(instruction, step)


@opcode("stmatrix")
def stmatrix(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "stmatrix": store matrices as ldmatrix loads them (sm_90)."""
    count = _matrices(instruction)
    values = words_of(instruction.operands[1], count, instruction, code)
    rows = _row_addresses(address_of(instruction.operands[0], instruction, code), instruction, count)
    site, transposed = _site(instruction, count), "trans" in instruction.parts

    def step(frame: Frame, mask: Mask) -> None:
        where, lanes = rows(frame, mask)
        halves = _halves(values(frame).swapaxes(-1, -2))
        if transposed:
            halves = halves.swapaxes(-1, -2)
        stored = np.zeros((len(halves), WARP), ROW)
        stored[:, : 8 * count] = np.ascontiguousarray(halves).view(ROW).reshape(-1, 8 * count)
        store(site, frame, where, lattice(frame.batch, stored), lanes)

    return warp_wide(instruction, step)


@opcode("movmatrix")
def movmatrix(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "movmatrix": transpose an 8 x 8 matrix of 16-bit elements that the warp holds."""
    if "m8n8" not in instruction.parts or "trans" not in instruction.parts:
        raise UnsupportedInstruction(instruction)
    outputs = outputs_of(instruction.operands[0], 1, instruction, code)
    values = words_of(instruction.operands[1], 1, instruction, code)

    def step(frame: Frame, mask: Mask) -> None:
        halves = _halves(values(frame).swapaxes(-1, -2)).swapaxes(-1, -2)
        put(frame, mask, outputs, np.ascontiguousarray(halves).view(U32).reshape(-1, WARP, 1))

    return warp_wide(instruction, step)


def _halves(words: np.ndarray) -> np.ndarray:
    """Words (warps, matrices, 32) as matrices of 16-bit elements, (warps, matrices, 8, 8)."""
    return np.ascontiguousarray(words).view(np.uint16).reshape(*words.shape[:2], 8, 8)


@opcode("mma")
def mma(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "mma": d = a b + c for a whole warp."""
    combined = instruction.parts[-2:] if instruction.parts[-1] == "popc" else ()
    types = instruction.parts[: len(instruction.parts) - len(combined)][-4:]
    _, a_type, b_type, _ = types
    shape = next((p for p in instruction.parts if p in SHAPES.get(a_type, ())), None)
    mixed = a_type == b_type or any({a_type, b_type} == pair for pair in MIXED)
    if shape is None or not mixed or any(p.startswith(("sp", "kind")) for p in instruction.parts):
        raise UnsupportedInstruction(instruction, "the emulator has no mma of this shape and these types")
    d, a, b, c = _fragments(instruction, shape, types)
    outputs = outputs_of(instruction.operands[0], d.registers, instruction, code)
    reads = [
        words_of(operand, fragment.registers, instruction, code, fragment.word)
        for operand, fragment in zip(instruction.operands[1:], (a, b, c), strict=True)
    ]
    return product(instruction, outputs, d, (a, b, c), reads)


def product(
    instruction: Instruction,
    outputs: list[int],
    d: Fragment,
    fragments: tuple[Fragment, Fragment, Fragment],
    reads: list[Callable[[Frame], np.ndarray]],
) -> Step:
    """Step d = a @ b + c; of single bits, .xor counts those that differ instead of those that both have."""
    exclusive = instruction.parts[-2:] == ("xor", "popc")
    limits = np.iinfo(np.int32) if "satfinite" in instruction.parts else None

    def step(frame: Frame, mask: Mask) -> None:
        a, b, c = (fragment.matrix(get(frame)) for fragment, get in zip(fragments, reads, strict=True))
        value = a @ b + c
        if exclusive:
            value = a.sum(-1, keepdims=True) + b.sum(-2, keepdims=True) - 2 * (a @ b) + c
        if limits is not None:
            value = np.clip(value, limits.min, limits.max)
        put(frame, mask, outputs, d.words(value))

    return warp_wide(instruction, step)


def _fragments(instruction: Instruction, shape: str, types: tuple[str, ...]) -> tuple[Fragment, ...]:
    """D, A, B and C of mma.sync, of these types."""
    d_type, a_type, b_type, c_type = types
    at = instruction.parts.index(shape)
    a_order, b_order = instruction.parts[at + 1 : at + 3]
    if shape == "m8n8k4" and a_type == "f16":
        return (
            quad_pairs("c", d_type, True),
            quad_pairs("a", a_type, a_order == "row"),
            quad_pairs("b", b_type, b_order == "row"),
            quad_pairs("c", c_type, True),
        )
    if (a_order, b_order) != ("row", "col"):
        raise UnsupportedInstruction(instruction, "this shape takes A by rows and B by columns (.row.col)")
    m, n, k = extents(shape)
    return (
        accumulator(m, n, d_type),
        multiplicand_a(m, k, a_type),
        multiplicand_b(k, n, b_type),
        accumulator(m, n, c_type),
    )
