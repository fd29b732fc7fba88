"""Moves, comparisons and conversions: mov, setp, set, selp, slct, cvt, cvta.

PTX ISA, "Comparison and Selection Instructions" and "Data Movement and Conversion Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .floats import F16, F32, F64, canonical, flush, saturate
from .instructions import (
    DTYPES,
    Code,
    Frame,
    Step,
    UnsupportedInstruction,
    assign,
    destination,
    dtype_of,
    elementwise,
    merge,
    opcode,
    read,
    resize,
)
from .lanes import Mask
from .memory import LOCAL_WINDOW, SHARED_WINDOW
from .ptx import Instruction, Register, Symbol, Vector

_ORDERED = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
_FLOATS = ("f16", "f32", "f64")


def comparison(name: str, dtype: np.dtype) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Comparison by its PTX name; on floats the plain ones are false and the 'u' ones true when either is NaN."""
    if dtype.kind == "f":
        if name in ("num", "nan"):
            wanted = name == "nan"
            return lambda a, b: (np.isnan(a) | np.isnan(b)) == wanted
        if name == "ne":
            return lambda a, b: (a != b) & ~np.isnan(a) & ~np.isnan(b)
        if name.endswith("u"):
            ordered = _ORDERED[name[:-1]]
            return lambda a, b: ordered(a, b) | np.isnan(a) | np.isnan(b)
    return _ORDERED[name]


@opcode("setp")
def setp(instruction: Instruction, code: Code) -> Step:
    parts = [p for p in instruction.parts[1:] if p != "ftz"]
    dtype = dtype_of(instruction, parts[-1])
    compare = comparison(parts[0], dtype)
    first, *sources = instruction.operands
    a, b = (read(o, dtype, instruction, code) for o in sources[:2])
    outputs = [destination(o, instruction, code) for o in (first.items if isinstance(first, Vector) else (first,))]
    combine = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[parts[1]] if len(parts) > 2 else None
    negated = combine is not None and isinstance(sources[2], Symbol)
    if negated:
        raise UnsupportedInstruction(instruction, "a negated predicate operand is not emulated")
    c = read(sources[2], DTYPES["pred"], instruction, code) if combine else None
    if "ftz" in instruction.parts:
        ordered = compare
        compare = lambda x, y: ordered(flush(x), flush(y))  # noqa: E731

    def step(frame: Frame, mask: Mask) -> None:
        registers = frame.registers
        result = compare(a(registers), b(registers))
        values = (result, ~result)
        if combine:
            other = c(registers)
            values = tuple(combine(v, other) for v in values)
        for index, value in zip(outputs, values, strict=False):
            registers[index] = value if mask is None else merge(mask, value, registers[index])

    return step


@opcode("set")
def set_value(instruction: Instruction, code: Code) -> Step:
    compare = comparison(instruction.parts[1], dtype_of(instruction, instruction.parts[-1]))
    result, source = (dtype_of(instruction, p) for p in instruction.parts[-2:])
    true = result.type(1) if result.kind == "f" else np.array(-1).astype(result)
    return elementwise(
        lambda a, b: np.where(compare(a, b), true, result.type(0)), instruction, code, source, source
    )


@opcode("selp")
def selp(instruction: Instruction, code: Code) -> Step:
    dtype = dtype_of(instruction, instruction.parts[-1])
    return elementwise(lambda a, b, p: np.where(p, a, b), instruction, code, dtype, dtype, DTYPES["pred"])


@opcode("slct")
def slct(instruction: Instruction, code: Code) -> Step:
    dtype, chooser = (dtype_of(instruction, p) for p in instruction.parts[-2:])
    return elementwise(lambda a, b, c: np.where(c >= 0, a, b), instruction, code, dtype, dtype, chooser)


@opcode("mov")
def mov(instruction: Instruction, code: Code) -> Step:
    target, source = instruction.operands
    dtype = dtype_of(instruction, instruction.parts[-1])
    if isinstance(source, Vector):
        return _pack(instruction, code, target, source, dtype)
    if isinstance(target, Vector):
        return _unpack(instruction, code, target, source, dtype)
    return assign(destination(target, instruction, code), read(source, dtype, instruction, code))


def _pack(instruction: Instruction, code: Code, target: Register, source: Vector, dtype: np.dtype) -> Step:
    width = dtype.itemsize // len(source.items)
    part = np.dtype(f"u{width}")
    reads = [read(item, part, instruction, code) for item in source.items]

    def compute(registers: list[np.ndarray]) -> np.ndarray:
        value = dtype.type(0)
        for i, get in enumerate(reads):
            value = value | get(registers).astype(dtype) << dtype.type(8 * width * i)
        return value

    return assign(destination(target, instruction, code), compute)


