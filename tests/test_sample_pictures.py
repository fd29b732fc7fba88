"""Pictures of samples in order."""

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_rgba

from gemmlab.figures import sample_pictures


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
