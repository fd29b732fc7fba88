"""What the fidelity check launches, every rung on several shapes and every kernel under tests/cases, and what a backend
makes of one: CuPy or the emulator.
"""

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import RUNGS, Rung, arguments
from gemmlab.tolerance import initial_output

FOLDER = Path(__file__).parent.parent / "tests" / "cases"
SHAPES = (
    Gemm(256, 256, 256),
    Gemm(129, 127, 65),
    Gemm(70, 301, 40),
    Gemm(33, 250, 17, alpha=-0.5, beta=2.0),
)
FAMILY, SEED = "uniform", 0
# On a GPU these would end the context, hang, or give what the schedule makes of them.
UNLAUNCHED = {
    "oob": "reads out of bounds",
    "misaligned": "a misaligned load ends a GPU's context",
    "race": "races, so its values depend on the schedule",
    "barrier-divergence": "its barriers are undefined behaviour",
}


@dataclass(frozen=True)
class Case:
    """A kernel and one launch of it, with its arguments as NumPy values; `out` is the place of the one it writes.

    `unlaunched` says why the kernel is compiled and not launched, or is empty.
    """

    name: str
    source: str
    entry: str
    options: tuple[str, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_mem: int
    arguments: tuple[Any, ...] = field(repr=False)
    out: int
    unlaunched: str = ""


@dataclass(frozen=True)
class Seen:
    """What a backend made of a case: 'ran', 'compiled' (and not launched) or 'refused', with the reason in `message`;
    registers and bytes of local memory of a thread, bytes of static shared memory of a block, and the output.
    """

    outcome: str
    message: str = ""
    registers: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None
    output: np.ndarray | None = field(default=None, repr=False)


def cases(arch: str) -> tuple[Case, ...]:
    """Return all that runs on an architecture such as 'sm_90': the rungs first, then the cases by number."""
    rungs = (of_rung(rung, problem) for rung in RUNGS if rung.runs_on(arch) for problem in SHAPES)
    return (*rungs, *(of_file(path) for path in sorted(FOLDER.glob("*.py"))))


def of_rung(rung: Rung, problem: Gemm) -> Case:
    """Return a rung's launch with its default tile on seeded inputs; outputs that nobody writes stay a sentinel."""
    A, B, C = inputs(problem, FAMILY, SEED)
    values = arguments(problem, A, B, initial_output(problem, C))
    name = f"rung{rung.number}_{rung.name}_{problem.M}x{problem.N}x{problem.K}"
    return Case(name, rung.source(), rung.entry, rung.options(), *rung.geometry(problem), values, len(values) - 1)


def of_file(path: Path) -> Case:
    """Return the launch that a file under tests/cases describes."""
    module = _load(path)
    return Case(
        name=path.stem,
        source=module.SOURCE,
        entry=module.NAME,
        options=module.OPTIONS,
        grid=module.GRID,
        block=module.BLOCK,
        shared_mem=module.SHARED_MEM,
        arguments=tuple(_value(argument) for argument in module.ARGS),
        out=next(i for i, argument in enumerate(module.ARGS) if argument.get("out")),
        unlaunched=_unlaunched(module.EXPECT),
    )


def observe(case: Case, xp: ModuleType) -> Seen:
    """Compile a case on a backend and, unless it says why not, launch it. Whatever is raised becomes 'refused'."""
    resources: tuple[int | None, ...] = (None, None, None)
    try:
        kernel = xp.RawKernel(case.source, case.entry, options=case.options)
        resources = int(kernel.num_regs), int(kernel.shared_size_bytes), int(kernel.local_size_bytes)
        if case.unlaunched:
            return Seen("compiled", case.unlaunched, *resources)
        values = on_device(case, xp)
        kernel(case.grid, case.block, values, shared_mem=case.shared_mem)
        return Seen("ran", "", *resources, xp.asnumpy(values[case.out]))
    except Exception as error:
        return Seen("refused", f"{type(error).__name__}: {_first_line(error)}", *resources)


def on_device(case: Case, xp: ModuleType) -> tuple[Any, ...]:
    """Return a launch's arguments, its arrays newly copied to a backend's device."""
    return tuple(xp.asarray(value) if isinstance(value, np.ndarray) else value for value in case.arguments)


def _unlaunched(expect: dict[str, Any]) -> str:
    if "reject_before_launch" in expect:
        return "the emulator refuses its argument, which a GPU takes"
    return "" if expect.get("observed") is not None else UNLAUNCHED.get(expect["kind"], "")


def _value(argument: dict[str, Any]) -> Any:
    dtype, value = np.dtype(argument["dtype"]), argument["value"]
    if "shape" not in argument:
        return dtype.type(value)
    made = {"ones": 1, "zeros": 0}[value] if value in ("ones", "zeros") else eval(value, {"np": np})
    return np.ascontiguousarray(np.broadcast_to(made, argument["shape"]).astype(dtype))


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")
