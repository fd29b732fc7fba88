"""Logic, shifts and bit fields: and, or, xor, not, cnot, shl, shr, shf, lop3, bfe, bfi, bfind, fns, bmsk, szext, popc,
clz, brev, prmt.

PTX ISA, "Logic and Shift Instructions" and "Integer Arithmetic Instructions". Shift counts above the width clamp.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .instructions import (
    BOOLEAN,
    DTYPES,
    Code,
    Frame,
    Step,
    assign,
    destination,
    dtype_of,
    elementwise,
    opcode,
    outputs_of,
    put,
    read,
    read_predicate,
)
from .lanes import Mask
from .ptx import Immediate, Instruction

U32 = DTYPES["u32"]


@opcode("and", "or", "xor")
def logic(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "and", "or" and "xor"."""
    function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[instruction.parts[0]]
    dtype = dtype_of(instruction, instruction.parts[-1])
    return elementwise(function, instruction, code, dtype, dtype)


@opcode("not")
def complement(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "not"."""
    return elementwise(np.invert, instruction, code, dtype_of(instruction, instruction.parts[-1]))


@opcode("cnot")
def logical_not(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "cnot": 1 for zero, else 0."""
    dtype = dtype_of(instruction, instruction.parts[-1])
    return elementwise(lambda a: (a == 0).astype(dtype), instruction, code, dtype)


def shift_left(a: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Shift with zeros; a count past the width gives zero."""
    bits = 8 * a.dtype.itemsize
    unsigned = a.astype(f"u{a.dtype.itemsize}", copy=False)
    shifted = unsigned << np.minimum(count, np.uint32(bits - 1)).astype(unsigned.dtype)
    return np.where(count >= bits, unsigned.dtype.type(0), shifted).view(a.dtype)


def shift_right(a: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Shift with zeros, or of a signed type with the sign; a count past the width leaves only those."""
    bits = 8 * a.dtype.itemsize
    shifted = a >> np.minimum(count, np.uint32(bits - 1)).astype(a.dtype)
    if a.dtype.kind == "i":
        return shifted
    return np.where(count >= bits, a.dtype.type(0), shifted)


@opcode("shl", "shr")
def shift(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "shl" and "shr"."""
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
    """PTX ISA, "shf": 32 bits out of two registers."""
    left = instruction.parts[1] == "l"
    clamp = instruction.parts[2] == "clamp"

    def function(low: np.ndarray, high: np.ndarray, count: np.ndarray) -> np.ndarray:
        count = np.minimum(count, np.uint32(32)) if clamp else count & np.uint32(31)
        pair = (high.astype(np.uint64) << np.uint64(32)) | low
        if left:
            return (pair << count.astype(np.uint64) >> np.uint64(32)).astype(U32)
        return (pair >> count.astype(np.uint64)).astype(U32)

    return elementwise(function, instruction, code, U32, U32, U32)


def lookup_table(table: int) -> Callable[..., np.ndarray]:
    """The bitwise function of three operands that lop3's table stands for: bit 4a + 2b + c is its value there."""
    terms = [entry for entry in range(8) if table >> entry & 1]

    def function(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        result = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint32)
        for entry in terms:
            result |= (a if entry & 4 else ~a) & (b if entry & 2 else ~b) & (c if entry & 1 else ~c)
        return result

    return function


@opcode("lop3")
def lookup(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "lop3": lop3.b32 d, a, b, c, table, and lop3.BoolOp.b32 d|p, a, b, c, table, q with p = (d != 0) BoolOp
    q.
    """
    first, *sources = instruction.operands
    a, b, c = (read(o, U32, instruction, code) for o in sources[:3])
    function = lookup_table(int(sources[3].text, 0) & 0xFF)
    combine = next((BOOLEAN[p] for p in instruction.parts if p in BOOLEAN), None)
    if combine is None:
        index = destination(first, instruction, code)
        return assign(index, lambda registers: function(a(registers), b(registers), c(registers)))
    outputs = outputs_of(first, instruction, code)
    other = read_predicate(sources[4], instruction, code)

    def step(frame: Frame, mask: Mask) -> None:
        registers = frame.registers
        value = function(a(registers), b(registers), c(registers))
        put(frame, outputs, (value, combine(value != 0, other(registers))), mask)

    return step


@opcode("bfe")
def extract(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "bfe": a bit field, sign- or zero-extended."""
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
    """PTX ISA, "bfi": a bit field put into another value."""
    dtype = dtype_of(instruction, instruction.parts[-1])

    def function(a: np.ndarray, b: np.ndarray, position: np.ndarray, length: np.ndarray) -> np.ndarray:
        position, length = position & np.uint32(0xFF), length & np.uint32(0xFF)
        ones = ~dtype.type(0) + 0 * a
        kept = shift_left(ones, position) & ~shift_left(ones, position + length)
        return (b & ~kept) | (shift_left(a, position) & kept)

    return elementwise(function, instruction, code, dtype, dtype, U32, U32)


def reverse_bits(a: np.ndarray) -> np.ndarray:
    """The bits in reverse order."""
    flipped = np.unpackbits(np.ascontiguousarray(a)[..., None].view(np.uint8), axis=-1, bitorder="little")
    return np.packbits(flipped[..., ::-1], axis=-1, bitorder="little").view(a.dtype)[..., 0]


def leading_zeros(a: np.ndarray) -> np.ndarray:
    """Zeros above the highest set bit."""
    bits = np.unpackbits(np.ascontiguousarray(a)[..., None].view(np.uint8), axis=-1, bitorder="little")[..., ::-1]
    return np.where(a == 0, 8 * a.dtype.itemsize, bits.argmax(axis=-1)).astype(np.uint32)


@opcode("popc", "clz", "brev")
def count(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "popc", "clz" and "brev"."""
    function = {
        "popc": lambda a: np.bitwise_count(a).astype(np.uint32),
        "clz": leading_zeros,
        "brev": reverse_bits,
    }[instruction.parts[0]]
    return elementwise(function, instruction, code, dtype_of(instruction, instruction.parts[-1]))


@opcode("bfind")
def find_leading(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "bfind": position of the highest bit that differs from the sign, or with .shiftamt the shift that brings
    it to the top; all ones where there is none.
    """
    dtype = dtype_of(instruction, instruction.parts[-1])
    unsigned = DTYPES[f"u{8 * dtype.itemsize}"]
    top = np.uint32(8 * dtype.itemsize - 1)
    shift = "shiftamt" in instruction.parts

    def function(a: np.ndarray) -> np.ndarray:
        a = (np.where(a < 0, ~a, a) if dtype.kind == "i" else a).view(unsigned)
        zeros = leading_zeros(a)
        return np.where(a == 0, np.uint32(0xFFFFFFFF), zeros if shift else top - zeros)

    return elementwise(function, instruction, code, dtype)


@opcode("fns")
def find_nth(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "fns": position of the n-th set bit from `base` on: upwards for a positive offset, downwards for a
    negative one; offset 0 asks for the bit at base itself. All ones where there is none.
    """

    def function(bits: np.ndarray, base: np.ndarray, offset: np.ndarray) -> np.ndarray:
        place = np.arange(32)
        is_set = (bits[..., None] >> place.astype(np.uint32) & np.uint32(1)).astype(bool)
        base, offset = base[..., None].astype(np.int64), offset[..., None]
        up = (is_set & (place >= base)).cumsum(axis=-1)
        down = (is_set & (place <= base))[..., ::-1].cumsum(axis=-1)[..., ::-1]
        hit = is_set & np.where(
            offset > 0,
            (place >= base) & (up == offset),
            np.where(offset < 0, (place <= base) & (down == -offset), place == base),
        )
        return np.where(hit.any(axis=-1), hit.argmax(axis=-1), 0xFFFFFFFF).astype(np.uint32)

    return elementwise(function, instruction, code, U32, U32, DTYPES["s32"])


def low_mask(length: np.ndarray) -> np.ndarray:
    """`length` ones, at most 32."""
    return shift_left(np.full_like(length, 1), length) - np.uint32(1)


@opcode("bmsk")
def mask_of(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "bmsk": `b` ones from bit `a` on; .clamp limits both to 32, .wrap takes them modulo 32."""
    wrap = "wrap" in instruction.parts

    def function(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if wrap:
            a, b = a & np.uint32(31), b & np.uint32(31)
        return shift_left(low_mask(np.minimum(b, np.uint32(32))), a)

    return elementwise(function, instruction, code, U32, U32)


@opcode("szext")
def extend(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "szext": the low `b` bits of `a`, sign- or zero-extended; .clamp limits b to 32, .wrap takes it modulo
    32.
    """
    signed, wrap = instruction.parts[-1] == "s32", "wrap" in instruction.parts

    def function(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        length = b & np.uint32(31) if wrap else np.minimum(b, np.uint32(32))
        spare = np.uint32(32) - length
        shifted = shift_left(a, spare)
        return shift_right(shifted.view(np.int32), spare).view(np.uint32) if signed else shift_right(shifted, spare)

    return elementwise(function, instruction, code, U32, U32)


_SELECTORS: dict[str, Callable[[int, np.ndarray], np.ndarray]] = {
    "f4e": lambda i, n: n + i,
    "b4e": lambda i, n: n - i,
    "rc8": lambda i, n: n,
    "ecl": lambda i, n: np.maximum(n, i),
    "ecr": lambda i, n: np.minimum(n, i),
    "rc16": lambda i, n: (n & 1) * 2 + i % 2,
}
"""Which byte each mode of prmt puts at place i, by the two low bits of its control; PTX ISA, "prmt"."""


@opcode("prmt")
def permute(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "prmt": any four bytes of two registers."""
    mode = _SELECTORS.get(instruction.parts[-1])

    def function(a: np.ndarray, b: np.ndarray, selector: np.ndarray) -> np.ndarray:
        pair = (b.astype(np.uint64) << np.uint64(32)) | a
        result = np.uint32(0)
        for i in range(4):
            if mode:
                control = (mode(i, (selector & np.uint32(3)).astype(np.int64)) & 7).astype(np.uint32)
            else:
                control = selector >> np.uint32(4 * i) & np.uint32(0xF)
            byte = (pair >> ((control & np.uint32(7)) * np.uint32(8)).astype(np.uint64)).astype(np.uint32)
            byte = byte & np.uint32(0xFF)
            sign = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
            result = result | np.where(control & np.uint32(8), sign, byte) << np.uint32(8 * i)
        return result

    return elementwise(function, instruction, code, U32, U32, U32)
