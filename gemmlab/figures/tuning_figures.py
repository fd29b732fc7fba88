"""Figures of a sweep: speed against each parameter, the best tile as N grows, and how soon searches find it."""

from collections.abc import Mapping, Sequence

import ipywidgets
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from gemmlab import sweep_replay
from gemmlab.figures import controls
from gemmlab.figures.style import COLOURS, MARKERS, STYLE
from gemmlab.gemm import Gemm
from gemmlab.ladder import written
from gemmlab.sweep_replay import tflops
from gemmlab.tuning_cache import Measurement


def by_parameter(found: Sequence[Measurement], problem: Gemm, run: str) -> Figure:
    """Return a panel for each parameter that varies: every setting's speed over its value, the best at each value, and
    in each panel the one setting that is the fastest of all, ringed.

    `run` names what was timed, the card and the date.
    """
    timed = [each for each in found if each.milliseconds is not None]
    fastest, varying = min(timed, key=lambda each: each.milliseconds), _varying(timed)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            1, len(varying), figsize=(1.2 + 1.35 * len(varying), 3.8), sharey=True, squeeze=False, layout="constrained"
        )
        for axis, (name, values) in zip(axes[0], varying.items(), strict=True):
            speeds = {value: [tflops(each, problem) for each in timed if each.tile[name] == value] for value in values}
            for position, of_value in enumerate(speeds.values()):
                axis.plot([position] * len(of_value), of_value, "o", color=COLOURS[0], alpha=0.5, markeredgewidth=0)
            axis.plot(range(len(values)), [max(of_value) for of_value in speeds.values()], "k_-", markersize=16)
            place = values.index(fastest.tile[name])
            axis.plot(place, tflops(fastest, problem), "o", color=COLOURS[2], markersize=12, fillstyle="none")
            axis.set(xticks=range(len(values)), xticklabels=values, xlabel=name, xlim=(-0.6, len(values) - 0.4))
            axis.grid(axis="y", color="0.92")
        axes[0, 0].set_ylabel("measured speed (TFLOP/s)")
        figure.suptitle(
            f"measured: {run}, {problem.M} x {problem.N} x {problem.K}\n"
            "a dot a setting, a bar the best at that value, a ring the best of all",
            fontsize=11,
        )
    return figure


def by_size(speeds: Mapping[str, Mapping[int, float]], run: str, own: str | None = None) -> Figure:
    """Return measured speed over N, a line a tile, as `sweep_replay.by_size` gives it; the best at each N is ringed.

    Tiles that are the best at some N have colours, and the tile `own`, a rung's own, is black; the others are grey.
    """
    sizes = sorted({size for of_tile in speeds.values() for size in of_tile})
    best = sweep_replay.best_by_size(speeds)
    winners = dict(zip(dict.fromkeys(best.values()), zip(COLOURS, MARKERS, strict=False), strict=False))
    others = [tile for tile in speeds if tile not in winners and tile != own]
    rest = f"{len(others)} other{'s' if len(others) > 1 else ''}"
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(10, 4.6), layout="constrained")

        def draw(tile: str, marker: str, **look: object) -> None:
            places = [sizes.index(size) for size in speeds[tile]]
            axis.plot(places, speeds[tile].values(), marker=marker, **look)

        for number, tile in enumerate(others):
            draw(tile, ".", color="0.65", linewidth=1, label=None if number else rest)
        if own in speeds and own not in winners:
            draw(own, "x", color="black", linestyle="--", markersize=8, label=f"{own}: the rung's own")
        for tile, (colour, marker) in winners.items():
            name = f"{tile}: the rung's own" if tile == own else tile
            draw(tile, marker, color=colour, markersize=8, label=name)
        for size, tile in best.items():
            axis.plot(sizes.index(size), speeds[tile][size], "o", color="black", markersize=17, fillstyle="none")
        axis.set(xticks=range(len(sizes)), xticklabels=sizes, xlabel="N, of N x N matrices")
        axis.set(ylabel="measured speed (TFLOP/s)", title=f"measured: {run}; the fastest tile at each N is ringed")
        axis.set_ylim(0, 1.06 * max(speeds[tile][size] for size, tile in best.items()))  # room for a ring
        axis.grid(axis="y", color="0.92")
        axis.legend(loc="lower right", frameon=False, reverse=True)
    return figure


def searches(visited: Mapping[str, Sequence[Measurement]], problem: Gemm, run: str) -> Figure:
    """Return the best speed so far over the number of different settings timed, a line a search, in its own order."""
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(10, 4.2), layout="constrained")
        for (name, found), colour, marker in zip(visited.items(), COLOURS, MARKERS, strict=False):
            best, seen = [], set()
            for each in found:
                if tuple(each.tile.values()) not in seen and each.milliseconds is not None:
                    seen.add(tuple(each.tile.values()))
                    best.append(max([tflops(each, problem), *best[-1:]]))
            axis.step(range(1, len(best) + 1), best, where="post", color=colour, marker=marker, label=name)
        axis.set(xlabel="settings timed", ylabel="best measured speed so far (TFLOP/s)", title=f"replayed: {run}")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(color="0.92")
        axis.legend(loc="lower right", frameon=False)
    return figure


def subset(found: Sequence[Measurement], problem: Gemm, values: Mapping[str, Sequence[int]]) -> str:
    """Return the settings of a sweep whose parameters have one of the `values`, as text, the fastest first.

    What was remarked of a time, such as throttling, stands behind it.
    """
    chosen = [
        each
        for each in found
        if each.milliseconds is not None and all(each.tile[name] in allowed for name, allowed in values.items())
    ]
    if not chosen:
        return "no setting that was timed has these values"
    rows = sorted(chosen, key=lambda each: each.milliseconds)
    return "\n".join(
        (
            f"{len(rows)} of {len(found)} settings; the fastest first",
            *(
                "; ".join(
                    (
                        f"{tflops(each, problem):6.2f} TFLOP/s  {each.registers or '-':>4} registers  "
                        f"{written(each.tile)}",
                        *each.remarks,
                    )
                )
                for each in rows
            ),
        )
    )


def subset_player(found: Sequence[Measurement], problem: Gemm) -> ipywidgets.Widget:
    """Return a choice of values for each parameter that varies, over the `subset` that they leave."""
    chosen = {
        name: ipywidgets.SelectMultiple(options=values, value=values, description=name, rows=len(values))
        for name, values in _varying(found).items()
    }
    return controls.over(chosen, lambda **values: (subset(found, problem, values), b""))


def _varying(found: Sequence[Measurement]) -> dict[str, list[int]]:
    values = {name: sorted({each.tile[name] for each in found}) for name in found[0].tile}
    return {name: of_name for name, of_name in values.items() if len(of_name) > 1}
