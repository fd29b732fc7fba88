"""A compiled program: every function's blocks as steps, and where its variables lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from . import (  # noqa: F401  (each registers its opcodes)
    arithmetic,
    asynchronous,
    atomics,
    bits,
    comparisons,
    conversions,
    fences,
    loadstore,
    matrix,
    moves,
    printf,
    simd,
    wmma,
)
from .barriers import Barrier, form
from .calls import function_addresses, inline, names_of
from .datatypes import filled
from .independent import steps_of
from .instructions import DTYPES, Code, Step, UnsupportedInstruction, guard, read, understood
from .layout import SharedLayout, shared_layout
from .liveness import early_reads, nan_constants
from .memory import POISON, Allocation, GlobalMemory
from .ptx import Address, Function, Instruction, Module, Symbol, Variable
from .warps import Exchange, exchange_of


@dataclass(frozen=True)
class Exit:
    """How a block is left. `kind` is 'next', 'jump', 'table', 'return', 'barrier' or 'warp'; `targets` are blocks'
    indices, `lanes` the guard's reader or None.
    """

    kind: str
    line: int
    targets: tuple[int, ...] = ()
    lanes: Callable | None = None
    selector: Callable | None = None
    barrier: Barrier | None = None
    exchange: Exchange | None = None

    @property
    def onward(self) -> tuple[int, ...]:
        """The blocks that lanes may go to from here."""
        if self.lanes is None and self.kind in ("jump", "return"):
            return self.targets[:1] if self.kind == "jump" else ()
        return self.targets


@dataclass(frozen=True)
class CompiledBlock:
    """A basic block as steps, and how it is left; `polls` when it looks at what another thread may change."""

    steps: tuple[Step, ...]
    exit: Exit
    polls: bool


@dataclass(frozen=True)
class CompiledFunction:
    """A function as blocks, with its registers and the bytes of local memory that a thread needs for it, and the byte
    that fills them at first. `absent_fill` is a line and the byte of what its shuffle brings from absent lanes.
    """

    function: Function
    code: Code
    blocks: tuple[CompiledBlock, ...]
    local_bytes: int
    local_fill: int = POISON
    absent_fill: tuple[int, int] | None = None

    @cached_property
    def returns(self) -> frozenset[int]:
        """Blocks that do nothing but return: whoever jumps there leaves at the line of the jump."""
        bare = (i for i, b in enumerate(self.blocks) if not b.steps and b.exit.kind == "return" and not b.exit.lanes)
        return frozenset(bare)

    @cached_property
    def early_reads(self) -> tuple[int, ...]:
        """Lines of instructions that may read a register before anything is written to it."""
        return early_reads(self.function, [block.exit.onward for block in self.blocks])

    @cached_property
    def nans(self) -> tuple[int, ...]:
        """Lines of instructions that have NaN for a constant."""
        return nan_constants(self.function)

    @cached_property
    def shuffles(self) -> bool:
        """Whether lanes ask others for their values."""
        return any(block.exit.exchange and block.exit.exchange.ask for block in self.blocks)

    def started_with(self, fill: int) -> CompiledFunction:
        """The function with a byte all over the registers and the local memory that it has not written."""
        initial = [filled(each.dtype, fill) for each in self.code.initial]
        return replace(self, code=replace(self.code, initial=initial), local_fill=fill)

    def answered_with(self, line: int, fill: int) -> CompiledFunction:
        """The function with a byte all over what the shuffle of a line brings from a lane that takes no part."""
        return replace(self, absent_fill=(line, fill))


@dataclass(frozen=True)
class Program:
    """A kernel ready to run, its shared arrays, its module's global variables, and room in global memory for those of
    its parameters whose address it takes, by name.
    """

    kernel: CompiledFunction
    shared: SharedLayout
    variables: tuple[Allocation, ...]
    parameters: dict[str, Allocation]

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory of a thread."""
        return self.kernel.local_bytes

    def pass_parameters(self, parameters: dict[str, np.ndarray]) -> None:
        """Put the bytes of a launch where addresses of parameters lead."""
        for name, allocation in self.parameters.items():
            allocation.buffer[:] = parameters[name]


