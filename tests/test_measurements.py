"""Measurements as data and as text."""

import json
from dataclasses import replace

import pytest

from gemmlab import measurements
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
