"""The commands on records."""

from dataclasses import replace
from pathlib import Path

import pytest
from record_cases import COALESCED, WRONG, spoil

from gemmlab import climb as climbing
from gemmlab import context, record, records
from gemmlab.__main__ import main


def test_the_command_records_decides_compares_and_runs_again(tmp_path, capsys):
    mine = tmp_path / "mine.cu"
    mine.write_text(COALESCED.source)
    folder = str(tmp_path / "new")
    options = ["--rungs", "0", "--edited", f"coalesced={mine}", "--shape", "64,32,16", "--backend", "emulator"]
    assert main(["record", folder, *options, "--expect", "mine=fewer sectors", "--note", "a try"]) == 0
    assert main(["decide", folder, "mine", "kept", "--why", "fewer sectors", "--against", "naive"]) == 0
    assert "mine is kept" in capsys.readouterr().out
    climb = records.climbs()[0]
    assert main(["compare", folder, climb]) == 0
    assert f"b: {record.load(climb).label}" in capsys.readouterr().out
    assert main(["rerun", folder, "--backend", "emulator"]) == 0
    assert "results, bits of C and counts are equal" in capsys.readouterr().out


def test_the_command_says_what_is_wrong_by_its_status(tmp_path, capsys):
    mine = tmp_path / "mine.cu"
    mine.write_text(WRONG.source)
    options = ["--edited", f"naive={mine}", "--size", "32", "--backend", "emulator"]
    assert main(["record", str(tmp_path / "new"), *options]) == 1
    assert "mine: wrong result" in capsys.readouterr().out and (tmp_path / "new" / "record.json").exists()
    assert main(["record", str(tmp_path / "new"), *options]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["decide", str(tmp_path / "new"), "mine", "kept", "--why", "fast"]) == 2
    assert "cannot be kept" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "new"), str(tmp_path)]) == 2
    assert "it has no record.json. Climbs that come with gemmlab: " in capsys.readouterr().err
    assert main(["decide", records.climbs()[0], "naive", "kept", "--why", "fast"]) == 2
    assert "is a climb, and takes no decisions" in capsys.readouterr().err
    assert main(["rerun", str(tmp_path / "nowhere")]) == 2
    assert main(["record", str(tmp_path / "other"), "--edited", "naive=none.cu"]) == 2
    assert "none.cu" in capsys.readouterr().err
    mine.write_bytes(b"\xff")
    assert main(["record", str(tmp_path / "other"), "--edited", f"naive={mine}"]) == 2
    assert "mine.cu: the file is no text in UTF-8" in capsys.readouterr().err
    twice = ["--rungs", "0", "--expect", "naive=slow", "--expect", "naive=fast"]
    assert main(["record", str(tmp_path / "other"), *twice]) == 2
    assert "--expect naive=slow: there is another of 'naive'" in capsys.readouterr().err


@pytest.mark.parametrize(("ended", "status"), [("KeyboardInterrupt", 130), ("MemoryError", 1), ("ContextLost: x", 1)])
def test_only_an_interrupt_has_the_status_of_an_interrupt(ended, status, pair, tmp_path, monkeypatch, capsys):
    loaded = record.load(pair)
    partial = replace(loaded, data=loaded.data | {"ended": ended})
    monkeypatch.setattr(record, "write", lambda *given, **also: partial)
    monkeypatch.setattr(record, "rerun", lambda *given: partial)
    assert main(["record", str(tmp_path / "new"), "--rungs", "0-1", "--backend", "emulator"]) == status
    assert f"2 of 2 runs are done: {ended}" in capsys.readouterr().err
    assert main(["rerun", str(pair), "--backend", "emulator"]) == status


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--edited", "naive=none.cu"], "--edited naive=none.cu: No such file or directory: write the path"),
        (["--edited", "nave=none.cu"], "--edited nave=none.cu: there is no rung 'nave'"),
        (["--rungs", ""], "--rungs '': "),
        (["--rungs", "0,0"], "--rungs '0,0' names rung 0 (naive) twice"),
    ],
)
def test_what_cannot_be_recorded_is_refused_by_the_name_of_its_option(arguments, said, tmp_path, capsys):
    assert main(["record", str(tmp_path / "new"), *arguments, "--backend", "emulator"]) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "new").exists()


@pytest.mark.parametrize("seed", ["-1", "x", "1.5"])
def test_a_seed_that_is_none_is_refused_by_the_name_of_its_option(seed, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["record", str(tmp_path / "new"), f"--seed={seed}"])
    assert f"argument --seed: '{seed}' is no seed: write an integer of at least 0" in capsys.readouterr().err


def test_a_kernel_is_no_record_to_be_run_again(tmp_path, capsys):
    (tmp_path / "mine.cu").write_text(COALESCED.source)
    assert main(["rerun", str(tmp_path / "mine.cu")]) == 2
    assert "mine.cu is no record: give the folder of one, or the JSON file of a climb" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="this system has no /proc")
def test_a_place_where_nothing_can_be_written_is_refused_before_anything_runs(monkeypatch, capsys):
    monkeypatch.setattr(climbing, "bench", None)
    assert main(["record", "/proc/gemmlab", "--rungs", "0", "--backend", "emulator"]) == 2
    assert "/proc/gemmlab cannot be made" in capsys.readouterr().err
    assert main(["climb", "--json", "/proc/gemmlab.json", "--rungs", "0", "--backend", "emulator"]) == 2
    assert "--json /proc/gemmlab.json cannot be written: you may not write to /proc" in capsys.readouterr().err


def test_the_command_says_in_a_line_which_launch_ended_the_context(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        record, "write", lambda *given, **also: (_ for _ in ()).throw(context.ContextLost("mine", "an error"))
    )
    assert main(["record", str(tmp_path / "new"), "--rungs", "0", "--backend", "emulator"]) == 1
    assert "gemmlab record: mine ended this process's CUDA context: an error" in capsys.readouterr().err


def test_a_record_that_is_not_repeated_has_a_status_of_its_own(folder, capsys):
    spoil(folder, "runs", 0, "sha256", value="00")
    assert main(["rerun", str(folder), "--backend", "emulator"]) == 1
    assert "naive, 64 x 32 x 16: the bits of C differ" in capsys.readouterr().out
