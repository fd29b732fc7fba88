"""SIMD video instructions: two 16-bit or four 8-bit operations in one 32-bit register.

vadd, vsub, vavrg, vabsdiff, vmin, vmax and vset, each ending in 2 or 4, with .sat or with .add, which adds the lanes'
results to a third operand. Masks and selectors of lanes are refused.

PTX ISA, "SIMD Video Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .comparisons import comparison
from .datatypes import DTYPES
from .instructions import Code, Step, UnsupportedInstruction, elementwise, opcode
from .ptx import Instruction

_FUNCTIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vavrg": lambda a, b: a + b + (a + b >= 0) >> 1,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}
_U32 = DTYPES["u32"]


@opcode(*(f"{name}{lanes}" for name in (*_FUNCTIONS, "vset") for lanes in (2, 4)))
def simd(instruction: Instruction, code: Code) -> Step:
    """PTX ISA, "SIMD Video Instructions"."""
    name, lanes = instruction.parts[0][:-1], int(instruction.parts[0][-1])
    bits = 32 // lanes
    types = [p for p in instruction.parts[1:] if p in ("u32", "s32")]
    if len(instruction.operands) != 4:
        raise UnsupportedInstruction(instruction, f"expected 3 source operands, found {len(instruction.operands) - 1}")
    if name == "vset":
        compare = comparison(instruction, types[0])
        function, result = (lambda a, b: compare(a, b).astype(np.int64)), "u32"
    else:
        function, result = _FUNCTIONS[name], types[0]
    a_type, b_type = types[-2:]
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if result == "s32" else (0, (1 << bits) - 1)
    adds, saturates = "add" in instruction.parts, "sat" in instruction.parts

    def run(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        total = c.astype(np.int64) if adds else np.int64(0)
        for lane in range(lanes):
            value = function(_lane(a, lane, bits, a_type), _lane(b, lane, bits, b_type))
            if saturates:
                value = np.clip(value, least, most)
            total = total + value if adds else total | (value & (1 << bits) - 1) << lane * bits
        return (total & 0xFFFFFFFF).astype(_U32)

    return elementwise(run, instruction, code, _U32, _U32, _U32)


def _lane(value: np.ndarray, lane: int, bits: int, type_: str) -> np.ndarray:
    """One lane of a register as int64."""
    raw = value.astype(np.int64) >> lane * bits & (1 << bits) - 1
    return raw - (raw >> bits - 1 << bits) if type_ == "s32" else raw
