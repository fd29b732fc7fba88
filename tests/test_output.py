"""What commands do where their output goes nowhere, or to what cannot take all of it."""

import json
import os
import subprocess
import sys

import pytest


def run(*arguments, output, **environment):
    """Run a command of gemmlab on the emulator with an output of its own; return its status and its complaints."""
    process = subprocess.run(
        [sys.executable, "-m", "gemmlab", *map(str, arguments)],
        stdout=output,
        stderr=subprocess.PIPE,
        env=os.environ | {"GEMMLAB_BACKEND": "emulator"} | environment,
        text=True,
    )
    return process.returncode, process.stderr


@pytest.fixture
def left():
    """A pipe whose reader has left, as `head -1` leaves."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_left_gets_no_traceback(left, unbuffered):
    assert run("doctor", "--json", output=left, PYTHONUNBUFFERED=unbuffered) == (0, "")


def test_a_climb_whose_reader_left_still_keeps_what_it_knows(left, tmp_path):
    path = tmp_path / "run.json"
    status, said = run("climb", "--rungs", "0", "--size", "8", "--json", path, output=left)
    assert status == 0 and "Broken" not in said
    assert [rung["rung"] for rung in json.loads(path.read_text())["rungs"]] == [0]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_an_output_that_cannot_be_written_is_told_in_a_line():
    with open("/dev/full", "w") as full:
        status, said = run("roofline", output=full)
    assert (status, said) == (1, "gemmlab: the output cannot be written: No space left on device\n")


def test_a_character_that_the_output_cannot_take_is_escaped(tmp_path):
    path, output = tmp_path / "é.png", tmp_path / "output"
    with output.open("wb") as file:
        assert run("roofline", "--plot", path, output=file, PYTHONIOENCODING="ascii") == (0, "")
    assert output.read_bytes().decode("ascii").endswith("\\xe9.png\n") and path.stat().st_size > 0
