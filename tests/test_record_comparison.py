"""Records side by side, and run again."""

import copy
from dataclasses import replace

import pytest
from record_cases import COALESCED, EMULATOR, FAST, SLOW, timed

from gemmlab import record, records
from gemmlab.gemm import Gemm
from gemmlab.record import recorded
from gemmlab.record.recorded import Record


def lines_of(text, kernel):
    """The lines of a comparison that belong to a kernel, a list of cells each."""
    rows, inside = [], False
    for line in text.splitlines():
        if line and not line.startswith(" "):
            inside = line.startswith(f"{kernel} ")
        if inside and line:
            rows.append([cell.strip() for cell in line.split("  ") if cell.strip()])
    return rows


def test_records_stand_side_by_side_labelled_by_machine_and_date_measured_apart_from_counted(pair):
    ours = record.load(pair)
    theirs = Record(timed(ours.data, naive=SLOW, coalesced=FAST), ours.sources)
    text = record.compare(ours, theirs)
    counted, measured = text.split("\nMeasured\n")
    heads = [line for line in text.splitlines() if line.startswith("kernel")]
    assert len(heads) == 2 and all("b: NVIDIA H200, 2026-11-30" in head for head in heads)
    assert all(f"a: emulator (sm_90), {ours.data['environment']['date']}" in head for head in heads)
    assert "ms" not in counted.split("kernel", 1)[1] and "sectors" not in measured
    assert ["median ms", "-", "1.52", "-"] == lines_of(measured, "naive")[0][2:]
    assert ["median ms", "-", "1.02", "-"] == lines_of(measured, "coalesced")[0][2:]
    assert ["middle half of the samples", "-", "1.51 to 1.53", "-"] in lines_of(measured, "naive")


def test_a_ratio_of_times_needs_both_and_says_whether_it_is_beyond_noise(pair):
    loaded = record.load(pair)
    a, b = (Record(timed(loaded.data, naive=FAST, coalesced=ours), loaded.sources) for ours in (FAST, SLOW))
    measured = record.compare(a, b).split("\nMeasured\n")[1]
    assert lines_of(measured, "naive")[0][2:] == ["median ms", "1.02", "1.02", "1, within noise"]
    assert lines_of(measured, "coalesced")[0][2:] == ["median ms", "1.02", "1.52", "1.49, beyond noise"]


def test_a_shipped_climb_stands_as_a_column_beside_a_record(tmp_path):
    cube = Gemm(256, 256, 256)
    ours = record.write(tmp_path / "new", {"coalesced": COALESCED}, [cube], where=EMULATOR)
    theirs = record.load("nvidia_h200_2026-11-30_256")
    text = record.compare(ours, theirs)
    assert "b: NVIDIA H200, 2026-11-30; driver 580.159.04" in text
    counted, measured = (lines_of(part, "coalesced") for part in text.split("\nMeasured\n"))
    # 2048 warps; 256 steps of 5 sectors, and 4 and 1 for C's store and what the fifth sector does not need.
    sectors = f"{2048 * (256 * 5 + 4):,}"
    assert ["global sectors", sectors, sectors, "1"] in counted
    (row,) = (
        row for row in records.load(records.SHIPPED / "nvidia_h200_2026-11-30_256.json").rungs if row["rung"] == 1
    )
    assert ["GFLOP/s", "-", f"{row['gflops']:,.0f}", "-"] in measured
    assert ["% of cuBLAS", "-", f"{row['percent_of_cublas']:.1f}", "-"] in measured


def test_every_shipped_climb_loads_as_a_column():
    for file in records.SHIPPED.glob("*.json"):
        loaded = record.load(file)
        assert loaded.label == "NVIDIA H200, 2026-11-30" and loaded.runs.keys()
        with pytest.raises(ValueError, match="is a climb without sources, so it cannot be run again"):
            record.rerun(loaded, EMULATOR)


def test_samples_of_a_climb_keep_the_batch_of_their_own_rung_and_not_of_cublas():
    climb = records.load(records.SHIPPED / "nvidia_h200_2026-11-30_4096.json")
    rungs = [row | {"batch": 7 + position} for position, row in enumerate(climb.rungs)]
    loaded = recorded.of_climb(replace(climb, rungs=tuple(rungs)))
    assert [run["timing"]["batch"] for run in loaded.data["runs"]] == [row["batch"] for row in rungs]
    assert {run["cublas"]["batch"] for run in loaded.data["runs"]} == {climb.conditions["batch"]}


def test_times_that_are_mostly_submission_are_marked(pair):
    loaded = record.load(pair)
    caution = "Below 0.036 ms a time may be mostly that of submitting the launch"
    for samples, marked in ((FAST, False), ([0.02] * 5, True)):
        seen = Record(timed(loaded.data, naive=FAST, coalesced=samples), loaded.sources)
        assert (caution in record.compare(loaded, seen)) == marked


def test_records_with_nothing_in_common_say_so(pair):
    assert "nothing can be held side by side" in record.compare(
        record.load(pair), record.load("nvidia_h200_2026-11-30_4096")
    )


def test_a_record_runs_again_to_the_same_bits_verdicts_and_counts(pair):
    before = record.load(pair)
    now = record.rerun(before, EMULATOR)
    assert record.differences(before, now) == ()
    assert [run["sha256"] for run in now.data["runs"]] == [run["sha256"] for run in before.data["runs"]]
    assert now.data["examinations"] == before.data["examinations"]
    assert [run["launch"] for run in now.data["runs"]] == [run["launch"] for run in before.data["runs"]]


def test_what_is_not_repeated_is_named(pair):
    before = record.load(pair)
    data = copy.deepcopy(before.data)
    data["runs"][0] |= {"sha256": "00", "registers": 99}
    data["runs"][1]["verdict"]["wrong"] = 5
    data["examinations"][1]["checks"][0]["verdict"]["nan"] = 1
    registers = before.data["runs"][0]["registers"]
    checks = len(data["examinations"][1]["checks"])
    assert record.differences(before, Record(data, before.sources)) == (
        "naive, 64 x 32 x 16: the bits of C differ",
        f"naive, 64 x 32 x 16: registers of a thread 99, and was {registers}",
        "coalesced, 64 x 32 x 16: the result is WRONG, and was right",
        f"coalesced: 1 of {checks} checks on other shapes and inputs came out otherwise",
    )
