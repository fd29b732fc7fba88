"""A compiled program: every function's blocks as steps, and where its variables lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from . import arithmetic, bits, floats, loadstore, moves  # noqa: F401  (each registers its opcodes)
from .instructions import Code, Step, UnsupportedInstruction, build, guard, read
from .memory import Allocation, GlobalMemory
from .ptx import Function, Instruction, Module, Symbol, Variable

ALIGN_DYNAMIC = 16


@dataclass(frozen=True)
class Exit:
    """How a block is left. `kind` is 'next', 'jump', 'table', 'return', 'barrier' or 'call'; `target` a block's index
    (several for a table), `lanes` the guard's reader or None, `barrier` its number and thread count (None: all)."""

    kind: str
    line: int
    targets: tuple[int, ...] = ()
    lanes: Callable | None = None
    selector: Callable | None = None
    barrier: tuple[Callable, Callable | None] | None = None


@dataclass(frozen=True)
class CompiledBlock:
    steps: tuple[Step, ...]
    exit: Exit


@dataclass(frozen=True)
class CompiledFunction:
    function: Function
    code: Code
    blocks: tuple[CompiledBlock, ...]
    local_bytes: int


@dataclass(frozen=True)
class Program:
    """A module ready to run: `functions` by name, static shared bytes, and the module's global variables."""

    module: Module
    functions: dict[str, CompiledFunction]
    shared_bytes: int
    variables: tuple[Allocation, ...]


def compile_module(module: Module, memory: GlobalMemory) -> Program:
    """Program of a module; its global and constant variables are placed in `memory`.

    Raises:
        UnsupportedInstruction: an instruction of a kernel or function is not emulated.
    """
    symbols: dict[str, tuple[str, int]] = {}
    allocations = _place_globals(module, memory, symbols)
    shared_bytes = _place_shared(module, symbols)
    functions = {f.name: _compile(f, symbols) for f in module.functions.values()}
    return Program(module, functions, shared_bytes, allocations)


def _place_globals(
    module: Module, memory: GlobalMemory, symbols: dict[str, tuple[str, int]]
) -> tuple[Allocation, ...]:
    placed = []
    for variable in module.variables:
        if variable.space in ("global", "const"):
            allocation = memory.allocate(max(variable.bytes, 1), variable.name)
            symbols[variable.name] = ("global", allocation.base)
            placed.append((variable, allocation))
    for variable, allocation in placed:
        allocation.buffer[:] = _initial_bytes(variable, symbols)
    return tuple(allocation for _, allocation in placed)


def _initial_bytes(variable: Variable, symbols: dict[str, tuple[str, int]]) -> np.ndarray:
    """The initialiser's bytes, zero-extended to the variable's size (C++: static storage starts at zero)."""
    size = variable.element_bytes
    values = [symbols[v][1] if isinstance(v, str) else v for v in variable.initial]
    raw = b"".join((v % (1 << 8 * size)).to_bytes(size, "little") for v in values)
    return np.frombuffer(raw.ljust(max(variable.bytes, 1), b"\0"), np.uint8)


def _place_shared(module: Module, symbols: dict[str, tuple[str, int]]) -> int:
    """Offsets of the shared variables: static ones in order of declaration, the dynamic array after them."""
    every = [*module.variables, *(v for f in module.functions.values() for v in f.variables)]
    offset = 0
    for variable in every:
        if variable.space == "shared" and not variable.extern:
            offset = -(-offset // variable.align) * variable.align
            symbols[variable.name] = ("shared", offset)
            offset += variable.bytes
    dynamic = [v for v in every if v.space == "shared" and v.extern]
    start = -(-offset // ALIGN_DYNAMIC) * ALIGN_DYNAMIC if dynamic else offset
    for variable in dynamic:
        symbols[variable.name] = ("shared", start)
    return start


def _compile(function: Function, symbols: dict[str, tuple[str, int]]) -> CompiledFunction:
    own, local_bytes = dict(symbols), 0
    for variable in function.variables:
        if variable.space == "local":
            local_bytes = -(-local_bytes // variable.align) * variable.align
            own[variable.name] = ("local", local_bytes)
            local_bytes += variable.bytes
    code = Code(function, own)
    blocks = []
    for number, block in enumerate(function.blocks):
        *body, last = block.instructions
        leave = _exit(last, number, function, code)
        if leave is None:
            body, leave = block.instructions, Exit("next", last.line, (number + 1,))
        blocks.append(CompiledBlock(tuple(build(i, code) for i in body if i.parts[0] != "nop"), leave))
    return CompiledFunction(function, code, tuple(blocks), -(-local_bytes // 16) * 16)


def _exit(last: Instruction, number: int, function: Function, code: Code) -> Exit | None:
    """How the block is left by its last instruction; None when it simply runs on into the next block."""
    lanes = guard(last, code) if last.guard else None
    name, follow = last.parts[0], (number + 1,)
    if name == "bra":
        return Exit("jump", last.line, (_label(last, last.operands[0], function), *follow), lanes)
    if name == "brx":
        labels = function.tables[last.operands[1].name]
        targets = tuple(_label(last, Symbol(label), function) for label in labels)
        selector = read(last.operands[0], np.dtype(np.uint32), last, code)
        return Exit("table", last.line, targets, lanes, selector)
    if name in ("ret", "exit"):
        return Exit("return", last.line, follow, lanes)
    if name in ("bar", "barrier"):
        return _barrier(last, follow, lanes, code)
    return None


def _label(instruction: Instruction, operand: object, function: Function) -> int:
    if not isinstance(operand, Symbol) or operand.name not in function.labels:
        raise UnsupportedInstruction(instruction, f"no block is called {operand}")
    return function.labels[operand.name]


def _barrier(last: Instruction, follow: tuple[int, ...], lanes: Callable | None, code: Code) -> Exit:
    """PTX ISA, "Parallel Synchronization and Communication Instructions: bar, barrier"."""
    if "warp" in last.parts:
        # lanes of a warp run in lockstep here; the hazards observer is told where the warp was in step
        return Exit("warp-barrier", last.line, follow, lanes)
    if "sync" not in last.parts:
        raise UnsupportedInstruction(last, "only bar.sync is emulated")
    u32 = np.dtype(np.uint32)
    number, *count = (read(o, u32, last, code) for o in last.operands)
    return Exit("barrier", last.line, follow, lanes, barrier=(number, count[0] if count else None))
