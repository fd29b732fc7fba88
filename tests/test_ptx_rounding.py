"""Float arithmetic, conversions and atomics against exact rationals, rounded by the rules of IEEE 754."""

from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from exact_rounding import BINARY
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_programs import compute

MODES = ("rn", "rz", "rm", "rp")


def finite(name: str) -> st.SearchStrategy[int]:
    """Bits of finite numbers: any, near one another, and at the ends of the range."""
    form = BINARY[name]
    one = form.bias << form.precision - 1
    edges = [0, 1, 2, (1 << form.precision - 1) - 1, 1 << form.precision - 1, form.infinity - 1, one, one + 1, one - 1]
    magnitudes = st.one_of(
        st.sampled_from(edges),
        st.integers(0, form.infinity - 1),
        st.integers(-3 * 2 ** (form.precision - 1), 3 * 2 ** (form.precision - 1)).map(lambda d: one + d),
    )
    return st.builds(lambda m, negative: m | (negative << form.bits - 1), magnitudes, st.booleans())


def lanes(name: str, count: int) -> st.SearchStrategy[list[tuple[int, ...]]]:
    return st.lists(st.tuples(*[finite(name)] * count), min_size=1, max_size=24)


def register(name: str) -> str:
    return {"f16": "b16", "bf16": "b16"}.get(name, name)


def run(instruction: str, name: str, rows: list[tuple[int, ...]]) -> list[int]:
    kind = register(name)
    columns = [(kind, np.array(column, f"u{BINARY[name].bits // 8}")) for column in zip(*rows, strict=True)]
    return [int(v) for v in compute(instruction, kind, *columns)]


def negative(name: str, raw: int) -> bool:
    return bool(raw >> BINARY[name].bits - 1)


def zero_sum(first: bool, second: bool, mode: str) -> bool:
    """Whether a sum that is exactly zero is -0, by the signs of its terms (IEEE 754-2008, 6.3)."""
    return first if first == second else mode == "rm"


