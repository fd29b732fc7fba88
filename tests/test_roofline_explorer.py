"""The explorers of the roofline as functions: what they say, what they draw, and what they leave behind."""

import html
import os
import statistics
from dataclasses import replace
from functools import lru_cache

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from figure_texts import outside, overlapping
from matplotlib.colors import to_rgba
from matplotlib.text import Annotation, Text

from gemmlab import climb, hierarchy, launch, measured, nvrtc, roofline, tuned
from gemmlab.__main__ import main
from gemmlab.backend import choose
from gemmlab.commands import roofline_commands
from gemmlab.figures import hierarchy_figures, roofline_explorer, roofline_figures, run_figures
from gemmlab.figures.roofline_explorer import OWN
from gemmlab.gemm import Gemm
from gemmlab.gpus import GPUS
from gemmlab.hierarchy_table import Timed, recorded
from gemmlab.ladder import RUNGS, rung
from gemmlab.results import Run
from gemmlab.roofline import read
from gemmlab.timing import Timing

matplotlib.use("agg")

CUBE = Gemm(4096, 4096, 4096)
EXAMPLE = (
    "AI = 3.969 FLOP/B",
    "Q = 0.541 GB",
    "2.000 KiB",
    "memory bound   0.5411 ms",
    "compute bound  0.0358 ms",
    "so at least    0.5411 ms, by memory",
)
NAIVE = {"naive": launch.of(rung("naive")), "coalesced": launch.of(rung("coalesced"))}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def controls_of(widget):
    return {each.description: each for each in widget.children[:-2]}


def text_of(widget) -> str:
    return html.unescape(widget.children[-2].value)


def test_the_reader_starts_at_its_worked_example():
    text = text_of(roofline_explorer.reader())
    assert all(figure in text for figure in EXAMPLE)
    assert "model, to be falsified: 1024 x 1024 x 1024, tiles of 16 x 16" in text


def test_a_reading_is_of_any_shape_on_any_card():
    text, _ = roofline_explorer.shown(64, 32, 8, 16, "T4", 1.0, 1.0)
    # A: 64 x 8 floats, twice; B: 8 x 32, four times; C: 64 x 32; FLOPs 2 x 64 x 32 x 8
    assert "A 1,024, B 1,024, C 2,048 floats" in text
    assert f"AI = {32768 / (4 * 4096):.3f}" in text
    assert "T4: 320 GB/s, 8.1 TFLOP/s; published: NVIDIA T4 datasheet" in text


def test_a_measured_card_is_read_by_its_measured_ceilings():
    under = roofline_explorer.ceilings("H200", 1.0, 1.0)
    assert (under.bandwidth, under.peak) == (4280e9, 61.7e12) and under.source.startswith("measured: NVIDIA H200")


@pytest.mark.parametrize("card", GPUS)
def test_every_card_has_ceilings_with_a_source(card):
    under = roofline_explorer.ceilings(card, 1.0, 1.0)
    assert under.bandwidth > 0 and under.peak > 0 and len(under.source) > len("published: ")


def test_a_tile_of_one_is_the_direct_kernel_without_shared_memory():
    reading = read(Gemm(1024, 1024, 1024), 1, 1e12, 60e12)
    assert reading.shared_bytes == 0
    assert reading.requested.bytes == 4 * (2 * 1024**3 + 1024**2)
    assert "the direct kernel, T = 1" in roofline_explorer.shown(64, 64, 64, 1, OWN, 1000.0, 60.0)[0]


@pytest.mark.parametrize(
    ("tile", "bandwidth", "peak", "said"),
    [
        (0, 1.0, 1.0, "the tile is 0, but must be at least 1"),
        (16, 0.0, 1.0, "the bandwidth is 0, but must be above 0"),
        (16, float("inf"), 1.0, "the bandwidth is inf, but must be above 0 and finite"),
        (16, 1.0, -2.0, "the peak is -2, but must be above 0"),
        (16, float("nan"), 1.0, "the bandwidth is nan, but must be above 0"),
    ],
)
def test_a_reading_of_what_cannot_be_is_refused(tile, bandwidth, peak, said):
    with pytest.raises(ValueError, match=said):
        read(Gemm(8, 8, 8), tile, bandwidth, peak)


