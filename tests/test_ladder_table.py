"""The whole ladder in one table, one figure, and in the README."""

import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import pytest

from gemmlab import columns, cutlass, ladder_table, measured, published, records
from gemmlab.climb import climb
from gemmlab.figures import ladder_figure
from gemmlab.gemm import Gemm
from gemmlab.ladder import RUNGS, rung

CUBE = Gemm(4096, 4096, 4096)
LADDERS = (published.H200, published.A6000)


@pytest.fixture(scope="module")
def run():
    return climb(RUNGS[:3], Gemm(64, 64, 64))


@pytest.fixture(scope="module")
def record():
    (record,) = measured.runs(RUNGS, CUBE)
    return record


@pytest.fixture
def figure(request, record):
    drawn = request.param(record)
    yield drawn
    plt.close(drawn)


def cells(line):
    return line.split()


def times(record, *numbers):
    """The samples of rungs in ms, by number."""
    return [record.rungs[number]["milliseconds"] for number in numbers]


def cutlass_run(card):
    """A run of CUTLASS that timed its default setting at 4096: a median of 3 ms, and 2.7 of cuBLAS."""
    row = {
        "version": "4.2",
        "threadblock": [128, 128, 8],
        "warp": [32, 64, 8],
        "stages": 2,
        "shape": [4096] * 3,
        "correct": True,
        "milliseconds": [4.0, 2.0, 3.0],
        "cublas_milliseconds": [2.7],
    }
    return {"environment": {"card": card, "date": "2026-12-24"}, "rows": [row]}


def test_the_table_holds_counts_times_and_published_speeds_of_each_rung(run, record):
    lines = ladder_table.table(run, [record], LADDERS).splitlines()
    naive, coalesced, shared = (cells(line) for line in lines[2:5])
    # 2 * 64^3 FLOPs; each thread asks for 2 * 64 floats and stores one. A warp of naive touches 32 sectors of A and one
    # of B a step, and 32 of C; a coalesced one 1, 4 and 4. 64^2 / 32 = 128 warps.
    assert naive[:2] == ["0", "naive"] and naive[5] == f"{2 * 64 / (4 * 129):.3g}" == "0.248"
    assert naive[6] == f"{128 * (64 * 33 + 32):,}" and coalesced[6] == f"{128 * (64 * 5 + 4):,}"
    assert naive[7] == coalesced[7] == "0" and shared[7] != "0"
    # The H200's record, then the published ladders: 309 of 23,250 GFLOP/s is 1.3 %.
    # Groups that do not fit into the page stand below, their rows named again.
    assert "shared wavefronts" in lines[1]  # rungs 0 and 1 have none there, and many of L1
    assert cells(lines[9]) == ["0", "naive", "271.9", "0.506", "1.0", "0.5", "1.0", "0.309", "1.3"]
    assert max(map(len, lines)) <= columns.WIDTH


def test_sources_of_figures_are_apart_and_each_number_is_explained(run, record):
    text = ladder_table.table(run, [record], LADDERS)
    *tables, explained = text.split("\n\n")
    over = " ".join(part.splitlines()[0] for part in tables)
    for source in (
        "compiler, sm_90",
        "emulator, 64 x 64 x 64",
        "measured [1]",
        "published kernels, measured [2]",
        " published [3] ",
    ):
        assert over.count(source) == 1
    notes = " ".join(explained.split())
    yardstick = f"{2 * 4096**3 / np.median(record.conditions['cublas_milliseconds']) / 1e9:.2f} TFLOP/s"
    for part in ("[1] measured: NVIDIA H200, 2026-11-30", "warm L2", "20 samples", "1980 MHz", yardstick):
        assert part in notes
    assert "[3] published: RTX A6000, Simon Boehm" in notes and "2022, 4092^3; cuBLAS 23.25 TFLOP/s" in notes


def test_a_rung_that_a_run_has_not_timed_gets_dashes(run, record):
    without_naive = dataclasses.replace(record, rungs=record.rungs[1:])
    assert cells(ladder_table.table(run, [without_naive], ()).splitlines()[9])[2:] == ["-", "-", "-"]


