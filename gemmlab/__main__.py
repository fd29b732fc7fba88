"""The command line: `python -m gemmlab doctor`, `climb`, and the commands on models and on records."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gemmlab import backend, doctor
from gemmlab.commands import record_commands, roofline_commands
from gemmlab.commands.options import add_problem, bar, chosen_rungs, refuse, require_writable, show, warn_of_hours
from gemmlab.quoting import first_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except ModuleNotFoundError as error:
        return refuse("", f"there is no module {error.name!r} here. {doctor.missing_cure()}", 1)
    except ImportError as error:
        return refuse("", f"a package does not import: {first_line(error)}. Ask the doctor: make doctor", 1)


def examine(options: argparse.Namespace) -> int:
    """Print the doctor's report; 0 when the notebooks can run on some backend, else 1."""
    checks = doctor.examine()
    show(json.dumps(doctor.as_data(checks), indent=2) if options.json else doctor.report(checks))
    return 0 if doctor.can_run(checks) else 1


def climb(options: argparse.Namespace) -> int:
    """Run rungs and print their table; 0 when every result is right, 1 when one is not, 2 for a refused request.

    An interrupt leaves the rungs that were done, and the status is 130.
    """
    # Imported here so that the doctor can speak where NumPy or NVRTC is broken.
    from gemmlab import climb, context, gemm, nvrtc, records, table
    from gemmlab.timing import LaunchFailed

    try:
        require_writable("--json", options.json)
        roofline_commands.require_drawable(options.plot)
        rungs = chosen_rungs(options.rungs)
        where = backend.choose(options.backend or os.environ.get(backend.VARIABLE, ""))
        problem = gemm.Gemm(*options.shape)
        warn_of_hours("climb", len(rungs), options.shape, where)
        with bar("climbing", len(rungs)) as climbing:
            run = climb.climb(rungs, problem, where, progress=climbing.update)
    except (ValueError, backend.CudaUnavailable, nvrtc.CompilerUnavailable) as error:
        return refuse("climb", error, 2)
    except (nvrtc.CompileError, nvrtc.KernelNotFound, AssertionError, context.ContextLost, LaunchFailed) as error:
        return refuse("climb", error, 1)
    except MemoryError:
        return refuse("climb", "this machine has too little memory for the shape: choose a smaller one", 2)
    except KeyboardInterrupt:
        return refuse("climb", "interrupted before the first rung was done", 130)
    show(table.table(run))
    if options.json:
        try:
            records.save(run.as_data(), options.json)
        except OSError as error:
            return refuse("climb", f"--json {options.json} cannot be written: {error.strerror}", 2)
    if options.plot:
        from gemmlab.figures import run_figures

        try:
            roofline_commands.draw(run_figures.rungs(run), options.plot)
        except ValueError as error:
            return refuse("climb", error, 2)
    if len(run.rows) < len(rungs) and not run.stopped:
        return refuse("climb", f"interrupted: {len(run.rows)} of {len(rungs)} rungs are done", 130)
    return 0 if run.ok else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gemmlab", description="A course in CUDA matrix multiplication.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    examining = commands.add_parser("doctor", help="check what this machine has, and say what to do about the rest")
    examining.add_argument("--json", action="store_true", help="print JSON instead of lines")
    examining.set_defaults(command=examine)

    climbing = commands.add_parser("climb", help="run the ladder of kernels and print a table")
    add_problem(climbing)
    climbing.add_argument("--json", type=Path, metavar="FILE", help="also write all that is known of the run to FILE")
    roofline_commands.add_plot(climbing)
    climbing.set_defaults(command=climb)

    roofline_commands.add(commands)
    record_commands.add(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