def test_a_number_that_cannot_be_is_shown_as_a_refusal_and_the_next_move_recovers():
    widget = roofline_explorer.reader()
    given = controls_of(widget)
    given["GB/s"].value = 0.0
    assert "ValueError: the bandwidth is 0 GB/s, but must be from 0.001 to 1,000,000" in text_of(widget)
    given["GB/s"].value = 1000.0
    assert all(figure in text_of(widget) for figure in EXAMPLE)


def test_fifty_moves_of_the_reader_leave_no_figure_open():
    widget = roofline_explorer.reader()
    tile = controls_of(widget)["tile"]
    before = plt.get_fignums()
    for move in range(50):
        tile.value = (1, 2, 4, 8, 16)[move % 5]
    assert plt.get_fignums() == before
    assert bytes(widget.children[-1].value).startswith(b"\x89PNG")


def test_fifty_moves_between_kernels_compile_and_trace_each_once(monkeypatch):
    traced = []
    trace = hierarchy._traced
    monkeypatch.setattr(hierarchy, "_traced", lru_cache(lambda *given: traced.append(given) or trace(*given)))
    widget = roofline_explorer.levels(NAIVE, size=64)
    given = controls_of(widget)
    given["kernel"].value = "coalesced"
    assert len(traced) == 2
    monkeypatch.setattr(nvrtc, "compile_ptx", None)
    before = plt.get_fignums()
    for move in range(25):
        given["kernel"].value = ("naive", "coalesced")[move % 2]
        given["card"].value = ("H200", "T4", "B200")[move % 3]
    assert len(traced) == 2 and plt.get_fignums() == before
    assert "Error" not in text_of(widget)


def test_the_levels_of_a_kernel_stand_beside_the_shipped_time_of_the_very_source():
    kernel = launch.of(rung("shared_tiles"))
    text, picture = roofline_explorer.levels_shown({"mine": kernel}, "mine", "H200", 4096, 4096, 4096)
    (record,) = (seen for seen in measured.shipped(RUNGS, CUBE) if seen.card == "NVIDIA H200")
    taken = statistics.median(measured.timed(record)["shared_tiles"]["milliseconds"])
    # 125 blocks on the fullest multiprocessor, 32 warps, 128 chunks, 52 wavefronts, one a cycle at 1.98 GHz
    least = 1e3 * 125 * 32 * 128 * 52 / 1.98e9
    assert f"measured: {taken:.4g} ms, {taken / least:.2f} times the bound; {record.label}" in text
    assert picture.startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("kernel", "card", "shape"),
    [
        (launch.of(rung("naive"), {"BX": 16, "BY": 16}), "H200", (4096, 4096, 4096)),
        (launch.of(rung("naive"), source=rung("naive").source() + "\n"), "H200", (4096, 4096, 4096)),
        (launch.of(rung("naive")), "H100", (4096, 4096, 4096)),
        (launch.of(rung("naive")), "H200", (4096, 4096, 256)),
    ],
)
def test_no_time_is_borrowed_from_another_tile_source_card_or_shape(kernel, card, shape):
    assert recorded(kernel, hierarchy.of(kernel, Gemm(*shape), GPUS[card])) is None


def test_a_kernel_that_does_not_compile_shows_the_compilers_words():
    broken = launch.of(rung("naive"), source=rung("naive").source().replace("sum", "total", 1))
    widget = roofline_explorer.levels({"naive": NAIVE["naive"], "broken": broken}, size=64)
    controls_of(widget)["kernel"].value = "broken"
    assert "CompileError" in text_of(widget) and "undefined" in text_of(widget)