def test_cutlass_stands_after_the_rungs_with_dashes_and_the_command_where_nobody_timed_it(run, record, monkeypatch):
    monkeypatch.setattr(ladder_table.cutlass_runs, "shipped", tuple)
    lines = ladder_table.table(run, [record], ()).splitlines()
    assert lines[5].split() == ["CUTLASS", "SIMT", *"-" * 6]
    assert lines[12].split() == ["CUTLASS", "SIMT", *"-" * 3]
    assert "CUTLASS SIMT beside [1]: not timed yet; beside that GPU: python benchmarks/cutlass_gemm.py" in lines[-2]


def test_a_run_of_cutlass_on_the_records_card_and_problem_stands_in_the_columns_of_times(run, record, monkeypatch):
    monkeypatch.setattr(ladder_table.cutlass_runs, "shipped", lambda: (cutlass_run(record.card),))
    lines = ladder_table.table(run, [record], ()).splitlines()
    # 2 * 4096^3 FLOPs in 3 ms are 45.8 TFLOP/s; 2.7 ms are 90 % of 3.
    assert lines[12].split()[-3:] == ["3.000", "45.8", "90.0"]
    said = "128 x 128 x 8, 2 stages, the only setting timed; measured: NVIDIA H200, 2026-12-24, in a run of its own"
    assert f"CUTLASS 4.2 SIMT beside [1]: {said}" in " ".join(lines)
    two = cutlass_run(record.card)
    two["rows"] += [two["rows"][0] | {"milliseconds": [5.0], "stages": 5}]
    monkeypatch.setattr(ladder_table.cutlass_runs, "shipped", lambda: (two,))
    assert "2 stages, the fastest of 2 settings timed;" in " ".join(ladder_table.table(run, [record], ()).splitlines())


def test_each_setting_of_cutlass_has_a_line_with_dashes_where_nobody_timed_it(record, monkeypatch):
    monkeypatch.setattr(ladder_table.cutlass_runs, "shipped", lambda: (cutlass_run(record.card),))
    about, source, _, default, *others = ladder_table.of_cutlass(record).splitlines()
    assert about == "CUTLASS SIMT, NVIDIA H200, 4096 x 4096 x 4096" and source.strip() == "measured: 2026-12-24"
    assert cells(default)[-2:] == ["45.8", "90.0"] and "128 x 128 x 8, warps of 32 x 64 x 8, 2 stages" in default
    assert len(others) == len(cutlass.SETTINGS) - 1 and all(cells(line)[-2:] == ["-", "-"] for line in others)
    monkeypatch.setattr(ladder_table.cutlass_runs, "shipped", tuple)
    assert "measured: nothing" in ladder_table.of_cutlass(record)


def test_only_a_right_result_without_hazards_is_called_right(run):
    wrong = dataclasses.replace(run.rows[0].verdict, wrong=1)
    changed = dataclasses.replace(run, rows=(dataclasses.replace(run.rows[0], verdict=wrong), run.rows[1]))
    rows = [cells(line) for line in ladder_table.table(changed, (), ()).splitlines()[2:4]]
    assert [row[2] for row in rows] == ["WRONG", "right"]


def test_runs_are_the_newest_of_each_card_that_timed_every_rung_at_the_size():
    found = measured.runs(RUNGS, CUBE)
    assert [(seen.card, measured.problem_of(seen)) for seen in found] == [("NVIDIA H200", CUBE)]
    assert measured.runs(RUNGS, Gemm(100, 100, 100)) == ()


def test_speeds_by_size_stand_from_small_to_large_with_dashes_for_rungs_that_were_not_timed(record):
    (odd,) = (each for each in records.shipped() if each.label == record.label and each.rungs[0]["shape"][0] == 4097)
    odd = dataclasses.replace(odd, rungs=odd.rungs[1:])
    about, sources, _, *rows = ladder_table.by_size([odd, record]).splitlines()
    assert about == "measured: NVIDIA H200, 2026-11-30"
    assert sources.index("4096 x 4096") < sources.index("4097 x 4097")
    naive, strips, cublas = map(np.median, (*times(record, 0, 3), record.conditions["cublas_milliseconds"]))
    expected = [f"{2 * 4096**3 / naive / 1e9:.3f}", f"{100 * cublas / naive:.1f}", "-", "-"]
    assert cells(rows[0]) == ["0", "naive", *expected]
    expected = [f"{2 * 4096**3 / strips / 1e9:.1f}", f"{100 * cublas / strips:.1f}"]
    assert cells(rows[3])[:4] == ["3", "register_tiles_1d", *expected]


