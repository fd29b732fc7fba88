"""What an examination adds to a kernel at 256^3: seconds, and how many launches of that size they are worth.

    python benchmarks/correctness.py [--rungs 0-6] [--repeat 3] [--json FILE]

On CuPy where there is a GPU, else on the emulator. The kernel is compiled and has run once before; a launch includes
its copies, as launch.run makes it. The fewest of `--repeat` seconds count. The exit status is 0 when no examination
takes longer than SECONDS.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gemmlab import backend, correctness, launch
from gemmlab.environment import environment
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import Rung, rungs

CUBE = Gemm(256, 256, 256)
SECONDS = {"emulator": 2.0, "cuda": 1.0}  # what checks may add


def fewest_seconds(call: Callable[[], object], repeat: int) -> float:
    """The shortest of several calls on the host's clock."""
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measure(each: Rung, where: backend.Backend, repeat: int) -> dict[str, object]:
    """One rung's seconds for a launch at 256^3 and for an examination, which must find it right."""
    kernel, matrices = launch.of(each), inputs(CUBE)
    launch.run(kernel, CUBE, matrices, where.cp)
    examined = correctness.examine(kernel, xp=where.cp).require()
    once = fewest_seconds(lambda: launch.run(kernel, CUBE, matrices, where.cp), repeat)
    whole = fewest_seconds(lambda: correctness.examine(kernel, xp=where.cp), repeat)
    return {
        "rung": each.number,
        "name": each.name,
        "launches": examined.planned,
        "launch_s": once,
        "examination_s": whole,
    }


def main() -> int:
    """Print a line a rung; the exit status is 0 when every examination keeps to the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rungs", default="0-6", help="which rungs, such as 0-6")
    parser.add_argument("--repeat", type=int, default=3, help="how often each is measured")
    parser.add_argument("--json", type=Path, help="write the seconds here")
    options = parser.parse_args()
    where = backend.choose(os.environ.get(backend.VARIABLE, ""))
    limit, found = SECONDS[where.name], []
    print(f"{'rung':<18}{'checks':>8}{'launch of 256^3, s':>20}{'examination, s':>16}{'launches it is worth':>22}")
    for each in rungs(options.rungs):
        row = measure(each, where, options.repeat)
        found.append(row)
        worth = row["examination_s"] / row["launch_s"]
        print(
            f"{row['name']:<18}{row['launches']:>8}{row['launch_s']:>20.4f}{row['examination_s']:>16.3f}{worth:>22.1f}"
        )
    print(f"on {where.name}; an examination may take {limit:g} s")
    if options.json:
        run = {"environment": environment(where, {}), "limit_s": limit, "rungs": found}
        options.json.write_text(json.dumps(run, indent=1) + "\n")
    return int(any(row["examination_s"] > limit for row in found))


if __name__ == "__main__":
    sys.exit(main())
