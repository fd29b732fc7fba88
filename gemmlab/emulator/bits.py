"""Logic, shifts and bit fields: and, or, xor, not, cnot, shl, shr, shf, lop3, bfe, bfi, popc, clz, brev, prmt.

PTX ISA, "Logic and Shift Instructions" and "Integer Arithmetic Instructions". Shift counts above the width clamp.
"""

from __future__ import annotations

import numpy as np

from .instructions import DTYPES, Code, Step, UnsupportedInstruction, dtype_of, elementwise, opcode
from .ptx import Immediate, Instruction

U32 = DTYPES["u32"]


@opcode("and", "or", "xor")
def logic(instruction: Instruction, code: Code) -> Step:
    function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[instruction.parts[0]]
    dtype = dtype_of(instruction, instruction.parts[-1])
    return elementwise(function, instruction, code, dtype, dtype)


@opcode("not")
def complement(instruction: Instruction, code: Code) -> Step:
    return elementwise(np.invert, instruction, code, dtype_of(instruction, instruction.parts[-1]))


@opcode("cnot")
def logical_not(instruction: Instruction, code: Code) -> Step:
    dtype = dtype_of(instruction, instruction.parts[-1])
    return elementwise(lambda a: (a == 0).astype(dtype), instruction, code, dtype)


def shift_left(a: np.ndarray, count: np.ndarray) -> np.ndarray:
    bits = 8 * a.dtype.itemsize
    unsigned = a.astype(f"u{a.dtype.itemsize}", copy=False)
    shifted = unsigned << np.minimum(count, np.uint32(bits - 1)).astype(unsigned.dtype)
    return np.where(count >= bits, unsigned.dtype.type(0), shifted).view(a.dtype)


def shift_right(a: np.ndarray, count: np.ndarray) -> np.ndarray:
    bits = 8 * a.dtype.itemsize
    shifted = a >> np.minimum(count, np.uint32(bits - 1)).astype(a.dtype)
    if a.dtype.kind == "i":
        return shifted
    return np.where(count >= bits, a.dtype.type(0), shifted)


@opcode("shl", "shr")
def shift(instruction: Instruction, code: Code) -> Step:
    dtype = dtype_of(instruction, instruction.parts[-1])
    count = instruction.operands[2]
    function = shift_left if instruction.parts[0] == "shl" else shift_right
    if isinstance(count, Immediate) and 0 <= int(count.text, 0) < 8 * dtype.itemsize:
        direct = np.left_shift if instruction.parts[0] == "shl" else np.right_shift
        amount = dtype.type(int(count.text, 0))
        function = lambda a, _: direct(a, amount)  # noqa: E731
    return elementwise(function, instruction, code, dtype, U32)


@opcode("shf")
def funnel(instruction: Instruction, code: Code) -> Step:
    left = instruction.parts[1] == "l"
    clamp = instruction.parts[2] == "clamp"

    def function(low: np.ndarray, high: np.ndarray, count: np.ndarray) -> np.ndarray:
        count = np.minimum(count, np.uint32(32)) if clamp else count & np.uint32(31)
        pair = (high.astype(np.uint64) << np.uint64(32)) | low
        if left:
            return (pair << count.astype(np.uint64) >> np.uint64(32)).astype(U32)
        return (pair >> count.astype(np.uint64)).astype(U32)

    return elementwise(function, instruction, code, U32, U32, U32)


@opcode("lop3")
def lookup(instruction: Instruction, code: Code) -> Step:
    table = int(instruction.operands[-1].text, 0)

    def function(a: np.ndarray, b: np.ndarray, c: np.ndarray, _: np.ndarray) -> np.ndarray:
        result = np.uint32(0)
        for entry in range(8):
            if table >> entry & 1:
                result = result | (
                    (a if entry & 4 else ~a) & (b if entry & 2 else ~b) & (c if entry & 1 else ~c)
                )
        return np.broadcast_to(result, np.broadcast_shapes(a.shape, b.shape, c.shape))

    return elementwise(function, instruction, code, U32, U32, U32, U32)


@opcode("bfe")
def extract(instruction: Instruction, code: Code) -> Step:
    dtype = dtype_of(instruction, instruction.parts[-1])
    bits = 8 * dtype.itemsize

    def function(a: np.ndarray, position: np.ndarray, length: np.ndarray) -> np.ndarray:
        position, length = position & np.uint32(0xFF), length & np.uint32(0xFF)
        if dtype.kind == "u":
            kept = np.where(length >= bits, ~dtype.type(0), shift_left(dtype.type(1) + 0 * a, length) - dtype.type(1))
            return shift_right(a, position) & kept
        end = np.minimum(position.astype(np.int64) + length, bits)
        up = shift_left(a, (bits - end).astype(np.uint32))
        down = np.minimum(bits - end + position, bits - 1).astype(np.uint32)
        return np.where(length == 0, dtype.type(0), shift_right(up, down))

    return elementwise(function, instruction, code, dtype, U32, U32)


@opcode("bfi")
def insert(instruction: Instruction, code: Code) -> Step:
    dtype = dtype_of(instruction, instruction.parts[-1])

    def function(a: np.ndarray, b: np.ndarray, position: np.ndarray, length: np.ndarray) -> np.ndarray:
        position, length = position & np.uint32(0xFF), length & np.uint32(0xFF)
        ones = ~dtype.type(0) + 0 * a
        kept = shift_left(ones, position) & ~shift_left(ones, position + length)
        return (b & ~kept) | (shift_left(a, position) & kept)

    return elementwise(function, instruction, code, dtype, dtype, U32, U32)


def reverse_bits(a: np.ndarray) -> np.ndarray:
    flipped = np.unpackbits(np.ascontiguousarray(a)[..., None].view(np.uint8), axis=-1, bitorder="little")
    return np.packbits(flipped[..., ::-1], axis=-1, bitorder="little").view(a.dtype)[..., 0]


def leading_zeros(a: np.ndarray) -> np.ndarray:
    bits = np.unpackbits(np.ascontiguousarray(a)[..., None].view(np.uint8), axis=-1, bitorder="little")[..., ::-1]
    return np.where(a == 0, 8 * a.dtype.itemsize, bits.argmax(axis=-1)).astype(np.uint32)


@opcode("popc", "clz", "brev")
def count(instruction: Instruction, code: Code) -> Step:
    function = {
        "popc": lambda a: np.bitwise_count(a).astype(np.uint32),
        "clz": leading_zeros,
        "brev": reverse_bits,
    }[instruction.parts[0]]
    return elementwise(function, instruction, code, dtype_of(instruction, instruction.parts[-1]))


@opcode("prmt")
def permute(instruction: Instruction, code: Code) -> Step:
    if instruction.parts[-1] != "b32":
        raise UnsupportedInstruction(instruction, "only the plain form of prmt is emulated")

    def function(a: np.ndarray, b: np.ndarray, selector: np.ndarray) -> np.ndarray:
        pair = (b.astype(np.uint64) << np.uint64(32)) | a
        result = np.uint32(0)
        for i in range(4):
            control = selector >> np.uint32(4 * i) & np.uint32(0xF)
            byte = (pair >> ((control & np.uint32(7)) * np.uint32(8)).astype(np.uint64)).astype(np.uint32)
            byte = byte & np.uint32(0xFF)
            sign = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
            result = result | np.where(control & np.uint32(8), sign, byte) << np.uint32(8 * i)
        return result

    return elementwise(function, instruction, code, U32, U32, U32)
