import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from figure_texts import overlapping, texts
from matplotlib.colors import to_rgba

from gemmlab import launch, warp
from gemmlab.figures import plotting
from gemmlab.figures.plotting import Measured, Modelled
from gemmlab.gemm import Gemm
from gemmlab.gpus import GPUS
from gemmlab.ladder import rung

matplotlib.use("agg")

SQUARE = Gemm(32, 32, 32)
RUN = "NVIDIA H200, 2026-11-29"
POINTS = (
    Modelled("naive", 0.25, 0.258e12),
    Measured("naive", 0.25, 0.30e12, RUN),
    Modelled("coalesced", 0.25, 1.71e12),
    Measured("coalesced", 0.25, 6.3e12, RUN),
)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def steps():
    return {name: warp.one_step(launch.of(rung(name)), SQUARE, k=10) for name in ("naive", "coalesced")}


def cells(axis) -> np.ndarray:
    (mesh,) = axis.collections
    return mesh.get_array()


def test_the_picture_of_a_request_marks_what_lanes_want_and_the_rest_of_each_sector(steps):
    figure = plotting.requests(steps, SQUARE)
    naive_A, naive_B, _, coalesced_A, coalesced_B, _ = (cells(axis) for axis in figure.axes)
    assert (naive_A == 2).sum() == 32 and (naive_A == 1).sum() == 32 * 7
    assert (naive_A[:, 10] == 2).all() and (naive_A[:, 8:16] > 0).all() and (naive_A[:, 16:] == 0).all()
    assert (naive_B == 2).sum() == 1 and (naive_B == 1).sum() == 7
    assert (coalesced_A == 2).sum() == 1 and (coalesced_A == 1).sum() == 7
    assert (coalesced_B[10] == 2).all() and (coalesced_B > 0).sum() == 32


def test_the_picture_of_a_request_says_how_many_bytes_moved_for_how_many_wanted(steps):
    titles = [axis.get_title() for axis in plotting.requests(steps, SQUARE).axes]
    assert titles[0] == "A: 32 sectors, 1024 bytes moved\nfor 128 bytes wanted"
    assert titles[3] == "A: 1 sector, 32 bytes moved\nfor 4 bytes wanted"
    assert titles[4] == "B: 4 sectors, 128 bytes moved\nfor 128 bytes wanted"


@pytest.mark.parametrize("block", [(32, 4), (8, 4), (1, 32), (2, 16), (1, 1)])
@pytest.mark.parametrize("name", ["naive", "coalesced"])
def test_no_two_texts_of_a_request_overlap(name, block):
    tile = dict(zip(("BX", "BY"), block, strict=True))
    step = warp.one_step(launch.of(rung(name), tile), SQUARE, k=10)
    assert overlapping(plotting.requests({name: step}, SQUARE)) == []


def test_the_picture_of_a_mapping_shows_each_warps_outputs_and_what_one_lane_reads():
    small = Gemm(32, 32, 8)
    warps = [warp.watch(launch.of(rung("naive")), small, warp=number) for number in range(4)]
    figure = plotting.mapping({"naive": warps}, small, lane=5)
    A, B, C = (mesh.get_array() for mesh in figure.axes[0].collections)
    assert (A[5] == 1).all() and A.sum() == 8
    assert (B[:, 0] == 1).all() and B.sum() == 8
    assert [set(C[:, column].tolist()) for column in range(5)] == [{1}, {2}, {3}, {4}, {0}]
    assert overlapping(figure) == []


def test_the_axes_of_a_roofline_are_logarithmic_and_have_units():
    (axis,) = plotting.roofline(GPUS["H200"], POINTS).axes
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    assert "FLOP per byte" in axis.get_xlabel() and "TFLOP/s" in axis.get_ylabel()


def test_each_roof_rises_with_its_bandwidth_and_ends_at_the_peak():
    (axis,) = plotting.roofline(GPUS["H200"], ()).axes
    for line, bandwidth in zip(axis.lines, (4280e9, 8160e9), strict=True):
        x, y = line.get_data()
        assert y[0] == pytest.approx(x[0] * bandwidth / 1e12) and y[-1] == pytest.approx(61.7)


def test_a_card_that_was_not_measured_is_drawn_by_its_published_ceilings():
    (axis,) = plotting.roofline(GPUS["T4"], ()).axes
    assert len(axis.lines) == 1 and "published" in axis.get_title() and "T4" in axis.get_title()