@pytest.mark.parametrize("card", ["H200", "T4"])
@pytest.mark.parametrize("each", RUNGS, ids=lambda each: each.name)
def test_no_two_texts_of_the_hierarchical_roofline_overlap_or_leave_the_picture(each, card):
    bounds = hierarchy.of(launch.of(each), CUBE, GPUS[card])
    timed = Timed(1e3 * bounds.seconds * 1.2, "NVIDIA H200, 2026-11-30") if card == "H200" else None
    figure = hierarchy_figures.hierarchy(f"rung {each.number}, {each.name}", bounds, timed)
    assert overlapping(figure) == [] and outside(figure) == []


def test_points_of_the_model_are_hollow_and_measured_ones_filled_at_the_same_intensities():
    bounds = hierarchy.of(launch.of(rung("shared_tiles")), CUBE, GPUS["H200"])
    (axis,) = hierarchy_figures.hierarchy("rung 2", bounds, Timed(15.03, "NVIDIA H200, 2026-11-30")).axes
    points = [line for line in axis.lines if line.get_marker() not in ("None", "", None)]
    hollow = [line for line in points if to_rgba(line.get_markerfacecolor()) == to_rgba("white")]
    filled = [line for line in points if line not in hollow]
    assert sorted(line.get_xdata()[0] for line in hollow) == sorted(line.get_xdata()[0] for line in filled)
    assert {round(line.get_ydata()[0], 2) for line in filled} == {round(CUBE.flops / 15.03e-3 / 1e12, 2)}
    assert len({line.get_marker() for line in hollow}) == len({line.get_color() for line in hollow}) == 3
    labels = [text.get_text() for text in axis.figure.legends[1].get_texts()]
    roofs = {f"{line.get_color()}": line for line in axis.lines if len(line.get_xdata()) == 400}
    for point in hollow:  # each lies on its own roof, which stands at the busy share
        roof = roofs[point.get_color()]
        on = np.interp(np.log(point.get_xdata()[0]), np.log(roof.get_xdata()), np.log(roof.get_ydata()))
        assert np.exp(on) == pytest.approx(point.get_ydata()[0], rel=1e-2)
    assert labels == ["model", "measured: NVIDIA H200, 2026-11-30"]


def test_thin_matrices_lower_the_roofs_on_the_chip_alone_and_labels_say_by_how_much():
    # C of 128 x 4096 is 2 x 32 blocks of 64 x 128, for 132 multiprocessors
    bounds = hierarchy.of(launch.of(rung("vectorized")), Gemm(128, 4096, 4096), GPUS["H200"])
    figure = hierarchy_figures.hierarchy("rung 5", bounds)
    (axis,) = figure.axes
    assert "keep at most 48.5% of the multiprocessors busy" in axis.get_title()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    # 33.45 TB/s is 132 x 128 bytes x 1.98 GHz
    assert labels == ["DRAM, 4.8 TB/s", "L2, 8.16 TB/s, no bound", "L1 and shared, 16.2 of 33.5 TB/s"]
    assert "FMA 32.4 of 66.9" in [text.get_text() for text in axis.texts]
    first = [line.get_ydata()[0] / line.get_xdata()[0] for line in axis.lines if len(line.get_xdata()) == 400]
    assert first == pytest.approx([4.8, 8.16, 33.45 * 64 / 132], rel=1e-3)
    highest = [line.get_ydata()[-1] for line in axis.lines if len(line.get_xdata()) == 400]
    assert highest == pytest.approx([66.9 * 64 / 132] * 3)


def test_a_line_to_a_label_of_a_speed_crosses_no_label_above_it():
    # the FMA units, issue and the bound lie close together
    bounds = hierarchy.of(launch.of(rung("warp_tiles")), Gemm(100, 5000, 33), GPUS["RTX 4090"])
    (axis,) = hierarchy_figures.hierarchy("rung 6", bounds).axes
    axis.figure.draw_without_rendering()
    labels = [text for text in axis.texts if isinstance(text, Annotation)]
    boxes = [Text.get_window_extent(label) for label in labels]
    assert len(labels) == 3
    for label in labels:
        line = label.arrow_patch.get_path().transformed(label.arrow_patch.get_transform())
        assert not any(line.intersects_bbox(box.padded(-2), filled=False) for box in boxes)


