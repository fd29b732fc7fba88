from dataclasses import replace

import matplotlib.pyplot as plt
import pytest

from gemmlab.figures import tuning_figures
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung
from gemmlab.sensors import Reading
from gemmlab.tuning_cache import Measurement

RUNG4 = rung(4)
CUBE = Gemm(1000, 1000, 1000)  # 2 GFLOP: a millisecond is 2 TFLOP/s
RUN = "NVIDIA H200, 2026-11-30"


def at(milliseconds, **tile):
    return Measurement(RUNG4.full_tile(tile), milliseconds, registers=96)


FOUND = [at(1.0), at(0.5, BK=16), at(2.0, BM=64), at(None, BM=64, BK=16)]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_speed_is_drawn_against_each_parameter_that_varies_with_every_setting_and_the_best_ringed():
    figure = tuning_figures.by_parameter(FOUND, CUBE, RUN)
    assert [axis.get_xlabel() for axis in figure.axes] == ["BM", "BK"]
    by_bm, by_bk = figure.axes
    assert [tick.get_text() for tick in by_bm.get_xticklabels()] == ["64", "128"]
    assert [list(line.get_ydata()) for line in by_bm.lines[:-1]] == [[1.0], [2.0, 4.0], [1.0, 4.0]]
    assert [list(line.get_ydata()) for line in by_bk.lines[:-1]] == [[2.0, 1.0], [4.0], [2.0, 4.0]]
    # The fastest: 2 GFLOP in 0.5 ms, with BM = 128 and BK = 16, the second value of both.
    assert [list(axis.lines[-1].get_xydata()[0]) for axis in figure.axes] == [[1.0, 4.0], [1.0, 4.0]]
    assert RUN in figure.get_suptitle() and by_bm.get_ylabel() == "measured speed (TFLOP/s)"


def test_the_fastest_tile_at_each_size_is_ringed():
    figure = tuning_figures.by_size({"one": {1024: 10.0, 4096: 50.0}, "two": {1024: 20.0, 4096: 25.0}}, RUN)
    (axis,) = figure.axes
    rings = [(list(line.get_xdata()), list(line.get_ydata())) for line in axis.lines if line.get_fillstyle() == "none"]
    assert rings == [([0], [20.0]), ([1], [50.0])]
    assert axis.get_ylim()[1] > 50.0


def test_of_many_tiles_every_line_is_drawn_and_only_the_best_and_the_rungs_own_are_named():
    speeds = {f"tile {number}": {1024: 10.0 + number, 4096: 20.0 + number} for number in range(12)}
    (axis,) = tuning_figures.by_size(speeds, RUN, own="tile 3").axes
    drawn = [list(line.get_ydata()) for line in axis.lines if line.get_fillstyle() != "none"]
    assert sorted(drawn) == [[10.0 + number, 20.0 + number] for number in range(12)]
    named = [text.get_text() for text in axis.get_legend().get_texts()]
    assert named == ["tile 11", "tile 3: the rung's own", "10 others"]


def test_a_rungs_own_tile_that_is_the_best_is_named_once():
    (axis,) = tuning_figures.by_size({"one": {1024: 10.0}, "two": {1024: 20.0}}, RUN, own="two").axes
    named = [text.get_text() for text in axis.get_legend().get_texts()]
    assert named == ["two: the rung's own", "1 other"]


def test_a_search_is_drawn_as_the_best_so_far_over_different_settings():
    slow, fast, middle, failed = at(2.0, BM=64), at(0.5, BK=16), at(1.0), FOUND[3]
    figure = tuning_figures.searches({"random": [slow, slow, middle, failed, fast, middle]}, CUBE, RUN)
    (line,) = figure.axes[0].lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 2, 3], [1.0, 2.0, 4.0])


def test_a_subset_lists_the_settings_with_its_values_the_fastest_first():
    text = tuning_figures.subset(FOUND, CUBE, {"BM": (64, 128), "BK": (8,)})
    first, *rows = text.splitlines()
    assert first == "2 of 4 settings; the fastest first"
    assert [row.split()[0] for row in rows] == ["2.00", "1.00"] and "BM = 64" in rows[1]
    assert tuning_figures.subset(FOUND, CUBE, {"BM": ()}) == "no setting that was timed has these values"


def test_a_time_that_was_throttled_says_so_in_its_line():
    slowed = Reading(1200, 3201, 80, 700.0, ("power cap",))
    text = tuning_figures.subset([replace(at(1.0), samples_ms=(1.0,), readings=(slowed,)), at(2.0, BM=64)], CUBE, {})
    _, throttled, steady = text.splitlines()
    assert throttled.endswith("; throttled in 1 of 1 samples: power cap") and "throttled" not in steady


def test_the_player_narrows_the_sweep_by_the_values_chosen():
    *choices, text, _ = tuning_figures.subset_player(FOUND, CUBE).children
    of_bk = next(choice for choice in choices if choice.description == "BK")
    assert "3 of 4 settings" in text.value
    of_bk.value = (16,)
    assert "1 of 4 settings" in text.value and "4.00 TFLOP/s" in text.value
