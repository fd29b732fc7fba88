"""Random small PTX programs of integers and bits against Python's integers of the same width."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_programs import HEADER, compute, execute

LANES = 32


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def number(value: int, type_: str) -> int:
    """The number that a pattern of bits stands for in a type such as 's32'."""
    bits = int(type_[1:])
    return signed(value, bits) if type_[0] == "s" else value & (1 << bits) - 1


def toward_zero(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def table(a: int, b: int, c: int, entries: int) -> int:
    chosen = ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1) for i in range(32))
    return sum((entries >> entry & 1) << i for i, entry in enumerate(chosen))


def field(value: int, position: int, length: int, type_: str) -> int:
    bits = int(type_[1:])
    position, length = position & 255, length & 255
    top = (
        number(value, type_) >> min(position, bits)
        if type_[0] == "u"
        else signed(value, bits) >> min(position, bits - 1)
    )
    raw = top & (1 << length) - 1
    if type_[0] == "s" and length:
        # the sign is that of the field's last bit, or of the value's where the field runs past its end
        last = min(position + length - 1, bits - 1)
        if signed(value, bits) >> last & 1:
            raw |= -1 << length
    return raw


def insert(a: int, b: int, position: int, length: int, bits: int) -> int:
    position, length = position & 255, length & 255
    mask = ((1 << length) - 1) << position & (1 << bits) - 1
    return (b & ~mask) | (a << position & mask)


def dot(a: int, b: int, c: int, a_type: str, b_type: str) -> int:
    byte = lambda v, i, t: number(v >> 8 * i, f"{t[0]}8")  # noqa: E731
    return c + sum(byte(a, i, a_type) * byte(b, i, b_type) for i in range(4))


Model = Callable[..., int]


def operations(type_: str) -> dict[str, tuple[int, Model]]:
    """Opcode: number of source operands, and what it computes on Python integers of the type."""
    bits = int(type_[1:])
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)
    found = {
        f"add.{type_}": (2, lambda a, b: a + b),
        f"sub.{type_}": (2, lambda a, b: a - b),
        f"mul.lo.{type_}": (2, lambda a, b: a * b),
        f"mul.hi.{type_}": (2, lambda a, b: a * b >> bits),
        f"mad.lo.{type_}": (3, lambda a, b, c: a * b + c),
        f"mad.hi.{type_}": (3, lambda a, b, c: (a * b >> bits) + c),
        f"sad.{type_}": (3, lambda a, b, c: abs(a - b) + c),
        f"div.{type_}": (2, lambda a, b: toward_zero(a, b) if b else -1),
        f"rem.{type_}": (2, lambda a, b: a - toward_zero(a, b) * b if b else -1),
        f"min.{type_}": (2, min),
        f"max.{type_}": (2, max),
        f"and.b{bits}": (2, lambda a, b: a & b),
        f"or.b{bits}": (2, lambda a, b: a | b),
        f"xor.b{bits}": (2, lambda a, b: a ^ b),
        f"not.b{bits}": (1, lambda a: ~a),
        f"cnot.b{bits}": (1, lambda a: int(a == 0)),
    }
    if type_[0] == "s":
        found |= {f"abs.{type_}": (1, abs), f"neg.{type_}": (1, lambda a: -a)}
    if type_ == "s32":
        clamp = lambda v: min(max(v, least), most)  # noqa: E731
        found |= {
            "add.sat.s32": (2, lambda a, b: clamp(a + b)),
            "sub.sat.s32": (2, lambda a, b: clamp(a - b)),
            "mul24.lo.s32": (2, lambda a, b: signed(a, 24) * signed(b, 24)),
            "mul24.hi.s32": (2, lambda a, b: signed(a, 24) * signed(b, 24) >> 16),
            "mad24.lo.s32": (3, lambda a, b, c: signed(a, 24) * signed(b, 24) + c),
            "dp4a.s32.u32": (3, lambda a, b, c: dot(a, b, c, "s32", "u32")),
            "max.relu.s32": (2, lambda a, b: max(a, b, 0)),
        }
    if type_ == "u32":
        found |= {
            "dp4a.u32.u32": (3, lambda a, b, c: dot(a, b, c, "u32", "u32")),
            "prmt.b32": (3, permuted),
            **{f"lop3.b32@{t}": (3, lambda a, b, c, t=t: table(a, b, c, t)) for t in (0x96, 0xE8, 0x1B)},
        }
    if bits >= 32:
        found |= {f"bfe.{type_}": (3, lambda a, b, c: field(a, b & 63, c & 63, type_))}
    return found


def permuted(a: int, b: int, selector: int) -> int:
    data, result = (b << 32 | a).to_bytes(8, "little"), 0
    for i in range(4):
        control = selector >> 4 * i & 15
        byte = data[control & 7]
        result |= (byte if control < 8 else 0xFF * (byte >> 7)) << 8 * i
    return result


@st.composite
def programs(draw: st.DrawFn, type_: str) -> list[tuple[str, int, tuple[int, ...]]]:
    """Instructions as (opcode, destination, sources) over six registers."""
    registers = st.integers(0, 5)
    found = operations(type_)
    names = draw(st.lists(st.sampled_from(sorted(found)), min_size=1, max_size=12))
    return [(n, draw(registers), tuple(draw(registers) for _ in range(found[n][0]))) for n in names]


def text_of(steps: list[tuple[str, int, tuple[int, ...]]], type_: str) -> str:
    bits = int(type_[1:])
    lines = [".visible .entry k(.param .u64 p0)", "{", f".reg .b{bits} %x<6>;", ".reg .b32 %t<4>;", ".reg .b64 %q<3>;"]
    lines += ["mov.u32 %t0, %tid.x;", f"mul.wide.u32 %q1, %t0, {6 * bits // 8};", "ld.param.u64 %q0, [p0];"]
    lines += ["add.u64 %q0, %q0, %q1;"]
    lines += [f"ld.global.b{bits} %x{i}, [%q0+{i * bits // 8}];" for i in range(6)]
    for name, target, sources in steps:
        operands = [f"%x{i}" for i in sources]
        if name.startswith("bfe"):
            # a position or a length of up to 63, in 32-bit registers
            for i in (1, 2):
                narrow = "cvt.u32.u64" if bits == 64 else "mov.b32"
                lines += [f"{narrow} %t{i}, {operands[i]};", f"and.b32 %t{i}, %t{i}, 63;"]
                operands[i] = f"%t{i}"
        opcode, _, lookup = name.partition("@")
        lines += [f"{opcode} %x{target}, {', '.join([*operands, *([lookup] if lookup else [])])};"]
    lines += [f"st.global.b{bits} [%q0+{i * bits // 8}], %x{i};" for i in range(6)]
    return HEADER + "\n".join([*lines, "ret;", "}"])


@pytest.mark.parametrize("type_", ["u16", "s16", "u32", "s32", "u64", "s64"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_random_program_of_integers_computes_as_python_does(type_, data):
    bits = int(type_[1:])
    steps = data.draw(programs(type_))
    edges = st.sampled_from([0, 1, 2, 31, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1, (1 << bits) - 2])
    values = st.one_of(edges, st.integers(0, (1 << bits) - 1))
    start = data.draw(st.lists(st.lists(values, min_size=6, max_size=6), min_size=1, max_size=8))
    lanes = [list(start[i % len(start)]) for i in range(LANES)]
    (found,) = execute(text_of(steps, type_), [np.array(lanes, f"u{bits // 8}")])
    known = operations(type_)
    for registers in lanes:
        for name, target, sources in steps:
            result = known[name][1](*(number(registers[i], type_) for i in sources))
            registers[target] = result & (1 << bits) - 1
    assert found.tolist() == lanes


counts = st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 100)), min_size=1, max_size=24)


@pytest.mark.parametrize("type_", ["b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64"])
@settings(max_examples=10, deadline=None)
@given(rows=counts)
def test_shifts_clamp_their_count_and_keep_the_sign_of_signed_types(type_, rows):
    bits = int(type_[1:])
    name = "shl" if type_[0] == "b" else "shr"
    values = [v % (1 << bits) for v, _ in rows]
    operands = (type_, np.array(values, f"u{bits // 8}")), ("u32", np.array([c for _, c in rows], np.uint32))
    found = compute(f"{name}.{type_}", type_, *operands)
    expected = [v << c if name == "shl" else number(v, type_) >> c for v, (_, c) in zip(values, rows, strict=True)]
    assert [int(v) for v in found] == [e % (1 << bits) for e in expected]


@settings(max_examples=20, deadline=None)
@given(rows=st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 2, st.integers(0, 70)), min_size=1, max_size=24))
@pytest.mark.parametrize("form", ["l.wrap", "l.clamp", "r.wrap", "r.clamp"])
def test_a_funnel_shift_takes_32_bits_out_of_64(form, rows):
    low, high, count = (np.array(c, np.uint32) for c in zip(*rows, strict=True))
    found = compute(f"shf.{form}.b32", "b32", ("b32", low), ("b32", high), ("u32", count))
    for result, (a, b, c) in zip(found, rows, strict=True):
        n = c & 31 if "wrap" in form else min(c, 32)
        whole = b << 32 | a
        assert result == ((whole << n) >> 32 if form[0] == "l" else whole >> n) & 0xFFFFFFFF


@pytest.mark.parametrize("type_", ["b32", "b64"])
@settings(max_examples=20, deadline=None)
@given(
    rows=st.lists(
        st.tuples(*[st.integers(0, 2**64 - 1)] * 2, st.integers(0, 70), st.integers(0, 70)), min_size=1, max_size=24
    )
)
def test_a_bit_field_is_put_in_place_and_cut_off_at_the_end(type_, rows):
    bits = int(type_[1:])
    rows = [(a % (1 << bits), b % (1 << bits), c, d) for a, b, c, d in rows]
    kinds = [type_, type_, "u32", "u32"]
    columns = [(k, np.array(c, f"u{int(k[1:]) // 8}")) for k, c in zip(kinds, zip(*rows, strict=True), strict=True)]
    found = compute(f"bfi.{type_}", type_, *columns)
    assert [int(v) for v in found] == [insert(*row, bits) for row in rows]


@settings(max_examples=20, deadline=None)
@given(rows=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=24))
@pytest.mark.parametrize("bits", [32, 64])
def test_counts_of_bits(bits, rows):
    values = [v % (1 << bits) for v in rows]
    operand = (f"b{bits}", np.array(values, f"u{bits // 8}"))
    assert compute(f"popc.b{bits}", "u32", operand).tolist() == [v.bit_count() for v in values]
    assert compute(f"clz.b{bits}", "u32", operand).tolist() == [bits - v.bit_length() for v in values]
    reverse = [int(f"{v:0{bits}b}"[::-1], 2) for v in values]
    assert compute(f"brev.b{bits}", f"b{bits}", operand).tolist() == reverse
    unsigned_operand = (f"u{bits}", operand[1])
    highest = [(v.bit_length() - 1) % 2**32 for v in values]
    assert compute(f"bfind.u{bits}", "u32", unsigned_operand).tolist() == highest


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.tuples(*[st.integers(0, 2**128 - 1)] * 2), min_size=1, max_size=8))
def test_carry_chains_add_subtract_and_multiply_long_integers(rows):
    """Four 32-bit words by add.cc, addc.cc, sub.cc, subc.cc; 64 x 64 bits by mad.lo.cc and madc.hi.cc."""
    words = np.array([[n >> 32 * i & 0xFFFFFFFF for n in row for i in range(4)] for row in rows], np.uint32)
    words = np.resize(words, (LANES, 8))
    text = (
        HEADER
        + """
