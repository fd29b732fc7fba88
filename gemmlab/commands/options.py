"""What the commands share: options that choose rungs, a shape and a backend, and the way a request is refused."""

import argparse
import os
import sys
from pathlib import Path

from gemmlab import backend

BAR = "{desc} |{bar:30}| {percentage:.0f}%, {elapsed} gone, {remaining} to go (Ctrl-C keeps what is done)"


def add_problem(parser: argparse.ArgumentParser) -> None:
    """Add --rungs, --size, --shape and --backend, as `rungs`, `shape` (M, N, K) and `backend`."""
    parser.add_argument("--rungs", default="", metavar="0-1", help="the rungs, such as 0-1 or 0,coalesced (all)")
    add_shape(parser, 256)
    add_backend(parser)


def add_shape(parser: argparse.ArgumentParser, size: int) -> None:
    """Add --size and --shape, as `shape` (M, N, K), which is (size, size, size) unless given."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--size", dest="shape", type=_cube, metavar="N", help=f"N for M, N and K alike ({size})")
    either.add_argument(
        "--shape", dest="shape", type=_shape, metavar="M,N,K", help="C is M x N, A is M x K, B is K x N"
    )
    parser.set_defaults(shape=(size, size, size))


def add_backend(parser: argparse.ArgumentParser) -> None:
    """Add --backend."""
    parser.add_argument("--backend", choices=backend.NAMES, help="where to run (CUDA where it is usable)")


def require_writable(option: str, path: Path | None) -> None:
    """Raise ValueError where an option's file cannot be written, before hours are spent on what belongs in it."""
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"{option} {path} is a folder, but must be a file")
    existing = next(place for place in (path, *path.absolute().parents) if place.exists())
    if existing != path and not existing.is_dir():
        raise ValueError(f"{option} {path} cannot be written: {existing} is a file, not a folder")
    if not os.access(existing, os.W_OK):
        raise ValueError(f"{option} {path} cannot be written: you may not write to {existing}")


def refuse(command: str, why: object, status: int) -> int:
    """Print why a command ends without its result, and return its exit status."""
    print(f"{f'gemmlab {command}'.strip()}: {why}", file=sys.stderr)
    return status


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
