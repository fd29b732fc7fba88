"""The figure of a climb: its rungs under the roofs of the card, measured on a GPU, else a model's bounds."""

from matplotlib.figure import Figure

from gemmlab import hierarchy, launch, roofline
from gemmlab.figures.roofline_figures import Measured, Modelled
from gemmlab.figures.roofline_figures import roofline as under_roofs
from gemmlab.gpus import gpu
from gemmlab.measured import REFERENCE
from gemmlab.results import Row, Run


def rungs(run: Run) -> Figure:
    """Return the roofline of a run, its intensities as the emulator counts the bytes that the kernels request.

    Where no GPU ran, the points are the most that `hierarchy` allows each kernel on measured.REFERENCE. Raises
    ValueError for a card whose ceilings gemmlab does not know, and as `hierarchy.counts` does.
    """
    name = run.environment["card"]
    on = gpu(name) if name else REFERENCE
    label = f"{name}, {run.environment['date']}"
    points = []
    for row in run.rows:
        kernel = launch.of(row.rung, row.tile)
        counted = hierarchy.counts(kernel, row.problem)
        x = roofline.intensity(row.problem.flops, counted.requested)
        if row.timing:
            points.append(Measured(_name(row), x, row.gflops * 1e9, label))
        elif not name:
            points.append(Modelled(_name(row), x, hierarchy.bounds(counted, row.problem, on).speed))
    return under_roofs(on, points)


def _name(row: Row) -> str:
    return f"{row.rung.number} {row.rung.name}"
