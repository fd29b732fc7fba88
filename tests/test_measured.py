from dataclasses import replace

import pytest

from gemmlab import backend, measured
from gemmlab.gemm import Gemm
from gemmlab.gpus import GPUS
from gemmlab.ladder import rung
from gemmlab.records import Record
from gemmlab.timing import Timing

NAIVE, COALESCED = rung("naive"), rung("coalesced")


def row(name: str, size: int, milliseconds: list[float] | None) -> dict:
    gflops = None if milliseconds is None else 2 * size**3 / milliseconds[0] / 1e6
    share = None if milliseconds is None else 12.5
    return {
        "name": name,
        "shape": [size] * 3,
        "milliseconds": milliseconds,
        "batch": 7,
        "remarks": None,
        "gflops": gflops,
        "percent_of_cublas": share,
    }


CONDITIONS = {
    "boundary": "events",
    "warmup": 3,
    "batch": 5,
    "samples": 3,
    "cache": "warm L2",
    "cublas_milliseconds": [0.25, 0.5],
}
RECORD = Record(
    card="NVIDIA H200",
    architecture="sm_90",
    date="2026-11-29",
    driver="580.1",
    cuda="13.0",
    python="3.12",
    numpy="2.4",
    cupy="14.2",
    nvrtc="13.0",
    conditions=CONDITIONS,
    rungs=(row("naive", 1000, [4.0, 5.0, 3.0]), row("coalesced", 1000, [0.5, 0.5, 0.5])),
)


def test_the_newest_record_that_timed_every_rung_is_taken():
    older = replace(RECORD, date="2026-01-01")
    part = replace(RECORD, date="2026-12-31", rungs=RECORD.rungs[:1])
    untimed = replace(RECORD, date="2026-12-30", rungs=(row("naive", 1000, None), row("coalesced", 1000, None)))
    assert measured.newest([older, RECORD, part, untimed], [NAIVE, COALESCED]) is RECORD
    assert measured.newest([older, RECORD, part, untimed], [NAIVE]) is part
    assert measured.newest([untimed], [NAIVE]) is None
    assert measured.newest([], [NAIVE]) is None


@pytest.mark.parametrize("size", [256, 2048, 4095, 4097, 8192])
def test_of_one_days_records_the_one_at_the_size_of_published_ladders_is_taken(size):
    ladder = replace(RECORD, rungs=(row("naive", 4096, [9.0]),))
    other = replace(RECORD, rungs=(row("naive", size, [9.0]),))
    assert measured.newest([other, ladder], [NAIVE]) is ladder
    assert measured.newest([ladder, other], [NAIVE]) is ladder
    assert measured.newest([ladder, replace(other, date="2026-12-01")], [NAIVE]).date == "2026-12-01"


def test_without_a_gpu_nothing_is_run_and_the_shipped_records_are_asked(monkeypatch):
    monkeypatch.setattr(backend, "name", "emulator", raising=False)
    monkeypatch.setattr(measured.records, "shipped", lambda: (RECORD,))
    monkeypatch.setattr(measured, "climb", lambda *_: pytest.fail("nothing may be timed here"))
    assert measured.measure([NAIVE, COALESCED], Gemm(2048, 2048, 2048)) == RECORD
    # of rungs that were not asked for nothing is given away
    assert [row["name"] for row in measured.measure([NAIVE], Gemm(2048, 2048, 2048)).rungs] == ["naive"]


def test_with_a_gpu_the_rungs_are_run_now(monkeypatch):
    environment = {name: getattr(RECORD, name) for name in Record.__dataclass_fields__ if name != "rungs"}

    class Run:
        def as_data(self):
            return {"environment": environment, "rungs": list(RECORD.rungs)}

    monkeypatch.setattr(backend, "name", "cuda", raising=False)
    monkeypatch.setattr(measured, "climb", lambda rungs, problem: Run() if problem.M == 2048 else None)
    assert measured.measure([NAIVE, COALESCED], Gemm(2048, 2048, 2048)) == RECORD


def test_speeds_are_those_of_the_record_in_flops_a_second():
    assert measured.speeds(RECORD, [NAIVE, COALESCED]) == {"naive": 2e9 / 4e-3, "coalesced": 2e9 / 0.5e-3}
    assert measured.speeds(RECORD, [NAIVE]) == {"naive": 2e9 / 4e-3}


def test_what_was_not_measured_has_no_speed():
    assert measured.speeds(None, [NAIVE]) == {}
    assert "measured: nothing" in measured.table(None)


def test_a_card_whose_ceilings_are_unknown_is_listed_and_not_drawn_under_another_cards_roofs():
    unknown = replace(RECORD, card="NVIDIA GeForce 256")
    assert measured.speeds(unknown, [NAIVE]) == {}
    assert measured.card(unknown) is GPUS["H200"]
    assert "No ceilings of NVIDIA GeForce 256 are known" in measured.table(unknown)


def test_the_roofs_are_those_of_the_measured_card():
    assert measured.card(replace(RECORD, card="Tesla T4")) is GPUS["T4"]
    assert measured.card(None) is GPUS["H200"]


def test_roofs_are_measured_ceilings_where_there_are_some_and_published_ones_elsewhere():
    h200 = measured.roofs(GPUS["H200"])
    assert (h200.kind, h200.peak, h200.bandwidths) == ("measured", 61.7e12, {"DRAM": 4280e9, "L2": 8160e9})
    t4 = measured.roofs(GPUS["T4"])
    assert (t4.kind, t4.peak, t4.bandwidths) == ("published", 8.1e12, {"DRAM": 320e9})


def test_a_table_of_times_names_card_date_and_conditions_over_the_median_and_spread():
    title, conditions, _, naive, coalesced = measured.table(RECORD).splitlines()
    assert title == "measured: NVIDIA H200, 2026-11-29, driver 580.1, CUDA 13.0"
    assert conditions == "events; 3 launches to warm up, 3 samples, warm L2"
    assert naive.split() == "naive 1000 x 1000 x 1000 4.000 3.000 to 5.000 0.500 12.5".split()
    assert coalesced.split()[0] == "coalesced"


def test_a_figure_names_card_date_and_shape_of_a_record():
    assert measured.label(RECORD) == "NVIDIA H200, 2026-11-29, 1000 x 1000 x 1000"


def test_what_was_noticed_while_a_rung_was_timed_stands_under_the_table():
    noticed = [
        RECORD.rungs[0] | {"remarks": ["3 samples were taken, as one more might have passed the 60 s for all"]},
        RECORD.rungs[1],
    ]
    said = measured.table(replace(RECORD, rungs=tuple(noticed)))
    assert "\nnaive: 3 samples were taken, as one more" in said and "coalesced:" not in said
    assert "naive:" not in measured.table(RECORD)


def test_samples_of_a_record_come_with_their_conditions_cublas_first_each_with_its_own_batch():
    found = measured.timings(RECORD)
    assert list(found) == ["cuBLAS", "naive", "coalesced"]
    assert found["naive"] == Timing((4.0, 5.0, 3.0), 7, 3, "warm L2", "events")
    assert found["cuBLAS"] == Timing((0.25, 0.5), 5, 3, "warm L2", "events")
    alone = replace(RECORD, conditions=CONDITIONS | {"cublas_milliseconds": None})
    assert list(measured.timings(alone)) == ["naive", "coalesced"]
