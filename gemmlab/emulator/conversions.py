"""Conversions between types: cvt and cvt.pack.

A float becomes an integer in the stated direction and is clamped to the integer's range; NaN gives 0, or, as on an
H200, the top bit alone from f64 or to 64 bits. An integer becomes the nearest float, or the one in the stated
direction, in one rounding. A NaN becomes the canonical one, but where the ISA leaves its bits open and an H200 keeps
some: from f64 to a narrower format, and in cvt.rna.tf32.

PTX ISA, "Data Movement and Conversion Instructions: cvt, cvt.pack".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .datatypes import DTYPES, dtype_of, resize
from .floats import canonical, flush, flush_edge, odd_sum, quiet, relu, saturate
from .formats import BF16, E4M3, E5M2, F16, F32, F64, FORMATS, TF32, Format
from .half import PACKED, unpack
from .instructions import Code, Step, UnsupportedInstruction, assign, destination, elementwise, opcode, read
from .ptx import Instruction

Function = Callable[[np.ndarray], np.ndarray]

_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_PAIRS = {"f16x2": F16, "bf16x2": BF16, "e4m3x2": E4M3, "e5m2x2": E5M2}


@opcode("cvt")
def cvt(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "cvt"."""
    if "pack" in instruction.parts:
        return _pack(instruction, code)
    target, source = instruction.parts[-2:]
    if target in _PAIRS:
        return _pair(instruction, code, target, source)
    convert = conversion(instruction, target, source)
    index = destination(instruction.operands[0], instruction, code)
    get = read(instruction.operands[1], dtype_of(instruction, source), instruction, code)
    return assign(index, lambda registers: _extended(convert(get(registers)), registers[index].dtype.itemsize))


def _extended(value: np.ndarray, width: int) -> np.ndarray:
    """The value in a register of `width` bytes: sign-extended if it is signed, else zero-extended."""
    if width > value.dtype.itemsize and value.dtype.kind == "i":
        return value.astype(f"i{width}")
    return value if width == value.dtype.itemsize else resize(value, np.dtype(f"u{width}"))


def conversion(instruction: Instruction, target: str, source: str) -> Function:
    """The conversion from one type to another, on values as registers hold them."""
    parts = instruction.parts
    rounding = next((p for p in parts if p in ("rn", "rz", "rm", "rp", "rna")), "rn")
    whole = next((_WHOLE[p] for p in parts if p in _WHOLE), None)
    before = (lambda a: canonical(flush(a))) if "ftz" in parts and source == "f32" else None
    if source in FORMATS and target in FORMATS:
        convert = _float_to_float(FORMATS[source], FORMATS[target], rounding, whole, "satfinite" in parts)
        if "ftz" in parts and source == "f64" and target == "f32":
            nearest = convert
            convert = lambda a: flush_edge(flush(nearest(a)), F32, rounding, lambda: a)  # noqa: E731
    elif source in FORMATS:
        if whole is None:
            raise UnsupportedInstruction(instruction, "a float becomes an integer only with .rni, .rzi, .rmi or .rpi")
        convert = _float_to_integer(FORMATS[source], dtype_of(instruction, target), whole)
    elif target in FORMATS:
        convert = _integer_to_float(dtype_of(instruction, source), FORMATS[target], rounding)
    elif "sat" in parts:
        limits, dtype = np.iinfo(dtype_of(instruction, target)), dtype_of(instruction, target)
        return lambda a: clamp_integer(a, limits.min, limits.max).astype(dtype)
    else:
        dtype = dtype_of(instruction, target)
        return lambda a: a.astype(dtype)
    after = [f for p, f in (("sat", saturate), ("relu", relu)) if p in parts and target in FORMATS]
    if "ftz" in parts and target == "f32" and source != "f64":
        after.insert(0, flush)
    return _around(convert, before, [_on_values(f, target) for f in after])


def _around(convert: Function, before: Function | None, after: list[Function]) -> Function:
    if before is None and not after:
        return convert

    def wrapped(value: np.ndarray) -> np.ndarray:
        result = convert(value if before is None else before(value))
        for change in after:
            result = change(result)
        return result

    return wrapped


def _on_values(function: Function, target: str) -> Function:
    """A function of floats on what a register of the format holds."""
    form = FORMATS[target]
    return function if form.storage.kind == "f" else lambda stored: form.narrow(function(form.widen(stored)))


def _float_to_float(source: Format, target: Format, rounding: str, whole: Function | None, satfinite: bool) -> Function:
    if whole:
        return whole if target is F64 else lambda a: target.narrow(whole(source.widen(a)))
    if target is F64:
        return lambda a: quiet(source.widen(a))
    if source is BF16 and target is F32:
        return lambda a: (a.astype(np.uint32) << np.uint32(16)).view(np.float32)
    native = target in (F16, F32) and rounding == "rn" and not satfinite
    if source is F64:
        narrowed = (lambda a: a.astype(target.storage)) if native else (lambda a: target.narrow(a, rounding, satfinite))
        return lambda a: _keeping(a, narrowed(a), target)
    if native and source in (F16, F32):
        return lambda a: canonical(a.astype(target.storage))
    if target is TF32 and rounding == "rna":
        return lambda a: np.where(np.isnan(a), _cut(a, satfinite), target.narrow(source.widen(a), rounding, satfinite))
    return lambda a: target.narrow(source.widen(a), rounding, satfinite)


