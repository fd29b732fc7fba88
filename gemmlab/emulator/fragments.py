"""How a warp's registers make up a matrix, and the product that tensor cores take of them.

A layout is an integer array (32, elements): entry [lane, i] is the place, in row-major order, of the i-th element that
the lane holds. Layouts of mma are those of the PTX ISA, "Matrix Fragments for mma.m16n8k16" and its neighbours, where
groupID = lane / 4 and threadID_in_group = lane % 4. The layout of wmma is left open by the ISA ("Matrix Fragments for
WMMA"); here lane l holds the l-th run of consecutive elements, repeated when a fragment has room for more.

The product: every factor is exact in float64, and so is every product of two; they and C are added in float64 and
rounded once, to nearest even, to the type of D. Sums of so few terms are exact in float64 unless their exponents lie
some 30 apart or more, or the type is f64. The order and the rounding inside tensor cores are not documented and differ
between generations (Khattak and Mikaitis, "Accurate Models of NVIDIA Tensor Cores", 2025), so the low bits of a GPU's
result may differ: on an H200 (2026-11-30) products of small integers in f16, bf16, tf32 and 8 bits came out equal in
every shape, while of normally distributed inputs added in float32 a quarter to a half of the results differed, by at
most 6e-7 of the value. Integers are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .formats import FORMATS
from .lanes import WARP

U32, U64 = np.dtype(np.uint32), np.dtype(np.uint64)
_LANE = np.arange(WARP)[:, None, None]
_GROUP, _MEMBER = _LANE // 4, _LANE % 4
_TF32 = np.uint32(0xFFFFE000)

WIDTHS = {"e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1, "f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "s32": 4, "f64": 8}
"""Bytes of an element in a register, where it has whole bytes."""

SHAPES = {
    "f16": ("m8n8k4", "m16n8k8", "m16n8k16"),
    "bf16": ("m16n8k8", "m16n8k16"),
    "tf32": ("m16n8k4", "m16n8k8"),
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
    **dict.fromkeys(("e4m3", "e5m2"), ("m16n8k16", "m16n8k32")),
    **dict.fromkeys(("s8", "u8"), ("m8n8k16", "m16n8k16", "m16n8k32")),
    **dict.fromkeys(("s4", "u4"), ("m8n8k32", "m16n8k32", "m16n8k64")),
    "b1": ("m8n8k128", "m16n8k128", "m16n8k256"),
}
"""Shapes of mma.sync by the type of A and B (PTX ISA, "mma"), without those that are sparse or have a .kind."""

MIXED = ({"s8", "u8"}, {"s4", "u4"}, {"e4m3", "e5m2"})
"""Types that A and B may have beside each other."""

_BITS = {"b1": 1, "s4": 4, "u4": 4, **{name: 8 * width for name, width in WIDTHS.items()}}


def packed_in(type_: str) -> int:
    """Elements in a register, which has 32 bits, or 64 for f64."""
    return max(32 // _BITS[type_], 1)


@dataclass(frozen=True)
class Fragment:
    """One operand: its element type, the matrices that a warp holds of it (one, but for mma.m8n8k4), and its layout."""

    type: str
    shape: tuple[int, ...]
    layout: np.ndarray

    @property
    def registers(self) -> int:
        """Registers of a lane."""
        return self.layout.shape[1] // packed_in(self.type)

    @property
    def word(self) -> np.dtype:
        """What a register is read as."""
        return U64 if self.type == "f64" else U32

    def matrix(self, words: np.ndarray) -> np.ndarray:
        """The matrix, float64, that registers (warps, 32, registers) hold."""
        return decode(self.gather(words), self.type)

    def words(self, matrix: np.ndarray) -> np.ndarray:
        """Registers of a float64 matrix, rounded to the element type."""
        return self.scatter(encode(matrix, self.type))

    def gather(self, words: np.ndarray) -> np.ndarray:
        """Raw elements in the order of the matrix, (warps, *shape)."""
        elements = _unpacked(np.ascontiguousarray(words), _BITS[self.type])
        result = np.empty((len(words), int(np.prod(self.shape))), elements.dtype)
        result[:, self.layout] = elements
        return result.reshape(-1, *self.shape)

    def scatter(self, elements: np.ndarray) -> np.ndarray:
        """Registers, (warps, 32, registers), that hold raw elements (warps, *shape)."""
        return np.ascontiguousarray(elements.reshape(len(elements), -1)[:, self.layout]).view(self.word)


def _unpacked(words: np.ndarray, bits: int) -> np.ndarray:
    """Registers' elements of so many bits, the lowest first."""
    if bits >= 8:
        return words.view(f"u{bits // 8}")
    single = np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")
    return np.packbits(single.reshape(*single.shape[:-1], -1, bits), axis=-1, bitorder="little")[..., 0]


