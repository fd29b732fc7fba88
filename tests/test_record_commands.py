"""The commands on records."""

from record_cases import COALESCED, WRONG, spoil

from gemmlab import context, record
from gemmlab.__main__ import main


def test_the_command_records_decides_compares_and_runs_again(tmp_path, capsys):
    mine = tmp_path / "mine.cu"
    mine.write_text(COALESCED.source)
    folder = str(tmp_path / "new")
    options = ["--rungs", "0", "--edited", f"coalesced={mine}", "--shape", "64,32,16", "--backend", "emulator"]
    assert main(["record", folder, *options, "--expect", "mine=fewer sectors", "--note", "a try"]) == 0
    assert main(["decide", folder, "mine", "kept", "--why", "fewer sectors", "--against", "naive"]) == 0
    assert "mine is kept" in capsys.readouterr().out
    assert main(["compare", folder, "nvidia_h200_2026-11-30_256"]) == 0
    assert "b: NVIDIA H200, 2026-11-30" in capsys.readouterr().out
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
    assert main(["rerun", str(tmp_path / "nowhere")]) == 2
    assert main(["record", str(tmp_path / "other"), "--edited", "naive=none.cu"]) == 2
    assert "none.cu" in capsys.readouterr().err
    mine.write_bytes(b"\xff")
    assert main(["record", str(tmp_path / "other"), "--edited", f"naive={mine}"]) == 2
    assert "mine.cu: the file is no text in UTF-8" in capsys.readouterr().err
    twice = ["--rungs", "0", "--expect", "naive=slow", "--expect", "naive=fast"]
    assert main(["record", str(tmp_path / "other"), *twice]) == 2
    assert "--expect naive=slow: there is another of 'naive'" in capsys.readouterr().err


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