def compile_kernel(module: Module, kernel: str, memory: GlobalMemory) -> Program:
    """Program of a kernel; the global and constant variables that it names are placed in `memory`.

    Raises:
        UnsupportedInstruction: an instruction of the kernel or of a function it calls is not emulated.
    """
    function = inline(module, kernel)
    names = _reached(module, function)
    symbols = {name: ("function", address) for name, address in function_addresses(module).items()}
    allocations = _place_globals(module, names, memory, symbols)
    parameters = _place_parameters(function, names, memory, symbols)
    shared = [v for v in (*module.variables, *function.variables) if v.space == "shared"]
    layout = shared_layout([v for v in shared if v.name in names or v in function.variables])
    symbols.update((name, ("shared", offset)) for name, offset in layout.offsets.items())
    with np.errstate(all="ignore"):
        compiled = _compile(function, symbols)
    return Program(compiled, layout, allocations, parameters)


def _reached(module: Module, function: Function) -> set[str]:
    """Every name that a function mentions, other than by loading a parameter, or that variables it mentions hold."""
    instructions = [i for b in function.blocks for i in b.instructions if i.parts[:2] != ("ld", "param")]
    names, ahead = set(), [name for i in instructions for o in i.operands for name in names_of(o)]
    initial = {v.name: [a.base.name for a in v.initial if isinstance(a, Address)] for v in module.variables}
    while ahead:
        name = ahead.pop()
        if name not in names:
            names.add(name)
            ahead.extend(initial.get(name, ()))
    return names


def _place_globals(
    module: Module, names: set[str], memory: GlobalMemory, symbols: dict[str, tuple[str, int]]
) -> tuple[Allocation, ...]:
    placed = []
    for variable in module.variables:
        if variable.space in ("global", "const") and variable.name in names:
            allocation = memory.allocate(max(variable.bytes, 1), variable.name)
            symbols[variable.name] = ("global", allocation.base)
            placed.append((variable, allocation))
    for variable, allocation in placed:
        initial = _initial_bytes(variable, symbols)
        allocation.buffer[: initial.size] = initial
        allocation.buffer[initial.size :] = 0  # C++: static storage starts at zero
    return tuple(allocation for _, allocation in placed)


def _initial_bytes(variable: Variable, symbols: dict[str, tuple[str, int]]) -> np.ndarray:
    """The bytes of the initialiser, which may be shorter than the variable."""
    size = variable.element_bytes
    values = [symbols[v.base.name][1] + v.offset if isinstance(v, Address) else v for v in variable.initial]
    raw = b"".join((v % (1 << 8 * size)).to_bytes(size, "little") for v in values)
    return np.frombuffer(raw, np.uint8)


def _place_parameters(
    function: Function, names: set[str], memory: GlobalMemory, symbols: dict[str, tuple[str, int]]
) -> dict[str, Allocation]:
    """Room in global memory for the parameters whose address the kernel takes."""
    placed = {p.name: memory.allocate(p.bytes, p.name) for p in function.parameters if p.name in names}
    symbols.update((name, ("global", allocation.base)) for name, allocation in placed.items())
    return placed


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
        leave = understood(partial(_exit, number, function), last, code)
        if leave is None:
            body, leave = block.instructions, Exit("next", last.line, (number + 1,))
        steps = tuple(steps_of([i for i in body if i.parts[0] != "nop"], code))
        blocks.append(CompiledBlock(steps, leave, any(_polls(i) for i in body)))
    return CompiledFunction(function, code, tuple(blocks), -(-local_bytes // 16) * 16)


def _polls(instruction: Instruction) -> bool:
    name, *parts = instruction.parts
    return name == "atom" or (name == "ld" and not {"volatile", "relaxed", "acquire"}.isdisjoint(parts))


def _exit(number: int, function: Function, last: Instruction, code: Code) -> Exit | None:
    """How the block is left by its last instruction; None when it simply runs on into the next block."""
    lanes = guard(last, code) if last.guard else None
    name, follow = last.parts[0], (number + 1,)
    if name == "bra":
        return Exit("jump", last.line, (_label(last, last.operands[0], function), *follow), lanes)
    if name == "brx":
        labels = function.tables[last.operands[1].name]
        targets = tuple(_label(last, Symbol(label), function) for label in labels)
        selector = read(last.operands[0], DTYPES["u32"], last, code)
        return Exit("table", last.line, targets, lanes, selector)
    if name in ("ret", "exit"):
        return Exit("return", last.line, follow, lanes)
    if last.warp_wide or (name == "bar" and "warp" in last.parts):
        return Exit("warp", last.line, follow, lanes, exchange=exchange_of(last, code))
    if name in ("bar", "barrier"):
        return Exit("barrier", last.line, follow, lanes, barrier=form(last, code))
    return None


def _label(instruction: Instruction, operand: object, function: Function) -> int:
    if not isinstance(operand, Symbol) or operand.name not in function.labels:
        raise UnsupportedInstruction(instruction, f"no block is called {operand}")
    return function.labels[operand.name]
