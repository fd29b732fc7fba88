"""Controls of the roofline: the reader of the tile model, and the levels of a kernel, on a card or on ceilings of one's
own. Every number shown comes from `roofline.read` or from `hierarchy.of`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import ipywidgets

from gemmlab import hierarchy, hierarchy_table
from gemmlab.columns import significant
from gemmlab.figures import controls, hierarchy_figures, roofline_figures
from gemmlab.gemm import Gemm
from gemmlab.gpus import ARCHITECTURES, GPUS, KIB, gpu
from gemmlab.launch import Kernel
from gemmlab.measured import roofs
from gemmlab.roofline import Reading, read

OWN = "your own"
SIZES = tuple(2**power for power in range(15))
TILES = tuple(2**power for power in range(8))
RATES = (0.001, 1e6)  # least and most of one's own ceilings, in GB/s and in TFLOP/s


@dataclass(frozen=True)
class Ceilings:
    """A bandwidth in bytes/s and a peak in FLOP/s, the name of what has them, and whence they are known."""

    name: str
    bandwidth: float
    peak: float
    source: str


def ceilings(card: str, bandwidth: float, peak: float) -> Ceilings:
    """Return a card's ceilings of DRAM and FP32, measured where there are any, or with OWN those in GB/s and TFLOP/s.

    Raises ValueError for a card that gemmlab does not know, and for ceilings of one's own that are out of RATES.
    """
    if card == OWN:
        for name, value, unit in (("bandwidth", bandwidth, "GB/s"), ("peak", peak, "TFLOP/s")):
            if not RATES[0] <= value <= RATES[1]:
                raise ValueError(f"the {name} is {value:g} {unit}, but must be from {RATES[0]:g} to {RATES[1]:,.0f}")
        return Ceilings(OWN, bandwidth * 1e9, peak * 1e12, "as given")
    known = gpu(card)
    roof = roofs(known)
    source = f"{roof.kind}: {(known.measured or known).source}"
    return Ceilings(known.name, roof.bandwidths["DRAM"], roof.peak, source)


def report(reading: Reading, under: Ceilings) -> str:
    """Return a reading as text."""
    problem, bound, requested = reading.problem, reading.bound, reading.requested
    kernel = "the direct kernel, T = 1" if reading.tile == 1 else f"tiles of {reading.tile} x {reading.tile}"
    return "\n".join(
        (
            f"model, to be falsified: {problem.M} x {problem.N} x {problem.K}, {kernel}",
            f"ceilings       {under.name}: {reading.bandwidth / 1e9:,.10g} GB/s, {reading.peak / 1e12:,.10g} TFLOP/s; "
            f"{under.source}",
            f"FLOPs          {significant(problem.flops / 1e9, 4)} GFLOP",
            f"requested      Q = {significant(requested.bytes / 1e9)} GB: A {requested.A:,}, B {requested.B:,}, "
            f"C {requested.C:,} floats",
            f"intensity      AI = {reading.intensity:.3f} FLOP/B; the ridge is at {significant(reading.ridge, 5)}",
            f"shared memory  {reading.shared_bytes / KIB:,.3f} KiB a block{_past_all(reading.shared_bytes)}",
            f"memory bound   {_milliseconds(bound.memory)}",
            f"compute bound  {_milliseconds(bound.compute)}",
            f"so at least    {_milliseconds(bound.seconds)}, by {bound.limited_by}: "
            f"at most {significant(reading.speed / 1e12)} TFLOP/s",
            "left out: caches, which make the real traffic of DRAM lower; occupancy, issue, barriers, launches",
        )
    )


def _past_all(shared_bytes: int) -> str:
    most = max(limits.shared_bytes_per_block_optin for limits in ARCHITECTURES.values())
    return f": too much, as no known GPU gives one more than {most // KIB}" if shared_bytes > most else ""


def _milliseconds(seconds: float) -> str:
    """Tenths of a microsecond, or three digits of what is less than ten of them."""
    return f"{seconds * 1e3:,.4f} ms" if seconds >= 1e-6 else f"{significant(seconds * 1e3, decimals=12)} ms"


def shown(M: int, N: int, K: int, tile: int, card: str, bandwidth: float, peak: float) -> tuple[str, bytes]:
    """Return a reading as text and as a PNG. Raises ValueError as `ceilings` and `roofline.read` do."""
    under = ceilings(card, bandwidth, peak)
    reading = read(Gemm(M, N, K), tile, under.bandwidth, under.peak)
    ignored = "" if card == OWN else f"\nGB/s and TFLOP/s beside are not read: they count for {OWN!r} alone"
    return report(reading, under) + ignored, controls.png(roofline_figures.reading(under.name, reading))


def reader() -> ipywidgets.Widget:
    """Return the roofline reader. It starts at its worked example: N = 1024, T = 16, 1000 GB/s, 60 TFLOP/s."""
    return controls.over(
        {
            **{name: _slider(name, SIZES, 1024) for name in "MNK"},
            "tile": _slider("tile", TILES, 16),
            "card": ipywidgets.Dropdown(options=(OWN, *GPUS), description="card"),
            "bandwidth": _number("GB/s", 1000.0),
            "peak": _number("TFLOP/s", 60.0),
        },
        shown,
    )


def levels_shown(kernels: Mapping[str, Kernel], kernel: str, card: str, M: int, N: int, K: int) -> tuple[str, bytes]:
    """Return the levels of one of some kernels as text and as a PNG, beside its shipped time where there is one.

    Raises as `hierarchy.of` does.
    """
    chosen = kernels[kernel]
    bounds = hierarchy.of(chosen, Gemm(M, N, K), gpu(card))
    seen = hierarchy_table.recorded(chosen, bounds)
    return hierarchy_table.kernel(bounds, seen), controls.png(hierarchy_figures.hierarchy(kernel, bounds, seen))


def levels(kernels: Mapping[str, Kernel], card: str = "H200", size: int = 4096) -> ipywidgets.Widget:
    """Return controls over the levels of some kernels, by name, on a card, for any M, N and K."""
    return controls.over(
        {
            "kernel": ipywidgets.Dropdown(options=tuple(kernels), description="kernel"),
            "card": ipywidgets.Dropdown(options=tuple(GPUS), value=card, description="card"),
            **{name: _slider(name, SIZES, size) for name in "MNK"},
        },
        lambda **values: levels_shown(kernels, **values),
    )


def _slider(name: str, values: tuple[int, ...], value: int) -> ipywidgets.Widget:
    return ipywidgets.SelectionSlider(options=values, value=value, description=name, continuous_update=False)


def _number(name: str, value: float) -> ipywidgets.Widget:
    return ipywidgets.FloatText(value=value, description=name, continuous_update=False)
