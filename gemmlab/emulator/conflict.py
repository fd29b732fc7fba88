"""Two accesses that nothing orders, in words."""

from __future__ import annotations

from dataclasses import dataclass

from .faults import Hazard, Index, verb
from .instructions import Site
from .memory import Place

READ, WRITE, ATOMIC, ASYNC = "read", "write", "atomic", "async write"
FLAG_READ, FLAG_WRITE = "flag read", "flag write"
"""What an access does. A flag is read or written with a memory order, or as volatile in global memory."""

ATOMICS = {ATOMIC, FLAG_READ, FLAG_WRITE}
"""Accesses that do not race with each other."""

INTERBLOCK, CROSSWARP, SAMEWARP, IN_FLIGHT = "interblock", "crosswarp", "samewarp", "async"

_DOES = {
    READ: "reads",
    WRITE: "writes",
    ATOMIC: "updates",
    ASYNC: "copies to",
    FLAG_READ: "reads",
    FLAG_WRITE: "writes",
}
_DID = _DOES | {ATOMIC: "updates by an atomic", ASYNC: "fills by an asynchronous copy"}

_CURES = {
    INTERBLOCK: "blocks run in any order and no barrier joins them: let one block write each output, or use an atomic "
    "such as atomicAdd; what one block hands to another needs __threadfence(), __syncthreads() where several threads "
    "wrote it, and then an atomic flag",
    CROSSWARP: "put a barrier, __syncthreads(), between the two",
    SAMEWARP: "lanes of a warp do not run in step: put __syncwarp() between the two, or __syncthreads()",
}
_ONE_WRITER = "let one thread write it, or use an atomic"


@dataclass(frozen=True)
class Party:
    """One of the two: its source line, what it does, and a thread that does it."""

    line: int
    does: str
    block: Index
    thread: Index


def kind_of(site: Site) -> str:
    """What an access does: READ, WRITE, ASYNC, or one of ATOMICS."""
    if site.op == "cp.async.shared":
        return ASYNC
    does = verb(site.op)
    if does == "update":
        return ATOMIC
    # volatile shared accesses are what warps without __syncwarp() relied on, and it orders no lanes
    if not site.order or (site.order == "volatile" and site.space == "shared"):
        return does
    return FLAG_READ if does == READ else FLAG_WRITE


def scope_of(earlier: Party, later: Party, warps_differ: bool) -> str:
    """How far apart the two are."""
    if earlier.block != later.block:
        return INTERBLOCK
    return CROSSWARP if warps_differ else SAMEWARP


def conflict_hazard(
    space: str, place: Place, earlier: Party, later: Party, scope: str, count: int, unit: int, group: str = ""
) -> Hazard:
    """Finding of a race over `count` pieces of `unit` bytes that were not told before; `place` is where it was seen.

    `group` says of a copy in flight which of its thread's groups it is in.
    """
    what = place.element or f"byte {place.offset} of {place.array}"
    who = f"thread {later.thread} of block {later.block} {_DOES[later.does]} {what}"
    other = f"thread {earlier.thread}"
    if scope == INTERBLOCK:
        other += f" of block {earlier.block}"
    if scope == IN_FLIGHT:
        text = f"{who} while the copy that {other} began on line {earlier.line} may still be in flight: {group}"
        cure = "wait for its group first, as by __pipeline_wait_prior(0), then let the block meet at __syncthreads()"
    elif earlier.line == later.line and earlier.does == later.does:
        text = f"{who}, and so does {other}, in any order"
        cure = _CURES[scope] if scope == INTERBLOCK else _ONE_WRITER
    else:
        text = f"{who}, which {other} {_DID[earlier.does]} on line {earlier.line}, and nothing orders the two"
        cure = _CURES[scope]
    return Hazard(
        "race",
        later.line,
        text,
        later.block,
        (later.thread, earlier.thread),
        count,
        (earlier.line,),
        cure=cure,
        counted="words" if unit == 4 else f"pieces of {unit} bytes" if unit > 1 else "bytes",
        space=space,
        array=place.array,
        offset=place.offset,
        bytes=unit,
        accesses=((earlier.line, earlier.does), (later.line, later.does)),
        scope=scope,
    )
