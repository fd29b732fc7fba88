"""Decisions on kernels of a record: what they hold, and which findings stop a branch."""

import pytest
from record_cases import BROKEN, EMULATOR, FAST, NEAR, RACY, SLOW, SMALL, SPILLING, WILD, WRONG, edited, timed

from gemmlab import record, records
from gemmlab.gemm import Gemm
from gemmlab.record import Decision, decisions
from gemmlab.record.recorded import Record


def test_a_decision_holds_what_was_expected_and_what_the_record_shows(folder):
    decision = Decision("coalesced", "kept", "the waste is gone", against="naive")
    (entry,) = record.decide(folder, decision).decisions
    # A step of k costs a warp of rung 0 32 sectors of A and 1 of B, one of rung 1 1 and 4; 64 warps, 16 steps. C's
    # store costs a warp 32, and 4.
    before, after = 64 * (16 * 33 + 32), 64 * (16 * 5 + 4)
    assert entry["expected"] == "A costs a warp 1 sector a step in place of 32"
    assert entry["observed"] == [f"64 x 32 x 16: right, global sectors {after:,} (was {before:,}), nothing was timed"]
    assert (entry["verdict"], entry["why"], entry["against"]) == ("kept", "the waste is gone", "naive")
    assert record.load(folder).decisions == (entry,)
    assert "| kept | the waste is gone |" in (folder / "README.md").read_text()


def test_the_data_of_a_record_stand_for_its_folder(folder):
    decided = record.decide(folder / "record.json", Decision("coalesced", "dropped", "a try"))
    assert record.load(folder).decisions == decided.decisions != ()


def test_a_climb_takes_no_decisions(tmp_path):
    for path in (records.climbs()[0], records.SHIPPED / f"{records.climbs()[0]}.json"):
        with pytest.raises(
            ValueError, match=r"is a climb, and takes no decisions: record kernels of your own, then deci"
        ):
            record.decide(path, Decision("warp_tiles", "kept", "fast"))


def test_decisions_are_only_added(folder):
    record.decide(folder, Decision("coalesced", "dropped", "not yet understood"))
    first = (folder / "decisions.jsonl").read_text()
    record.decide(folder, Decision("coalesced", "kept", "understood now", against="naive"))
    assert (folder / "decisions.jsonl").read_text().startswith(first)
    assert [entry["verdict"] for entry in record.load(folder).decisions] == ["dropped", "kept"]


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (Decision("nave", "kept", "why"), "the record has no kernel 'nave'; it has naive, coalesced"),
        (Decision("naive", "kept", "why", against="nave"), "the record has no kernel 'nave'"),
        (Decision("naive", "maybe", "why"), "verdict is 'maybe', but must be kept or dropped"),
        (Decision("naive", "kept", "  "), "why is empty: say in a sentence why 'naive' is kept"),
        (Decision("naive", "kept", "why", against="naive"), "'naive' is held against itself"),
        (Decision("naive", "kept", "why", despite="spill"), "despite is 'spill', but must be a tuple"),
        (
            Decision("naive", "kept", "why", despite=("race",)),
            r"despite is \('race',\), but must be a tuple out of spill",
        ),
        (Decision("naive", "kept", "why", despite=("spill",)), "despite names a spill, but the record shows none"),
    ],
)
def test_a_decision_that_the_record_does_not_allow_is_refused_and_leaves_no_trace(decision, message, folder):
    with pytest.raises(ValueError, match=message):
        record.decide(folder, decision)
    assert not (folder / "decisions.jsonl").exists()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (WRONG, r"'mine' cannot be kept: wrong result: 64 x 32 x 16: wrong: of 2048 outputs, 32 outside"),
        (RACY, r"'mine' cannot be kept: race: 64 x 32 x 16, line \d+: thread"),
        (BROKEN, r"'mine' cannot be kept: failed launch: 64 x 32 x 16: kernel.cu\(21\): error: identifier"),
        (WILD, r"'mine' cannot be kept: out-of-bounds: 64 x 32 x 16, line \d+: "),
    ],
    ids=["wrong result", "race", "failed launch", "wild store"],
)
def test_a_kernel_with_a_finding_that_nothing_excuses_can_only_be_dropped(kernel, message, tmp_path):
    record.write(tmp_path / "new", {"mine": kernel}, [SMALL], where=EMULATOR)
    for despite in ((), ("spill",)):
        with pytest.raises(ValueError, match=message if not despite else "cannot be kept|despite names a spill"):
            record.decide(tmp_path / "new", Decision("mine", "kept", "it is fast", despite=despite))
    (entry,) = record.decide(tmp_path / "new", Decision("mine", "dropped", "it is wrong")).decisions
    assert entry["stops"]