def test_a_card_that_is_kept_busy_has_its_whole_roofs():
    bounds = hierarchy.of(launch.of(rung("naive")), CUBE, GPUS["H200"])
    figure = hierarchy_figures.hierarchy("rung 0", bounds)
    assert "busy" not in figure.axes[0].get_title()
    assert figure.legends[0].get_texts()[-1].get_text() == "L1 and shared, 33.5 TB/s"


def test_a_measured_point_at_its_bound_does_not_hide_the_point_of_the_model():
    bounds = hierarchy.of(launch.of(rung("naive")), CUBE, GPUS["H200"])
    (axis,) = hierarchy_figures.hierarchy("rung 0", bounds, Timed(1e3 * bounds.seconds * 1.002, "a run")).axes
    sizes = {line.get_markerfacecolor(): line.get_markersize() for line in axis.lines if line.get_marker() == "^"}
    assert sizes["white"] > max(size for face, size in sizes.items() if face != "white")


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 4096, 4096), (128, 4096, 4096), (4096, 1, 64)])
def test_no_two_texts_overlap_for_thin_matrices(shape):
    bounds = hierarchy.of(launch.of(rung("naive")), Gemm(*shape), GPUS["H200"])
    figure = hierarchy_figures.hierarchy("rung 0, naive", bounds)
    assert overlapping(figure) == [] and outside(figure) == []


@pytest.mark.parametrize("tile", [1, 2, 16, 128])
@pytest.mark.parametrize("card", GPUS)
def test_no_two_texts_of_a_reading_overlap_or_leave_the_picture(card, tile):
    under = roofline_explorer.ceilings(card, 1.0, 1.0)
    for shape in (CUBE, Gemm(1, 1024, 1024)):
        figure = roofline_figures.reading(under.name, read(shape, tile, under.bandwidth, under.peak))
        assert overlapping(figure) == [] and outside(figure) == []


@pytest.mark.parametrize("tile", [1, 16, 1024])
@pytest.mark.parametrize("bandwidth", roofline_explorer.RATES)
@pytest.mark.parametrize("peak", roofline_explorer.RATES)
def test_a_reading_of_the_least_and_most_ceilings_is_written_whole(bandwidth, peak, tile):
    under = roofline_explorer.ceilings(OWN, bandwidth, peak)
    reading = read(Gemm(1024, 1024, 1024), tile, under.bandwidth, under.peak)
    figure = roofline_figures.reading(under.name, reading)
    assert overlapping(figure) == [] and outside(figure) == []
    text = roofline_explorer.report(reading, under)
    assert f"{bandwidth:,.10g} GB/s, {peak:,.10g} TFLOP/s" in text
    assert " 0 GB/s" not in text and " 0.0000 ms" not in text and "e+" not in text and "e-" not in text


def test_a_reading_names_smaller_tiles_where_there_are_any():
    for tile, others in ((1, []), (4, ["smaller tiles, powers of two"])):
        (axis,) = roofline_figures.reading("a card", read(CUBE, tile, 1e12, 60e12)).axes
        (first, *rest) = [text.get_text() for text in axis.get_legend().get_texts()]
        assert first.startswith(f"T = {tile}: ") and rest == others


def test_a_tile_too_large_for_every_gpu_is_said_to_be():
    assert "more than 227" not in roofline_explorer.shown(64, 64, 64, 128, OWN, 1.0, 1.0)[0]
    # 8 T^2 bytes
    said = "2,048.000 KiB a block: too much, as no known GPU gives one more than 227"
    assert said in roofline_explorer.shown(64, 64, 64, 512, OWN, 1.0, 1.0)[0]


@pytest.fixture(scope="module")
def emulated():
    return climb.climb(RUNGS, Gemm(64, 64, 64), choose("emulator"))


def test_a_climb_on_the_emulator_is_drawn_as_a_model(emulated):
    (axis,) = run_figures.rungs(emulated).axes
    labels = [text.get_text() for text in axis.texts if "TFLOP/s" in text.get_text()]
    assert sum(label.startswith("model: ") for label in labels) == 7 and not any(
        "measured" in label for label in labels
    )
    assert overlapping(axis.figure) == [] and outside(axis.figure) == []


