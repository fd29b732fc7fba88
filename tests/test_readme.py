"""README's ladder is the shipped record's."""

import dataclasses
import re
import statistics
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from PIL import Image

from gemmlab.__main__ import main
from gemmlab.figures import ladder_figure

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import ladder  # noqa: E402

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_in_the_readme_is_the_one_that_the_record_gives():
    assert ladder.with_ladder(README, ladder.record()) == README, "write it with: python benchmarks/ladder.py"


def test_the_table_has_a_line_for_each_rung_and_says_on_what_card_and_how_it_was_measured():
    table = README.split(ladder.FIRST)[1].split(ladder.LAST)[0]
    record = ladder.record()
    last, cublas = map(statistics.median, (record.rungs[6]["milliseconds"], record.conditions["cublas_milliseconds"]))
    speed, yardstick = (2 * 4096**3 / time / 1e9 for time in (last, cublas))  # TFLOP/s
    assert f"| 6 warp tiles | {last:.3f} | {speed:.1f} | {100 * cublas / last:.1f} | 93.7 |" in table
    assert f"| cuBLAS | {cublas:.3f} | {yardstick:.1f} | 100 | 100 |" in table
    assert sum(line.startswith("| ") and line[2].isdigit() for line in table.splitlines()) == 7
    said = " ".join(table.split())
    for condition in ("NVIDIA H200", "2026-11-30", "driver 580.159.04", "CUDA 13.2", "4096 x 4096 x 4096", "warm L2"):
        assert condition in said
    for condition in ("20 samples", "1980 MHz", "42 C", f"TF32 off: {yardstick:.2f} TFLOP/s"):
        assert condition in said


def test_the_figure_in_the_readme_was_drawn_from_the_record_on_an_opaque_ground():
    with Image.open(ladder.FIGURE) as picture:
        assert picture.text["Source"] == ladder_figure.digest([ladder.record()], ladder.LADDERS), (
            "draw it with: python benchmarks/ladder.py"
        )
        assert picture.convert("RGBA").getchannel("A").getextrema() == (255, 255)
        assert picture.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
    assert f"]({ladder.FIGURE.relative_to(ROOT).as_posix()})" in README


def test_a_figure_of_other_speeds_has_another_digest():
    seen = ladder.record()
    rows = [dict(row) for row in seen.rungs]
    rows[0]["gflops"] += 1
    other = dataclasses.replace(seen, rungs=tuple(rows))
    assert ladder_figure.digest([other], ()) != ladder_figure.digest([seen], ()) == ladder_figure.digest([seen], ())


def test_writing_again_changes_nothing_else_of_a_readme():
    text = f"before\n{ladder.FIRST}old\n{ladder.LAST}after\n"
    written = ladder.with_ladder(text, ladder.record())
    assert written.startswith(f"before\n{ladder.FIRST}\n| rung |") and written.endswith(f"{ladder.LAST}after\n")
    assert "old" not in written
    plt.close("all")


def test_every_notebook_has_a_line_in_the_map():
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        number = path.stem.split("_")[0]
        assert f"\n| {number} " in README, f"README's map lacks {path.name}"


def test_every_command_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    (\w+) ", capsys.readouterr().out, flags=re.MULTILINE)
    assert {"doctor", "climb"} <= set(commands)
    for command in commands:
        assert f"python -m gemmlab {command} " in README


def test_every_benchmark_is_named_with_the_question_that_it_answers():
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "benchmarks").glob("*.py"):
        assert path.name in text, f"benchmarks/README.md lacks {path.name}"