def wanted(operation: str, name: str, mode: str, row: tuple[int, ...]) -> int:
    form = BINARY[name]
    values, signs = [form.value(raw) for raw in row], [negative(name, raw) for raw in row]
    if operation in ("add", "sub"):
        second = signs[1] != (operation == "sub")
        total = values[0] + (values[1] if operation == "add" else -values[1])
        return form.rounded(total, mode, zero_sum(signs[0], second, mode))
    if operation == "mul":
        return form.rounded(values[0] * values[1], mode, signs[0] != signs[1])
    product = values[0] * values[1]
    return form.rounded(product + values[2], mode, zero_sum(signs[0] != signs[1], signs[2], mode))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "fma"])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_sums_and_products_are_rounded_once_in_the_stated_direction(operation, name, mode, data):
    rows = data.draw(lanes(name, 3 if operation == "fma" else 2))
    found = run(f"{operation}.{mode}.{name}", name, rows)
    assert found == [wanted(operation, name, mode, row) for row in rows]


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "fma"])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_halves_are_rounded_once_to_nearest_even(operation, name, data):
    rows = data.draw(lanes(name, 3 if operation == "fma" else 2))
    assert run(f"{operation}.rn.{name}", name, rows) == [wanted(operation, name, "rn", row) for row in rows]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["f32", "f64"])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_quotients_and_reciprocals_are_rounded_once(name, mode, data):
    form = BINARY[name]
    rows = [row for row in data.draw(lanes(name, 2)) if form.value(row[1]) != 0] or [(1, 1)]
    signs = [negative(name, a) != negative(name, b) for a, b in rows]
    quotients = [form.value(a) / form.value(b) for a, b in rows]
    expected = [form.rounded(q, mode, sign) for q, sign in zip(quotients, signs, strict=True)]
    assert run(f"div.{mode}.{name}", name, rows) == expected
    divisors = [(b,) for _, b in rows]
    assert run(f"rcp.{mode}.{name}", name, divisors) == [form.rounded(1 / form.value(b), mode) for (b,) in divisors]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["f32", "f64"])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_square_roots_lie_on_the_right_side_of_the_exact_root(name, mode, data):
    form = BINARY[name]
    rows = [(raw & (1 << form.bits - 1) - 1,) for (raw,) in data.draw(lanes(name, 1))]
    for (raw,), result in zip(rows, run(f"sqrt.{mode}.{name}", name, rows), strict=True):
        # the root to 200 bits below the last place: it is exact, or too far from any tie to be mistaken
        value = form.value(raw)
        scale = 1 << 700
        root = isqrt(int(value * scale * scale))
        exact = Fraction(root, scale) + (Fraction(1, 2 * scale) if Fraction(root, scale) ** 2 != value else 0)
        assert result == form.rounded(exact, mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("target", "source"),
    [("f32", "f64"), ("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("bf16", "f64"), ("bf16", "f16")],
)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_narrower_floats_are_rounded_once(target, source, mode, data):
    raws = [raw for (raw,) in data.draw(lanes(source, 1))]
    operand = (register(source), np.array(raws, f"u{BINARY[source].bits // 8}"))
    found = compute(f"cvt.{mode}.{target}.{source}", register(target), operand)
    form = BINARY[source]
    assert [int(v) for v in found] == [BINARY[target].rounded(form.value(r), mode, negative(source, r)) for r in raws]


INTEGERS = {f"{sign}{bits}": (sign == "s", bits) for sign in "us" for bits in (16, 32, 64)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", ["f16", "bf16", "f32", "f64"])
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_integers_become_the_float_on_the_stated_side(target, source, mode, data):
    signed, bits = INTEGERS[source]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    near = st.integers(0, bits - 1).flatmap(lambda n: st.integers((1 << n) - 2, (1 << n) + 2))
    numbers = data.draw(st.lists(st.one_of(st.integers(low, high), near), min_size=1, max_size=24))
    numbers = [min(max(n, low), high) for n in numbers]
    operand = (source, np.array([n % (1 << bits) for n in numbers], f"u{bits // 8}"))
    found = compute(f"cvt.{mode}.{target}.{source}", register(target), operand)
    assert [int(v) for v in found] == [BINARY[target].rounded(Fraction(n), mode) for n in numbers]


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_floats_become_the_integer_on_the_stated_side_within_its_range(source, target, mode, data):
    signed, bits = INTEGERS[target]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    raws = [raw for (raw,) in data.draw(lanes(source, 1))]
    operand = (register(source), np.array(raws, f"u{BINARY[source].bits // 8}"))
    found = compute(f"cvt.{mode}.{target}.{source}", target, operand)
    round_to = {"rni": round, "rzi": int, "rmi": lambda v: v.__floor__(), "rpi": lambda v: v.__ceil__()}[mode]
    expected = [min(max(round_to(BINARY[source].value(raw)), low), high) % (1 << bits) for raw in raws]
    assert [int(v) for v in found] == expected


def exact_value(operation: str, values: list[Fraction]) -> Fraction:
    if operation in ("div", "rcp"):
        return (values[0] if operation == "div" else 1) / values[-1]
    if operation in ("mul", "fma"):
        return values[0] * values[1] + (values[2] if operation == "fma" else 0)
    return values[0] + (values[1] if operation == "add" else -values[1])


def flushed(operation: str, name: str, mode: str, row: tuple[int, ...]) -> int | None:
    """The result with .ftz: zero for a subnormal operand, and for a result that is subnormal when it is rounded to the
    format's precision with no bound on its exponent (IEEE 754-2008, 7.5, "after rounding"). None for a zero divisor.
    """
    form = BINARY[name]
    least, sign = 1 << form.precision - 1, 1 << form.bits - 1
    row = tuple(raw if raw & sign - 1 >= least else raw & sign for raw in row)
    values = [form.value(raw) for raw in row]
    if operation in ("div", "rcp") and values[-1] == 0:
        return None
    exact = exact_value(operation, values)
    if exact == 0:
        return (row[0] ^ row[1]) & sign if operation == "div" else wanted(operation, name, mode, row)
    scale = Fraction(2) ** (form.precision + 2)
    if abs(exact) < 2 * form.value(least) and abs(form.value(form.rounded(exact * scale, mode))) < scale * form.value(
        least
    ):
        return sign if exact < 0 else 0
    return form.rounded(exact, mode)


def beside_the_least_normal(name: str, operation: str) -> st.SearchStrategy[list[tuple[int, ...]]]:
    """Operands whose result lies within a few units of the least normal number, on either side."""
    form = BINARY[name]
    least = form.value(1 << form.precision - 1)
    factor = st.builds(
        lambda fraction, exponent, minus: fraction | exponent << form.precision - 1 | minus << form.bits - 1,
        st.integers(0, (1 << form.precision - 1) - 1),
        st.integers(form.bias - 3, form.bias + 3),
        st.integers(0, 1),
    )
    aims = st.integers(-6, 6).map(lambda step: least * (1 + step * Fraction(2) ** -(form.precision + 1)))

    def row(a: int, other: int, aim: Fraction) -> tuple[int, ...]:
        value = form.value(a)
        if operation == "mul":
            return (a, form.rounded(aim / value, "rn"))
        if operation == "div":
            return (form.rounded(aim * value, "rn"), a)
        if operation == "rcp":
            return (form.rounded(1 / aim, "rz"),)
        if operation == "fma":
            b = form.rounded(4 * least / value, "rn")
            return (a, b, form.rounded(aim - value * form.value(b), "rn"))
        step = Fraction(2) * abs(value) * least
        b = form.rounded(step, "rn")
        c = form.rounded(form.value(b) - aim, "rn")
        return (b, c ^ (1 << form.bits - 1) if operation == "add" else c)

    return st.lists(st.builds(row, factor, factor, aims), min_size=1, max_size=24)


FLUSHING = [("f32", o, m) for o in ("add", "sub", "mul", "fma", "div", "rcp") for m in MODES]
FLUSHING += [("f16", o, "rn") for o in ("add", "sub", "mul", "fma")]


@pytest.mark.parametrize(("name", "operation", "mode"), FLUSHING)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_ftz_flushes_operands_and_what_is_subnormal_once_it_is_rounded(name, operation, mode, data):
    count = {"rcp": 1, "fma": 3}.get(operation, 2)
    rows = data.draw(st.one_of(lanes(name, count), beside_the_least_normal(name, operation)))
    expected = [flushed(operation, name, mode, row) for row in rows]
    found = run(f"{operation}.{mode}.ftz.{name}", name, rows)
    assert [f for f, e in zip(found, expected, strict=True) if e is not None] == [e for e in expected if e is not None]


def test_what_lies_just_below_the_least_normal_number_is_flushed_where_an_h200_flushes_it():
    # (1 - 2^-24) * 2^-126 lies half-way to 2^-126 and rounds to it; an H200 gives -0 for its negative
    assert run("mul.rn.ftz.f32", "f32", [(0x3F7FFFFF, 0x80800000)]) == [0x80000000]
    assert run("mul.rn.f32", "f32", [(0x3F7FFFFF, 0x80800000)]) == [0x80800000]
    # (1 - 1.3e-10) * 2^-126 is nearer to 2^-126 than 2^-150 and becomes it; measured on an H200 too
    assert run("fma.rn.ftz.f32", "f32", [(0x00800000, 0xAF0D6A2B, 0x00800000)]) == [0x00800000]
    assert run("fma.rz.ftz.f32", "f32", [(0x00800000, 0xAF0D6A2B, 0x00800000)]) == [0]
    # 1 / (2^126 (1 + 2^-23)), rounded up to 24 bits, is still below 2^-126
    assert run("rcp.rp.ftz.f32", "f32", [(0x7E800001,)]) == [0]
    assert run("rcp.rp.f32", "f32", [(0x7E800001,)]) == [0x00800000]
