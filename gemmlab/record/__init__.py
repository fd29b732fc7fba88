"""Records of experiments: a folder that a colleague can read, hold beside another, and run again.

    record.json      what was run and found; it is written once and not changed
    sources/*.cu     the text that was compiled
    decisions.jsonl  what was decided since, a line each; lines are only added
    README.md        all of it as a page

What was expected is written down before anything runs. `write` runs kernels and keeps what they gave, `decide` adds a
decision, `load` reads a folder of any machine, `compare` puts two side by side, `rerun` repeats one here.
"""

import json
import os
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gemmlab import backend, records
from gemmlab.backend import Backend
from gemmlab.gemm import Gemm
from gemmlab.launch import Kernel
from gemmlab.profiling.counters import Counted
from gemmlab.record import decisions, recorded, recording
from gemmlab.record import form as record_form
from gemmlab.record import plan as record_plan
from gemmlab.record.comparison import compare, differences
from gemmlab.record.decisions import Decision
from gemmlab.record.pages import page
from gemmlab.record.recorded import Record

__all__ = ["Decision", "Record", "compare", "decide", "differences", "load", "rerun", "write"]

LONGEST_NAME = 200  # bytes: file systems end at 255, and a record is written beside its place first
DATA, LOG, PAGE, SOURCES = "record.json", "decisions.jsonl", "README.md", "sources"


def write(
    folder: str | Path,
    kernels: Mapping[str, Kernel],
    problems: Sequence[Gemm],
    *,
    expected: Mapping[str, str] = MappingProxyType({}),
    note: str = "",
    where: Backend | None = None,
    seed: int = 0,
    profile: Counted | None = None,
    progress: Callable[[float], object] = lambda share: None,
) -> Record:
    """Run kernels, by their names, on problems, write all that is known of them to a new folder, and return it.

    `expected` says in words, by a kernel's name, what should come of it; `where` is the backend, that of the notebooks
    unless given; `profile` is what profiling.profile counted of these kernels; `progress` is told each share of a run
    or an examination that was newly done. A kernel that fails is recorded as failed. An interrupt, or a launch that
    ends a GPU's context, ends the recording and leaves what was done, marked incomplete.

    Raises FileExistsError for a folder that is there, PermissionError where it cannot be made, and ValueError for a
    name, a text or a source that cannot enter a record, or a shape that a kernel does not take.
    """
    folder = Path(folder)
    require_new(folder)
    where = where or backend.choose(os.environ.get(backend.VARIABLE, ""))
    plan = record_plan.plan(kernels, problems, expected, note, seed, profile)
    return _save(folder, recording.carry_out(plan, where, progress))


def load(path: str | Path) -> Record:
    """Read a record: its folder, the JSON file of a climb, or the name of a climb that comes with gemmlab.

    Raises FileNotFoundError where there is none, and ValueError that names the file and the field at fault.
    """
    path = Path(path)
    path = path.parent if path.name == DATA else path
    if path.is_file() and path.suffix != ".json":
        raise ValueError(f"{path} is no record: give the folder of one, or the JSON file of a climb")
    shipped = records.SHIPPED / f"{path}.json"
    if path.is_file() or (not path.exists() and shipped.is_file()):
        return recorded.of_climb(records.load(path if path.is_file() else shipped))
    if not (path / DATA).is_file():
        why = f"it has no {DATA}" if path.exists() else "there is no such folder"
        raise FileNotFoundError(
            f"there is no record at {path}: {why}. Climbs that come with gemmlab: {', '.join(records.climbs())}"
        )
    sources = {file.stem: _checked(file, str) for file in sorted((path / SOURCES).glob("*.cu"))}
    data = _checked(path / DATA, lambda text: _data(text, sources))
    record = Record(data, sources)
    log = path / LOG
    return Record(data, sources, _checked(log, lambda text: _entries(record, text)) if log.exists() else ())


