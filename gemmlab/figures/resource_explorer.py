"""The resource explorer: sliders of a tile over what the compiler gives it and what a multiprocessor holds of it.

Nothing runs: a move compiles one kernel for the architecture and no more. At their own tiles rungs 2 to 4 compile in
0.05 to 0.2 s, rungs 5 and 6, which hold their code twice, in 0.7 s, and larger micro-tiles take longer (two idle cores,
NVRTC 13.5). So the settings one slider away compile while the page is read, the nearest first: a move to one that
is done shows in 0.1 s, and a move before that waits for its compilation. benchmarks/explorer.py has the times.
"""

import functools
from collections.abc import Sequence
from types import MappingProxyType

import ipywidgets
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from gemmlab import backend, resources
from gemmlab.compilations import Compilations, nearby, setting, steps
from gemmlab.costs import Cost
from gemmlab.figures import controls
from gemmlab.figures.style import COLOURS, STYLE
from gemmlab.gpus import ARCHITECTURES, architecture
from gemmlab.ladder import RUNGS, Rung, Tile, rung, written
from gemmlab.nvrtc import CompileError

EXPLORED = tuple(each for each in RUNGS if each.number >= 2)  # the rungs whose tiles take registers or shared memory
CHOICES = MappingProxyType(
    {
        "TILE": (8, 16, 32, 64),
        "BM": (32, 64, 128, 256),
        "BN": (32, 64, 128, 256),
        "BK": (4, 8, 16, 32),
        "WM": (16, 32, 64, 128),
        "WN": (16, 32, 64, 128),
        "TM": (2, 4, 8, 16),
        "TN": (2, 4, 8, 16),
        "PAD": (4, 8),
    }
)
MICRO_TILES = ((2, 2), (4, 4), (6, 6), (8, 8), (10, 10), (8, 16), (12, 12), (14, 14), (16, 14), (16, 16))
FITS, FULL = COLOURS[0], COLOURS[6]

compilations = Compilations()  # one for all explorers of a notebook, so that none compiles what another has


def explorer(start: int = 6) -> ipywidgets.Widget:
    """Return a choice of rung over its sliders; a rung keeps its settings while another is looked at."""
    choice = ipywidgets.Dropdown(
        options=[(f"{each.number}, {each.name}", each.number) for each in EXPLORED], value=start, description="rung"
    )
    of_rung = functools.cache(lambda number: sliders(rung(number)))
    shown = ipywidgets.VBox([choice, of_rung(start)])

    def pick(_: object) -> None:
        shown.children = (choice, of_rung(choice.value))

    choice.observe(pick, "value")
    return shown


def sliders(of_rung: Rung) -> ipywidgets.Widget:
    """Return a slider for each tile parameter of a rung and a choice of architecture, over `view` of them.

    They start at the rung's defaults and at the architecture that kernels are compiled for here.
    """
    parameters: dict[str, ipywidgets.Widget] = {
        name: ipywidgets.SelectionSlider(
            options=values, value=of_rung.tile[name], description=name, continuous_update=False
        )
        for name, values in choices(of_rung).items()
    }
    here = backend.architecture()
    parameters["arch"] = ipywidgets.Dropdown(
        options=tuple(ARCHITECTURES), value=here if here in ARCHITECTURES else "sm_90", description="compiled for"
    )

    def shown(arch: str, **tile: int) -> tuple[str, bytes]:
        seen = view(of_rung, tile, arch)
        next_ones = nearby(of_rung, tile, choices(of_rung))
        compilations.ahead(setting(of_rung, {**tile, name: value}, arch) for name, value in next_ones)
        return seen

    return controls.over(parameters, shown)


def choices(of_rung: Rung) -> dict[str, tuple[int, ...]]:
    """Return the values that a rung's sliders offer, by parameter."""
    return {name: values for name, values in CHOICES.items() if name in of_rung.tile}


def view(of_rung: Rung, tile: Tile, arch: str) -> tuple[str, bytes]:
    """Return what a tile takes on an architecture, and which steps from it are illegal, as text; and a PNG of it.

    A tile that is itself refused, by a rule of the rung, the compiler or the occupancy, has its rule and no picture.
    """
    try:
        cost = compilations.cost(setting(of_rung, tile, arch))
    except (ValueError, CompileError) as refusal:
        return f"illegal: {refusal}\n\n{_step_lines(of_rung, tile)}", b""
    if not cost.occupancy.blocks:
        return f"illegal: {cost.occupancy.sentence}\n\n{_step_lines(of_rung, tile)}", b""
    return f"{report(of_rung, tile, cost)}\n\n{_step_lines(of_rung, tile)}", controls.png(residency(cost))