def test_a_climb_on_a_gpu_is_drawn_by_what_was_measured_alone(emulated):
    timing = Timing(samples_ms=(0.5, 0.4, 0.6), batch=1, warmup=0, cache="warm L2")
    rows = tuple(replace(row, timing=timing) for row in emulated.rows[:2])
    run = Run({**emulated.environment, "card": "NVIDIA H200", "date": "2026-11-30"}, rows)
    (axis,) = run_figures.rungs(run).axes
    labels = [text.get_text() for text in axis.texts if "measured" in text.get_text()]
    # 2 x 64^3 FLOPs in 0.5 ms are 0.00105 TFLOP/s
    assert labels == ["measured: 0 naive, 0.00105 TFLOP/s", "measured: 1 coalesced, 0.00105 TFLOP/s"]
    assert not any(text.get_text().startswith("model:") for text in axis.texts)
    assert "measured: NVIDIA H200, 2026-11-30" in [text.get_text() for text in axis.get_legend().get_texts()]


def test_a_climb_on_a_card_that_is_not_known_is_not_drawn_under_anothers_roofs(emulated):
    foreign = Run({**emulated.environment, "card": "NVIDIA Imaginary 9"}, emulated.rows)
    with pytest.raises(ValueError, match="no ceilings are known for GPU 'NVIDIA Imaginary 9'"):
        run_figures.rungs(foreign)


def test_the_commands_print_and_draw(tmp_path, capsys):
    assert main(["roofline", "--plot", str(tmp_path / "made" / "reader.png")]) == 0
    printed = capsys.readouterr().out
    assert all(figure in printed for figure in EXAMPLE)
    assert main(["levels", "coalesced", "--size", "64", "--card", "T4", "--plot", str(tmp_path / "levels.svg")]) == 0
    printed = capsys.readouterr().out
    assert "measured: -" in printed and f"figure: {tmp_path / 'levels.svg'}" in printed
    climbing = ["climb", "--backend", "emulator", "--rungs", "0-1", "--size", "40"]
    assert main([*climbing, "--plot", str(tmp_path / "climb.pdf")]) == 0
    assert (tmp_path / "made" / "reader.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "levels.svg").read_bytes()
    assert (tmp_path / "climb.pdf").read_bytes().startswith(b"%PDF")
    assert plt.get_fignums() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["roofline", "--card", "H200", "--bandwidth", "5"],
            "--card H200 has ceilings of its own: leave out --bandwidth",
        ),
        (["roofline", "--card", "A100"], "did you mean A100 40GB or A100 80GB?"),
        (["roofline", "--card", "A100"], "(or leave out --card, and give --bandwidth and --peak)"),
        (["roofline", "--card", "RTX 9999"], "no ceilings are known for GPU 'RTX 9999'"),
        (["roofline", "--card", ""], "no ceilings are known for GPU ''"),
        (["roofline", "--card", OWN], "no ceilings are known for GPU 'your own'"),
        (
            ["roofline", "--card", "H200", "--bandwidth", "5", "--peak", "6"],
            "leave out --bandwidth and --peak, or --card",
        ),
        (["roofline", "--size", "0"], "M is 0, but must be at least 1"),
        (["levels", "4", "--size", "0"], "M is 0, but must be at least 1"),
        (["levels", "4", "--card", "A100"], "did you mean A100 40GB or A100 80GB?"),
        (["levels", "4", "--plot", "x.bmp"], "x.bmp must end in one of .png, .svg, .pdf"),
        (["levels", "4", "--plot", os.devnull + "/x.png"], "cannot be written"),
        (["roofline", "--plot", "a.txt"], "a.txt must end in one of .png, .svg, .pdf"),
        (["levels", "9"], "there is no rung '9'"),
        (["climb", "--plot", "figure"], "figure must end in one of"),
        (["climb", "--plot", os.devnull + "/x.png"], "cannot be written"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_before_anything_runs(arguments, said, capsys):
    assert main(arguments) == 2
    out, error = capsys.readouterr()
    assert said in error and out == "" and error.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--tile", "0"),
        ("--tile", "x"),
        ("--peak", "-1"),
        ("--peak", "nan"),
        ("--bandwidth", "inf"),
        ("--bandwidth", "1e300"),
        ("--bandwidth", "1e-300"),
        ("--bandwidth", "nan"),
    ],
)
def test_a_number_out_of_range_is_refused_by_its_option(option, value, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["roofline", option, value])
    assert ended.value.code == 2 and f"argument {option}: " in capsys.readouterr().err


