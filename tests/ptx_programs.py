"""Runs PTX text on the emulator, so that a test can say what one instruction does with one value."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

from gemmlab.emulator import Hazard, KernelFault
from gemmlab.emulator.code import compile_kernel
from gemmlab.emulator.machine import Machine
from gemmlab.emulator.memory import GlobalMemory
from gemmlab.emulator.parser import parse

MOST_BYTES = 232_448
read = lru_cache(maxsize=512)(parse)
HEADER = ".version 8.8\n.target sm_100\n.address_size 64\n"


def width(kind: str) -> int:
    """Bytes of a register that holds a type, such as 4 for 'f32' and 'pred' (which is stored as a word)."""
    return 4 if kind == "pred" else int(re.fullmatch(r"[busf](\d+)", kind)[1]) // 8


def unsigned(kind: str) -> np.dtype:
    return np.dtype(f"u{width(kind)}")


def program(body: str, result: str, sources: tuple[str, ...]) -> str:
    """A kernel in which each thread loads %a, %b, %c, %e (of the types in `sources`), runs `body` and stores %d."""
    names = ["%a", "%b", "%c", "%e"][: len(sources)]
    parameters = ", ".join(f".param .u64 p{i}" for i in range(len(sources) + 1))
    lines = [f".visible .entry k({parameters})", "{", ".reg .pred %p<4>;", ".reg .b16 %h<4>;", ".reg .b32 %t<4>;"]
    lines += [".reg .b64 %q<4>;"]
    lines += [
        f".reg .{'u32' if kind == 'pred' else kind} {name};"
        for name, kind in zip(["%d", *names], [result, *sources], strict=True)
    ]
    lines += [
        "mov.u32 %t0, %ctaid.x;",
        "mov.u32 %t1, %ntid.x;",
        "mov.u32 %t2, %tid.x;",
        "mad.lo.u32 %t3, %t0, %t1, %t2;",
    ]
    for i, (name, kind) in enumerate(zip(names, sources, strict=True), 1):
        lines += [f"ld.param.u64 %q0, [p{i}];", f"mul.wide.u32 %q1, %t3, {width(kind)};", "add.u64 %q0, %q0, %q1;"]
        lines += [f"ld.global.b{8 * width(kind)} {name}, [%q0];"]
    lines += [body, *(["selp.u32 %d, 1, 0, %p0;"] if result == "pred" else [])]
    lines += ["ld.param.u64 %q0, [p0];", f"mul.wide.u32 %q1, %t3, {width(result)};", "add.u64 %q0, %q0, %q1;"]
    lines += [f"st.global.b{8 * width(result)} [%q0], %d;", "ret;", "}"]
    return HEADER + "\n".join(lines)


def execute(
    text: str, arrays: list[np.ndarray], grid=(1, 1, 1), block=(32, 1, 1), shared: int = 0, seconds: float = 20.0
) -> list[np.ndarray]:
    """Run kernel `k` of a PTX text with the arrays as its parameters, and give the arrays as it leaves them."""

    def stop(hazard: object) -> None:
        raise KernelFault(hazard)

    memory = GlobalMemory()
    compiled = compile_kernel(read(text), "k", memory)
    if max(compiled.shared.static_bytes + shared, compiled.local_bytes) > MOST_BYTES:
        stop(Hazard("launch", 0, "too much shared or local memory"))
    placed = []
    for number, array in enumerate(arrays):
        allocation = memory.allocate(array.nbytes, f"array {number}")
        allocation.buffer[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        placed.append(allocation)
    names = [p.name for p in compiled.kernel.function.parameters]
    bases = [a.base for a in placed] + [0] * (len(names) - len(placed))
    parameters = {name: np.array([base], np.uint64).view(np.uint8) for name, base in zip(names, bases, strict=False)}
    Machine(compiled, memory, stop, (), seconds).run(grid, block, parameters, shared)
    return [a.buffer.view(array.dtype).reshape(array.shape).copy() for a, array in zip(placed, arrays, strict=True)]


def compute(instruction: str, result: str, *operands: tuple[str, object]) -> np.ndarray:
    """What an instruction such as 'add.u32' gives for arrays of operands, each (type, values), as bits of `result`."""
    kinds = tuple(kind for kind, _ in operands)
    values = [np.asarray(v) for _, v in operands]
    values = [v if v.dtype == unsigned(k) else v.view(unsigned(k)) for k, v in zip(kinds, values, strict=True)]
    target = "%p0" if result == "pred" else "%d"
    sources = ["%a", "%b", "%c", "%e"][: len(kinds)]
    body = instruction if ";" in instruction else f"{instruction} {', '.join([target, *sources])};"
    count = len(values[0])
    block = min(count, 128)
    blocks = -(-count // block)
    padded = [np.resize(v, blocks * block) for v in values]
    out = np.zeros(blocks * block, unsigned(result))
    text = program(body, result, kinds)
    return execute(text, [out, *padded], (blocks, 1, 1), (block, 1, 1))[0][:count]