def report(of_rung: Rung, tile: Tile, cost: Cost) -> str:
    """Return a legal tile's cost as text: registers, spills, shared memory, occupancy, and what limits it."""
    held = cost.occupancy
    alone = ", ".join(f"{resource} {blocks}" for resource, blocks in held.blocks_allowed.items())
    return "\n".join(
        (
            f"rung {of_rung.number}, {of_rung.name}, {written(of_rung.full_tile(tile))}",
            f"{cost.registers} registers a thread of at most "
            f"{architecture(held.architecture).max_registers_per_thread}, {cost.spilled_bytes:,} bytes spilled, "
            f"{held.shared_bytes:,} bytes of shared memory a block",
            held.sentence,
            f"blocks that each resource alone would allow: {alone}",
        )
    )


def residency(cost: Cost) -> Figure:
    """Return a picture of one multiprocessor: of each resource the share that every resident block takes, and the rest.

    The resources that keep another block out are drawn in a colour of their own, and marked 'full'.
    """
    held = cost.occupancy
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(10, 2.6))
        figure.subplots_adjust(0.125, 0.22, 0.99, 0.88)
        for row, (resource, (of_block, whole)) in enumerate(resources.taken(held).items()):
            full = resource in held.limited_by
            share = 100 * of_block / whole
            axis.barh(row, 100, color="white", edgecolor="0.6")
            for block in range(held.blocks):
                axis.barh(row, share, left=block * share, color=FULL if full else FITS, edgecolor="white")
            more = f"full: no room for block {held.blocks + 1}" if full else ""
            axis.text(101, row, f"{held.blocks} x {of_block:,} of {whole:,}  {more}", va="center")
        axis.set(
            yticks=range(len(held.blocks_allowed)),
            yticklabels=held.blocks_allowed,
            xlim=(0, 175),
            xticks=range(0, 101, 25),
            title=f"one multiprocessor of {held.architecture}: {held.blocks} resident blocks, "
            f"{held.warps} warps, {held.fraction:.0%} occupancy",
        )
        axis.set_xlabel("share of a multiprocessor (%)", x=50 / 175)
        axis.invert_yaxis()
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def spill_cliff(arch: str, micro_tiles: Sequence[tuple[int, int]] = MICRO_TILES) -> dict[tuple[int, int], Cost]:
    """Return what rung 4 costs at micro-tiles TM x TN of blocks of 16 x 16 threads, BK = 8, in the order given.

    Takes seconds the first time. Raises what a compilation raises.
    """
    rung4 = rung(4)
    return {
        (TM, TN): compilations.cost(setting(rung4, {"BM": 16 * TM, "BN": 16 * TN, "BK": 8, "TM": TM, "TN": TN}, arch))
        for TM, TN in micro_tiles
    }


def cliff(found: dict[tuple[int, int], Cost], arch: str) -> Figure:
    """Return registers, above, and spilled bytes, below, against the TM x TN sums that a thread keeps."""
    most = architecture(arch).max_registers_per_thread
    sums = [TM * TN for TM, TN in found]
    needed = [TM * TN + TM + TN for TM, TN in found]
    with plt.rc_context(STYLE):
        figure, (above, below) = plt.subplots(
            2, 1, figsize=(10, 5.6), sharex=True, layout="constrained", height_ratios=(2, 1)
        )
        above.plot(sums, [cost.registers for cost in found.values()], "o-", color=COLOURS[0], label="registers given")
        above.plot(sums, needed, "s:", color=COLOURS[3], label="TM x TN sums + TM values of A + TN of B")
        above.axhline(most, color=COLOURS[2], linestyle="--")
        above.text(0, most + 4, f"the most that a thread may have: {most}", color=COLOURS[2], va="bottom")
        below.plot(sums, [cost.spilled_bytes for cost in found.values()], "^-", color=COLOURS[6])
        for (TM, TN), cost in found.items():
            # Clear of the limit's line: below a marker that is on it, above the line for one that is not.
            near_limit = (0, -16) if cost.registers == most else (0, 13)
            place, side = (near_limit, "center") if cost.registers > most - 20 else ((-6, 5), "right")
            above.annotate(
                f"{TM} x {TN}", (TM * TN, cost.registers), place, textcoords="offset points", ha=side, fontsize=9
            )
        above.set(
            ylabel="registers a thread", xlim=(-16, 272), ylim=(0, 310), title=f"rung 4 on {arch}, from the compiler"
        )
        above.legend(loc="lower right", frameon=False)
        below.set(xlabel="TM x TN, the sums that a thread keeps", ylabel="spilled (bytes\na thread)")
        for axis in (above, below):
            axis.grid(color="0.92")
    return figure


def _step_lines(of_rung: Rung, tile: Tile) -> str:
    found = steps(of_rung, tile, choices(of_rung))
    legal = ", ".join(f"{name} = {value}" for (name, value), rule in found.items() if rule is None)
    illegal = [f"  {name} = {value}: {rule}" for (name, value), rule in found.items() if rule is not None]
    return "\n".join((f"legal one step away: {legal or 'none'}", "illegal one step away:", *(illegal or ["  none"])))
