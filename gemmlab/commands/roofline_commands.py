"""The commands on models: `roofline`, the reader of the tile model, and `levels`, the bounds of a rung by level."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gemmlab.commands.options import PLAIN_BAR, add_shape, refuse, require_writable, show, within

FORMS = (".png", ".svg", ".pdf")
RATES = (0.001, 1_000_000)  # as in roofline_explorer, which is slow to import
BANDWIDTH, PEAK = 1000.0, 60.0


def add(commands: Any) -> None:
    """Add the commands to a parser's subparsers."""
    reading = commands.add_parser("roofline", help="print what the tile model says of a shape, a tile and a card")
    add_shape(reading, 1024)
    reading.add_argument(
        "--tile", type=within(1, 65536, int), default=16, metavar="T", help="edge of a square tile; 1: no tile (16)"
    )
    reading.add_argument("--card", metavar="NAME", help="a card that gemmlab knows, such as H200; else give ceilings:")
    for name, unit, of, value in (("bandwidth", "GB/s", "memory", BANDWIDTH), ("peak", "TFLOP/s", "FP32", PEAK)):
        reading.add_argument(f"--{name}", type=within(*RATES), metavar=unit, help=f"of {of} ({value:g})")
    add_plot(reading)
    reading.set_defaults(command=_guarded("roofline", read))

    bounding = commands.add_parser("levels", help="print the least time of a rung's kernel at every level of a card")
    bounding.add_argument("rung", metavar="RUNG", help="its number or its name")
    add_shape(bounding, 4096)
    bounding.add_argument("--card", default="H200", metavar="NAME", help="a card that gemmlab knows (H200)")
    add_plot(bounding)
    bounding.set_defaults(command=_guarded("levels", levels))


def add_plot(parser: argparse.ArgumentParser) -> None:
    """Add --plot FILE."""
    parser.add_argument("--plot", type=Path, metavar="FILE", help=f"also draw the figure to FILE ({', '.join(FORMS)})")


def require_drawable(path: Path | None) -> None:
    """Raise ValueError where a figure cannot be written: an unknown form, a folder, or a place that is not yours."""
    if path is None:
        return
    if path.suffix.lower() not in FORMS:
        raise ValueError(f"--plot {path} must end in one of {', '.join(FORMS)}")
    require_writable("--plot", path)


def draw(figure: Any, path: Path) -> None:
    """Write a figure to a file, making its folder if need be, close it, and print where it lies.

    Raises ValueError where that fails.
    """
    import matplotlib.pyplot as plt

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
    except OSError as error:
        raise ValueError(f"--plot {path} cannot be written: {error.strerror}") from None
    finally:
        plt.close(figure)
    show(f"figure: {path}")


def read(options: argparse.Namespace) -> None:
    """Print a reading, and draw it if asked."""
    from gemmlab.figures import roofline_explorer, roofline_figures
    from gemmlab.gemm import Gemm
    from gemmlab.gpus import gpu
    from gemmlab.roofline import read

    given = [name for name in ("bandwidth", "peak") if getattr(options, name) is not None]
    if options.card is not None and given:
        raise ValueError(
            f"--card {options.card} has ceilings of its own: leave out --{' and --'.join(given)}, or --card"
        )
    try:
        card = roofline_explorer.OWN if options.card is None else gpu(options.card).name
    except ValueError as error:
        raise ValueError(f"{error} (or leave out --card, and give --bandwidth and --peak)") from None
    rates = [
        BANDWIDTH if options.bandwidth is None else options.bandwidth,
        PEAK if options.peak is None else options.peak,
    ]
    under = roofline_explorer.ceilings(card, *rates)
    reading = read(Gemm(*options.shape), options.tile, under.bandwidth, under.peak)
    show(roofline_explorer.report(reading, under))
    if options.plot:
        draw(roofline_figures.reading(under.name, reading), options.plot)


def levels(options: argparse.Namespace) -> None:
    """Print a rung's levels, and draw them if asked."""
    from tqdm import tqdm

    from gemmlab import hierarchy, hierarchy_table, launch, tuned
    from gemmlab.figures import hierarchy_figures
    from gemmlab.gemm import Gemm
    from gemmlab.gpus import gpu
    from gemmlab.ladder import rung

    chosen, card, problem = rung(options.rung), gpu(options.card), Gemm(*options.shape)
    kernel = launch.of(chosen, tuned.tile(chosen, card.name))
    with tqdm(total=1, desc="counting", delay=1, leave=False, bar_format=PLAIN_BAR) as bar:
        bounds = hierarchy.bounds(hierarchy.counts(kernel, problem, bar.update), problem, card)
    seen = hierarchy_table.recorded(kernel, bounds)
    show(hierarchy_table.kernel(bounds, seen))
    if options.plot:
        draw(hierarchy_figures.hierarchy(f"rung {chosen.number}, {chosen.name}", bounds, seen), options.plot)


def _guarded(name: str, command: Callable[[argparse.Namespace], None]) -> Callable[[argparse.Namespace], int]:
    """The command with 0 for its status, 2 and the reason where the request cannot be met, 130 for an interrupt."""

    def run(options: argparse.Namespace) -> int:
        from gemmlab import nvrtc

        try:
            require_drawable(options.plot)
            command(options)
        except (ValueError, nvrtc.CompilerUnavailable) as error:
            return refuse(name, error, 2)
        except KeyboardInterrupt:
            return refuse(name, "interrupted before anything was found", 130)
        return 0

    return run