def decide(folder: str | Path, decision: Decision) -> Record:
    """Add a decision to a record's log and page, and return the record.

    Raises what `load` raises, and ValueError for a climb, and for a decision that the record does not allow: see
    decisions.entry.
    """
    folder = Path(folder)
    folder = folder.parent if folder.name == DATA else folder
    record = load(folder)
    if not record.sources:
        raise ValueError(f"{record.label} is a climb, and takes no decisions: record kernels of your own, then decide")
    if not isinstance(decision, Decision):
        raise ValueError(f"decision is {decision!r}, but must be a record.Decision")
    record_plan.require_portable("why", decision.why)
    entry = decisions.entry(record, decision)
    with (folder / LOG).open("a", encoding="utf-8") as log:
        log.write(json.dumps(entry, allow_nan=False) + "\n")
    record = Record(record.data, record.sources, (*record.decisions, entry))
    fresh = folder / f".{PAGE}"
    fresh.write_text(page(record), encoding="utf-8")
    fresh.replace(folder / PAGE)
    return record


def rerun(
    record: Record, where: Backend | None = None, progress: Callable[[float], object] = lambda share: None
) -> Record:
    """Run what a record ran, with its sources, options, launches, shapes and seeds, and return what was found here.

    `differences` then says what was not repeated. Raises ValueError for a record without sources, such as a climb's.
    """
    where = where or backend.choose(os.environ.get(backend.VARIABLE, ""))
    return recording.carry_out(record_plan.repetition(record), where, progress)


def require_new(folder: Path) -> None:
    """Raise what `write` raises for a folder in which it could not write a record."""
    if len(os.fsencode(folder.name)) > LONGEST_NAME:
        raise ValueError(f"the folder's name has {len(os.fsencode(folder.name))} bytes, but may have {LONGEST_NAME}")
    if folder.exists():
        raise FileExistsError(f"{folder} is there already, and a record is never written over: choose another name")
    existing = next(place for place in folder.absolute().parents if place.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):  # tried: a superuser may write anywhere by rights, and not in /proc
            pass
    except OSError:
        raise PermissionError(f"{folder} cannot be made: you may not write to {existing}") from None


def _save(folder: Path, record: Record) -> Record:
    """Write a record beside its place and move it there whole."""
    record_form.check(record.data, record.sources)
    fresh = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}")
    (fresh / SOURCES).mkdir(parents=True)
    for name, source in record.sources.items():
        (fresh / SOURCES / f"{name}.cu").write_bytes(source.encode())
    (fresh / DATA).write_text(json.dumps(record.data, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    (fresh / PAGE).write_text(page(record), encoding="utf-8")
    try:
        fresh.rename(folder)
    except OSError:
        raise FileExistsError(f"{folder} was made by another meanwhile; the record is kept at {fresh}") from None
    return record


def _checked(path: Path, read: Callable[[str], Any]) -> Any:
    try:
        return read(path.read_bytes().decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no part of a record: {error}") from None


def _data(text: str, sources: Mapping[str, str]) -> Any:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON, as a file that was cut off or edited: {error}") from None
    try:
        record_form.check(data, sources)
    except ValueError as error:
        raise ValueError(f"{error}{_other_release(data)}") from None
    return data


def _other_release(data: Any) -> str:
    """Say which gemmlab wrote data that has another form, if that was another one."""
    match data:
        case {"environment": {"gemmlab": str(wrote)}} if wrote != recording.release():
            return f"; gemmlab {wrote} wrote it, and this is {recording.release() or 'another'}: read it with that one"
    return ""


def _entries(record: Record, text: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(_entry(record, line, number) for number, line in enumerate(text.splitlines(), start=1))


def _entry(record: Record, line: str, number: int) -> Mapping[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number} is no JSON: {error}: take it out if it was cut off") from None
    record_form.check_decision(entry, record.kernels, f"line {number}")
    if entry["verdict"] == "kept":
        found = decisions.stops(record, entry["kernel"], entry["against"])
        decisions.require_keepable(entry["kernel"], found, tuple(entry["despite"]))
    return entry
