"""Every instruction with a value worked out by hand from its definition in the PTX ISA."""

import struct

import numpy as np
import pytest
from ptx_programs import compute, unsigned

from gemmlab.emulator import instructions


def f16(value: float) -> int:
    return struct.unpack("<H", struct.pack("<e", value))[0]


def f32(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


def f64(value: float) -> int:
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def bf16(value: float) -> int:
    assert f32(value) & 0xFFFF == 0
    return f32(value) >> 16


def pair(high: int, low: int) -> int:
    return high << 16 | low


NAN32, NAN16, INFINITY = 0x7FFFFFFF, 0x7FFF, float("inf")
M1 = 0xFFFFFFFF

# (instruction, type of the result, the result's bits, then each operand as (type, bits))
INTEGERS = [
    ("add.u32", "u32", 1, ("u32", M1), ("u32", 2)),
    ("add.s16", "s16", 0x8000, ("s16", 0x7FFF), ("s16", 1)),
    ("add.u64", "u64", 0, ("u64", 2**64 - 1), ("u64", 1)),
    ("add.sat.s32", "s32", 0x7FFFFFFF, ("s32", 0x7FFFFFF0), ("s32", 0x7FFFFFF0)),
    ("add.sat.s32", "s32", 0x80000000, ("s32", 0x80000000), ("s32", M1)),
    ("add.u16x2", "b32", pair(0, 3), ("b32", pair(0xFFFF, 1)), ("b32", pair(1, 2))),
    ("sub.u32", "u32", M1, ("u32", 0), ("u32", 1)),
    ("sub.s64", "s64", 2**64 - 5, ("s64", 2), ("s64", 7)),
    ("sub.sat.s32", "s32", 0x7FFFFFFF, ("s32", 5), ("s32", 0x80000000)),
    ("mul.lo.u32", "u32", 0xFFFFFFFE, ("u32", M1), ("u32", 2)),
    ("mul.hi.u32", "u32", 0xFFFFFFFE, ("u32", M1), ("u32", M1)),
    ("mul.hi.s32", "s32", 0, ("s32", M1), ("s32", M1)),
    ("mul.hi.u64", "u64", 2**64 - 2, ("u64", 2**64 - 1), ("u64", 2**64 - 1)),
    ("mul.hi.s64", "s64", 2**64 - 1, ("s64", 2**64 - 1), ("s64", 1)),
    ("mul.wide.s32", "s64", 2**64 - 6, ("s32", M1 - 1), ("s32", 3)),
    ("mul.wide.u16", "u32", 0xFFFE0001, ("u16", 0xFFFF), ("u16", 0xFFFF)),
    ("mad.lo.s32", "s32", 17, ("s32", 3), ("s32", 4), ("s32", 5)),
    ("mad.hi.u32", "u32", 0xFFFFFFFF, ("u32", M1), ("u32", M1), ("u32", 1)),
    ("mad.hi.sat.s32", "s32", 0x7FFFFFFF, ("s32", 0x40000000), ("s32", 4), ("s32", 0x7FFFFFFF)),
    ("mad.wide.u32", "u64", 2**64 - 2**33 + 1 + 7, ("u32", M1), ("u32", M1), ("u64", 7)),
    ("mul24.lo.u32", "u32", 6, ("u32", 0xAB000002), ("u32", 0xCD000003)),
    ("mul24.hi.u32", "u32", 0xFFFFFE00, ("u32", 0x00FFFFFF), ("u32", 0x00FFFFFF)),
    ("mul24.lo.s32", "s32", 1, ("s32", 0x00FFFFFF), ("s32", 0x00FFFFFF)),
    ("mad24.lo.u32", "u32", 16, ("u32", 2), ("u32", 3), ("u32", 10)),
    ("mad24.hi.sat.s32", "s32", 0x7FFFFFFF, ("s32", 0x7FFFFF), ("s32", 0x7FFFFF), ("s32", 0x7FFFFFFF)),
    ("sad.u32", "u32", 15, ("u32", 3), ("u32", 8), ("u32", 10)),
    ("sad.s32", "s32", 15, ("s32", M1 - 1), ("s32", 3), ("s32", 10)),
    ("div.u32", "u32", 3, ("u32", 17), ("u32", 5)),
    ("div.s32", "s32", M1 - 2, ("s32", M1 - 16), ("s32", 5)),
    ("div.s32", "s32", 0x80000000, ("s32", 0x80000000), ("s32", M1)),
    ("rem.s32", "s32", M1 - 1, ("s32", M1 - 16), ("s32", 5)),
    ("rem.u64", "u64", 5, ("u64", 2**63 + 5), ("u64", 2**62)),
    ("abs.s32", "s32", 7, ("s32", M1 - 6)),
    ("abs.s64", "s64", 2**63, ("s64", 2**63)),
    ("neg.s16", "s16", 0xFFFF, ("s16", 1)),
    ("min.s32", "s32", M1, ("s32", M1), ("s32", 1)),
    ("min.u32", "u32", 1, ("u32", M1), ("u32", 1)),
    ("max.s64", "s64", 1, ("s64", 2**64 - 1), ("s64", 1)),
    ("max.relu.s32", "s32", 0, ("s32", M1), ("s32", M1 - 1)),
    ("min.s16x2", "b32", pair(0xFFFF, 2), ("b32", pair(0xFFFF, 2)), ("b32", pair(1, 3))),
    ("max.s16x2.relu", "b32", pair(5, 0), ("b32", pair(5, 0x8000)), ("b32", pair(4, 0xFFFF))),
    (
        "dp4a.u32.u32",
        "u32",
        1 * 5 + 2 * 6 + 3 * 7 + 4 * 8 + 100,
        ("b32", 0x04030201),
        ("b32", 0x08070605),
        ("u32", 100),
    ),
    ("dp4a.s32.u32", "s32", M1 - 4, ("b32", 0x000000FF), ("b32", 0x00000005), ("s32", 0)),
    ("dp2a.lo.u32.u32", "u32", 0x100 * 3 + 0x200 * 4, ("b32", 0x02000100), ("b32", 0x99990403), ("u32", 0)),
    ("dp2a.hi.s32.s32", "s32", M1 - 1, ("b32", 0x0001FFFF), ("b32", 0xFF010000), ("s32", 0)),
    ("add.cc.u32 %t1, %a, %b; addc.u32 %d, 0, 0;", "u32", 1, ("u32", M1), ("u32", 1)),
    ("add.cc.u32 %t1, %a, %b; addc.cc.u32 %t2, -1, 0; addc.u32 %d, 0, 0;", "u32", 1, ("u32", M1), ("u32", 1)),
    ("sub.cc.u32 %t1, %a, %b; subc.u32 %d, 5, 1;", "u32", 3, ("u32", 1), ("u32", 2)),
    ("sub.cc.u32 %t1, %a, %b; subc.cc.u32 %t2, 0, 0; subc.u32 %d, 0, 0;", "u32", M1, ("u32", 1), ("u32", 2)),
    (
        "mad.lo.cc.u32 %t1, %a, %b, 1; madc.hi.u32 %d, %a, %b, 0;",
        "u32",
        0x7FFFFFFF + 1,
        ("u32", M1),
        ("u32", 0x80000001),
    ),
    ("vadd4.u32.u32.u32.sat", "u32", 0xFF0A00FF, ("u32", 0xFF0500F0), ("u32", 0x01050020), ("u32", 0)),
    ("vsub2.s32.s32.s32.sat", "u32", pair(0x8000, 3), ("u32", pair(0x8000, 5)), ("u32", pair(1, 2)), ("u32", 0)),
    ("vavrg2.u32.u32.u32", "u32", pair(3, 4), ("u32", pair(2, 4)), ("u32", pair(3, 4)), ("u32", 0)),
    ("vabsdiff4.u32.u32.u32.add", "u32", 3 + 3 + 0 + 1 + 10, ("u32", 0x01050002), ("u32", 0x04020001), ("u32", 10)),
    ("vmin2.s32.s32.s32", "u32", pair(0xFFFF, 1), ("u32", pair(0xFFFF, 1)), ("u32", pair(1, 2)), ("u32", 0)),
    ("vmax4.u32.u32.u32", "u32", 0x05060708, ("u32", 0x05020708), ("u32", 0x01060304), ("u32", 0)),
    ("vadd2.s32.s32.s32", "u32", pair(0x8000, 3), ("u32", pair(0x7FFF, 1)), ("u32", pair(1, 2)), ("u32", 0)),
    ("vsub4.u32.u32.u32", "u32", 0x04FF0002, ("u32", 0x05000103), ("u32", 0x01010101), ("u32", 0)),
    ("vavrg4.s32.s32.s32", "u32", 0x02FE0001, ("u32", 0x01FE0001), ("u32", 0x03FF0001), ("u32", 0)),
    ("vabsdiff2.u32.u32.u32", "u32", pair(1, 3), ("u32", pair(2, 5)), ("u32", pair(3, 2)), ("u32", 0)),
    ("vmin4.u32.u32.u32", "u32", 0x01020304, ("u32", 0x05020708), ("u32", 0x01060304), ("u32", 0)),
    ("vmax2.s32.s32.s32", "u32", pair(1, 2), ("u32", pair(0xFFFF, 1)), ("u32", pair(1, 2)), ("u32", 0)),
    ("vset2.s32.s32.ge.add", "u32", 11, ("u32", pair(0xFFFF, 1)), ("u32", pair(1, 1)), ("u32", 10)),
    ("vset4.u32.u32.lt", "u32", 0x01000001, ("u32", 0x01020304), ("u32", 0x02020205), ("u32", 0)),
]

BITS = [
    ("and.b32", "b32", 0x0F00, ("b32", 0xFF00), ("b32", 0x0FF0)),
    ("or.b64", "b64", 0xFF, ("b64", 0xF0), ("b64", 0x0F)),
    ("xor.b16", "b16", 0xFF, ("b16", 0xF0F0), ("b16", 0xF00F)),
    ("not.b32", "b32", 0xFFFF0000, ("b32", 0xFFFF)),
    ("cnot.b32", "b32", 1, ("b32", 0)),
    ("cnot.b32", "b32", 0, ("b32", 9)),
    ("shl.b32", "b32", 0x80000000, ("b32", 1), ("u32", 31)),
    ("shl.b32", "b32", 0, ("b32", 1), ("u32", 32)),
    ("shr.s32", "s32", M1, ("s32", 0x80000000), ("u32", 77)),
    ("shr.u64", "u64", 1, ("u64", 2**63), ("u32", 63)),
    ("shf.l.wrap.b32", "b32", 0x23456789, ("b32", 0x9ABCDEF0), ("b32", 0x12345678), ("u32", 36)),
    ("shf.r.clamp.b32", "b32", 0x12345678, ("b32", 0x9ABCDEF0), ("b32", 0x12345678), ("u32", 99)),
    ("bfe.u32", "u32", 0xBC, ("u32", 0xABCDE), ("u32", 8), ("u32", 8)),
    ("bfe.s32", "s32", 0xFFFFFFBC, ("s32", 0xABCDE), ("u32", 8), ("u32", 8)),
    ("bfe.s32", "s32", M1, ("s32", 0x80000000), ("u32", 40), ("u32", 3)),
    ("bfi.b32", "b32", 0xFF55FF, ("b32", 0x55), ("b32", 0xFFFFFF), ("u32", 8), ("u32", 8)),
    ("popc.b64", "u32", 33, ("b64", 0xFFFFFFFF00000001)),
    ("clz.b32", "u32", 31, ("b32", 1)),
    ("clz.b64", "u32", 64, ("b64", 0)),
    ("brev.b32", "b32", 0x80000001, ("b32", 0x80000001)),
    ("brev.b64", "b64", 2**63, ("b64", 1)),
    ("bfind.u32", "u32", 4, ("u32", 0x1F)),
    ("bfind.s32", "u32", 3, ("s32", 0xFFFFFFF7)),
    ("bfind.shiftamt.u32", "u32", 27, ("u32", 0x1F)),
    ("bfind.u64", "u32", M1, ("u64", 0)),
    ("fns.b32", "b32", 5, ("b32", 0b101011), ("b32", 2), ("s32", 2)),
    ("fns.b32", "b32", 1, ("b32", 0b101011), ("b32", 4), ("s32", M1 - 1)),
    ("fns.b32", "b32", M1, ("b32", 0b101011), ("b32", 2), ("s32", 0)),
    ("bmsk.clamp.b32", "b32", 0x0FF0, ("b32", 4), ("b32", 8)),
    ("bmsk.wrap.b32", "b32", 0xF0000000, ("b32", 28 + 32), ("b32", 8)),
    ("szext.wrap.s32", "s32", 0xFFFFFFF8, ("s32", 0x18), ("u32", 4 + 32)),
    ("szext.clamp.u32", "u32", 0xFFFFFFFF, ("u32", M1), ("u32", 50)),
    ("lop3.b32 %d, %a, %b, %c, 0xE8;", "b32", 0b11101000, ("b32", 0xF0), ("b32", 0xCC), ("b32", 0xAA)),
    (
        "lop3.or.b32 %d|%p0, %a, %b, %c, 0x80, %p1; selp.u32 %d, 1, 0, %p0;",
        "b32",
        1,
        ("b32", 7),
        ("b32", 5),
        ("b32", 4),
    ),
    ("prmt.b32", "b32", 0x08010704, ("b32", 0x04030201), ("b32", 0x08070605), ("b32", 0x7063)),
    ("prmt.b32", "b32", 0xFF00FF00, ("b32", 0x00800080), ("b32", 0), ("b32", 0xA1A1)),
    ("prmt.b32.f4e", "b32", 0x05040302, ("b32", 0x04030201), ("b32", 0x08070605), ("b32", 1)),
    ("prmt.b32.b4e", "b32", 0x07080102, ("b32", 0x04030201), ("b32", 0x08070605), ("b32", 1)),
    ("prmt.b32.rc8", "b32", 0x03030303, ("b32", 0x04030201), ("b32", 0), ("b32", 2)),
    ("prmt.b32.ecl", "b32", 0x04030202, ("b32", 0x04030201), ("b32", 0), ("b32", 1)),
    ("prmt.b32.ecr", "b32", 0x02020201, ("b32", 0x04030201), ("b32", 0), ("b32", 1)),
    ("prmt.b32.rc16", "b32", 0x04030403, ("b32", 0x04030201), ("b32", 0), ("b32", 1)),
]

FLOATS = [
    ("add.f32", "f32", f32(3.75), ("f32", f32(1.5)), ("f32", f32(2.25))),
    ("add.f32", "f32", NAN32, ("f32", f32(INFINITY)), ("f32", f32(-INFINITY))),
    ("add.sat.f32", "f32", f32(1.0), ("f32", f32(0.75)), ("f32", f32(0.5))),
    ("add.sat.f32", "f32", 0, ("f32", NAN32), ("f32", f32(0.5))),
    ("add.rz.f32", "f32", 0x3F800000, ("f32", f32(1.0)), ("f32", f32(2.0**-24 * 1.5))),
    ("add.rp.f32", "f32", 0x3F800001, ("f32", f32(1.0)), ("f32", 1)),
    ("add.rm.f32", "f32", 0x80000000, ("f32", f32(1.0)), ("f32", f32(-1.0))),
    ("add.ftz.f32", "f32", 0x80000000, ("f32", 0x80000001), ("f32", 0x80000000)),
    ("add.f64", "f64", f64(0.1 + 0.2), ("f64", f64(0.1)), ("f64", f64(0.2))),
    ("add.rp.f64", "f64", f64(1.0) + 1, ("f64", f64(1.0)), ("f64", 1)),
    (
        "add.f32x2",
        "b64",
        f32(5.0) << 32 | f32(3.0),
        ("b64", f32(4.0) << 32 | f32(1.0)),
        ("b64", f32(1.0) << 32 | f32(2.0)),
    ),
    ("add.f32.f16", "f32", f32(2.5), ("b16", f16(0.5)), ("f32", f32(2.0))),
    ("sub.f32", "f32", f32(-0.75), ("f32", f32(1.5)), ("f32", f32(2.25))),
    ("mul.f32", "f32", f32(3.375), ("f32", f32(1.5)), ("f32", f32(2.25))),
    ("mul.rz.f64", "f64", f64(1.0) - 1, ("f64", f64(1.0) - 1), ("f64", f64(1.0))),
    # 3 * 1/3 in float32 is 1 + 2^-25 exactly; a second rounding would lose what fma keeps
    ("fma.rn.f32", "f32", f32(2.0**-25), ("f32", f32(3.0)), ("f32", f32(1 / 3)), ("f32", f32(-1.0))),
    ("fma.rz.f32", "f32", 0x3F7FFFFF, ("f32", f32(1.0)), ("f32", f32(1.0)), ("f32", 0x80000001)),
    ("fma.rn.f64", "f64", f64(-(2.0**-54)), ("f64", f64(3.0)), ("f64", f64(1 / 3)), ("f64", f64(-1.0))),
    # the product alone overflows
    ("fma.rn.f64", "f64", f64(2.0**1023), ("f64", f64(2.0**1023)), ("f64", f64(2.0)), ("f64", f64(-(2.0**1023)))),
    (
        "fma.rn.f32x2",
        "b64",
        f32(7.0) << 32 | f32(5.0),
        ("b64", f32(2.0) << 32 | f32(2.0)),
        ("b64", f32(3.0) << 32 | f32(2.0)),
        ("b64", f32(1.0) << 32 | f32(1.0)),
    ),
    ("fma.rn.f32.bf16", "f32", f32(7.5), ("b16", bf16(2.0)), ("b16", bf16(3.5)), ("f32", f32(0.5))),
    ("mad.rn.f32", "f32", f32(7.0), ("f32", f32(2.0)), ("f32", f32(3.0)), ("f32", f32(1.0))),
    ("div.rn.f32", "f32", 0x3EAAAAAB, ("f32", f32(1.0)), ("f32", f32(3.0))),
    ("div.rz.f32", "f32", 0x3EAAAAAA, ("f32", f32(1.0)), ("f32", f32(3.0))),
    ("div.full.f32", "f32", f32(0.5), ("f32", f32(1.0)), ("f32", f32(2.0))),
    ("div.approx.f32", "f32", 0, ("f32", f32(1.0)), ("f32", f32(2.0**127))),
    ("div.approx.f32", "f32", NAN32, ("f32", f32(INFINITY)), ("f32", f32(2.0**127))),
    ("rcp.rn.f32", "f32", f32(0.25), ("f32", f32(4.0))),
    ("rcp.approx.ftz.f32", "f32", f32(-INFINITY), ("f32", 0x80000001)),
    ("rcp.approx.ftz.f64", "f64", f64(0.25), ("f64", f64(4.0) + 5)),
    ("sqrt.rn.f32", "f32", f32(1.5), ("f32", f32(2.25))),
    ("sqrt.rp.f64", "f64", f64(1.0) + 1, ("f64", f64(1.0) + 1)),
    ("sqrt.approx.f32", "f32", NAN32, ("f32", f32(-1.0))),
    ("rsqrt.approx.f32", "f32", f32(0.5), ("f32", f32(4.0))),
    ("rsqrt.approx.ftz.f64", "f64", 0x7FFFFFFF00000000, ("f64", f64(-1.0))),
    ("rsqrt.approx.f64", "f64", f64(0.5), ("f64", f64(4.0))),
    ("ex2.approx.f32", "f32", f32(8.0), ("f32", f32(3.0))),
    ("ex2.approx.f32", "f32", 0, ("f32", f32(-INFINITY))),
    ("lg2.approx.f32", "f32", f32(10.0), ("f32", f32(1024.0))),
    ("lg2.approx.f32", "f32", f32(-INFINITY), ("f32", 0x80000000)),
    ("sin.approx.f32", "f32", 0x80000000, ("f32", 0x80000000)),
    ("cos.approx.f32", "f32", f32(1.0), ("f32", 0)),
    ("tanh.approx.f32", "f32", f32(-1.0), ("f32", f32(-INFINITY))),
    ("abs.f32", "f32", f32(2.5), ("f32", f32(-2.5))),
    ("neg.f64", "f64", f64(-2.5), ("f64", f64(2.5))),
    ("neg.ftz.f32", "f32", 0x80000000, ("f32", 1)),
    ("copysign.f32", "f32", f32(-3.0), ("f32", 0x80000000), ("f32", f32(3.0))),
    ("min.f32", "f32", 0x80000000, ("f32", 0), ("f32", 0x80000000)),
    ("min.f32", "f32", f32(1.0), ("f32", NAN32), ("f32", f32(1.0))),
    ("min.NaN.f32", "f32", NAN32, ("f32", NAN32), ("f32", f32(1.0))),
    ("max.f32", "f32", 0, ("f32", 0), ("f32", 0x80000000)),
    ("max.xorsign.abs.f32", "f32", f32(-3.0), ("f32", f32(-3.0)), ("f32", f32(2.0))),
    ("max.f64", "f64", f64(2.0), ("f64", f64(-3.0)), ("f64", f64(2.0))),
    ("min.f32 %d, %a, %b, %c;", "f32", f32(-4.0), ("f32", f32(3.0)), ("f32", f32(2.0)), ("f32", f32(-4.0))),
]

HALVES = [
    ("add.f16", "b16", f16(3.75), ("b16", f16(1.5)), ("b16", f16(2.25))),
    ("add.f16", "b16", NAN16, ("b16", f16(INFINITY)), ("b16", f16(-INFINITY))),
    (
        "add.f16x2",
        "b32",
        pair(f16(3.0), f16(5.0)),
        ("b32", pair(f16(1.0), f16(2.0))),
        ("b32", pair(f16(2.0), f16(3.0))),
    ),
    ("add.bf16", "b16", bf16(4.0), ("b16", bf16(1.5)), ("b16", bf16(2.5))),
    # bf16 has 8 bits: 256 + 1 lies half-way between 256 and 258 and goes to the even one
    ("add.bf16", "b16", bf16(256.0), ("b16", bf16(256.0)), ("b16", bf16(1.0))),
    (
        "sub.bf16x2",
        "b32",
        pair(bf16(-1.0), bf16(0.5)),
        ("b32", pair(bf16(1.0), bf16(1.0))),
        ("b32", pair(bf16(2.0), bf16(0.5))),
    ),
    ("sub.f16", "b16", f16(-0.75), ("b16", f16(1.5)), ("b16", f16(2.25))),
    ("mul.sat.f16", "b16", f16(1.0), ("b16", f16(1.5)), ("b16", f16(2.25))),
    ("mul.bf16", "b16", bf16(3.0), ("b16", bf16(1.5)), ("b16", bf16(2.0))),
    # (1 + 2^-10) squared is 1 + 2^-9 + 2^-20; float16 keeps the last term only in an fma
    ("fma.rn.f16", "b16", f16(2.0**-20), ("b16", 0x3C01), ("b16", 0x3C01), ("b16", f16(-(1 + 2.0**-9)))),
    ("fma.rn.relu.f16", "b16", 0, ("b16", f16(1.0)), ("b16", f16(1.0)), ("b16", f16(-3.0))),
    (
        "fma.rn.bf16x2",
        "b32",
        pair(bf16(7.0), bf16(3.0)),
        ("b32", pair(bf16(2.0), bf16(1.0))),
        ("b32", pair(bf16(3.0), bf16(2.0))),
        ("b32", pair(bf16(1.0), bf16(1.0))),
    ),
    ("neg.f16x2", "b32", pair(f16(-1.0), f16(2.0)), ("b32", pair(f16(1.0), f16(-2.0)))),
    ("neg.bf16", "b16", bf16(-1.0), ("b16", bf16(1.0))),
    ("abs.bf16x2", "b32", pair(bf16(1.0), bf16(2.0)), ("b32", pair(bf16(-1.0), bf16(2.0)))),
    ("min.f16", "b16", f16(1.0), ("b16", NAN16), ("b16", f16(1.0))),
    ("max.NaN.bf16", "b16", NAN16, ("b16", NAN16), ("b16", bf16(1.0))),
    ("ex2.approx.f16", "b16", f16(8.0), ("b16", f16(3.0))),
    ("tanh.approx.bf16", "b16", bf16(1.0), ("b16", bf16(INFINITY))),
    ("setp.lt.f16 %p0, %a, %b;", "pred", 1, ("b16", f16(1.0)), ("b16", f16(2.0))),
    ("setp.gt.bf16 %p0, %a, %b;", "pred", 0, ("b16", bf16(1.0)), ("b16", bf16(2.0))),
    (
        "setp.lt.f16x2 %p0|%p1, %a, %b; selp.u32 %t1, 2, 0, %p1; selp.u32 %d, 1, 0, %p0; or.b32 %d, %d, %t1;",
        "u32",
        2,
        ("b32", pair(f16(1.0), f16(5.0))),
        ("b32", pair(f16(2.0), f16(3.0))),
    ),
    ("set.eq.f16.f16", "b16", f16(1.0), ("b16", f16(2.0)), ("b16", f16(2.0))),
    (
        "set.gtu.f16x2.f16x2",
        "b32",
        pair(f16(1.0), 0),
        ("b32", pair(NAN16, f16(1.0))),
        ("b32", pair(f16(2.0), f16(2.0))),
    ),
    ("set.lt.u32.f16x2", "u32", 0x0000FFFF, ("b32", pair(f16(3.0), f16(1.0))), ("b32", pair(f16(2.0), f16(2.0)))),
]

CHOICES = [
    ("setp.lt.s32", "pred", 1, ("s32", M1), ("s32", 0)),
    ("setp.lo.u32", "pred", 0, ("u32", M1), ("u32", 0)),
    ("setp.hs.u64", "pred", 1, ("u64", 2**63), ("u64", 1)),
    ("setp.eq.f32", "pred", 1, ("f32", 0), ("f32", 0x80000000)),
    ("setp.ne.f32", "pred", 0, ("f32", NAN32), ("f32", 0)),
    ("setp.neu.f32", "pred", 1, ("f32", NAN32), ("f32", 0)),
    ("setp.ltu.f64", "pred", 1, ("f64", 2**63 - 1), ("f64", 0)),
    ("setp.num.f32", "pred", 0, ("f32", NAN32), ("f32", 0)),
    ("setp.nan.f32", "pred", 1, ("f32", NAN32), ("f32", 0)),
    ("setp.eq.ftz.f32", "pred", 1, ("f32", 1), ("f32", 0)),
    ("setp.gt.s32 %p1, %a, 5; setp.lt.and.s32 %p0, %a, %b, !%p1;", "pred", 1, ("s32", 3), ("s32", 4)),
    ("setp.gt.s32 %p1, %a, 5; setp.lt.xor.s32 %p2|%p0, %a, %b, %p1;", "pred", 1, ("s32", 9), ("s32", 10)),
    ("set.lt.u32.s32", "u32", M1, ("s32", M1), ("s32", 0)),
    ("set.ge.f32.f32", "f32", f32(1.0), ("f32", f32(2.0)), ("f32", f32(2.0))),
    ("setp.eq.u32 %p1, %a, 1; set.lt.or.u32.u32 %d, %a, %b, %p1;", "u32", M1, ("u32", 1), ("u32", 0)),
    (
        "setp.eq.u32 %p1, %a, 1; selp.f32 %d, %b, %c, %p1;",
        "f32",
        f32(2.0),
        ("u32", 1),
        ("f32", f32(2.0)),
        ("f32", f32(3.0)),
    ),
    ("slct.u32.s32", "u32", 7, ("u32", 7), ("u32", 8), ("s32", 0)),
    ("slct.u32.f32", "u32", 8, ("u32", 7), ("u32", 8), ("f32", NAN32)),
    ("slct.ftz.u32.f32", "u32", 7, ("u32", 7), ("u32", 8), ("f32", 0x80000001)),
    ("testp.normal.f32", "pred", 1, ("f32", 0x80000000)),
    ("testp.subnormal.f64", "pred", 1, ("f64", 1)),
    ("testp.infinite.f32", "pred", 1, ("f32", f32(-INFINITY))),
    ("testp.finite.f32", "pred", 0, ("f32", NAN32)),
    ("testp.number.f32", "pred", 0, ("f32", NAN32)),
    ("testp.notanumber.f64", "pred", 1, ("f64", 2**63 - 1)),
    ("and.pred %p0, %p1, %p2; not.pred %p0, %p0; mov.pred %p3, %p0; xor.pred %p0, %p3, %p1;", "pred", 1, ("u32", 0)),
]

CONVERSIONS = [
    ("cvt.u32.u16", "u32", 0xFFFF, ("u16", 0xFFFF)),
    ("cvt.s32.s16", "s32", M1, ("s16", 0xFFFF)),
    ("cvt.u8.u32 %t1, %a; mov.b32 %d, %t1;", "u32", 0x34, ("u32", 0x1234)),
    ("cvt.s8.s32 %t1, %a; mov.b32 %d, %t1;", "u32", 0xFFFFFFFF, ("s32", 0x12FF)),
    ("cvt.sat.u8.s32 %t1, %a; mov.b32 %d, %t1;", "u32", 255, ("s32", 300)),
    ("cvt.sat.u16.s32", "u16", 0, ("s32", M1)),
    ("cvt.sat.s16.u32", "s16", 0x7FFF, ("u32", M1)),
    ("cvt.rni.s32.f32", "s32", 2, ("f32", f32(2.5))),
    ("cvt.rzi.s32.f32", "s32", M1 - 1, ("f32", f32(-2.9))),
    ("cvt.rmi.s32.f32", "s32", M1 - 2, ("f32", f32(-2.1))),
    ("cvt.rpi.u32.f32", "u32", 3, ("f32", f32(2.1))),
    ("cvt.rzi.u32.f32", "u32", 0, ("f32", f32(-5.0))),
    ("cvt.rzi.s32.f32", "s32", 0x7FFFFFFF, ("f32", f32(1e20))),
    ("cvt.rzi.s32.f32", "s32", 0, ("f32", NAN32)),
    ("cvt.rzi.s64.f64", "s64", 2**63 - 1, ("f64", f64(2.0**63))),
    ("cvt.rzi.u64.f64", "u64", 2**64 - 2048, ("f64", f64(2.0**64) - 1)),
    ("cvt.rni.f32.f32", "f32", f32(-0.0), ("f32", f32(-0.5))),
    ("cvt.rpi.f64.f64", "f64", f64(3.0), ("f64", f64(2.1))),
    ("cvt.rn.f32.s32", "f32", f32(16777216.0), ("s32", 16777217)),
    ("cvt.rp.f32.s32", "f32", f32(16777218.0), ("s32", 16777217)),
    ("cvt.rz.f32.u64", "f32", 0x5F7FFFFF, ("u64", 2**64 - 1)),
    ("cvt.rn.f32.u64", "f32", f32(2.0**64), ("u64", 2**64 - 1)),
    ("cvt.rm.f64.s64", "f64", f64(2.0**63) - 1, ("s64", 2**63 - 1)),
    ("cvt.f64.f32", "f64", f64(0.5), ("f32", f32(0.5))),
    ("cvt.rn.f32.f64", "f32", f32(0.1), ("f64", f64(0.1))),
    ("cvt.rz.f32.f64", "f32", f32(0.1) - 1, ("f64", f64(0.1))),
    ("cvt.rz.f32.f64", "f32", 0x7F7FFFFF, ("f64", f64(1e300))),
    ("cvt.sat.f32.f32", "f32", f32(1.0), ("f32", f32(7.0))),
    ("cvt.f32.f16", "f32", f32(65504.0), ("b16", 0x7BFF)),
    ("cvt.rn.f16.f32", "b16", f16(INFINITY), ("f32", f32(65520.0))),
    ("cvt.rz.f16.f32", "b16", 0x7BFF, ("f32", f32(65520.0))),
    ("cvt.rn.satfinite.f16.f32", "b16", 0x7BFF, ("f32", f32(1e30))),
    ("cvt.rn.relu.f16.f32", "b16", 0, ("f32", f32(-1.0))),
    ("cvt.rn.f16x2.f32", "b32", pair(f16(1.0), f16(2.0)), ("f32", f32(1.0)), ("f32", f32(2.0))),
    ("cvt.rn.bf16.f32", "b16", 0x3F80, ("f32", 0x3F808000)),
    ("cvt.rn.bf16.f32", "b16", 0x3F82, ("f32", 0x3F818000)),
    ("cvt.rz.bf16.f32", "b16", 0x3F81, ("f32", 0x3F81FFFF)),
    ("cvt.rn.bf16x2.f32", "b32", pair(bf16(1.0), bf16(2.0)), ("f32", f32(1.0)), ("f32", f32(2.0))),
    ("cvt.f32.bf16", "f32", f32(-3.0), ("b16", bf16(-3.0))),
    ("cvt.rna.tf32.f32", "b32", 0x3F802000, ("f32", 0x3F801000)),
    ("cvt.rn.tf32.f32", "b32", 0x3F800000, ("f32", 0x3F801000)),
    ("cvt.rn.satfinite.e4m3x2.f32", "b16", 0x7E38, ("f32", f32(1e9)), ("f32", f32(1.0))),
    ("cvt.rn.satfinite.e5m2x2.f32", "b16", 0xC03C, ("f32", f32(-2.0)), ("f32", f32(1.0))),
    ("cvt.rn.f16x2.e4m3x2", "b32", pair(f16(448.0), f16(-1.0)), ("b16", 0x7EB8)),
    ("cvt.pack.sat.s16.s32", "b32", pair(0x7FFF, 5), ("s32", 100000), ("s32", 5)),
    ("cvt.pack.sat.u8.s32.b32", "b32", 0x5678FF00, ("s32", 300), ("s32", M1), ("b32", 0x12345678)),
    ("mov.b32 {%h1, %h2}, %a; mov.b32 %d, {%h2, %h1};", "b32", 0x56781234, ("b32", 0x12345678)),
    ("mov.b32 {_, %h2}, %a; cvt.u32.u16 %d, %h2;", "b32", 0x1234, ("b32", 0x12345678)),
    ("mov.b64 {%t1, %t2}, %a; sub.u32 %d, %t2, %t1;", "u32", 6, ("b64", 7 << 32 | 1)),
    ("mov.b32 %d, 0f3FC00000;", "b32", f32(1.5), ("b32", 0)),
    ("mov.u32 %d, 017; add.u32 %d, %d, 0x10; add.u32 %d, %d, 0b11;", "u32", 15 + 16 + 3, ("b32", 0)),
    ("mov.f32 %d, 1.5;", "f32", f32(1.5), ("b32", 0)),
    ("mov.u32 %d, WARP_SZ;", "u32", 32, ("b32", 0)),
    ("cvta.shared.u64 %q0, 16; cvta.to.shared.u64 %q1, %q0; cvt.u32.u64 %d, %q1;", "u32", 16, ("b32", 0)),
    ("cvta.local.u64 %q0, 8; isspacep.local %p0, %q0;", "pred", 1, ("b32", 0)),
    ("cvta.local.u64 %q0, 8; isspacep.global %p0, %q0;", "pred", 0, ("b32", 0)),
    ("createpolicy.fractional.L2::evict_last.b64 %q0, 1.0; mov.u32 %d, 1;", "u32", 1, ("b32", 0)),
    (
        "ld.param.u64 %q0, [p1]; prefetch.global.L1 [%q0]; prefetchu.L1 [%q0]; "
        "applypriority.global.L2::evict_normal [%q0], 128; discard.global.L2 [%q0], 128; mov.u32 %d, %a;",
        "u32",
        3,
        ("b32", 3),
    ),
    (
        "membar.gl; fence.acq_rel.gpu; nanosleep.u32 10; griddepcontrol.wait; pmevent 1; nop; mov.u32 %d, %a;",
        "u32",
        3,
        ("b32", 3),
    ),
    ("activemask.b32", "b32", M1, ("b32", 0)),
]

CASES = [*INTEGERS, *BITS, *FLOATS, *HALVES, *CHOICES, *CONVERSIONS]


def label(case: tuple) -> str:
    return f"{case[0].split(' ')[0]}({', '.join(hex(bits) for _, bits in case[3:])})"


@pytest.mark.parametrize("case", CASES, ids=label)
def test_an_instruction_gives_what_its_definition_says(case):
    instruction, result, expected, *operands = case
    if instruction == "activemask.b32":
        instruction = "activemask.b32 %d;"
    given = [(kind, np.full(32, bits, unsigned(kind))) for kind, bits in operands]
    assert [hex(v) for v in compute(instruction, result, *given)] == [hex(expected)] * 32


ELSEWHERE = {
    "test_ptx_memory": {"ld", "ldu", "st"},
    "test_ptx_atomics": {"atom", "red"},
    "test_ptx_calls": {"call", "trap", "brkpt"},
    "test_matrix": {"ldmatrix", "stmatrix", "movmatrix", "mma", "wmma"},
    "test_cases": {"cp"},
}
"""Instructions whose tests stand in modules of their own."""


def test_every_instruction_has_a_case():
    words = {word.split(".")[0] for case in CASES for word in case[0].replace(";", " ").split()}
    known = set(instructions._BUILDERS) - set().union(*ELSEWHERE.values())
    assert known - words == set()


@pytest.mark.parametrize("lanes", [1, 9, 40])
@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize(("kind", "register", "one", "nan"), [
    ("f16", "b16", f16(1.0), 0x7C01),
    ("bf16", "b16", bf16(1.0), 0x7F81),
    ("f32", "f32", f32(1.0), 0x7F800001),
    ("f64", "f64", f64(1.0), 0x7FF0000000000001),
])  # fmt: skip
def test_of_a_number_and_a_signalling_nan_the_number_comes_out(name, kind, register, one, nan, lanes):
    # PTX ISA, "min" and "max": if isNaN(a) then b; so max.ftz.f16x2 of 0x7c2d874d and 0x7b35487f on an H200
    dtype = f"u{one.bit_length() + 7 >> 3}"
    ones, nans = (np.full(lanes, value, dtype) for value in (one, nan))
    for operands in ((ones, nans), (nans, ones)):
        found = compute(f"{name}.{kind}", register, *((register, values) for values in operands))
        assert found.tolist() == [one] * lanes
