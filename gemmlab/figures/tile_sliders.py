"""Sliders of a rung's tile: each move compiles, checks and counts again, or says which rule the setting breaks."""

from collections.abc import Mapping, Sequence

import ipywidgets

from gemmlab import backend, costs, launch, levels, roofline
from gemmlab.emulator.trace import Trace
from gemmlab.figures import controls
from gemmlab.gemm import Gemm
from gemmlab.ladder import Rung, Tile

CHECKED = (
    Gemm(33, 34, 35),
    Gemm(1, 40, 9),
    Gemm(40, 1, 9),
    Gemm(130, 129, 33),
    Gemm(17, 19, 23, alpha=-0.5, beta=2.0),
)
FAMILIES = ("distinct", "uniform")
TRACED = Gemm(128, 128, 128)


def sliders(
    rung: Rung, choices: Mapping[str, Sequence[int]], source: str | None = None, problem: Gemm = TRACED
) -> ipywidgets.Widget:
    """Return a slider for each tile parameter that `choices` names, over the tile's report, or why it is not run. They
    start at the rung's defaults, which must be among the choices; `source` may be an edited one.

    Raises what `report` raises for the defaults. What a later move raises is shown in place of the report.
    """
    parameters = {
        name: ipywidgets.SelectionSlider(
            options=values, value=rung.tile[name], description=name, continuous_update=False
        )
        for name, values in choices.items()
    }
    return controls.over(parameters, lambda **tile: (shown(rung, tile, source, problem), b""))


def shown(rung: Rung, tile: Tile, source: str | None = None, problem: Gemm = TRACED) -> str:
    """Return the report of a tile, or why it is not run."""
    refusal = refused(rung, tile, source)
    return f"not run: {refusal}" if refusal else report(rung, tile, source, problem)


def refused(rung: Rung, tile: Tile, source: str | None = None) -> str | None:
    """Return the rule that a tile breaks, with both numbers, or None for one that runs.

    The rules are the rung's own, the compiler's (too much static shared memory), and those of occupancy.
    """
    return costs.refused(rung, tile, backend.architecture(), source)


def report(rung: Rung, tile: Tile, source: str | None = None, problem: Gemm = TRACED) -> str:
    """Return what a tile costs: the checks it passed, registers, shared memory, occupancy, and its traffic, counted on
    `problem`, whose M, N and K must be multiples of the tile so that every multiply-add is one of the product.

    Raises what a check or a compilation raises, and ValueError for a tile that `refused` refuses.
    """
    kernel = launch.of(rung, tile, source)
    launch.require(launch.check(kernel, CHECKED, FAMILIES))
    cost = costs.cost(kernel, backend.architecture())
    traced = launch.trace(kernel, problem)
    grid, block, _ = kernel.geometry(problem)
    x, y, _ = block
    return "\n".join(
        (
            f"{', '.join(f'{name} = {value}' for name, value in rung.full_tile(tile).items())}: "
            f"blocks of {x} x {y} = {x * y} threads, {grid[0] * grid[1]} of them for C of {problem.M} x {problem.N}",
            f"correct: {', '.join(f'{p.M} x {p.N} x {p.K}' for p in CHECKED)}, within the error bound",
            f"{cost.registers} registers a thread, {cost.spilled_bytes} bytes spilled, "
            f"{cost.occupancy.shared_bytes:,} bytes of shared memory a block",
            cost.occupancy.sentence,
            traffic(traced, problem),
            *(f"{hazard.kind}: {hazard.message}" for hazard in traced.hazards),
        )
    )


def traffic(traced: Trace, problem: Gemm) -> str:
    """Return the traffic of a launch as text: a line for each kind of access, then FLOPs a byte and loads an FMA."""
    rows = [f"{'access':<12}{'bytes a lane':>12}{'requests':>12}{'sectors':>12}{'wavefronts':>12}{'fewest':>12}"]
    kinds = dict.fromkeys((access.op, access.bytes) for access in traced.accesses)
    for op, width in sorted(kinds):
        alike = [access for access in traced.accesses if (access.op, access.bytes) == (op, width)]
        requests, units, ideal = (sum(getattr(each, n) for each in alike) for n in ("requests", "units", "ideal"))
        counts = ("", f"{units:,}") if alike[0].sectors is None else (f"{units:,}", "")
        rows.append(f"{op:<12}{width:>12}{requests:>12,}{counts[0]:>12}{counts[1]:>12}{ideal:>12,}")
    requested = traced.total("global").useful_bytes
    loads = levels.shared_loads_per_fma(traced, problem)
    return "\n".join(
        (
            f"counted at {problem.M} x {problem.N} x {problem.K}, in PTX:",
            *rows,
            f"{roofline.intensity(problem.flops, requested):.3g} FLOP a byte requested, "
            f"{loads:.4g} shared loads an FMA",
        )
    )
