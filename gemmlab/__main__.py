"""The command line: `python -m gemmlab doctor` and `python -m gemmlab climb`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gemmlab import backend, doctor

BAR = "{desc} |{bar:30}| {percentage:.0f}%, {elapsed} gone, {remaining} to go (Ctrl-C keeps the rungs that are done)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = _parser().parse_args(arguments)
    return options.command(options)


def examine(options: argparse.Namespace) -> int:
    """Print the doctor's report; 0 when the notebooks can run on some backend, else 1."""
    checks = doctor.examine()
    print(json.dumps(doctor.as_data(checks), indent=2) if options.json else doctor.report(checks))
    return 0 if doctor.can_run(checks) else 1


def climb(options: argparse.Namespace) -> int:
    """Run rungs and print their table; 0 when every result is right, 1 when one is not, 2 for a refused request.

    An interrupt leaves the rungs that were done, and the status is 130.
    """
    # Imported here so that the doctor can speak where NumPy or NVRTC is broken.
    from tqdm import tqdm

    from gemmlab import climb, context, gemm, ladder, nvrtc, records, table

    try:
        _require_writable(options.json)
        rungs = ladder.rungs(options.rungs) if options.rungs else ladder.RUNGS
        where = backend.choose(options.backend or os.environ.get(backend.VARIABLE, ""))
        with tqdm(total=len(rungs), desc="climbing", delay=1, leave=False, bar_format=BAR) as bar:
            run = climb.climb(rungs, gemm.Gemm(*options.shape), where, progress=bar.update)
    except (ValueError, backend.CudaUnavailable, nvrtc.CompilerUnavailable) as error:
        return _refuse(error, 2)
    except (nvrtc.CompileError, nvrtc.KernelNotFound, AssertionError, context.ContextLost) as error:
        return _refuse(error, 1)
    except MemoryError:
        return _refuse("this machine has too little memory for the shape: choose a smaller one", 2)
    except KeyboardInterrupt:
        return _refuse("interrupted before the first rung was done", 130)
    print(table.table(run))
    if options.json:
        try:
            records.save(run.as_data(), options.json)
        except OSError as error:
            return _refuse(f"--json {options.json} cannot be written: {error.strerror}", 2)
    if len(run.rows) < len(rungs) and not run.stopped:
        return _refuse(f"interrupted: {len(run.rows)} of {len(rungs)} rungs are done", 130)
    return 0 if run.ok else 1


def _require_writable(path: Path | None) -> None:
    """Raise ValueError where a file cannot be written, before hours are spent on what belongs in it."""
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"--json {path} is a folder, but must be a file")
    existing = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not os.access(existing, os.W_OK):
        raise ValueError(f"--json {path} cannot be written: you may not write to {existing}")


def _refuse(why: object, status: int) -> int:
    print(f"gemmlab climb: {why}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gemmlab", description="A course in CUDA matrix multiplication.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    examining = commands.add_parser("doctor", help="check what this machine has, and say what to do about the rest")
    examining.add_argument("--json", action="store_true", help="print JSON instead of lines")
    examining.set_defaults(command=examine)

    climbing = commands.add_parser("climb", help="run the ladder of kernels and print a table")
    climbing.add_argument("--rungs", default="", metavar="0-1", help="the rungs, such as 0-1 or 0,coalesced (all)")
    size = climbing.add_mutually_exclusive_group()
    size.add_argument("--size", dest="shape", type=_cube, metavar="N", help="N for M, N and K alike (256)")
    size.add_argument("--shape", dest="shape", type=_shape, metavar="M,N,K", help="C is M x N, A is M x K, B is K x N")
    climbing.add_argument("--backend", choices=backend.NAMES, help="where to run (CUDA where it is usable)")
    climbing.add_argument("--json", type=Path, metavar="FILE", help="also write all that is known of the run to FILE")
    climbing.set_defaults(command=climb, shape=(256, 256, 256))
    return parser


def _cube(text: str) -> tuple[int, int, int]:
    try:
        return (int(text),) * 3
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer, such as 512") from None


def _shape(text: str) -> tuple[int, int, int]:
    try:
        M, N, K = (int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not three integers M,N,K, such as 512,256,1024") from None
    return M, N, K


if __name__ == "__main__":
    sys.exit(main())
