"""Whether the emulator tells of a GPU what the GPU does: bits of results, registers, and counts of Nsight Compute.

    python benchmarks/fidelity.py [PART_OF_A_NAME...] [--ncu [PROGRAM]] [--json FILE] [--dry-run]

Runs every rung's kernel on several shapes and every kernel under tests/cases on a GPU through CuPy and on the emulator,
and prints one table: what is equal stands once, what is not stands as emulator != GPU. --ncu adds requests, sectors and
wavefronts, counted in a second run under Nsight Compute, which needs permission to read the GPU's counters. Kernels
that would break a GPU's context, or whose values are up to the schedule, are compiled and not launched. --json writes
all figures as a record. --dry-run needs no GPU and runs the emulator's half alone. The exit status is 0 when all bits
are equal, 1 when some are not, and 2 when there is no GPU.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from subprocess import SubprocessError

from fidelity_cases import FAMILY, SEED, Case, Seen, cases, observe, on_device
from fidelity_gpu import launch, profile
from fidelity_table import Row, save, summary, table

from gemmlab import backend, emulator, nvrtc
from gemmlab.backend import Backend, architecture
from gemmlab.environment import environment
from gemmlab.profiling.counters import COUNTERS, counts
from gemmlab.profiling.nsight_compute import Counts
from gemmlab.profiling.nvidia_tools import version

STARTED = time.perf_counter()


def emulate(case: Case, arch: str) -> tuple[Seen, Counts | None]:
    """Return what the emulator of an architecture makes of a case and, where it ran, its counts by metric."""
    emulator.use_architecture(arch)
    seen = observe(case, emulator)
    if seen.outcome != "ran":
        return seen, None
    kernel = emulator.RawKernel(case.source, case.entry, case.options)
    trace = emulator.trace(kernel, case.grid, case.block, on_device(case, emulator), case.shared_mem)
    return seen, counts(trace.accesses)


def compare(chosen: Sequence[Case], where: Backend, ncu: str | None) -> list[Row]:
    """Return a row for each case; `where` is CUDA or, for the emulator's half alone, the emulator."""
    arch = architecture(where)
    seen: dict[str, Seen] = {}
    counted: dict[str, Counts] = {}
    # Spawned, because a process that has a CUDA context must not be forked.
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool, tempfile.TemporaryDirectory() as scratch:
        emulated = [pool.submit(emulate, case, arch) for case in chosen]
        if where.name == "cuda":
            seen = launch(chosen, arch, _folder(scratch, "launched"))
            _tell("launched on the GPU")
        ours = [_result(one) for one in emulated]
        _tell("launched and traced on the emulator")
        if ncu is not None:
            launched = [case for case in chosen if seen[case.name].outcome == "ran"]
            asked = {*COUNTERS, *(metric for _, found in ours for metric in found or ())}
            counted, wrong = profile(launched, arch, _folder(scratch, "profiled"), ncu, asked)
            _tell(f"counted {len(counted)} of {len(launched)} launches by Nsight Compute. {wrong}".strip())
    return [
        Row(case, found, seen.get(case.name), found_counts, counted.get(case.name))
        for case, (found, found_counts) in zip(chosen, ours, strict=True)
    ]


def _result(emulated: "Future[tuple[Seen, Counts | None]]") -> tuple[Seen, Counts | None]:
    error = emulated.exception()
    return emulated.result() if error is None else (Seen("refused", f"{type(error).__name__}: {error}"), None)


def _folder(parent: str, name: str) -> Path:
    folder = Path(parent, name)
    folder.mkdir()
    return folder


def _tell(what: str) -> None:
    print(f"{time.perf_counter() - STARTED:6.1f} s  {what}", file=sys.stderr, flush=True)


def main() -> int:
    """Run the check and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART_OF_A_NAME", help="only kernels so named, such as rung2 or 55")
    parser.add_argument("--ncu", nargs="?", const="ncu", metavar="PROGRAM", help="count with Nsight Compute too (ncu)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write a record of all figures")
    parser.add_argument("--dry-run", action="store_true", help="run the emulator's half alone")
    asked = parser.parse_args()
    try:
        where = backend.choose("emulator" if asked.dry_run else "cuda")
        profiler = version(asked.ncu) if asked.ncu and not asked.dry_run else None
    except (backend.CudaUnavailable, OSError, SubprocessError, ValueError) as error:
        parser.error(f"{error} Without a GPU: --dry-run runs the emulator's half. Without Nsight Compute: no --ncu.")
    chosen = [c for c in cases(architecture(where)) if not asked.parts or any(part in c.name for part in asked.parts)]
    if not chosen:
        parser.error(f"no kernel's name has {' or '.join(asked.parts)} in it")
    rows = compare(chosen, where, asked.ncu if profiler else None)
    print(table(rows))
    if asked.json:
        conditions = {
            "family": FAMILY,
            "seed": SEED,
            "nsight_compute": profiler,
            "emulator_nvrtc": ".".join(map(str, nvrtc.version())),
        }
        save(asked.json, environment(where, conditions), rows)
    print(f"\n{summary(rows)}" if where.name == "cuda" else "\nNothing was compared: there was no GPU's half")
    return 0 if all(row.equal_bits for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
