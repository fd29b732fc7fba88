"""How does measuring itself behave on this GPU? Run the experiments of notebook 21 and keep every sample.

    python benchmarks/measuring.py gemmlab/data/measuring/nvidia_h200.json [--experiments stopwatch,L2]

needs an NVIDIA GPU. The notebook shows the newest file in that folder where there is none.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gemmlab import backend, experiments, measurements


def main(arguments: Sequence[str] | None = None) -> int:
    """Run experiments, print a table of each and write them all; the exit status is 1 where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path, help="write the measurements here")
    parser.add_argument("--experiments", default=",".join(experiments.EXPERIMENTS), help="which, with commas between")
    options = parser.parse_args(arguments)
    names = [name.strip() for name in options.experiments.split(",")]
    try:
        found = experiments.measure(names, backend.choose(os.environ.get(backend.VARIABLE, "")))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    measurements.save(found, options.json)
    for name in names:
        print(f"\n{measurements.table(found, name)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
