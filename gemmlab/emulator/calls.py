"""Calls of functions that were not inlined: put in place, each with registers and local memory of its own.

The result is one function that calls only what the emulator itself provides, such as printf. Lanes that return meet
where the call was made, as lanes of two branches do. An indirect call tries every function whose address is taken. A
function that calls itself has no end in place and is refused.

PTX ISA, "call", "Abstracting the ABI" and ".branchtargets".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from .ptx import (
    Address,
    Block,
    Function,
    Immediate,
    Instruction,
    Module,
    Operand,
    PtxError,
    Register,
    Symbol,
    UnsupportedInstruction,
    Variable,
    Vector,
)

MOST_BLOCKS = 20_000
"""Basic blocks that a kernel may have once its calls are in place."""

BUILT_IN = ("vprintf", "__assertfail")
"""Functions without a body that the emulator provides."""

FUNCTION_BASE = 1 << 20


def function_addresses(module: Module) -> dict[str, int]:
    """An address for each function of a module, far below all memory."""
    return {name: FUNCTION_BASE + 16 * i for i, name in enumerate(module.functions)}


def inline(module: Module, kernel: str) -> Function:
    """The kernel with every call in place.

    Raises PtxError where there is no such kernel, UnsupportedInstruction for a call that has no end or no body.
    """
    function = module.functions.get(kernel)
    if function is None or not function.entry:
        raise PtxError(f"the PTX has no kernel {kernel}")
    if not any(i.parts[0] == "call" for i in _instructions(function)):
        return function
    building = _Building(module, _taken(module))
    building.add(function, {}, None, (), 0)
    return replace(
        function,
        registers=building.registers,
        variables=tuple(building.variables.values()),
        blocks=tuple(Block(tuple(b)) for b in building.blocks),
        labels=building.labels,
        tables=building.tables,
    )


def _instructions(function: Function) -> Iterator[Instruction]:
    return (i for block in function.blocks for i in block.instructions)


def names_of(operand: Operand) -> list[str]:
    """Names of variables, functions and labels in an operand."""
    if isinstance(operand, Vector):
        return [name for item in operand.items for name in names_of(item)]
    base = operand.base if isinstance(operand, Address) else operand
    return [base.name] if isinstance(base, Symbol) else []


def _taken(module: Module) -> tuple[str, ...]:
    """Functions whose address is taken, by an instruction or in a variable."""
    names = {a.base.name for v in module.variables for a in v.initial if isinstance(a, Address)}
    for function in module.functions.values():
        for instruction in _instructions(function):
            if instruction.parts[0] != "call":
                names.update(n for o in instruction.operands for n in names_of(o))
    return tuple(name for name, f in module.functions.items() if name in names and not f.entry)


@dataclass(frozen=True)
class _Call:
    """A call as written: the names of what it returns and passes, and the function or the register that holds it."""

    returns: tuple[str, ...]
    callee: Operand
    arguments: tuple[str, ...]

    @classmethod
    def of(cls, instruction: Instruction) -> _Call:
        operands = list(instruction.operands)
        returns = operands.pop(0) if operands and isinstance(operands[0], Vector) else Vector(())
        callee = operands.pop(0) if operands else None
        arguments = operands.pop(0) if operands and isinstance(operands[0], Vector) else Vector(())
        names = [getattr(item, "name", None) for item in (*returns.items, *arguments.items)]
        if not isinstance(callee, Symbol | Register) or None in names:
            raise UnsupportedInstruction(instruction, "the emulator does not know this form of a call")
        return cls(tuple(names[: len(returns.items)]), callee, tuple(names[len(returns.items) :]))


@dataclass
class _Building:
    """The function as it grows."""

    module: Module
    taken: tuple[str, ...]
    registers: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    blocks: list[list[Instruction]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def add(
        self, function: Function, passed: dict[str, str], after: str | None, above: tuple[str, ...], line: int
    ) -> None:
        """Append a function's blocks. `passed` renames its parameters and what it returns, `after` is the label where
        its caller goes on (None for the kernel), `above` are the functions that call it, `line` the source line that
        does, which stands for those of its instructions that have none: a header's.
        """
        tag = f"@{next(self.numbers)}" if after else ""
        local = [v.name for v in function.variables if v.space == "local"]
        new = {name: name + tag for name in (*function.registers, *function.labels, *function.tables, *local)} | passed
        self.registers.update((new[name], type_) for name, type_ in function.registers.items())
        for variable in function.variables:
            name = new.get(variable.name, variable.name)
            self.variables[name] = replace(variable, name=name)
        for name, entries in function.tables.items():
            self.tables[new[name]] = tuple(new.get(entry, entry) for entry in entries)
        formals = {p.name for p in (*function.parameters, *function.returns)}
        upcoming, last = next(self.numbers), 0
        for index, block in enumerate(function.blocks):
            self.labels.update((new[name], len(self.blocks)) for name, i in function.labels.items() if i == index)
            self.blocks.append([])
            for instruction in block.instructions:
                kind = instruction.parts[0]
                instruction = instruction if instruction.line else replace(instruction, line=line)
                numbered = _numbered(instruction, last if kind == "ld" else upcoming, formals)
                moved = _renamed(numbered, new)
                if kind == "call":
                    self._call(moved, upcoming, (*above, function.name))
                    upcoming, last = next(self.numbers), upcoming
                elif kind == "ret" and after:
                    self.blocks[-1].append(replace(moved, parts=("bra",), operands=(Symbol(after),)))
                else:
                    self.blocks[-1].append(moved)

    def _call(self, instruction: Instruction, number: int, above: tuple[str, ...]) -> None:
        """Put what is called in place of the call."""
        if len(self.blocks) > MOST_BLOCKS:
            raise UnsupportedInstruction(instruction, f"with every call in place there are over {MOST_BLOCKS} blocks")
        call = _Call.of(instruction)
        callee = call.callee.name
        if callee in BUILT_IN and callee not in self.module.functions:
            self.blocks[-1].append(instruction)
            return
        after = f"after@{number}"
        self.blocks[-1].append(_past(instruction, after))
        if isinstance(call.callee, Symbol):
            self._body(instruction, call, callee, after, above)
        else:
            self._bodies(instruction, call, number, after, above)
        self.labels[after] = len(self.blocks)

    def _body(self, instruction: Instruction, call: _Call, callee: str, after: str, above: tuple[str, ...]) -> None:
        function = self.module.functions.get(callee)
        if function is None:
            raise UnsupportedInstruction(instruction, f"{callee}() has no body here, and the emulator provides none")
        if callee in above:
            raise UnsupportedInstruction(instruction, f"{callee}() calls itself, which is not emulated; use a loop")
        formals = [p.name for p in (*function.returns, *function.parameters)]
        actual = (*call.returns, *call.arguments)
        if len(formals) != len(actual):
            raise UnsupportedInstruction(instruction, f"{callee}() takes or returns another number of values")
        self.add(function, dict(zip(formals, actual, strict=True)), after, above, instruction.line)

    def _bodies(self, instruction: Instruction, call: _Call, number: int, after: str, above: tuple[str, ...]) -> None:
        """Every function that the pointer may hold, each behind a test of its address."""
        if instruction.guard:
            self.blocks.append([])
        addresses = function_addresses(self.module)
        counts = len(call.returns), len(call.arguments)
        for name in self.taken:
            function = self.module.functions[name]
            if (len(function.returns), len(function.parameters)) != counts or name in above:
                continue
            test, other = f"%is_{name}@{number}", f"not_{name}@{number}"
            self.registers[test] = "pred"
            compare = (Register(test), call.callee, Immediate(str(addresses[name])))
            self.blocks[-1] += [
                Instruction(("setp", "eq", "u64"), compare, None, instruction.line),
                Instruction(("bra",), (Symbol(other),), (test, True), instruction.line),
            ]
            self._body(instruction, call, name, after, above)
            self.labels[other] = len(self.blocks)
            self.blocks.append([])
        self.blocks[-1].append(Instruction(("trap",), (), None, instruction.line))


def _past(instruction: Instruction, after: str) -> Instruction:
    """What stands where a call stood: lanes that do not call go past it."""
    if instruction.guard is None:
        return Instruction(("nop",), (), None, instruction.line)
    register, negated = instruction.guard
    return Instruction(("bra",), (Symbol(after),), (register, not negated), instruction.line)


def _numbered(instruction: Instruction, number: int, formals: set[str]) -> Instruction:
    """The instruction with the names of what a call passes or returns made those of one call alone."""

    def name(item: Operand) -> Operand:
        if isinstance(item, Symbol) and item.name not in formals:
            return Symbol(f"{item.name}@call{number}")
        if isinstance(item, Address):
            return replace(item, base=name(item.base))
        return item

    if instruction.parts[0] == "call":
        operands = (Vector(tuple(map(name, o.items))) if isinstance(o, Vector) else o for o in instruction.operands)
        return replace(instruction, operands=tuple(operands))
    if instruction.parts[0] in ("ld", "st") and "param" in instruction.parts:
        return replace(instruction, operands=tuple(map(name, instruction.operands)))
    return instruction


def _renamed(instruction: Instruction, new: dict[str, str]) -> Instruction:
    """The instruction with registers, labels and variables under their new names."""

    def rename(item: Operand) -> Operand:
        if isinstance(item, Vector):
            return Vector(tuple(map(rename, item.items)))
        if isinstance(item, Address) and item.base is not None:
            return replace(item, base=rename(item.base))
        if isinstance(item, Register):
            return Register(new.get(item.name, item.name))
        if isinstance(item, Symbol):
            negated = "!" if item.name.startswith("!") else ""
            name = item.name[len(negated) :]
            return Symbol(negated + new.get(name, name))
        return item

    guard = instruction.guard and (new.get(instruction.guard[0], instruction.guard[0]), instruction.guard[1])
    return replace(instruction, operands=tuple(map(rename, instruction.operands)), guard=guard)
