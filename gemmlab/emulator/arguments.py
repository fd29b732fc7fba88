"""From what a learner passes to the bytes a kernel receives, and what is wrong with them.

Bytes go as CuPy sends them: a Python int as 8 bytes, a Python float as a double, a NumPy scalar as itself, and the
kernel reads as many as its parameter has. That is how a Python float reaches a `float` parameter as 0.0. PTX has no
pointee types, so those come from the parameter list in the source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from .arrays import ndarray
from .faults import Hazard
from .memory import Allocation
from .ptx import Function, Parameter

_SCALARS = {
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "int8_t": "int8",
    "uint8_t": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int16_t": "int16",
    "uint16_t": "uint16",
    "int": "int32",
    "signed": "int32",
    "signed int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "int32_t": "int32",
    "uint32_t": "uint32",
    "long": "int64",
    "long int": "int64",
    "unsigned long": "uint64",
    "long long": "int64",
    "unsigned long long": "uint64",
    "int64_t": "int64",
    "uint64_t": "uint64",
    "size_t": "uint64",
    "ptrdiff_t": "int64",
    "half": "float16",
    "__half": "float16",
    "half2": "float16",
    "__half2": "float16",
    "float": "float32",
    "double": "float64",
}


@dataclass(frozen=True)
class Declared:
    """A parameter as the source declares it: `dtype` is its type, or its pointee's, and None where we cannot tell."""

    name: str
    text: str
    pointer: bool
    dtype: np.dtype | None

    @property
    def constant(self) -> bool:
        """Whether it points to what the kernel may not write."""
        pointee, *levels = self.text.split("*")
        return len(levels) == 1 and re.search(r"\bconst\b", pointee) is not None


@dataclass(frozen=True)
class Passed:
    """An array that a launch was given; `constant` when the kernel declares that it only reads it."""

    name: str
    allocation: Allocation
    constant: bool


def declared_parameters(source: str, kernel: str, count: int) -> tuple[Declared, ...] | None:
    """The kernel's list of `count` parameters as written; None when it is not to be found (a macro made it, say). Where
    it is written more than once, as under #ifdef, a type is known only if all agree.
    """
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.S)
    aliases, lists = _aliases(code), []
    for match in re.finditer(rf"__global__\b[^;{{}}]*?\b{re.escape(kernel)}\s*\(([^{{;]*?)\)\s*[{{;]", code, re.S):
        items = [item.strip() for item in match[1].split(",")]
        items = [item for item in items if item and item != "void"]
        if len(items) == count:
            lists.append(tuple(_declared(item, aliases) for item in items))
    return tuple(map(_agreed, zip(*lists, strict=True))) if lists else None


