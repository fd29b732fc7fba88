"""Measurements as data and as text."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gemmlab import measurements, steadiness
from gemmlab.gemm import Gemm
from gemmlab.measurements import Findings, Measurement
from gemmlab.sensors import Reading
from gemmlab.timing import FLUSHED, GRAPH, WARM, Timing

ENVIRONMENT = {
    "card": "NVIDIA H200",
    "architecture": "sm_90",
    "date": "2026-11-30",
    "driver": "580.1",
    "cuda": "13.0",
    "python": "3.12.3",
    "numpy": "2.5.2",
    "cupy": "14.2.0",
    "nvrtc": "13.0",
    "conditions": {"clocks": None},
}
SLOWED = Reading(1410, 3201, 80, 699.6, ("power cap",))
WARM_TIMING = Timing((2.0, 1.0, 4.0), 5, 3, WARM, "events", (SLOWED, None, Reading(1980, 3201, 60, 500.0, ())))
FLUSHED_TIMING = Timing((8.0, 9.0), 2, 3, FLUSHED, "events")
FOUND = Findings(
    ENVIRONMENT,
    (
        Measurement("L2", "warp_tiles", WARM, Gemm(64, 32, 16), WARM_TIMING),
        Measurement("L2", "warp_tiles", FLUSHED, Gemm(64, 32, 16), FLUSHED_TIMING),
        Measurement("values", "cuBLAS", "zeros", Gemm(8, 8, 8), FLUSHED_TIMING),
    ),
)


def test_what_was_saved_is_loaded_again_with_every_sample_and_reading(tmp_path):
    measurements.save(FOUND, tmp_path / "new" / "card.json")
    assert measurements.load(tmp_path / "new" / "card.json") == FOUND


def test_a_field_at_fault_is_named_with_the_file(tmp_path):
    path = tmp_path / "card.json"
    measurements.save(FOUND, path)
    run = json.loads(path.read_text())
    run["measurements"][1]["samples_ms"][0] = "fast"
    path.write_text(json.dumps(run))
    with pytest.raises(ValueError, match=r"card\.json holds no measurements: .*samples_ms\[0\] is 'fast'"):
        measurements.load(path)
    path.write_text("{")
    with pytest.raises(ValueError, match=r"card\.json holds no measurements"):
        measurements.load(path)


def test_what_is_no_number_is_not_saved(tmp_path):
    reading = Reading(1980, 3201, 60, float("nan"), ())
    wrong = replace(FOUND.measurements[0], timing=replace(WARM_TIMING, readings=(reading,)))
    with pytest.raises(ValueError, match="watts is nan"):
        measurements.save(Findings(ENVIRONMENT, (wrong,)), tmp_path / "card.json")
    assert not (tmp_path / "card.json").exists()


def test_the_newest_file_that_holds_an_experiment_is_taken(tmp_path):
    newer = Findings(ENVIRONMENT | {"date": "2026-12-01"}, FOUND.measurements[2:])
    measurements.save(newer, tmp_path / "a.json")
    measurements.save(FOUND, tmp_path / "b.json")
    assert measurements.newest("values", tmp_path) == newer
    assert measurements.newest("L2", tmp_path) == FOUND
    assert measurements.newest("stopwatch", tmp_path) is None
    assert measurements.newest("L2", tmp_path / "nowhere") is None


def test_a_table_names_card_and_date_over_medians_extremes_clocks_and_watts_and_says_how_they_were_timed():
    lines = measurements.table(FOUND, "L2").splitlines()
    assert lines[0] == "measured: NVIDIA H200, 2026-11-30, driver 580.1, CUDA 13.0; float32"
    kernel, warm, flushed = lines[2:5]
    assert kernel == "warp_tiles, 64 x 32 x 16"
    assert warm.split() == "warm L2 2.000 1.000 to 4.000 3 x 5 1410 to 1980 700".split()
    assert flushed.split() == "flushed L2 8.500 8.000 to 9.000 2 x 2 - -".split()
    assert lines[5:] == [
        "timed by events; warm L2, after 3 launches",
        "timed by events; flushed L2, after 3 launches",
        measurements.LEGEND,
        "warp_tiles, 64 x 32 x 16, warm L2: throttled in 1 of 3 samples: power cap",
        "warp_tiles, 64 x 32 x 16, warm L2: the clock moved between 1410 and 1980 MHz",
    ]


def test_measurements_stand_under_their_kernel_and_size_a_steady_clock_as_one_number():
    steady = replace(WARM_TIMING, warmup=1, readings=(Reading(1980, 3201, 60, 500.0, ()),) * 3)
    rows = [Measurement("values", name, "zeros", Gemm(8, 8, 8), steady) for name in ("cuBLAS", "warp_tiles", "cuBLAS")]
    lines = measurements.table(Findings(ENVIRONMENT, tuple(rows)), "values").splitlines()
    assert [line.split(",")[0] for line in lines if not line.startswith(" ")][1:3] == ["cuBLAS", "warp_tiles"]
    assert [line.split() for line in lines].count("zeros 2.000 1.000 to 4.000 3 x 5 1980 500".split()) == 3
    assert "timed by events; warm L2, after 1 launch" in lines


def test_no_line_of_a_table_is_wider_than_jupyterlab_shows_unbroken():
    widest = Timing((0.00012346, 0.0098765), 10_000, 3, FLUSHED, GRAPH, (SLOWED, Reading(1980, 3201, 60, 1000.0, ())))
    row = Measurement("L2", "register_tiles_2d", GRAPH, Gemm(16384, 16384, 16384), widest)
    table = measurements.table(Findings(ENVIRONMENT, (row,)), "L2")
    assert "throttled" in table and max(map(len, table.splitlines())) <= 100


def test_what_nobody_measured_is_a_dash_and_the_command_that_measures_it():
    for found in (None, FOUND):
        text = measurements.table(found, "stopwatch")
        assert text.startswith("stopwatch: -\n") and "python benchmarks/measuring.py" in text


def test_samples_stand_under_kernel_size_and_label():
    assert measurements.samples(FOUND, "L2") == {
        "warp_tiles, 64 x 32 x 16\nwarm L2": (2.0, 1.0, 4.0),
        "warp_tiles, 64 x 32 x 16\nflushed L2": (8.0, 9.0),
    }


def test_all_that_is_shipped_can_be_read():
    for path in measurements.SHIPPED.glob("*.json"):
        assert measurements.load(path).measurements


@pytest.fixture(scope="module")
def notebook():
    """The cells of notebook 21 by their names."""
    path = Path(__file__).parent.parent / "notebooks" / "21_measuring.ipynb"
    return {cell["id"]: "".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]}


def shipped(experiment):
    """The timings of an experiment of the H200, in their order."""
    return [each.timing for each in measurements.newest(experiment, measurements.SHIPPED).of(experiment)]


def test_what_notebook_21_says_of_the_h200s_stopwatches_first_launch_and_copies_is_what_the_file_holds(notebook):
    call, wait, events = shipped("stopwatch")
    said = notebook["stopwatch-reading"]
    assert f"after {call.median_ms:.2f} ms, and once after {call.max_ms:.2f}:" in said
    assert f"{wait.median_ms - events.median_ms:.2f} ms more than the events" in said
    assert f"{wait.spread:.0%} apart where those of the events lie {events.spread:.0%} apart" in said
    first, later = shipped("first launch")
    assert f"took {first.median_ms:.0f} ms, and the later ones {later.median_ms:.2f}:" in notebook["first-reading"]
    assert 9000 < first.median_ms / later.median_ms < 10_000
    resident, copied = shipped("end to end")
    assert 20 < copied.median_ms / resident.median_ms < 22 and "twenty times" in notebook["ends-reading"]


def test_what_notebook_21_says_of_the_h200s_submissions_and_l2_is_what_the_file_holds(notebook):
    rung2, graph2, rung6, graph6 = shipped("submission")
    saved = [one.median_ms - graph.median_ms for one, graph in ((rung2, graph2), (rung6, graph6))]
    shares = [ms / one.median_ms for ms, one in zip(saved, (rung2, rung6), strict=True)]
    said = "{:.1f} and {:.1f} microseconds a launch, {:.0%} and {:.0%}".format(*(1e3 * ms for ms in saved), *shares)
    assert said in notebook["submission-reading"] and 1.8 < rung6.median_ms / rung2.median_ms < 2
    timings = shipped("L2")
    small, large = (
        [(flushed.median_ms, warm.median_ms) for warm, flushed in zip(half[::2], half[1::2], strict=True)]
        for half in (timings[:6], timings[6:])
    )
    two, six, cublas = small
    slower = [f"{flushed / warm - 1:.0%}" for flushed, warm in (six, cublas, two)]
    costs = [f"{flushed - warm:.3f}" for flushed, warm in (six, cublas, two)]
    assert (
        "costs rung 6 {}, cuBLAS {} and rung 2 {}, or {}, {} and {} ms".format(*slower, *costs)
        in (notebook["cache-reading"])
    )
    assert all(0.99 < flushed / warm <= 1 for flushed, warm in large)


def test_what_notebook_21_says_of_zeros_and_random_numbers_on_the_h200_is_what_the_file_holds(notebook):
    zeros, cublas_zeros, uniform, cublas, *again = shipped("values")
    for one, other in ((zeros, uniform), (cublas_zeros, cublas), (again[0], again[2]), (again[1], again[3])):
        assert abs(other.median_ms / one.median_ms - 1) < 0.002 and "to 0.2%" in notebook["values-look-text"]
    said = notebook["values-reading"]
    watts = [max(reading.watts for reading in each.readings) for each in (again[0], uniform, cublas)]
    for each in watts:
        assert f"{each:.0f} W" in said
    held = [number for number, reading in enumerate(uniform.readings) if reading.slowed_by]
    assert held == list(range(100 - 27, 100)) and "ended 27 samples after" in said
    assert f"up to {uniform.max_ms / uniform.median_ms - 1:.1%} slower" in said
    assert uniform.samples_ms[-1] / uniform.median_ms < 1.02
    assert max(uniform.samples_ms[71:73]) / uniform.median_ms > 1.02  # before the reason is seen
    assert (uniform.readings[0].sm_mhz, uniform.readings[held[0]].sm_mhz) == (1980, 1890)
    assert all(steadiness.drift(each.samples_ms) is None for each in (uniform, again[2]))
