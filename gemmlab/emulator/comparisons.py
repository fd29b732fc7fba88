"""Comparisons and selections: setp, set, selp, slct, testp, in every type.

PTX ISA, "Comparison and Selection Instructions", "Half Precision Comparison Instructions" and "testp". On floats the
plain comparisons are false when either operand is NaN, and the unordered ones (equ, ltu, ...) true.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .datatypes import DTYPES, dtype_of, types_of
from .floats import flush
from .formats import BF16, FORMATS
from .half import PACKED, packed, unpack
from .instructions import (
    BOOLEAN,
    Code,
    Frame,
    Step,
    UnsupportedInstruction,
    assign,
    destination,
    elementwise,
    opcode,
    outputs_of,
    put,
    read,
    read_predicate,
)
from .lanes import Mask
from .ptx import Instruction

Function = Callable[..., np.ndarray]

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
_OPERATORS = {*_ORDERED, "num", "nan", *(f"{name}u" for name in ("eq", "ne", "lt", "le", "gt", "ge"))}


def comparison(instruction: Instruction, type_: str) -> Function:
    """The comparison that an instruction names, on values of a type as registers hold them."""
    name = next((p for p in instruction.parts[1:] if p in _OPERATORS), None)
    if name is None:
        raise UnsupportedInstruction(instruction, "its opcode names no comparison")
    if type_ not in FORMATS:
        return _ORDERED[name]
    compare = _float_comparison(name)
    if "ftz" in instruction.parts:
        return lambda a, b: compare(flush(a), flush(b))
    if type_ == BF16.name:
        return lambda a, b: compare(BF16.widen(a), BF16.widen(b))
    return compare


def _float_comparison(name: str) -> Function:
    if name in ("num", "nan"):
        wanted = name == "nan"
        return lambda a, b: (np.isnan(a) | np.isnan(b)) == wanted
    if name == "ne":
        return lambda a, b: (a < b) | (a > b)
    if name == "neu":
        return np.not_equal
    if name.endswith("u"):
        ordered = _ORDERED[name[:-1]]
        return lambda a, b: ordered(a, b) | np.isnan(a) | np.isnan(b)
    return _ORDERED[name]


def _combination(instruction: Instruction) -> Function | None:
    return next((BOOLEAN[p] for p in instruction.parts[1:] if p in BOOLEAN), None)


@opcode("setp")
def setp(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "setp". p|q: the comparison and its complement, each combined with a predicate; of a packed type, its
    two halves'.
    """
    (type_,) = types_of(instruction)
    first, *sources = instruction.operands
    a, b = (read(o, dtype_of(instruction, type_), instruction, code) for o in sources[:2])
    outputs = outputs_of(first, instruction, code)
    combine = _combination(instruction)
    other = read_predicate(sources[2], instruction, code) if combine else None
    element, dtype = PACKED.get(type_, (type_, None))
    compare = comparison(instruction, element)

    def step(frame: Frame, mask: Mask) -> None:
        registers = frame.registers
        if dtype is None:
            result = compare(a(registers), b(registers))
            values = (result, ~result) if len(outputs) > 1 else (result,)
        else:
            values = tuple(map(compare, unpack(a(registers), dtype), unpack(b(registers), dtype)))
        if combine:
            values = tuple(combine(value, other(registers)) for value in values)
        put(frame, outputs, values, mask)

    return step


@opcode("set")
def set_value(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "set": 1.0 of a float type or all ones of an integer type where the comparison holds, else zero. The
    result for a packed source is packed too.
    """
    result, source = types_of(instruction)
    combine = _combination(instruction)
    element, dtype = PACKED.get(source, (source, None))
    if dtype is None:
        function = _as_value(comparison(instruction, element), result)
    else:
        half = PACKED[result][0] if result in PACKED else "u16"
        function = packed(_as_value(comparison(instruction, element), half), dtype)
    types = [dtype_of(instruction, source)] * 2
    if combine is None:
        return elementwise(function, instruction, code, *types)
    if dtype is not None:
        raise UnsupportedInstruction(instruction, "a packed set combined with a predicate is not emulated")
    index = destination(instruction.operands[0], instruction, code)
    a, b = (read(o, t, instruction, code) for o, t in zip(instruction.operands[1:3], types, strict=True))
    other = read_predicate(instruction.operands[3], instruction, code)
    compare, as_value = comparison(instruction, element), _as_value(combine, result)
    return assign(index, lambda registers: as_value(compare(a(registers), b(registers)), other(registers)))


def _as_value(compare: Function, result: str) -> Function:
    if result in FORMATS:
        form = FORMATS[result]
        true = form.narrow(np.float64(1))[()]
        return lambda a, b: np.where(compare(a, b), true, true.dtype.type(0))
    true = ~DTYPES[result].type(0)
    return lambda a, b: np.where(compare(a, b), true, true.dtype.type(0))


@opcode("selp")
def selp(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "selp"."""
    dtype = dtype_of(instruction, instruction.parts[-1])
    return elementwise(lambda a, b, p: np.where(p, a, b), instruction, code, dtype, dtype, DTYPES["pred"])


@opcode("slct")
def slct(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "slct": the first operand where the third is at least zero (-0 is, NaN is not), else the second."""
    dtype, chooser = (dtype_of(instruction, p) for p in instruction.parts[-2:])
    before = flush if "ftz" in instruction.parts else lambda value: value
    return elementwise(lambda a, b, c: np.where(before(c) >= 0, a, b), instruction, code, dtype, dtype, chooser)


@opcode("testp")
def testp(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "testp"; zeros count as normal."""
    dtype = dtype_of(instruction, instruction.parts[-1])
    tiny = np.finfo(dtype).tiny
    subnormal: Function = lambda a: (np.abs(a) < tiny) & (a != 0)  # noqa: E731
    function = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & ~subnormal(a),
        "subnormal": subnormal,
    }[instruction.parts[1]]
    return elementwise(function, instruction, code, dtype)
