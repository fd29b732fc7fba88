"""The command line: `python -m gemmlab doctor` and `python -m gemmlab climb`."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gemmlab import backend, doctor


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
    """Run rungs and print their table; 0 when every result is correct, 1 when one is not, 2 for a refused request."""
    if options.backend:
        os.environ[backend.VARIABLE] = options.backend
    from gemmlab import climb, gemm, ladder

    try:
        rungs = ladder.rungs(options.rungs) if options.rungs else ladder.RUNGS
        run = climb.climb(rungs, gemm.Gemm(*options.shape))
    except (ValueError, backend.CudaUnavailable) as error:
        print(f"gemmlab climb: {error}", file=sys.stderr)
        return 2
    print(climb.table(run))
    if options.json:
        options.json.write_text(json.dumps(run, indent=2) + "\n", encoding="utf-8")
    return 0 if all(rung["correct"] for rung in run["rungs"]) else 1


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
