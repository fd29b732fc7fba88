"""The form of a run, and the records that come with gemmlab."""

import copy
import json

import pytest

from gemmlab import cutlass_runs, measurements, records, sweeps, tuning_cache
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung
from gemmlab.profiling import captures

# Made-up figures: only the form is under test.
MEASURED = {
    "environment": {
        "card": "NVIDIA H200",
        "architecture": "sm_90",
        "date": "2026-11-29",
        "driver": "580.159.04",
        "cuda": "13.0",
        "python": "3.12.3",
        "numpy": "2.5.2",
        "cupy": "14.2.0",
        "nvrtc": "13.0",
        "conditions": {
            "family": "uniform",
            "seed": 0,
            "alpha": 1.0,
            "beta": 0.0,
            "boundary": "CUDA events",
            "warmup": 3,
            "batch": 5,
            "samples": 2,
            "cache": "warm L2",
            "clocks": "as found",
            "cublas_milliseconds": [2.6, 2.7],
        },
    },
    "rungs": [
        {
            "rung": 0,
            "name": "naive",
            "entry": "gemm_naive",
            "shape": [64, 48, 32],
            "tile": {"BX": 32, "BY": 4},
            "backend": "cuda",
            "correct": True,
            "max_abs_error": 1e-6,
            "error_bound": 1e-5,
            "registers": 32,
            "spill_bytes": 0,
            "shared_bytes": 0,
            "accesses": [
                {"line": 28, "op": "ld.global", "bytes": 4, "requests": 8, "sectors": 256, "ideal": 32},
                {"line": 30, "op": "ld.shared", "bytes": 4, "requests": 8, "wavefronts": 8, "ideal": 8},
            ],
            "hazards": [{"kind": "race", "line": 3, "block": [0, 0, 0], "threads": [[1, 0, 0]], "message": "a race"}],
            "sha256": "00",
            "milliseconds": [1.5, 1.25],
            "batch": 5,
            "remarks": ["throttled in 1 of 2 samples: power cap"],
            "gflops": 131.0,
            "percent_of_cublas": None,
        }
    ],
}
EMULATED = copy.deepcopy(MEASURED)
EMULATED["environment"] |= {"card": None, "driver": None, "cuda": None, "cupy": None}
EMULATED["environment"]["conditions"] |= dict.fromkeys(
    ("boundary", "warmup", "batch", "samples", "cache", "clocks", "cublas_milliseconds")
)
EMULATED["rungs"][0] |= {"backend": "emulator", "accesses": None, "hazards": None, "milliseconds": None, "gflops": None}


def edited(path, value):
    """MEASURED with the field at `path` set to a value, or removed when the value is `...`."""
    run = copy.deepcopy(MEASURED)
    *parents, last = path
    place = run
    for step in parents:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return run


@pytest.mark.parametrize("run", [MEASURED, EMULATED], ids=["measured", "emulated"])
def test_a_run_comes_back_from_its_file_as_it_was(run, tmp_path):
    path = tmp_path / "new folder" / "run.json"
    records.save(run, path)
    record = records.load(path)
    assert list(record.rungs) == run["rungs"]
    assert {name: getattr(record, name) for name in run["environment"]} == run["environment"]


def test_a_record_is_labelled_by_card_and_date(tmp_path):
    records.save(MEASURED, tmp_path / "a.json")
    records.save(EMULATED, tmp_path / "b.json")
    assert records.load(tmp_path / "a.json").label == "NVIDIA H200, 2026-11-29"
    assert records.load(tmp_path / "b.json").label == "emulator (sm_90), 2026-11-29"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["rungs"], ..., "the data lacks rungs"),
        (["notes"], "fast", "the data has unknown notes"),
        (["environment", "driver"], ..., "environment lacks driver"),
        (["environment", "conditions", "cache"], ..., "environment.conditions lacks cache"),
        (["environment", "date"], "29/11/2026", "environment.date is '29/11/2026', but must be year-month-day"),
        (["environment", "conditions", "seed"], None, "environment.conditions.seed is None, but must be an integer"),
        (["rungs", 0, "gflop"], 1.0, r"rungs\[0\] has unknown gflop"),
        (["rungs", 0, "rung"], True, r"rungs\[0\].rung is True, but must be an integer"),
        (["rungs", 0, "correct"], 1, r"rungs\[0\].correct is 1, but must be true or false"),
        (["rungs", 0, "gflops"], float("nan"), r"rungs\[0\].gflops is nan, but must be a finite number"),
        (["rungs", 0, "gflops"], 10**400, r"rungs\[0\].gflops is 10{79}\.\.\., but must be a finite number"),
        (["rungs", 0, "milliseconds", 1], "1.25", r"rungs\[0\].milliseconds\[1\] is '1.25', but must be a finite num"),
        (["rungs", 0, "milliseconds"], [1.5, 0.0], r"rungs\[0\].milliseconds is \[1.5, 0.0\], but must hold times of"),
        (["environment", "card"], None, "cublas_milliseconds holds samples, but environment.card is null"),
        (["rungs", 0, "accesses", 0, "sectors"], -8, r"rungs\[0\].accesses\[0\].sectors is -8, but must be an integer"),
        (["rungs", 0, "shape"], [64, 48], r"rungs\[0\].shape is \[64, 48\], but must be \[M, N, K\]"),
        (["rungs", 0, "accesses", 0, "sectors"], ..., r"rungs\[0\].accesses\[0\] lacks sectors"),
        (["rungs", 0, "accesses", 1, "sectors"], 8, r"rungs\[0\].accesses\[1\] has unknown sectors"),
        (["rungs", 0, "hazards", 0, "message"], ..., r"rungs\[0\].hazards\[0\] lacks message"),
    ],
)
def test_a_field_that_is_missing_unknown_or_of_the_wrong_kind_is_named(path, value, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        records.save(edited(path, value), tmp_path / "run.json")
    assert not (tmp_path / "run.json").exists()


def test_a_file_that_is_no_record_is_named(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(edited(["rungs"], ...)))
    with pytest.raises(ValueError, match=r"run\.json is no record of a run: the data lacks rungs"):
        records.load(path)
    path.write_text("{")
    with pytest.raises(ValueError, match=r"run\.json is no record of a run: Expecting"):
        records.load(path)


@pytest.mark.parametrize(
    ("load", "what"),
    [
        (records.load, "is no record of a run"),
        (measurements.load, "holds no measurements"),
        (cutlass_runs.load, "is no run of CUTLASS"),
        (sweeps.load, "is no file of sweeps"),
        (captures.load, "is no capture"),
        (lambda path: tuning_cache.load(path, rung(3), Gemm(64, 64, 64)), "is no cache of kernel_tuner"),
    ],
)
def test_a_file_that_is_nested_beyond_all_measure_is_named(load, what, tmp_path):
    path = tmp_path / "run.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match=rf"run\.json {what}.*maximum recursion"):
        load(path)


def test_shipped_records_are_read_in_the_order_of_their_names(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "SHIPPED", tmp_path)
    records.save(EMULATED, tmp_path / "b.json")
    records.save(MEASURED, tmp_path / "a.json")
    assert [record.card for record in records.shipped()] == ["NVIDIA H200", None]


def test_every_shipped_record_was_measured_on_a_named_card_with_its_conditions():
    for record in records.shipped():
        assert record.card and record.driver and record.cuda
        assert record.conditions["boundary"] and record.conditions["cache"]
        assert all(row["correct"] and row["milliseconds"] for row in record.rungs)
