"""What the commands share: options that choose rungs, a shape and a backend, and the way a request is refused."""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gemmlab import backend
from gemmlab.quoting import shown

PLAIN_BAR = "{desc} |{bar:30}| {percentage:.0f}%, {elapsed} gone, {remaining} to go"
BAR = PLAIN_BAR + " (Ctrl-C keeps what is done)"
LONG_S = 120.0
NUMBERS = {int: "integer", float: "number"}


def add_problem(parser: argparse.ArgumentParser) -> None:
    """Add --rungs, --size, --shape and --backend, as `rungs`, `shape` (M, N, K) and `backend`."""
    parser.add_argument("--rungs", metavar="0-1", help="the rungs, such as 0-1 or 0,coalesced (all)")
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


def within(least: float, most: float, kind: type = float) -> Callable[[str], Any]:
    """Return what reads an option's number, of `kind`, and refuses one that is not from `least` to `most`."""

    def number(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{shown(text)} is no {NUMBERS[kind]}, such as {kind(least)}") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{shown(value)} is out of range: it must be from {least:,} to {most:,}")
        return value

    return number


def require_writable(option: str, path: Path | None) -> None:
    """Raise ValueError where an option's file cannot be written, before hours are spent on what belongs in it."""
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"{option} {path} is a folder, but must be a file")
    existing = next(place for place in (path, *path.absolute().parents) if place.exists())
    if existing != path and not existing.is_dir():
        raise ValueError(f"{option} {path} cannot be written: {existing} is a file, not a folder")
    if not (may_write_in(existing) if existing.is_dir() else os.access(existing, os.W_OK)):
        raise ValueError(f"{option} {path} cannot be written: you may not write to {existing}")


def may_write_in(folder: Path) -> bool:
    """Whether a file can be made in a folder: tried, as a superuser may write anywhere by rights, and not in /proc."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def chosen_rungs(selection: str | None) -> tuple[Any, ...]:
    """Return the rungs that --rungs selects, all where it is not given. Raises ValueError that names the option."""
    from gemmlab import ladder  # here, so that the doctor can speak where NumPy or NVRTC is broken

    if selection is None:
        return ladder.RUNGS
    try:
        rungs = ladder.rungs(selection)
    except ValueError as error:
        raise ValueError(f"--rungs {shown(selection)}: {error}") from None
    for position, rung in enumerate(rungs):
        if rung in rungs[:position]:
            raise ValueError(f"--rungs {shown(selection)} names rung {rung.number} ({rung.name}) twice: name it once")
    return rungs


def bar(what: str, total: int) -> Any:
    """Return a progress bar of runs, which shows at once."""
    from tqdm import tqdm

    return tqdm(total=total, desc=what, leave=False, bar_format=BAR, miniters=0)


def warn_of_hours(command: str, kernels: int, shape: tuple[int, int, int], where: backend.Backend) -> None:
    """Say on the emulator, before a long command begins, about how long it takes and what would be shorter."""
    from gemmlab import climb, gemm

    seconds = kernels * climb.expected_seconds(gemm.Gemm(*shape))
    if where.name == "emulator" and seconds > LONG_S:
        print(
            f"gemmlab {command}: the emulator takes about {seconds / 60:,.0f} minutes for this, by an estimate from "
            "the FLOPs; a smaller --size shows the same counts per tile",
            file=sys.stderr,
        )


def show(text: str) -> None:
    """Print what a command found. A reader that leaves early, as `head -1` does, does not end the command; a character
    that the output cannot take is written as an escape. Ends the program with a line where nothing can be written.
    """
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as error:
        # Python writes what is left once more as it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise SystemExit(f"gemmlab: the output cannot be written: {error.strerror}") from None


def refuse(command: str, why: object, status: int) -> int:
    """Print why a command ends without its result, and return its exit status."""
    print(f"{f'gemmlab {command}'.strip()}: {why}", file=sys.stderr)
    return status


def _cube(text: str) -> tuple[int, int, int]:
    try:
        return (int(text),) * 3
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not an integer, such as 512") from None


def _shape(text: str) -> tuple[int, int, int]:
    try:
        M, N, K = (int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not three integers M,N,K, such as 512,256,1024") from None
    return M, N, K
