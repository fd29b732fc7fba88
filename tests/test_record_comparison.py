"""Records side by side, and run again."""

import copy
from dataclasses import replace

import pytest
from record_cases import COALESCED, EMULATOR, FAST, SLOW, timed

from gemmlab import measured, record, records
from gemmlab.gemm import Gemm
from gemmlab.record import recorded
from gemmlab.record.recorded import Record


def lines_of(text, kernel):
    """The rows of a comparison that stand under a kernel, a list of cells each."""
    rows, inside = [], False
    for line in text.splitlines():
        if not line.startswith(" "):
            inside = line.startswith(f"{kernel}, ")
        elif inside:
            rows.append([cell.strip() for cell in line.split("  ") if cell.strip()])
    return rows


def newest_climb(n):
    """The newest climb of an n x n x n problem that is shipped."""
    return measured.shipped((), Gemm(n, n, n))[0]


def test_records_stand_side_by_side_labelled_by_machine_and_date_measured_apart_from_counted(pair):
    ours = record.load(pair)
    theirs = Record(timed(ours.data, naive=SLOW, coalesced=FAST), ours.sources)
    text = record.compare(ours, theirs)
    counted, measured = text.split("\nMeasured\n")
    for part in (counted.partition("checked\n")[2], measured):
        machine, dates = part.splitlines()[:2]
        assert [label.strip() for label in machine.split("  ")][-2:] == ["a: emulator (sm_90),", "b: NVIDIA H200,"]
        assert dates.split() == [ours.data["environment"]["date"], "2026-11-30", "b", "/", "a"]
    assert "ms" not in counted.partition("checked")[2] and "sectors" not in measured
    assert lines_of(measured, "naive")[0] == ["median ms", "-", "1.52", "-"]
    assert lines_of(measured, "coalesced")[0] == ["median ms", "-", "1.02", "-"]
    assert ["middle half of the samples", "-", "1.51 to 1.53", "-"] in lines_of(measured, "naive")
    assert ["launches in a sample", "-", "5", "-"] in lines_of(measured, "naive")


def test_no_line_of_a_comparison_is_wider_than_jupyterlab_shows_unbroken(pair):
    loaded = record.load(pair)
    data = timed(loaded.data, naive=SLOW, coalesced=FAST)
    data["environment"]["card"] = "NVIDIA GeForce RTX 4070 Ti SUPER"  # among the longest names that NVIDIA gives
    data["note"] = "what the record is about, " * 9
    theirs = Record(data, loaded.sources)
    assert max(map(len, record.compare(theirs, theirs).splitlines())) <= 100


def test_where_neither_was_timed_no_table_of_dashes_stands(pair):
    loaded = record.load(pair)
    text = record.compare(loaded, loaded)
    assert text.endswith("\n\nMeasured: nothing was timed in either") and "median" not in text


def test_times_of_two_cards_are_said_to_be_the_cards_as_much_as_the_kernels(pair):
    loaded = record.load(pair)
    ours, theirs = (timed(loaded.data, naive=FAST, coalesced=SLOW) for _ in range(2))
    theirs["environment"]["card"] = "Tesla T4"
    said = "The machines differ: a ratio of times is one of the cards as much as of the kernels."
    assert said in record.compare(*(Record(data, loaded.sources) for data in (ours, theirs)))
    assert said not in record.compare(*(Record(data, loaded.sources) for data in (ours, ours)))
    assert said not in record.compare(loaded, Record(theirs, loaded.sources))


def test_what_was_noticed_while_a_kernel_was_timed_is_told_by_record_and_kernel(pair):
    loaded = record.load(pair)
    minutes = [30e3, 30e3, 30e3]  # times five launches in a sample is far beyond the minute
    seen = Record(timed(loaded.data, naive=minutes, coalesced=FAST), loaded.sources)
    said = "b: naive, 64 x 32 x 16: 3 samples were taken, as one more might have passed the 60 s for all"
    assert said in record.compare(loaded, seen) and "a: naive, 64" not in record.compare(loaded, seen)


def test_what_a_climb_noted_while_it_was_timed_is_told_as_it_stands_there():
    climb = newest_climb(4096)
    rungs = [row | {"remarks": ["throttled in 1 of 20 samples: power cap"]} for row in climb.rungs[:1]]
    loaded = recorded.of_climb(replace(climb, rungs=tuple(rungs)))
    assert f"a: {rungs[0]['name']}, 4096 x 4096 x 4096: throttled in 1 of 20" in " ".join(
        record.compare(loaded, loaded).split()
    )


