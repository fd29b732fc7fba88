"""Are the rungs right on every shape around the edges of their tiles? On CuPy where there is a GPU, else the emulator.

    python benchmarks/shapes.py [--rungs 2-4] [--every 50] [--json FILE]

M, N and K each take every one of SIZES, 1728 shapes, and alpha and beta take turns through every pair of FACTORS. With
beta == 0, C starts as NaN. On two cores of a Xeon the emulator took 7 s for every 50th
shape of rungs 2 to 4.
"""

import argparse
import itertools
import json
import os
import sys
from pathlib import Path

from tqdm import tqdm

from gemmlab import backend, launch
from gemmlab.environment import environment
from gemmlab.gemm import Gemm
from gemmlab.ladder import rungs

SIZES = (1, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129)
FACTORS = (0.0, 1.0, -0.5, 2.0)


def problems(every: int) -> list[Gemm]:
    """Every shape of SIZES, or each `every`-th of them, with the pairs of factors in turn."""
    pairs = itertools.cycle(itertools.product(FACTORS, FACTORS))
    shapes = itertools.product(SIZES, repeat=3)
    return [Gemm(*shape, *pair) for shape, pair in zip(shapes, pairs, strict=False)][::every]


def main() -> int:
    """Print how many shapes are right for each rung; the exit status is 0 when all are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rungs", default="2-4", help="which rungs, such as 2-4")
    parser.add_argument("--every", type=int, default=1, help="take each N-th shape only")
    parser.add_argument("--json", type=Path, help="write the counts and the first wrong result of each rung here")
    options = parser.parse_args()
    where = backend.choose(os.environ.get(backend.VARIABLE, ""))
    shapes, found = problems(options.every), []
    for each in rungs(options.rungs):
        checks = launch.check(launch.of(each), tqdm(shapes, desc=each.name, unit="shape"), ("uniform",), where.cp)
        wrong = [checked for checked in checks if not checked.verdict.correct]
        first = f"{wrong[0].where}: {wrong[0].verdict.message}" if wrong else None
        row = {"rung": each.number, "name": each.name, "shapes": len(checks), "wrong": len(wrong), "first": first}
        found.append(row)
        right = f"{len(checks) - len(wrong)} of {len(checks)} shapes right"
        print(f"rung {each.number}, {each.name}: {right} on {where.name}")
        if first:
            print(first)
    if options.json:
        run = {"environment": environment(where, {}), "sizes": SIZES, "factors": FACTORS, "rungs": found}
        options.json.write_text(json.dumps(run, indent=1) + "\n")
    return int(any(row["wrong"] for row in found))


if __name__ == "__main__":
    sys.exit(main())
