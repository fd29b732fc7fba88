"""The commands on records: `record`, `decide`, `compare` and `rerun`."""

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gemmlab import backend, records
from gemmlab.commands.options import add_backend, add_problem, bar, chosen_rungs, refuse, show, warn_of_hours
from gemmlab.context import ContextLost


def add(commands: Any) -> None:
    """Add the commands to a parser's subparsers."""
    recording = commands.add_parser("record", help="run kernels and write all that is known of them to a folder")
    recording.add_argument("folder", type=Path, metavar="FOLDER", help="a folder that is not there yet")
    add_problem(recording)
    recording.add_argument(
        "--edited",
        type=_pair,
        action="append",
        default=[],
        metavar="RUNG=FILE",
        help="also FILE, an edited copy of that rung's kernel, under the file's name; may be repeated",
    )
    recording.add_argument(
        "--expect",
        type=_pair,
        action="append",
        default=[],
        metavar="KERNEL=TEXT",
        help="what should come of a kernel, in words; may be repeated",
    )
    recording.add_argument("--seed", type=_seed, default=0, metavar="N", help="of the inputs (0)")
    recording.add_argument("--note", default="", metavar="TEXT", help="what the record is about")
    recording.set_defaults(command=_guarded("record", record))

    deciding = commands.add_parser("decide", help="add a decision on a kernel to a record")
    deciding.add_argument("folder", type=Path, metavar="FOLDER")
    deciding.add_argument("kernel", metavar="KERNEL")
    deciding.add_argument("verdict", choices=("kept", "dropped"))
    deciding.add_argument("--why", required=True, metavar="TEXT", help="the reason, in a sentence")
    deciding.add_argument("--against", metavar="KERNEL", help="the kernel of the record that it should improve on")
    deciding.add_argument(
        "--despite", action="append", default=[], choices=("spill", "slowdown"), help="a finding that TEXT explains"
    )
    deciding.set_defaults(command=_guarded("decide", decide))

    climbs = ", ".join(records.climbs())
    comparing = commands.add_parser(
        "compare", help="print two records side by side", epilog=f"climbs that come with gemmlab: {climbs}"
    )
    for name in ("first", "second"):
        comparing.add_argument(name, metavar="RECORD", help="a folder, the JSON file of a climb, or the name of one")
    comparing.set_defaults(command=_guarded("compare", compare))

    repeating = commands.add_parser("rerun", help="run again what a record ran, and say what is equal")
    repeating.add_argument("folder", type=Path, metavar="FOLDER")
    add_backend(repeating)
    repeating.set_defaults(command=_guarded("rerun", rerun))


def record(options: argparse.Namespace) -> int:
    """Record rungs and edited kernels; 0 when all are right, 1 when one is not or an error ended it, 130 when an
    interrupt did.
    """
    from gemmlab import gemm, record
    from gemmlab.environment import card_name
    from gemmlab.record import decisions

    where = _backend(options)
    kernels = _kernels(options.rungs, options.edited, card_name(where))
    problem = gemm.Gemm(*options.shape)
    record.require_new(options.folder)
    warn_of_hours("record", len(kernels), options.shape, where)
    with bar("recording", 2 * len(kernels)) as recording:
        written = record.write(
            options.folder,
            kernels,
            [problem],
            expected=_expected(options.expect),
            note=options.note,
            where=where,
            seed=options.seed,
            progress=recording.update,
        )
    found = [f"{name}: {stop}" for name in kernels for stop in decisions.stops(written, name)]
    show("\n".join([*found, f"written to {options.folder}: read {options.folder / record.PAGE}"]))
    if written.data["ended"] is not None:
        said = f"{len(written.runs)} of {len(kernels)} runs are done: {written.data['ended']}"
        return refuse("record", said, _status(written))
    return 1 if found else 0


def decide(options: argparse.Namespace) -> int:
    """Add a decision and print its entry; 0."""
    from gemmlab import record

    decision = record.Decision(
        options.kernel, options.verdict, options.why, options.against, tuple(dict.fromkeys(options.despite))
    )
    entry = record.decide(options.folder, decision).decisions[-1]
    show("\n".join([f"{entry['kernel']} is {entry['verdict']}", *entry["observed"]]))
    return 0


def compare(options: argparse.Namespace) -> int:
    """Print two records side by side; 0."""
    from gemmlab import record

    show(record.compare(record.load(options.first), record.load(options.second)))
    return 0


def rerun(options: argparse.Namespace) -> int:
    """Run a record again and print both; 0 when it was repeated, 1 when something differs or an error ended it, 130
    when an interrupt did.
    """
    from gemmlab import record

    before = record.load(options.folder)
    with bar("running again", len(before.runs) + len(before.data["examinations"])) as repeating:
        now = record.rerun(before, _backend(options), repeating.update)
    show(record.compare(before, now))
    if now.data["ended"] is not None:
        return refuse("rerun", f"not everything was repeated: {now.data['ended']}", _status(now))
    unequal = record.differences(before, now)
    show("\n".join(["", *unequal]) if unequal else "\nresults, bits of C and counts are equal")
    return 1 if unequal else 0


def _guarded(name: str, command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Return a command that says in a line why it was refused, with the status 2."""

    def run(options: argparse.Namespace) -> int:
        # Imported here so that the doctor can speak where NumPy or NVRTC is broken.
        from gemmlab import nvrtc
        from gemmlab.timing import LaunchFailed

        try:
            return command(options)
        except (ValueError, OSError, backend.CudaUnavailable, nvrtc.CompilerUnavailable) as error:
            return refuse(name, error, 2)
        except (AssertionError, ContextLost, LaunchFailed) as error:  # of cuBLAS, or of the first launch
            return refuse(name, error, 1)
        except MemoryError:
            return refuse(name, "this machine has too little memory for the shape: choose a smaller one", 2)
        except KeyboardInterrupt:
            return refuse(name, "interrupted before anything was done", 130)

    return run


def _kernels(rungs: str | None, edited: list[tuple[str, str]], card: str | None) -> Mapping[str, Any]:
    """The kernels by name, with their tiles for a card: rungs, all unless some are named or edited ones stand alone."""
    from gemmlab import ladder, launch, tuned

    chosen = () if rungs is None and edited else chosen_rungs(rungs)
    kernels = {rung.name: launch.of(rung, tuned.tile(rung, card)) for rung in chosen}
    for which, file in edited:
        name = Path(file).stem
        try:
            rung = ladder.rung(which)
        except ValueError as error:
            raise ValueError(f"--edited {which}={file}: {error}") from None
        if name in kernels:
            raise ValueError(f"--edited {which}={file}: there is a kernel {name!r} already: give the file another name")
        try:
            source = Path(file).read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"--edited {which}={file}: the file is no text in UTF-8: {error}") from None
        except OSError as error:
            raise ValueError(
                f"--edited {which}={file}: {error.strerror}: write the path of an edited copy of the rung's kernel"
            ) from None
        kernels[name] = launch.of(rung, tuned.tile(rung, card), source)
    return kernels


def _expected(pairs: list[tuple[str, str]]) -> Mapping[str, str]:
    expected = dict(pairs)
    for name, text in pairs:
        if expected[name] != text:
            raise ValueError(f"--expect {name}={text}: there is another of {name!r}: say both in one text")
    return expected


def _backend(options: argparse.Namespace) -> backend.Backend:
    return backend.choose(options.backend or os.environ.get(backend.VARIABLE, ""))


def _status(ended: Any) -> int:
    return 130 if ended.interrupted else 1


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no seed: write an integer of at least 0")
    return int(text)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE")
    return name, value