def test_a_ratio_of_times_needs_both_and_says_whether_it_is_beyond_noise(pair):
    loaded = record.load(pair)
    a, b = (Record(timed(loaded.data, naive=FAST, coalesced=ours), loaded.sources) for ours in (FAST, SLOW))
    measured = record.compare(a, b).split("\nMeasured\n")[1]
    assert lines_of(measured, "naive")[0] == ["median ms", "1.02", "1.02", "1, within noise"]
    assert lines_of(measured, "coalesced")[0] == ["median ms", "1.02", "1.52", "1.49, beyond noise"]


def test_a_shipped_climb_stands_as_a_column_beside_a_record(tmp_path):
    cube = Gemm(256, 256, 256)
    ours = record.write(tmp_path / "new", {"coalesced": COALESCED}, [cube], where=EMULATOR)
    climb = newest_climb(256)
    text = record.compare(ours, recorded.of_climb(climb))
    assert f"b: {climb.label}; driver {climb.driver}" in text
    counted, measured = (lines_of(part, "coalesced") for part in text.split("\nMeasured\n"))
    # 2048 warps; 256 steps of 5 sectors, and 4 and 1 for C's store and what the fifth sector does not need.
    sectors = f"{2048 * (256 * 5 + 4):,}"
    assert ["global sectors", sectors, sectors, "1"] in counted
    (row,) = (row for row in climb.rungs if row["rung"] == 1)
    assert ["GFLOP/s", "-", f"{row['gflops']:,.0f}", "-"] in measured


def test_every_shipped_climb_loads_as_a_column():
    for file in records.SHIPPED.glob("*.json"):
        loaded = record.load(file)
        assert loaded.label == records.load(file).label and loaded.runs.keys()
        with pytest.raises(ValueError, match="is a climb without sources, so it cannot be run again"):
            record.rerun(loaded, EMULATOR)


def test_samples_of_a_climb_keep_the_batch_of_their_own_rung_and_not_of_cublas():
    climb = newest_climb(4096)
    rungs = [row | {"batch": 7 + position} for position, row in enumerate(climb.rungs)]
    loaded = recorded.of_climb(replace(climb, rungs=tuple(rungs)))
    assert [run["timing"]["batch"] for run in loaded.data["runs"]] == [row["batch"] for row in rungs]
    assert {run["cublas"]["batch"] for run in loaded.data["runs"]} == {climb.conditions["batch"]}


@pytest.mark.parametrize(
    ("ours", "cublas", "marked"),
    [(0.040, 0.040, False), (0.020, 0.040, True), (0.040, 0.036, True), (0.0364, 0.040, True), (0.0366, 0.040, False)],
)
def test_a_share_of_cublas_that_is_of_submissions_is_marked_and_explained(ours, cublas, marked, pair):
    loaded = record.load(pair)
    data = timed(loaded.data, naive=FAST, coalesced=[ours] * 5)
    data["runs"][1]["cublas"] = data["runs"][1]["timing"] | {"samples_ms": [cublas] * 5}
    text = record.compare(loaded, Record(data, loaded.sources))
    share = f"{100 * cublas / ours:.1f}" + (" *" if marked else "")
    assert ["% of cuBLAS", "-", share, "-"] in lines_of(text.split("\nMeasured\n")[1], "coalesced")
    assert (
        "* At 0.036 ms or less a time, of cuBLAS too, may be mostly that of submitting the launch" in text
    ) == marked


def test_records_with_nothing_in_common_say_so(pair):
    text = record.compare(record.load(pair), recorded.of_climb(newest_climb(4096)))
    assert "nothing can be held side by side" in text and "only in a: 64 x 32 x 16: naive, coalesced" in text


def test_a_record_runs_again_to_the_same_bits_verdicts_and_counts(pair):
    before = record.load(pair)
    now = record.rerun(before, EMULATOR)
    assert record.differences(before, now) == ()
    assert [run["sha256"] for run in now.data["runs"]] == [run["sha256"] for run in before.data["runs"]]
    assert now.data["examinations"] == before.data["examinations"]
    assert [run["launch"] for run in now.data["runs"]] == [run["launch"] for run in before.data["runs"]]


def test_a_run_that_failed_is_named_with_the_reason_and_has_no_bits_that_could_differ(pair):
    before = record.load(pair)
    data = copy.deepcopy(before.data)
    data["runs"][0] |= dict.fromkeys(data["runs"][0].keys() - {"kernel", "problem", "launch"}) | {
        "failure": "no such\noption"
    }
    assert record.differences(before, Record(data, before.sources)) == (
        "naive, 64 x 32 x 16: the result is FAILED, and was right: no such",
    )


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