def test_the_command_and_the_reader_take_the_same_range_of_ceilings():
    assert roofline_commands.RATES == roofline_explorer.RATES


def test_the_reader_says_that_a_card_leaves_ones_own_ceilings_unread():
    assert "are not read" in roofline_explorer.shown(64, 64, 64, 16, "T4", 1.0, 1.0)[0]
    assert "are not read" not in roofline_explorer.shown(64, 64, 64, 16, OWN, 1.0, 1.0)[0]


def test_a_figure_without_models_has_none_in_its_legend_and_no_marker_hides_another():
    points = [roofline_figures.Measured(name, 20.0, 45e12, "a run") for name in ("5 vectorized", "6 warp_tiles")]
    (axis,) = roofline_figures.roofline(GPUS["H200"], points).axes
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["measured: a run"]
    below, above = (line.get_markersize() for line in axis.lines if line.get_marker() != "None")
    assert below > above


def test_all_rungs_of_a_record_have_their_own_marker_and_label_and_no_label_hides_a_marker_or_leaves_the_axes():
    (record,) = (seen for seen in measured.shipped(RUNGS, CUBE) if seen.card == "NVIDIA H200")
    points, models = [], []
    for each in RUNGS:
        kernel, row = launch.of(each, measured.timed(record)[each.name]["tile"]), measured.timed(record)[each.name]
        x = roofline.intensity(CUBE.flops, hierarchy.counts(kernel, CUBE).requested)
        name = f"{each.number} {each.name}"
        points.append(roofline_figures.Measured(name, x, row["gflops"] * 1e9, record.label))
        models.append(roofline_figures.Modelled(name, x, hierarchy.of(kernel, CUBE, GPUS["H200"]).speed))
    for drawn in (points, models):
        figure = roofline_figures.roofline(GPUS["H200"], drawn)
        (axis,) = figure.axes
        assert overlapping(figure) == [] and outside(figure) == []
        labels = [text for text in axis.texts if text.get_text().startswith(("model: ", "measured: "))]
        assert len(labels) == len(RUNGS)
        frame = axis.get_window_extent()
        for label in labels:
            box = label.get_window_extent()
            assert frame.contains(*box.min) and frame.contains(*box.max)
            for point in drawn:
                assert not box.contains(*axis.transData.transform((point.intensity, point.speed / 1e12)))
        sizes = [line.get_markersize() for line in axis.lines if line.get_marker() != "None"]
        assert sizes[5] > sizes[6]  # rung 5 stands where rung 6 does, and is drawn below it


def test_levels_are_of_the_tile_that_a_card_was_tuned_for(monkeypatch, capsys):
    monkeypatch.setattr(tuned, "tile", lambda rung, card: {"BX": 8, "BY": 8} if card == "T4" else None)
    assert main(["levels", "naive", "--size", "32", "--card", "T4"]) == 0
    # 16 blocks of 8 x 8 for 40 multiprocessors; of the default 32 x 4 there are 8
    assert "keep at most 40.0% of the multiprocessors busy" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("command", "called"), [(["roofline"], "gemm.Gemm"), (["levels", "0"], "hierarchy.counts")])
def test_an_interrupt_ends_a_command_in_a_line(monkeypatch, capsys, command, called):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"gemmlab.{called}", interrupted)
    assert main(command) == 130
    assert capsys.readouterr().err.endswith(f"gemmlab {command[0]}: interrupted before anything was found\n")