def test_modelled_points_are_hollow_measured_ones_filled_and_both_say_so():
    (axis,) = plotting.roofline(GPUS["H200"], POINTS).axes
    markers = axis.lines[2:]
    colours = [to_rgba(each.get_color()) for each in markers]
    faces = [to_rgba(each.get_markerfacecolor()) for each in markers]
    assert faces == [to_rgba("white"), colours[1], to_rgba("white"), colours[3]]
    labels = [text.get_text() for text in axis.texts if "naive" in text.get_text() or "coalesced" in text.get_text()]
    assert labels == [
        "model: naive, 0.258 TFLOP/s",
        "measured: naive, 0.3 TFLOP/s",
        "model: coalesced, 1.71 TFLOP/s",
        "measured: coalesced, 6.3 TFLOP/s",
    ]
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["model", f"measured: {RUN}"]


def test_a_roofline_does_not_mix_runs():
    other = Measured("naive", 0.25, 0.1e12, "Tesla T4, 2026-12-01")
    with pytest.raises(ValueError, match="NVIDIA H200, 2026-11-29; Tesla T4, 2026-12-01"):
        plotting.roofline(GPUS["H200"], [*POINTS, other])


def test_labels_of_points_far_apart_stay_at_their_points_and_within_the_picture():
    right = Measured("tiles", 8, 9.1e12, RUN)
    figure = plotting.roofline(GPUS["H200"], [*POINTS, Modelled("tiles", 8, 34e12), right])
    assert overlapping(figure) == []
    (label,) = [text for text in figure.axes[0].texts if "tiles, 9.1" in text.get_text()]
    assert label.get_position() == pytest.approx((8 * 1.7, 9.1))
    assert figure.axes[0].get_window_extent().contains(*label.get_window_extent().get_points()[1])


def test_rungs_differ_in_marker_as_well_as_in_colour():
    (axis,) = plotting.roofline(GPUS["H200"], POINTS).axes
    naive, _, coalesced, _ = axis.lines[2:]
    assert naive.get_marker() != coalesced.get_marker() and naive.get_color() != coalesced.get_color()


@pytest.mark.parametrize("points", [(), POINTS, POINTS[:1] * 3, (Modelled("naive", 0.25, 0.01e12),)])
@pytest.mark.parametrize("card", GPUS)
def test_no_two_texts_of_a_roofline_overlap(card, points):
    assert overlapping(plotting.roofline(GPUS[card], points)) == []


def test_labels_of_points_close_together_under_the_flat_roof_do_not_overlap():
    near = [Modelled("5", 18.5, 61.7e12), Measured("5", 21, 45e12, RUN), Modelled("6", 18.5, 61.7e12)]
    assert overlapping(plotting.roofline(GPUS["H200"], [*near, Measured("6", 21, 46e12, RUN)])) == []


def test_every_point_of_a_roofline_is_within_the_picture():
    (axis,) = plotting.roofline(GPUS["T4"], [Modelled("naive", 0.25, 0.004e12)]).axes
    low, high = axis.get_ylim()
    assert low < 0.004 < high


def test_the_times_of_samples_that_hardly_differ_are_written_whole():
    figure = plotting.samples({"naive": [271.807, 271.811, 271.862]}, RUN)
    figure.canvas.draw()
    assert {float(label.get_text()) // 1 for label in figure.axes[0].get_xticklabels()} == {271}


def test_every_sample_is_drawn_and_the_median_marked():
    figure = plotting.samples({"naive": [3.0, 1.0, 2.0, 9.0, 2.5], "coalesced": [1.0]}, RUN)
    dots, bar = figure.axes[0].lines
    assert list(dots.get_xdata()) == [3.0, 1.0, 2.0, 9.0, 2.5] and list(bar.get_xdata()) == [2.5]
    assert figure.axes[0].get_title() == f"measured: {RUN}; every sample, and the median"
    assert "(ms)" in figure.axes[1].get_xlabel()


def test_pictures_are_dark_on_opaque_white_under_a_dark_style_too(steps):
    with plt.style.context("dark_background"):
        figures = [
            plotting.requests({"naive": steps["naive"]}, SQUARE),
            plotting.roofline(GPUS["H200"], POINTS),
            plotting.samples({"naive": [1.0, 2.0]}, RUN),
        ]
        for figure in figures:
            assert figure.get_facecolor() == to_rgba("white")
            assert {to_rgba(axis.get_facecolor()) for axis in figure.axes} == {to_rgba("white")}
            assert {to_rgba(text.get_color()) for text in texts(figure)} == {to_rgba("black")}
