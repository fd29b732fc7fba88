"""Pictures of counters: where on the way of a request each stands, and how hardware and emulator compare."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Patch

from gemmlab.figures.style import COLOURS, MARKERS, STYLE
from gemmlab.profiling.counters import COUNTERS, Counted
from gemmlab.profiling.nsight_compute import Counts
from gemmlab.profiling.predictions import verdicts

# Each unit on the way from a warp to DRAM: its prefix in the names of metrics, what is counted there, and whether the
# emulator counts it too.
WAY = (
    ("warp scheduler", "smsp__", (("shared loads and stores", True), ("why warps wait", False))),
    ("shared memory and L1", "l1tex__", (("requests", True), ("sectors, wavefronts", True), ("hit rate", False))),
    ("L2 cache", "lts__", (("sectors", False), ("hit rate", False))),
    ("DRAM", "dram__", (("bytes read, written", False),)),
)
COUNTED_HERE, HARDWARE_ONLY = COLOURS[0], COLOURS[1]


def way() -> Figure:
    """Return the way of a request from a warp to DRAM, with what is counted at each unit, and by whom."""
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(10.5, 2.9), layout="constrained")
        for place, (unit, prefix, counted) in enumerate(WAY):
            left = 2.9 * place
            axis.add_patch(FancyBboxPatch((left, 0), 2.2, 2.4, "round,pad=0.1", facecolor="white", edgecolor="black"))
            axis.text(left + 1.1, 2.2, unit, ha="center", va="center", weight="bold")
            axis.text(left + 1.1, 1.85, prefix, ha="center", va="center", family="monospace")
            for row, (what, here) in enumerate(counted):
                look = {"facecolor": COUNTED_HERE if here else HARDWARE_ONLY, "hatch": "" if here else "///"}
                axis.add_patch(plt.Rectangle((left + 0.05, 1.3 - 0.5 * row), 0.25, 0.25, edgecolor="black", **look))
                axis.text(left + 0.4, 1.42 - 0.5 * row, what, va="center", fontsize=9)
            if place:
                axis.annotate("", (left - 0.12, 1.2), (left - 0.58, 1.2), arrowprops={"arrowstyle": "<->"})
        axis.set(xlim=(-0.2, 11.1), ylim=(-0.2, 2.6))
        axis.axis("off")
        handles = [
            Patch(facecolor=COUNTED_HERE, edgecolor="black", label="the emulator counts it, and hardware does"),
            Patch(facecolor=HARDWARE_ONLY, edgecolor="black", hatch="///", label="hardware alone"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    return figure


def ratios(emulated: Mapping[str, Counts], counted: Counted) -> Figure:
    """Return, for every count of every rung, the hardware's over the emulator's: a filled marker on 1 confirms."""
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(9, 4.4), layout="constrained")
        rungs = list(emulated)
        names = [metric for metric in COUNTERS if any(metric in counts for counts in emulated.values())]
        axis.axhline(1.0, color="black", linewidth=1)
        for one in verdicts(emulated, counted):
            if one.metric not in names or one.confirmed is None:
                continue
            kind = names.index(one.metric)
            across = rungs.index(one.rung) + 0.09 * (kind - (len(names) - 1) / 2)
            look = {"color": COLOURS[kind], "marker": MARKERS[kind]}
            face = COLOURS[kind] if one.confirmed else "white"
            axis.plot(across, one.hardware / one.emulated, linestyle="", markerfacecolor=face, markersize=7, **look)
        axis.set_xticks(range(len(rungs)), rungs, rotation=15)
        axis.set_ylabel("hardware's count / emulator's count")
        low, high = axis.get_ylim()
        axis.set_ylim(min(low, 0.9), max(high, 1.1))
        axis.set_title(f"hardware: {counted.label}; emulator: now", fontsize=10)
        handles = [
            Line2D([], [], color=COLOURS[kind], marker=MARKERS[kind], linestyle="", label=COUNTERS[name])
            for kind, name in enumerate(names)
        ]
        handles.append(
            Line2D([], [], color="black", marker="o", markerfacecolor="white", linestyle="", label="hollow: refuted")
        )
        figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure
