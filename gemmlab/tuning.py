"""Sweeps over the tiles of a rung: each setting is checked and timed once, here or over an executor, and kept.

The settings are the legal ones by the rules of the sliders (`tiles`, `costs.refused`), a result is right by
`tolerance.compare`, and what was found stands in a cache of kernel_tuner (`tuning_cache`), where a sweep goes on after
a stop and from which kernel_tuner replays it (`kernel_tuning`).
"""

import contextlib
import functools
import itertools
import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

from gemmlab import backend, context, costs, launch, tolerance, tuning_cache
from gemmlab.environment import card_name
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import Rung, Tile, arguments, rung
from gemmlab.timing import time_kernel
from gemmlab.tuning_cache import Measurement

SAMPLES, WARMUP = 5, 2
# A shape that no tile divides and no float4 fits, so that the other half of the kernel is checked too.
ODD = Gemm(193, 259, 77, alpha=-0.5, beta=2.0)

Measure = Callable[[int, Gemm, Tile], Measurement]
Progress = Callable[[int], object]


def tiles(of_rung: Rung, choices: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """Return the full tiles that break no rule of the rung, of all combinations of `choices`; the rest are defaults."""
    found = []
    for values in itertools.product(*choices.values()):
        try:
            found.append(of_rung.full_tile(dict(zip(choices, values, strict=True))))
        except ValueError:
            continue
    return found


def affordable(of_rung: Rung, candidates: Sequence[Tile], arch: str) -> list[Tile]:
    """Return the tiles that compile, spill nothing, and of which a multiprocessor holds a block. Compiles each once."""
    return [
        tile
        for tile in candidates
        if costs.refused(of_rung, tile, arch) is None and not costs.cost(launch.of(of_rung, tile), arch).spilled_bytes
    ]


def time_tile(number: int, problem: Gemm, tile: Tile) -> Measurement:
    """Check a tile of a rung, given by number, on this process's GPU, at ODD and at `problem`, and time it there.

    Raises AssertionError with the verdict on a wrong result, what a compilation or a launch raises, and ContextLost
    when a launch ended the process's context; a child process ends itself then, since it is of no more use.
    """
    here, device_inputs, before, expected = _bench(problem)
    cp, kernel = here.cp, launch.of(rung(number), tile)
    written = f"{kernel.entry} at {', '.join(kernel.options)}"
    try:
        with context.watched(cp, written):
            launch.require(launch.check(kernel, [ODD], ["uniform"], cp))
            C = cp.asarray(before)
            compiled = cp.RawKernel(kernel.source, kernel.entry, kernel.options)
            grid, block, shared_mem = kernel.geometry(problem)
            submit = functools.partial(
                compiled, grid, block, arguments(problem, *device_inputs, C), shared_mem=shared_mem
            )
            submit()
            tolerance.compare(expected, cp.asnumpy(C)).require()
            timing = time_kernel(submit, samples=SAMPLES, warmup=WARMUP, name=written, cuda=cp.cuda)
    except context.ContextLost:
        if multiprocessing.parent_process() is not None:
            os._exit(1)
        raise
    return Measurement(
        tile=dict(tile),
        milliseconds=timing.median_ms,
        samples_ms=timing.samples_ms,
        registers=compiled.num_regs,
        local_bytes=compiled.local_size_bytes,
        device=card_name(here),
    )


def sweep(
    of_rung: Rung,
    problem: Gemm,
    candidates: Sequence[Tile],
    cache: str | Path,
    executor: Executor | Callable[[], Executor] | None = None,
    measure: Measure = time_tile,
    progress: Progress = lambda done: None,
) -> list[Measurement]:
    """Measure the tiles that a cache file does not hold yet, and return what is known of all, in the order given.

    `measure` is called with the rung's number, the problem and a full tile: in this process, or over an executor, for
    whose processes it must be a function of a module. What it raises is kept as the tile's error. Every result is
    written before the next is waited for, so that an interrupt, which ends the sweep, loses only what was running.
    `progress` is told how many tiles are newly known.

    A process that dies breaks a pool. Given a function that makes executors, the sweep then goes on in new ones, one
    tile at a time until the one to blame is found; given an executor itself, it raises RuntimeError, and calling it
    again with another goes on. Raises ValueError for an illegal tile, and for a cache of another rung, problem or card.
    """
    wanted = {_key(tile): tile for tile in map(of_rung.full_tile, candidates)}
    book = _Book(of_rung, problem, cache, list(wanted), progress)
    left = [tile for key, tile in wanted.items() if key not in book.found]
    ask = functools.partial(measure, of_rung.number, problem)
    try:
        progress(len(wanted) - len(left))
        if executor is None:
            _here(ask, left, book)
        elif isinstance(executor, Executor):
            lost = _over(executor, ask, left, book)
            if lost:
                raise RuntimeError(
                    f"the executor broke, as when a process of its dies, with {len(lost)} of {len(wanted)} tiles left: "
                    "what was measured is kept; call again with a new executor, or give a function that makes them"
                )
        else:
            _over_new_ones(executor, ask, left, book)
    except KeyboardInterrupt:
        if not book.found:
            raise
    return [book.found[key] for key in wanted if key in book.found]


class _Book:
    """What is known of a sweep's tiles: read from its cache file, and written to it whenever more is found."""

    def __init__(self, of_rung: Rung, problem: Gemm, cache: str | Path, order: list, progress: Progress) -> None:
        self._rung, self._problem, self._cache, self._order, self._progress = of_rung, problem, cache, order, progress
        self.found = {_key(each.tile): each for each in tuning_cache.load(cache, of_rung, problem)}

    def enter(self, tile: Tile, one: Measurement) -> None:
        """Keep what was found of a tile. A time from another card than the others' is kept as an error."""
        device = next((each.device for each in self.found.values() if each.device), None)
        if one.device and device and one.device != device:
            error = f"it was measured on {one.device}, but this sweep is of {device}"
            one = Measurement(tile, None, device=device, error=error)
        self.found[_key(tile)] = replace(one, tile=dict(tile), device=one.device or device)
        # In the order of the tiles, whichever came first.
        ordered = dict.fromkeys([*(key for key in self._order if key in self.found), *self.found])
        if any(each.device for each in self.found.values()):
            tuning_cache.save(self._cache, self._rung, self._problem, [self.found[key] for key in ordered])
        self._progress(1)

    def fail(self, tile: Tile, error: BaseException | str) -> None:
        """Keep why a tile has no time."""
        why = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        self.enter(tile, Measurement(tile, None, error=why))


def _here(ask: Callable[[Tile], Measurement], left: Sequence[Tile], book: _Book) -> None:
    for tile in left:
        try:
            book.enter(tile, ask(tile))
        except context.ContextLost as error:
            book.fail(tile, error)
            raise
        except Exception as error:
            book.fail(tile, error)


def _over(executor: Executor, ask: Callable[[Tile], Measurement], left: Sequence[Tile], book: _Book) -> list[Tile]:
    """Measure tiles over an executor, and return those that it left when it broke."""
    submitted: dict[Future[Measurement], Tile] = {}
    try:
        with contextlib.suppress(BrokenExecutor):  # which may come while there is still more to submit
            for tile in left:
                submitted[executor.submit(ask, tile)] = tile
        for future in as_completed(submitted):
            try:
                book.enter(submitted[future], future.result())
            except BrokenExecutor:
                continue
            except Exception as error:
                book.fail(submitted[future], error)
    finally:
        for future in submitted:
            future.cancel()
    return [tile for tile in left if _key(tile) not in book.found]


def _over_new_ones(
    make: Callable[[], Executor], ask: Callable[[Tile], Measurement], left: Sequence[Tile], book: _Book
) -> None:
    while left:
        with make() as executor:
            left = _over(executor, ask, left, book)
        # The tile to blame was running when the pool broke, hence is among the first of those left.
        while left:
            suspect, *left = left
            with make() as executor:
                if _over(executor, ask, [suspect], book):
                    book.fail(suspect, "its process died")
                    break


def _key(tile: Tile) -> tuple[int, ...]:
    return tuple(tile.values())


@functools.lru_cache(maxsize=1)
def _bench(problem: Gemm) -> tuple[backend.Backend, tuple[Any, Any], Any, tolerance.Expected]:
    """What tiles share in a process: the GPU, A and B on it, C as it is before a launch, and the result expected."""
    here = backend.choose("cuda")
    A, B, C = inputs(problem, "uniform")
    expected = tolerance.expect(problem, A, B, C)
    return here, (here.cp.asarray(A), here.cp.asarray(B)), tolerance.initial_output(problem, C), expected