def _unpack(instruction: Instruction, code: Code, target: Vector, source: Register, dtype: np.dtype) -> Step:
    width = dtype.itemsize // len(target.items)
    part = np.dtype(f"u{width}")
    get = read(source, dtype, instruction, code)
    outputs = [
        None if isinstance(t, Symbol) and t.name == "_" else destination(t, instruction, code) for t in target.items
    ]

    def step(frame: Frame, mask: Mask) -> None:
        value = get(frame.registers)
        for i, index in enumerate(outputs):
            if index is not None:
                piece = (value >> dtype.type(8 * width * i)).astype(part)
                frame.registers[index] = merge(mask, piece, frame.registers[index])

    return step


@opcode("cvt")
def cvt(instruction: Instruction, code: Code) -> Step:
    target_name, source_name = instruction.parts[-2:]
    if "pack" in instruction.parts or "bf16" in target_name + source_name or "tf32" in target_name + source_name:
        raise UnsupportedInstruction(instruction, "this conversion is not emulated")
    target, source = dtype_of(instruction, target_name), dtype_of(instruction, source_name)
    index = destination(instruction.operands[0], instruction, code)
    get = read(instruction.operands[1], source, instruction, code)
    convert = conversion(instruction, target, source)

    def compute(registers: list[np.ndarray]) -> np.ndarray:
        value = convert(get(registers))
        held = registers[index].dtype.itemsize
        if held > value.dtype.itemsize and value.dtype.kind == "i":
            # a destination register wider than the type is sign-extended
            return value.astype(f"i{held}")
        return value if held == value.dtype.itemsize else resize(value, np.dtype(f"u{held}"))

    return assign(index, compute)


def conversion(instruction: Instruction, target: np.dtype, source: np.dtype) -> Callable[[np.ndarray], np.ndarray]:
    parts = set(instruction.parts)
    rounding = next((p for p in ("rni", "rzi", "rmi", "rpi") if p in parts), None)
    if target.kind == "f" and parts & {"rz", "rm", "rp"}:
        raise UnsupportedInstruction(instruction, "only rounding to nearest even (.rn) is emulated")
    whole = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}.get(rounding)
    before = flush if "ftz" in parts and source == F32 else (lambda a: a)
    after = saturate if "sat" in parts and target.kind == "f" else (lambda a: a)
    if source.kind == "f" and target.kind == "f":
        if whole:
            return lambda a: after(canonical(whole(before(a)).astype(target)))
        final = flush if "ftz" in parts and target == F32 else (lambda a: a)
        return lambda a: after(final(canonical(before(a).astype(target))))
    if source.kind == "f":
        return lambda a: float_to_integer(whole(before(a).astype(F64)), target)
    if target.kind == "f":
        return lambda a: after(integer_to_float(a, target))
    if "sat" in parts:
        limits = np.iinfo(target)
        return lambda a: clamp_integer(a, limits.min, limits.max).astype(target)
    return lambda a: a.astype(target)


def clamp_integer(a: np.ndarray, low: int, high: int) -> np.ndarray:
    own = np.iinfo(a.dtype)
    return np.clip(a, a.dtype.type(max(low, own.min)), a.dtype.type(min(high, own.max)))


def float_to_integer(value: np.ndarray, target: np.dtype) -> np.ndarray:
    """Whole float64 values as integers: out of range clamps, NaN gives 0 (for 64-bit targets the top bit alone)."""
    limits = np.iinfo(target)
    top = float(limits.max) + (1.0 if limits.bits < 64 else 0.0)
    inside = (value >= float(limits.min)) & (value < top)
    result = np.where(inside, value, 0.0).astype(target)
    result = np.where(value >= top, target.type(limits.max), result)
    result = np.where(value < float(limits.min), target.type(limits.min), result)
    nan = target.type(0) if limits.bits < 64 else np.uint64(1 << 63).astype(target)
    return np.where(np.isnan(value), nan, result)


def integer_to_float(value: np.ndarray, target: np.dtype) -> np.ndarray:
    """Integers to the nearest float, ties to even, in a single rounding."""
    if target == F16:
        # float16 ends at 65504, far inside what float32 holds exactly
        return np.clip(value, *(-70000, 70000) if value.dtype.kind == "i" and value.dtype.itemsize > 2 else (None, None))\
            .astype(F32).astype(F16)
    return value.astype(target)


@opcode("cvta")
def cvta(instruction: Instruction, code: Code) -> Step:
    to = instruction.parts[1] == "to"
    space = instruction.parts[2 if to else 1]
    window = {"shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space, 0)
    dtype = dtype_of(instruction, instruction.parts[-1])
    offset = np.uint64(window).astype(dtype)
    function = np.subtract if to else np.add
    return elementwise(lambda a: function(a, offset) if window else a, instruction, code, dtype)
