"""Records that others wrote or changed: what is refused, with the field at fault."""

import json
import re

import pytest
from record_cases import EMULATOR, SMALL, WRONG, spoil, timed

from gemmlab import record, records
from gemmlab.record import Decision, recording
from gemmlab.record import form as record_form


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("tolerance",), ..., "the data lacks tolerance"),
        (("rumour",), 1, "the data has unknown rumour"),
        (("environment", "date"), "yesterday", "environment.date is 'yesterday', but must be year-month-day"),
        (("inputs", "family"), "secret", "inputs.family is 'secret', but must be one of zeros"),
        (("kernels", 0, "name"), "../../x", r"a kernel is called '../../x'"),
        (("kernels", 0, "name"), "other", r"kernels\[0\].name is 'other', but there is no sources/other.cu"),
        (("kernels", 1, "sha256"), "00", r"kernels\[1\].sha256 is '00', but that of sources/coalesced.cu is"),
        (("runs",), [], r"runs is \[\], but a record holds a run at least"),
        (("runs", 0, "kernel"), "warp", r"runs\[0\].kernel is 'warp', but must be one of"),
        (("runs", 0, "problem", "M"), 0, r"runs\[0\].problem is none: M is 0, but must be at least 1"),
        (("runs", 0, "launch", "grid"), [1, 1], r"runs\[0\].launch.grid is \[1, 1\], but must be three numbers"),
        (("runs", 0, "verdict"), None, r"runs\[0\] must hold a verdict, or a failure that says why there is none"),
        (("runs", 0, "verdict", "outputs"), 7, r"runs\[0\].verdict.outputs is 7, but C has 2048"),
        (("runs", 0, "verdict", "wrong"), -1, r"runs\[0\].verdict.wrong is -1, but must be an integer of at least 0"),
        (("runs", 0, "verdict", "wrong"), 2049, r"runs\[0\].verdict counts more outputs that fail than the 2048 of C"),
        (
            ("runs", 0, "failure"),
            "no",
            r"runs\[0\].failure is 'no', but must say why there is no result, and .*verdict",
        ),
        (("runs", 0, "registers"), -1, r"runs\[0\].registers is -1, but must be an integer of at least 0"),
        (("runs", 1, "kernel"), "naive", r"runs\[1\] repeats runs\[0\], but each may be there once"),
        (("examinations", 1, "kernel"), "naive", r"examinations\[1\] repeats examinations\[0\]"),
        (("examinations", 0, "checks", 0, "verdict"), None, r"examinations\[0\] holds a check without a verdict"),
        (("environment", "card"), "NVIDIA H200", "environment.backend is 'emulator' and environment.card 'NVIDIA"),
        (("environment", "backend"), "cuda", "environment.backend is 'cuda' and environment.card None"),
        (("inputs", "seed"), -1, "inputs.seed is -1, but must be an integer of at least 0"),
        (("runs", 1, "registers"), 31.5, r"runs\[1\].registers is 31.5, but must be an integer"),
        (("runs", 1, "accesses", 0, "sectors"), "many", r"runs\[1\].accesses\[0\].sectors is 'many', but must be"),
        (("examinations", 0, "checks", 0, "family"), "x", r"examinations\[0\].checks\[0\].family is 'x', but must"),
    ],
)
def test_data_that_is_not_of_the_form_is_refused_with_the_field_named(path, value, message, folder):
    spoil(folder, *path, value=value)
    with pytest.raises(ValueError, match=rf"record\.json is no part of a record: {message}"):
        record.load(folder)


