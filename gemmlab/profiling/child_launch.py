"""Launches kernels in a process of its own, which a profiler or a sanitizer can watch, and which a fault may end.

    python -m gemmlab.profiling.child_launch LAUNCHES.json

is such a process. It ends with status 1 at the first launch that fails, and the last line that it prints says why.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gemmlab import backend, launch
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import Geometry
from gemmlab.launch import Kernel
from gemmlab.quoting import first_line


def program(folder: Path, launches: Iterable[tuple[Kernel, Gemm]]) -> list[str]:
    """Return the command that makes launches on seeded inputs, in the order given; what they are stands in `folder`."""
    path = folder / "launches.json"
    path.write_text(json.dumps([_as_data(kernel, problem) for kernel, problem in launches]), encoding="utf-8")
    return [sys.executable, "-m", "gemmlab.profiling.child_launch", str(path)]


def main(path: str) -> int:
    """Make the launches that a file describes, on the backend of this process, and return the exit status."""
    if backend.name == "cuda":
        # In CuPy's pool arrays are neighbours, so that an access past the end of one would be a legal one to the next.
        backend.cp.cuda.set_allocator(None)
    for made in json.loads(Path(path).read_text(encoding="utf-8")):
        kernel, problem = _from_data(made)
        try:
            launch.run(kernel, problem, inputs(problem), backend.cp)
        except Exception as error:
            print(f"{kernel.entry}: {type(error).__name__}: {first_line(error)}", file=sys.stderr)
            return 1
    return 0


def _as_data(kernel: Kernel, problem: Gemm) -> dict[str, Any]:
    return {
        "source": kernel.source,
        "entry": kernel.entry,
        "options": list(kernel.options),
        "geometry": list(launch.geometry(kernel, problem)),
        "problem": asdict(problem),
    }


def _from_data(made: dict[str, Any]) -> tuple[Kernel, Gemm]:
    grid, block, shared_mem = made["geometry"]
    geometry = Geometry(tuple(grid), tuple(block), shared_mem)
    kernel = Kernel(made["source"], made["entry"], tuple(made["options"]), lambda problem: geometry)
    return kernel, Gemm(**made["problem"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
