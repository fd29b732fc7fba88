"""Pictures of samples in order."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_rgba

from gemmlab.figures import sample_pictures
from gemmlab.sensors import Reading
from gemmlab.timing import WARM, Timing


def test_samples_stand_in_order_over_their_median_with_bars_at_the_outer_thirds():
    figure = sample_pictures.in_order({"a": [2.0, 2.0, 4.0, 4.0, 5.0, 5.0], "b": [1.0] * 9}, "NVIDIA H200, 2026-11-30")
    a, b = figure.axes
    samples, first, last = a.lines
    # The median is 4: two samples half of it, two a quarter more.
    assert list(samples.get_ydata()) == [-50, -50, 0, 0, 25, 25]
    assert list(first.get_xdata()) == [0, 1] and list(first.get_ydata()) == [-50, -50]
    assert list(last.get_xdata()) == [4, 5] and list(last.get_ydata()) == [25, 25]
    assert "median 4 ms" in a.get_title() and "median 1 ms" in b.get_title()
    assert "measured: NVIDIA H200, 2026-11-30" in figure.get_suptitle()
    assert a.get_ylabel() == "difference from the median (%)"
    assert max(a.get_ylim()) > 20 > 10 > max(b.get_ylim()) and "each on a scale of its own" in figure.get_suptitle()
    assert figure.get_facecolor() == to_rgba("white")
    plt.close(figure)


@pytest.mark.parametrize("count", [1, 2])
def test_too_few_samples_for_thirds_have_no_bars(count):
    figure = sample_pictures.in_order({"a": [1.0] * count}, "run")
    assert len(figure.axes[0].lines) == 1
    plt.close(figure)


def test_samples_stand_over_the_power_of_each_and_those_held_down_apart():
    free, held = Reading(1980, 3201, 60, 500.0, ()), Reading(1890, 3201, 60, 699.0, ("power cap",))
    rows = {
        "zeros": Timing((2.0, 2.0, 2.0), 4, 3, WARM, readings=(free, None, free)),
        "uniform": Timing((2.0, 2.0, 3.0), 4, 3, WARM, readings=(free, held, held)),
    }
    figure = sample_pictures.with_power(rows, "NVIDIA H200, 2026-11-30")
    zeros, uniform, of_zeros, of_uniform = figure.axes
    assert [list(line.get_ydata()) for line in zeros.lines] == [[0, 0, 0], []]
    # The median of 2, 2 and 3 is 2; the last two samples were held down, one of them half as long again.
    assert [list(line.get_ydata()) for line in uniform.lines] == [[0], [0, 50]]
    assert list(of_zeros.lines[0].get_xdata()) == [0, 2] and list(of_uniform.lines[0].get_ydata()) == [500, 699, 699]
    assert figure.get_suptitle() == "measured: NVIDIA H200, 2026-11-30; crosses: the GPU held its clock down"
    assert of_zeros.get_ylabel() == "power (W)"
    assert of_zeros.get_ylim()[0] == 0 and of_zeros.get_ylim()[1] > 699  # one scale for both
    plt.close(figure)


def test_samples_of_a_gpu_that_reports_nothing_have_no_power():
    figure = sample_pictures.with_power({"a": Timing((1.0, 2.0), 4, 3, WARM)}, "run")
    above, below = figure.axes
    assert len(above.lines[0].get_ydata()) == 2 and len(below.lines[0].get_ydata()) == 0
    plt.close(figure)
