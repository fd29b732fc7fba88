"""The GPU's half of `fidelity.py`: launch cases with CuPy in processes of their own, alone or under Nsight Compute.

    python benchmarks/fidelity_gpu.py FOLDER ARCHITECTURE CASE...

is such a process. Each case becomes a line of FOLDER/seen.jsonl as soon as it is done, and its output FOLDER/CASE.npy.
An error that a CUDA context does not survive ends the process; the cases after it are left for the next one.
"""

import dataclasses
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from fidelity_cases import Case, Seen, cases, observe

from gemmlab.profiling import child, nsight_compute
from gemmlab.profiling.nsight_compute import Counts

SEEN = "seen.jsonl"
LAUNCH_SECONDS, PROFILE_SECONDS = 60, 150


def launch(chosen: Sequence[Case], arch: str, folder: Path) -> dict[str, Seen]:
    """Return what the GPU made of each case by its name. One that takes its process down costs no other its answer."""
    waiting = [case.name for case in chosen]
    while waiting:
        wrong = child.run(_program(folder, arch, waiting), LAUNCH_SECONDS)
        seen = read(folder)
        left = [name for name in waiting if name not in seen]
        if left and (wrong or left == waiting):
            write(folder, left.pop(0), Seen("refused", wrong or "its process ended without a word"))
        waiting = left
    return read(folder)


def profile(
    launched: Sequence[Case], arch: str, folder: Path, ncu: str, metrics: Iterable[str]
) -> tuple[dict[str, Counts], str]:
    """Return Nsight Compute's counts of each case by its name, and what went wrong, or ''.

    Metrics that the GPU does not have are left out.
    """
    program = _program(folder, arch, [case.name for case in launched])
    answer = nsight_compute.count(ncu, program, metrics, folder / "ncu.csv", PROFILE_SECONDS)
    wrong = answer.wrong
    if not answer.launches:
        wrong = f"Nsight Compute counted nothing. {wrong}\n{answer.said.strip()[-1000:]}"
    made = {case.name: (case.entry, tuple(case.grid), tuple(case.block)) for case in launched}
    return nsight_compute.assign(made, answer.launches), wrong


def read(folder: Path) -> dict[str, Seen]:
    """Return what was written in a folder, by the name of the case."""
    path = folder / SEEN
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else ()
    return {line.pop("case"): _seen(folder, line) for line in map(json.loads, lines)}


def write(folder: Path, name: str, seen: Seen) -> None:
    """Append what was seen of a case to a folder."""
    output = None
    if seen.output is not None:
        output = f"{name}.npy"
        np.save(folder / output, seen.output)
    line = {"case": name} | dataclasses.asdict(dataclasses.replace(seen, output=None)) | {"output": output}
    with (folder / SEEN).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def main(folder: Path, arch: str, names: Sequence[str]) -> None:
    """Run cases in the order given, until one breaks the context."""
    import cupy

    known = {case.name: case for case in cases(arch)}
    for name in names:
        seen = observe(known[name], cupy)
        write(folder, name, seen)
        if seen.outcome == "refused" and _is_broken(cupy):
            return


def _seen(folder: Path, line: dict[str, Any]) -> Seen:
    output = line.pop("output")
    return Seen(**line, output=None if output is None else np.load(folder / output))


def _is_broken(cupy: ModuleType) -> bool:
    """Say whether a fault has ended the context: every later call then raises the same error."""
    try:
        cupy.cuda.Device().synchronize()
    except cupy.cuda.runtime.CUDARuntimeError:
        return True
    return False


def _program(folder: Path, arch: str, names: Sequence[str]) -> list[str]:
    return [sys.executable, __file__, str(folder), arch, *names]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