def test_a_race_that_shows_only_in_the_second_step_along_k_is_found_whatever_was_asked_for(tmp_path):
    second = "        __syncthreads();  // nobody overwrites a tile that somebody still reads\n"
    kernel = edited("shared_tiles", second, "")
    written = record.write(tmp_path / "new", {"mine": kernel}, [Gemm(32, 32, 8)], where=EMULATOR)
    assert written.data["runs"][0]["hazards"] == []
    assert {stop.kind for stop in decisions.stops(written, "mine")} == {"race"}


def test_a_spill_is_kept_only_with_a_word_on_it(tmp_path):
    record.write(tmp_path / "new", {"mine": SPILLING}, [Gemm(128, 128, 8)], where=EMULATOR)
    with pytest.raises(
        ValueError, match=r"without a word on this: spill: .* bytes a thread .* add despite=\('spill',\)"
    ):
        record.decide(tmp_path / "new", Decision("mine", "kept", "more blocks fit"))
    kept = record.decide(tmp_path / "new", Decision("mine", "kept", "outside the loop", despite=("spill",)))
    assert kept.decisions[0]["stops"] == ["spill"]
    assert "| kept despite spill | outside the loop |" in (tmp_path / "new" / "README.md").read_text()


@pytest.mark.parametrize(
    ("ours", "theirs", "stopped"),
    [(SLOW, FAST, True), (NEAR, FAST, False), (FAST, SLOW, False), ([2.0], [1.0], False)],
    ids=["beyond noise", "within noise", "faster", "too few samples to know the noise"],
)
def test_a_slowdown_stops_a_branch_when_the_middle_halves_of_the_samples_do_not_meet(pair, ours, theirs, stopped):
    loaded = record.load(pair)
    seen = Record(timed(loaded.data, coalesced=ours, naive=theirs), loaded.sources)
    decision = Decision("coalesced", "kept", "why", against="naive")
    assert [stop.kind for stop in decisions.stops(seen, "coalesced", "naive")] == ["slowdown"] * stopped
    if stopped:
        with pytest.raises(ValueError, match=r"1\.52 ms, 1\.49 times 1\.02 ms, .*add despite=\('slowdown',\)"):
            decisions.entry(seen, decision)
    else:
        assert decisions.entry(seen, decision)["verdict"] == "kept"


def test_a_share_of_cublas_that_is_of_submissions_enters_no_log(pair):
    loaded = record.load(pair)
    for ms, said in ((0.02, False), (2.0, True)):
        data = timed(loaded.data, naive=FAST, coalesced=[ms] * 5)
        data["runs"][1]["cublas"] = data["runs"][1]["timing"]
        (sentence,) = decisions.observed(Record(data, loaded.sources), "coalesced")
        assert f"median ms {ms:g}" in sentence and ("% of cuBLAS 100.0" in sentence) == said


def test_the_middle_half_of_samples_lies_between_their_quartiles():
    from gemmlab.record.recorded import middle_half

    assert middle_half([5.0, 1.0, 3.0, 2.0, 4.0]) == (2.0, 4.0)
    assert middle_half([1.0, 2.0, 3.0]) is None