def test_speeds_by_size_fit_the_page_over_what_was_noticed_while_they_were_taken(record):
    seen = [each for each in records.shipped() if each.label == record.label and each.rungs[0]["shape"][0] >= 2048]
    slowed = dataclasses.replace(record, rungs=(record.rungs[0] | {"remarks": ["throttled"]}, *record.rungs[1:]))
    others = [each for each in seen if measured.problem_of(each) != CUBE]
    lines = ladder_table.by_size([slowed, *others]).splitlines()
    assert len(seen) == 5 and max(map(len, lines)) <= columns.WIDTH
    assert "4096 x 4096 x 4096, naive: throttled" in lines[lines.index("", 12) :]


def test_speeds_by_size_refuse_runs_of_several_days(record):
    other = dataclasses.replace(record, date="2026-12-01")
    with pytest.raises(ValueError, match="not NVIDIA H200, 2026-11-30; NVIDIA H200, 2026-12-01"):
        ladder_table.by_size([record, other])
    with pytest.raises(ValueError, match="not none"):
        ladder_table.by_size([])


def test_on_a_gpu_a_run_made_now_stands_before_the_shipped_ones(monkeypatch, record):
    now = dataclasses.replace(record, card="Tesla T4", date="2026-12-01")
    asked = []
    monkeypatch.setattr(measured.backend, "name", "cuda")
    monkeypatch.setattr(measured, "measure", lambda *request: asked.append(request) or now)
    assert measured.runs(RUNGS, CUBE) == (now, record)
    assert asked == [(RUNGS, CUBE)]


def test_the_speed_of_cublas_is_the_work_over_its_median_time(record):
    median = np.median(record.conditions["cublas_milliseconds"])
    assert measured.cublas(record) == pytest.approx(2 * 4096**3 / (median / 1e3))


@pytest.mark.parametrize("figure", [lambda record: ladder_figure.shares([record], LADDERS)], indirect=True)
def test_the_figure_of_shares_has_a_labelled_point_for_each_rung_of_each_ladder(figure, record):
    (axis,) = figure.axes
    texts = [text.get_text() for text in axis.texts]
    (best,) = map(np.median, times(record, 6))
    share = f"{100 * np.median(record.conditions['cublas_milliseconds']) / best:.1f}%"
    assert f"{share}, {2 * 4096**3 / best / 1e9:.1f} TFLOP/s" in texts
    assert "71.2%, 36.3 TFLOP/s" in texts and "93.7%, 21.8 TFLOP/s" in texts
    assert sum("TFLOP/s" in text for text in texts) == 3 * len(RUNGS)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [f"measured: {record.label}, 4096 x 4096 x 4096", published.H200.label, published.A6000.label]
    assert len({(line.get_color(), line.get_marker()) for line in axis.lines if line.get_marker() != "None"}) == 3
    assert axis.get_xscale() == "log" and "%" in axis.get_xlabel()


@pytest.mark.parametrize("figure", [lambda record: ladder_figure.shares([record], LADDERS)], indirect=True)
def test_labels_of_the_figure_do_not_overlap_and_stay_inside(figure):
    figure.canvas.draw()
    (axis,) = figure.axes
    cublas, _ = axis.transData.transform((100, 0))
    boxes = [text.get_window_extent() for text in axis.texts if "TFLOP/s" in text.get_text()]
    for place, box in enumerate(boxes):
        assert box.x1 < axis.get_window_extent().x1
        assert not box.x0 < cublas < box.x1
        assert not any(box.overlaps(other) for other in boxes[:place])
    assert figure.get_facecolor() == axis.get_facecolor() == (1, 1, 1, 1)


@pytest.mark.parametrize("figure", [ladder_figure.under_roofs], indirect=True)
def test_every_rung_of_the_record_stands_under_the_roofs_of_its_card(figure, record):
    texts = " ".join(text.get_text() for text in figure.axes[0].texts)
    assert all(f"measured: {each.name}" in texts for each in RUNGS)


def test_the_modelled_intensity_follows_the_blocks_tile():
    assert ladder_figure.modelled_intensity(rung("naive"), {"BX": 32, "BY": 4}, CUBE) == pytest.approx(0.25, rel=1e-3)
    assert ladder_figure.modelled_intensity(rung("shared_tiles"), {"TILE": 32}, CUBE) == pytest.approx(8, rel=5e-3)
    tile = rung("register_tiles_2d").tile
    assert ladder_figure.modelled_intensity(rung("register_tiles_2d"), tile, CUBE) == pytest.approx(32, rel=2e-2)