def _keeping(a: np.ndarray, result: np.ndarray, form: Format) -> np.ndarray:
    """A narrowed f64 with every NaN quiet and of its old sign, and with the bits of its payload that fit, as an H200
    returns it.
    """
    nan = np.isnan(a)
    if not nan.any():
        return result
    bits, fraction = a.view(np.uint64), form.precision - 1
    payload = bits >> np.uint64(52 - fraction) & np.uint64((1 << fraction) - 1)
    top = np.uint64((1 << form.bits - 1) - (1 << fraction - 1))
    kept = (bits >> np.uint64(63) << np.uint64(form.bits - 1)) | top | payload
    return np.where(nan, kept.astype(form.unsigned).view(form.storage), result)


def _cut(a: np.ndarray, satfinite: bool) -> np.ndarray:
    """The upper bits of an f32 NaN; with .satfinite one unit less, as machine code for sm_90 takes it for infinity."""
    return (a.view(np.uint32) & np.uint32(0xFFFFE000)) - np.uint32(0x2000 if satfinite else 0)


def _float_to_integer(source: Format, target: np.dtype, whole: Function) -> Function:
    limits = np.iinfo(target)
    low, high = float(limits.min), float(limits.max)
    wide = limits.bits == 64 or source is F64
    nan = np.uint64(1 << limits.bits - 1).astype(target) if wide else target.type(0)

    def convert(a: np.ndarray) -> np.ndarray:
        value = whole(source.widen(a))
        inside = (value >= low) & (value <= high) & (value < 2.0**64 if low == 0 else value < 2.0**63)
        result = np.where(inside, value, 0.0).astype(target)
        result = np.where(value > low, np.where(inside, result, target.type(limits.max)), result)
        result = np.where(value < low, target.type(limits.min), result)
        return np.where(np.isnan(value), nan, result)

    return convert


def _integer_to_float(source: np.dtype, target: Format, rounding: str) -> Function:
    if rounding == "rn" and target in (F32, F64):
        return lambda a: a.astype(target.storage)

    def convert(a: np.ndarray) -> np.ndarray:
        if source.itemsize < 8:
            return target.narrow(a.astype(np.float64), rounding)
        high = (a >> source.type(32)).astype(np.float64) * 2.0**32
        low = (a & source.type(0xFFFFFFFF)).astype(np.float64)
        if target is F64:
            return _directed_sum(high, low, rounding)
        return target.narrow(odd_sum(high, low), rounding)

    return convert


def _directed_sum(high: np.ndarray, low: np.ndarray, rounding: str) -> np.ndarray:
    """High + low, a 64-bit integer in two exact parts, rounded toward zero, down or up."""
    total = high + low
    error = low - (total - high)
    up = {"rz": total < 0, "rp": True, "rm": False}[rounding]
    total = np.where((error > 0) & up, np.nextafter(total, np.inf), total)
    return np.where((error < 0) & np.logical_not(up), np.nextafter(total, -np.inf), total)


def clamp_integer(a: np.ndarray, low: int, high: int) -> np.ndarray:
    """The nearest integer of a's type within [low, high]."""
    own = np.iinfo(a.dtype)
    return np.clip(a, a.dtype.type(max(low, own.min)), a.dtype.type(min(high, own.max)))


def _pair(instruction: Instruction, code: Code, target: str, source: str) -> Step:
    """Two values into one register: of two f32 operands the first goes to the upper half; or a pair into a pair."""
    form = _PAIRS[target]
    element = np.dtype(f"u{form.storage.itemsize}")
    whole, bits = np.dtype(f"u{2 * element.itemsize}"), 8 * element.itemsize
    pair = _PAIRS.get(source)
    convert = conversion(instruction, form.name, pair.name if pair else source)

    def join(high: np.ndarray, low: np.ndarray) -> np.ndarray:
        high, low = (convert(v).view(element).astype(whole) for v in (high, low))
        return (high << whole.type(bits)) | low

    if pair is None:
        dtype = dtype_of(instruction, source)
        return elementwise(join, instruction, code, dtype, dtype)
    storage = PACKED[source][1] if source in PACKED else pair.storage
    return elementwise(
        lambda value: join(*reversed(unpack(value, storage))), instruction, code, dtype_of(instruction, source)
    )


def _pack(instruction: Instruction, code: Code) -> Step:
    """Two s32 clamped to a narrower integer type and packed above the low bits of a third operand."""
    name = instruction.parts[-2] if instruction.parts[-1] == "s32" else instruction.parts[-3]
    bits, signed = int(name[1:]), name[0] == "s"
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    keep = np.uint32((1 << bits) - 1)

    def function(a: np.ndarray, b: np.ndarray, *rest: np.ndarray) -> np.ndarray:
        upper, lower = (clamp_integer(v, low, high).view(np.uint32) & keep for v in (a, b))
        result = (upper << np.uint32(bits)) | lower
        return result | rest[0] << np.uint32(2 * bits) if rest else result

    types = [DTYPES["s32"], DTYPES["s32"], DTYPES["u32"]][: len(instruction.operands) - 1]
    return elementwise(function, instruction, code, *types)