def _aliases(code: str) -> dict[str, str]:
    """Names that the source gives to types of scalars, each with one meaning only, and none that -D may give."""
    found: dict[str, set[str]] = {}
    for pattern in (
        r"\busing\s+(?P<name>\w+)\s*=\s*(?P<type>[\w ]+?)\s*;",
        r"\btypedef\s+(?P<type>[\w ]+?)\s+(?P<name>\w+)\s*;",
        r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)[ \t]+(?P<type>\w[\w ]*?)[ \t]*$",
    ):
        for match in re.finditer(pattern, code, re.M):
            found.setdefault(match["name"], set()).add(re.sub(r"\bconst\b", "", match["type"]).strip())
    asked = set(re.findall(r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)|\bdefined\s*\(?\s*(\w+)", code, re.M))
    asked = {name for names in asked for name in names}
    return {name: types.pop() for name, types in found.items() if len(types) == 1 and name not in asked}


def _agreed(written: tuple[Declared, ...]) -> Declared:
    last = written[-1]
    same = all((d.pointer, d.dtype) == (last.pointer, last.dtype) for d in written)
    return last if same else replace(last, pointer=all(d.pointer for d in written), dtype=None)


def _declared(text: str, aliases: dict[str, str]) -> Declared:
    text = " ".join(text.split())
    name = re.search(r"(\w+)\s*(?:\[\s*\w*\s*\])?$", text)
    pointer = "*" in text or "[" in text
    base = text[: name.start()] if name else text
    base = re.sub(r"\b(const|volatile|restrict|__restrict__|__restrict|__grid_constant__|std)\b|[*:]|\[.*", " ", base)
    base = " ".join(base.split())
    for _ in aliases:
        base = aliases.get(base, base)
    vector = re.fullmatch(r"(u?)(char|short|int|longlong|float|double)[234]", base) if pointer else None
    if vector:
        base = ("unsigned " if vector[1] else "") + vector[2].replace("longlong", "long long")
    kind = None if text.count("*") > 1 else _SCALARS.get(base)
    if kind == "float16" and base.endswith("2") and not pointer:
        kind = None
    return Declared(name[1] if name else text, text, pointer, np.dtype(kind) if kind else None)


@dataclass(frozen=True)
class Bound:
    """Arguments ready for a launch: raw bytes by PTX parameter name, what is wrong, whether the launch must be refused
    (a wrong scalar only arrives wrong, as it would through CuPy), and the arrays among them.
    """

    parameters: dict[str, np.ndarray]
    hazards: tuple[Hazard, ...]
    refused: bool
    arrays: tuple[Passed, ...] = ()


def bind(function: Function, source: str, args: tuple[object, ...]) -> Bound:
    """Bytes of each parameter. Raises TypeError, as CuPy does, for an object that no kernel takes."""
    expected = function.parameters
    declared = declared_parameters(source, function.name, len(expected))
    if not isinstance(args, tuple | list):
        kind = type(args).__name__
        raise TypeError(f"a kernel's arguments come as one tuple, not as {kind}: kernel(grid, block, (a, b))")
    if declared is None:
        declared = tuple(Declared(f"parameter {i}", p.type, False, None) for i, p in enumerate(expected))
    for value, d in zip(args, declared, strict=False):
        if isinstance(value, np.ndarray):
            raise TypeError(_why_no_numpy_array(value, d))
    raw = [_raw(value, d.name) for value, d in zip(args, declared, strict=False)]
    if len(args) != len(expected):
        wanted = ", ".join(d.text for d in declared)
        text = f"{function.name} takes {len(expected)} arguments ({wanted}), but {len(args)} were passed"
        return Bound({}, (Hazard("bad-argument", 0, text),), True)
    hazards, refused = [], False
    for value, parameter, d in zip(args, expected, declared, strict=True):
        problem = _array_problem(value, d) if isinstance(value, ndarray) else _scalar_problem(value, parameter, d)
        if problem:
            hazards.append(Hazard("bad-argument", 0, f"argument {d.name} ({d.text}) of {function.name}: {problem}"))
            refused = refused or isinstance(value, ndarray) or d.pointer
    parameters = {
        p.name: np.frombuffer(bytes_.ljust(p.bytes, b"\0")[: p.bytes], np.uint8)
        for p, bytes_ in zip(expected, raw, strict=True)
    }
    arrays = tuple(_passed(v, d, args, declared) for v, d in zip(args, declared, strict=True) if isinstance(v, ndarray))
    return Bound(parameters, tuple(hazards), refused, arrays)


def _passed(array: ndarray, d: Declared, args: tuple[object, ...], declared: tuple[Declared, ...]) -> Passed:
    """An array argument; its memory learns what it holds and which scalar argument is the length of its rows."""
    row = array.size // array.shape[0] if array.ndim > 1 and array.size else None
    lengths = (x.name for v, x in zip(args, declared, strict=True) if isinstance(v, int | np.integer) and v == row)
    allocation = array.allocation
    allocation.shape, allocation.dtype, allocation.row_argument = array.shape, array.dtype, next(lengths, "")
    return Passed(d.name, allocation, d.pointer and d.constant)


def _raw(value: object, name: str) -> bytes:
    """The bytes that CuPy would put at the parameter's address."""
    if isinstance(value, ndarray):
        value.named(name)
        return np.uint64(value.address).tobytes()
    if isinstance(value, bool | np.bool_):
        return np.bool_(value).tobytes()
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise OverflowError(f"argument {name}: {value} does not fit in 64 bits")
        return (value % (1 << 64)).to_bytes(8, "little")
    if isinstance(value, float):
        return np.float64(value).tobytes()
    if isinstance(value, complex):
        return np.complex128(value).tobytes()
    if isinstance(value, np.generic) and value.dtype.kind in "biufcV" and not value.dtype.hasobject:
        return value.tobytes()
    raise TypeError(f"argument {name}: Unsupported type {type(value)}; pass device arrays and NumPy scalars")


def _why_no_numpy_array(value: np.ndarray, d: Declared) -> str:
    unsupported = f"argument {d.name}: Unsupported type {np.ndarray}; "
    if not d.pointer and d.dtype is not None:
        return f"{unsupported}{d.text} takes a scalar, not an array of shape {value.shape}: pass np.{d.dtype}(...)"
    return f"{unsupported}a kernel reads the GPU's memory, not NumPy's: copy the array there with cp.asarray({d.name})"


def _array_problem(array: ndarray, d: Declared) -> str | None:
    what = f"{array.dtype} array, shape {array.shape}, strides {array.strides}"
    if not d.pointer and d.dtype is not None:
        return f"the kernel takes a scalar here, but a {what}, was passed"
    if d.dtype is not None and array.dtype != d.dtype:
        cure = f"pass {d.name}.astype(np.{d.dtype})"
        return f"the kernel reads {d.dtype} there, but a {what}, was passed; {cure}"
    if d.pointer and not array.c_contiguous:
        return (
            f"the kernel indexes rows of contiguous elements, but a {what}, was passed (a transposed or sliced view); "
            f"pass cp.ascontiguousarray({d.name})"
        )
    return None


def _scalar_problem(value: object, parameter: Parameter, d: Declared) -> str | None:
    if d.pointer:
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            return None
        return f"the kernel takes a pointer, but {value!r} was passed; pass a device array, such as cp.asarray(...)"
    dtype = d.dtype
    if dtype is None and parameter.type in ("f32", "f64"):
        dtype = np.dtype({"f32": "float32", "f64": "float64"}[parameter.type])
    if dtype is None:
        return _too_short(value, parameter)
    if dtype.kind == "f":
        if isinstance(value, float) and not isinstance(value, np.generic):
            return None if dtype == np.float64 else _reinterpreted(value, dtype)
        return None if isinstance(value, np.generic) and value.dtype == dtype else _reinterpreted(value, dtype)
    if isinstance(value, bool | np.bool_):
        if dtype.itemsize == 1:
            return None
        return f"{value!r} is one byte, but the parameter has {dtype.itemsize}; pass np.{dtype}({value})"
    if isinstance(value, int | np.integer):
        if isinstance(value, np.integer) and value.dtype.itemsize < dtype.itemsize:
            return (
                f"{value!r} has {value.dtype.itemsize} bytes, but the parameter has {dtype.itemsize}, and the rest "
                f"would be garbage; pass np.{dtype}({value})"
            )
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return None if low <= value <= high else f"{value} is outside {dtype}'s range of {low} to {high}"
    return _reinterpreted(value, dtype)


def _too_short(value: object, parameter: Parameter) -> str | None:
    """What is wrong with a value for a parameter of which only the size is known, such as a struct."""
    given = len(_raw(value, ""))
    if given >= parameter.bytes:
        return None
    return (
        f"{value!r} has {given} bytes, but the parameter has {parameter.bytes}, and the rest would be garbage; pass a "
        "NumPy scalar of that size, for a struct one of a structured dtype"
    )


def _reinterpreted(value: object, dtype: np.dtype) -> str:
    """What the kernel reads from the first bytes of a scalar of another type."""
    raw = _raw(value, "").ljust(dtype.itemsize, b"\0")[: dtype.itemsize]
    arrives = np.frombuffer(raw, dtype)[0]
    kind = type(value).__name__ if not isinstance(value, np.generic) else f"np.{value.dtype}"
    shown = value.real if isinstance(value, complex | np.complexfloating) else value
    shown = "..." if isinstance(value, np.void) else shown
    return (
        f"the {kind} {value} is sent as its own bytes and arrives as {arrives}, as it would through CuPy; "
        f"pass np.{dtype}({shown})"
    )
