"""Stand-ins for `ncu` and `compute-sanitizer`, which say what they are told, after running the program if so told.

What they say has the form that NVIDIA's documentation shows.
"""

import json
import os
import sys
from pathlib import Path

from gemmlab import backend

SCRIPT = """#!{python}
import json, subprocess, sys

told = json.load(open({told!r}))
if "--version" in sys.argv:
    print(told["version"])
    sys.exit()
log = next(word.partition("=")[2] for word in sys.argv if word.startswith("--log-file=")) if told["joined"] else (
    sys.argv[sys.argv.index("--log-file") + 1])
with open({calls!r}, "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
program = sys.argv[sys.argv.index({python!r}):]
ended = subprocess.run(program) if told["runs"] else None
text = told["says"].pop(0) if len(told["says"]) > 1 else told["says"][0]
json.dump(told, open({told!r}, "w"))
if text is not None:
    open(log, "w").write(text)
sys.exit(told["status"] or (ended.returncode if ended else 0))
"""


class FakeTool:
    """A program of a tool's name, first on PATH; `calls` are the arguments of its runs."""

    def __init__(self, folder: Path, name: str, version: str):
        self.told, self.called = folder / f"{name}.json", folder / f"{name}.calls"
        self.version, self.joined = version, name == "ncu"
        program = folder / name
        program.write_text(
            SCRIPT.format(python=sys.executable, told=str(self.told), calls=str(self.called)), encoding="utf-8"
        )
        program.chmod(0o755)
        self.says("")

    def says(self, *texts: str | None, status: int = 0, runs: bool = False) -> None:
        """Tell what each run writes to its log, the last from then on, and its status."""
        told = {"version": self.version, "joined": self.joined, "says": texts, "status": status, "runs": runs}
        self.told.write_text(json.dumps(told), encoding="utf-8")

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self.called.read_text(encoding="utf-8").splitlines()]


def pretend_gpu(monkeypatch, folder: Path) -> None:
    """Let `folder` stand first on PATH, and kernels seem to run on a GPU here; in child processes the emulator does."""
    monkeypatch.setattr(backend, "name", "cuda", raising=False)
    monkeypatch.setattr(backend, "reason", "a test says so", raising=False)
    monkeypatch.setattr(backend, "cp", None, raising=False)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv(backend.VARIABLE, "emulator")