def test_times_cannot_be_put_into_a_record_of_the_emulator(folder):
    how = {"batch": 5, "warmup": 3, "cache": "warm L2", "boundary": "events", "readings": []}
    spoil(folder, "runs", 0, "timing", value={"samples_ms": [1.0], **how})
    with pytest.raises(ValueError, match=r"runs\[0\].timing.samples_ms holds samples, but environment.card is null"):
        record.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples_ms": []}, r"samples_ms is \[\], but must hold times of 1e-09 to 1e\+09 ms"),
        ({"samples_ms": [1.0, 0.0]}, "samples_ms is .*, but must hold times"),
        ({"samples_ms": [5e-324]}, "samples_ms is .*, but must hold times"),
        ({"samples_ms": [1e308] * 3}, "samples_ms is .*, but must hold times"),
        ({"batch": -5}, "batch is -5, but must be an integer of at least 0"),
        ({"readings": [None] * 3}, "readings holds 3, but must hold one of each of the 2 samples, or none"),
    ],
)
def test_samples_that_no_clock_gave_are_refused(change, message, pair):
    data = timed(record.load(pair).data, naive=[1.0, 2.0], coalesced=[1.0, 2.0])
    data["runs"][0]["timing"] |= change
    with pytest.raises(ValueError, match=rf"runs\[0\]\.timing\.{message}"):
        record_form.check(data, record.load(pair).sources)


def test_a_source_that_is_no_text_is_named(folder):
    (folder / "sources" / "naive.cu").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"naive\.cu is no part of a record"):
        record.load(folder)


def test_an_edited_source_is_noticed(folder):
    source = folder / "sources" / "naive.cu"
    source.write_text(source.read_text().replace("alpha * sum", "alpha * sum + 0"))
    with pytest.raises(ValueError, match=r"kernels\[0\].sha256 .* put back what was run, or record the edited kernel"):
        record.load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"ended": NaN}'])
def test_text_that_is_no_record_is_refused(text, folder):
    (folder / "record.json").write_text(text)
    with pytest.raises(ValueError, match=r"record\.json is no part of a record"):
        record.load(folder)


def test_a_file_that_was_cut_off_is_said_to_be_so(folder):
    file = folder / "record.json"
    file.write_text(file.read_text()[:1000])
    with pytest.raises(
        ValueError, match=r"record\.json is no part .*: it is no JSON, as a file that was cut off or edi"
    ):
        record.load(folder)


def test_a_record_that_another_gemmlab_wrote_in_another_form_is_said_to_be_of_that_one(folder, monkeypatch):
    spoil(folder, "rumour", value=1)
    with pytest.raises(ValueError, match=r"the data has unknown rumour$"):
        record.load(folder)
    spoil(folder, "environment", "gemmlab", value="9.1")
    monkeypatch.setattr(recording, "release", lambda: "0.1.0")
    with pytest.raises(
        ValueError, match=r"unknown rumour; gemmlab 9\.1 wrote it, and this is 0\.1\.0: read it with that"
    ):
        record.load(folder)
    spoil(folder, "rumour", value=...)
    assert record.load(folder).data["environment"]["gemmlab"] == "9.1", "another release alone is no fault"


def test_a_folder_without_a_record_is_named_and_the_climbs_that_could_be_meant(tmp_path):
    names = re.escape(", ".join(records.climbs()))
    with pytest.raises(
        FileNotFoundError, match=rf"there is no record at .*: it has no record\.json\. Climbs .*: {names}"
    ):
        record.load(tmp_path)
    with pytest.raises(
        FileNotFoundError, match=r"there is no record at nowhere: there is no such folder\. Climbs that"
    ):
        record.load("nowhere")
    assert {path.stem for path in records.SHIPPED.glob("*.json")} == set(records.climbs())


def test_a_decision_that_was_written_by_hand_against_the_findings_is_refused(tmp_path):
    folder = tmp_path / "new"
    record.write(folder, {"mine": WRONG}, [SMALL], where=EMULATOR)
    entry = record.decide(folder, Decision("mine", "dropped", "wrong")).decisions[0]
    (folder / "decisions.jsonl").write_text(json.dumps(entry | {"verdict": "kept"}) + "\n")
    with pytest.raises(
        ValueError, match=r"decisions\.jsonl is no part of a record: 'mine' cannot be kept: wrong result"
    ):
        record.load(folder)
    (folder / "decisions.jsonl").write_text(json.dumps(entry | {"kernel": "other"}) + "\n")
    with pytest.raises(ValueError, match=r"line 1\.kernel is 'other', but the record has mine"):
        record.load(folder)
    (folder / "decisions.jsonl").write_text(json.dumps(entry) + "\nkept\n")
    with pytest.raises(ValueError, match=r"line 2 is no JSON: .*: take it out if it was cut off"):
        record.load(folder)