.visible .entry k(.param .u64 p0, .param .u64 p1)
{
.reg .b32 %r<40>; .reg .b64 %q<4>;
mov.u32 %r0, %tid.x; mul.wide.u32 %q1, %r0, 32; ld.param.u64 %q0, [p0]; add.u64 %q0, %q0, %q1;
ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%q0]; ld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%q0+16];
add.cc.u32 %r11, %r1, %r5; addc.cc.u32 %r12, %r2, %r6; addc.cc.u32 %r13, %r3, %r7; addc.u32 %r14, %r4, %r8;
sub.cc.u32 %r15, %r1, %r5; subc.cc.u32 %r16, %r2, %r6; subc.cc.u32 %r17, %r3, %r7; subc.u32 %r18, %r4, %r8;
mul.lo.u32 %r21, %r1, %r5; mul.hi.u32 %r22, %r1, %r5;
mad.lo.cc.u32 %r22, %r2, %r5, %r22; madc.hi.u32 %r23, %r2, %r5, 0;
mad.lo.cc.u32 %r22, %r1, %r6, %r22; madc.hi.cc.u32 %r23, %r1, %r6, %r23; addc.u32 %r24, 0, 0;
mad.lo.cc.u32 %r23, %r2, %r6, %r23; madc.hi.u32 %r24, %r2, %r6, %r24;
mul.wide.u32 %q1, %r0, 48; ld.param.u64 %q2, [p1]; add.u64 %q2, %q2, %q1;
st.global.v4.u32 [%q2], {%r11, %r12, %r13, %r14}; st.global.v4.u32 [%q2+16], {%r15, %r16, %r17, %r18};
st.global.v4.u32 [%q2+32], {%r21, %r22, %r23, %r24};
ret;
}"""
    )
    _, found = execute(text, [words, np.zeros((LANES, 12), np.uint32)])
    for given_words, result in zip(words.tolist(), found.tolist(), strict=True):
        a, b = (sum(w << 32 * i for i, w in enumerate(given_words[s : s + 4])) for s in (0, 4))
        total, difference, product = (sum(w << 32 * i for i, w in enumerate(result[s : s + 4])) for s in (0, 4, 8))
        assert (total, difference) == ((a + b) % 2**128, (a - b) % 2**128)
        assert product == (a % 2**64) * (b % 2**64)
