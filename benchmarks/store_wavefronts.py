"""Why does a GPU count more wavefronts of shared stores in rungs 3 and 4 than their addresses call for?

    python benchmarks/store_wavefronts.py [--repeats 5] [--json FILE]

Counts the kernels as they are, and with other loads from global memory: none, of one matrix alone, such that L1 holds
what they ask, and past L1. Their stores are the same. Needs Nsight Compute, and a GPU whose counters may be read. Only
the kernels as they are compute a product.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gemmlab import columns, launch, profiling
from gemmlab.columns import Column
from gemmlab.emulator.traffic import metrics
from gemmlab.gemm import Gemm
from gemmlab.ladder import Rung, rungs
from gemmlab.launch import Kernel
from gemmlab.profiling.nvidia_tools import ToolFailed

PROBLEM = Gemm(256, 256, 256)
REQUESTS, WAVEFRONTS = metrics("st", "shared")
FILLED = "l1tex__m_xbar2l1tex_read_sectors.sum"  # sectors that came from L2
OF_A, OF_B = "A[(row0 + row) * K + k0 + k]", "B[(k0 + k) * N + col0 + col]"
CHANGES = {
    "as it is": (OF_A, OF_B),
    "no global loads": ("row + k0 + k", "k + k0 + col"),
    "loads of A alone": (OF_A, "k + k0 + col"),
    "loads of B alone": ("row + k0 + k", OF_B),
    "loads of what L1 holds": ("A[k & 7]", "B[col & 31]"),
    "loads past L1 (ld.cg)": (f"__ldcg(&{OF_A})", f"__ldcg(&{OF_B})"),
}
"""What stands where a kernel loads from A and from B."""


def variants(rung: Rung) -> Iterator[tuple[str, Kernel]]:
    """Yield the kernel of a rung with each change to its loads."""
    source = rung.source()
    if source.count(OF_A) != 1 or source.count(OF_B) != 1:
        raise ValueError(f"{rung.source_file} has no loads {OF_A} and {OF_B}, which this changes")
    for name, (of_a, of_b) in CHANGES.items():
        yield name, replace(launch.of(rung), source=source.replace(OF_A, of_a).replace(OF_B, of_b))


def table(counts: dict[str, dict[str, dict[str, list[int]]]]) -> str:
    """Return a row for each kernel: requests, wavefronts beyond them in each launch, and sectors that came from L2."""
    rows = {f"{rung}, {change}": found for rung, changes in counts.items() for change, found in changes.items()}

    def surplus(name: str) -> str:
        each = zip(rows[name][WAVEFRONTS], rows[name][REQUESTS], strict=True)
        return ", ".join(str(wavefronts - requests) for wavefronts, requests in each)

    shown = (
        Column("", "kernel", str),
        Column("", "stores", lambda name: f"{rows[name][REQUESTS][0]:,}"),
        Column("", "wavefronts beyond, by launch", surplus),
        Column("", "sectors from L2", lambda name: f"{rows[name][FILLED][0]:,}"),
    )
    return "\n".join(columns.lines(shown, list(rows)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, print the table, and write JSON where asked; 1 where nothing can be counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="launches of each kernel")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    counts: dict[str, dict[str, dict[str, list[int]]]] = {}
    label = ""
    for rung in rungs("3-4"):
        kernels = dict(variants(rung))
        found = {name: {metric: [] for metric in (REQUESTS, WAVEFRONTS, FILLED)} for name in kernels}
        for _ in range(options.repeats):
            try:
                counted = profiling.profile(kernels, PROBLEM, (REQUESTS, WAVEFRONTS, FILLED))
            except ToolFailed as error:
                print(f"store_wavefronts: {error}", file=sys.stderr)
                return 1
            label = counted.label
            for name, one in counted.counts.items():
                for metric, values in found[name].items():
                    values.append(one[metric])
        counts[rung.name] = found
    print(f"{label}, {PROBLEM}\n{table(counts)}")
    if options.json:
        options.json.write_text(json.dumps({"label": label, "counts": counts}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
