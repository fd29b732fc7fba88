import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def dry_run(tmp_path: Path, nvidia_smi: str, *arguments: str) -> str:
    """Return what make would do, and what it complains of, where nvidia-smi prints the given text."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{nvidia_smi}\nEND\n")
    program.chmod(0o755)
    inherited = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "CUDA")}
    environment = inherited | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    # A .venv that is ready already would hide the installation.
    command = ["make", "--dry-run", f"VENV={tmp_path / 'venv'}", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "header, extras",
    [
        ("| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4     |", "[test,cuda12]"),
        ("| NVIDIA-SMI 580.159.04   Driver Version: 580.159.04   CUDA Version: 13.0     |", "[test,cuda13]"),
        ("| NVIDIA-SMI 590.44.01  KMD Version: 590.44.01  CUDA UMD Version: 13.1  |", "[test,cuda13]"),
        ("| NVIDIA-SMI 470.256.02   Driver Version: 470.256.02   CUDA Version: 11.4     |", "[test]"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "[test]"),
    ],
)
def test_the_cupy_that_make_installs_is_the_newest_that_the_driver_can_run(tmp_path, header, extras):
    assert f"--editable '.{extras}'" in dry_run(tmp_path, header, "lab")


def test_the_choice_of_cupy_can_be_overridden(tmp_path):
    assert "--editable '.[test,cuda12]'" in dry_run(tmp_path, "CUDA Version: 13.0", "lab", "CUDA=12")
    assert "--editable '.[test]'" in dry_run(tmp_path, "CUDA Version: 13.0", "lab", "CUDA=none")


def test_another_choice_is_refused_and_the_choices_are_named(tmp_path):
    assert "CUDA=11 is not one of none, 12, 13" in dry_run(tmp_path, "", "lab", "CUDA=11")


def test_testing_covers_style_package_and_notebooks(tmp_path):
    commands = dry_run(tmp_path, "", "test")
    for command in (
        "ruff check .",
        "ruff format --check .",
        "-m pytest -n auto --dist worksteal tests",
        "--nbval-lax --nbval-current-env -x notebooks",
    ):
        assert command in commands