def decode(elements: np.ndarray, type_: str) -> np.ndarray:
    """Raw elements as float64; of tf32 the lower 13 bits are not read."""
    if type_ == "bf16":
        return (elements.astype(U32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if type_ == "tf32":
        return (elements & _TF32).view(np.float32).astype(np.float64)
    if type_ in ("e4m3", "e5m2"):
        return FORMATS[type_].widen(elements)
    if type_ == "s4":
        return (elements ^ 8).astype(np.float64) - 8
    named = {"f16": "f2", "f32": "f4", "s8": "i1", "s32": "i4", "f64": "f8"}.get(type_, "u1")
    return elements.view(named).astype(np.float64)


def encode(values: np.ndarray, type_: str) -> np.ndarray:
    """Float64 as raw elements: floats to nearest even, integers wrapped to their width."""
    if type_ == "s32":
        return values.astype(np.int64).astype(np.int32).view(U32)
    if type_ == "f64":
        return values.view(U64)
    rounded = values.astype({"f16": np.float16, "f32": np.float32}[type_]).view(f"u{WIDTHS[type_]}")
    nan = {"f16": np.uint16(0x7FFF), "f32": np.uint32(0x7FFFFFFF)}[type_]
    return np.where(np.isnan(values), nan, rounded)


def extents(shape: str) -> tuple[int, int, int]:
    """(16, 8, 4) of 'm16n8k4'."""
    m, _, rest = shape[1:].partition("n")
    n, _, k = rest.partition("k")
    return int(m), int(n), int(k)


def multiplicand_a(rows: int, columns: int, type_: str) -> Fragment:
    """A (M x K) of mma: register r of a lane holds neighbours of one row, at row groupID, or 8 below for every second
    register of a matrix of 16 rows.
    """
    packed, tall = packed_in(type_), rows // 8
    r, j = np.arange(rows * columns // (WARP * packed))[:, None], np.arange(packed)
    row = _GROUP + 8 * (r % tall) + 0 * j
    column = packed * _MEMBER + j + 4 * packed * (r // tall)
    return Fragment(type_, (rows, columns), (row * columns + column).reshape(WARP, -1))


def multiplicand_b(rows: int, columns: int, type_: str) -> Fragment:
    """B (K x N) of mma: a register holds neighbours of one column."""
    packed = packed_in(type_)
    r, j = np.arange(rows * columns // (WARP * packed))[:, None], np.arange(packed)
    row = packed * _MEMBER + j + 4 * packed * r
    return Fragment(type_, (rows, columns), (row * columns + _GROUP).reshape(WARP, -1))


def accumulator(rows: int, columns: int, type_: str) -> Fragment:
    """C or D (M x N) of mma: neighbours in pairs, the second pair 8 rows below the first."""
    pair, j = np.arange(rows // 8)[:, None], np.arange(2)
    layout = (_GROUP + 8 * pair) * columns + 2 * _MEMBER + j
    return Fragment(type_, (rows, columns), layout.reshape(WARP, -1))


def quad_pairs(operand: str, type_: str, row_major: bool) -> Fragment:
    """An operand ('a', 'b' or 'c') of mma.m8n8k4, four products at once: the q-th belongs to lanes 4q to 4q + 3 and the
    same 16 lanes up (PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type").
    """
    lane = np.arange(WARP)[:, None]
    quad, member, high = lane % 16 // 4, lane % 4, 4 * (lane // 16)
    shape = {"a": (8, 4), "b": (4, 8), "c": (8, 8)}[operand]
    i = np.arange(8 if operand == "c" else 4)
    if operand == "a":
        row, column = (member + high, i) if row_major else (i + high, member)
    elif operand == "b":
        row, column = (member, i + high) if row_major else (i, member + high)
    elif type_ == "f16":
        row, column = member + high, i
    else:
        row, column = (lane & 1) + (i & 2) + high, (i & 4) + (lane & 2) + (i & 1)
    layout = quad * (shape[0] * shape[1]) + row * shape[1] + column
    return Fragment(type_, (4, *shape), layout)


def runs(rows: int, columns: int, type_: str, registers: int) -> Fragment:
    """An operand of wmma: lane l holds the l-th run of rows * columns / 32 elements in row-major order."""
    own, held = rows * columns // WARP, registers * packed_in(type_)
    return Fragment(type_, (rows, columns), np.arange(WARP)[:, None] * own + np.arange(held) % own)
