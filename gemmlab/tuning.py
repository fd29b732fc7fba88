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
from types import MappingProxyType
from typing import Any

from gemmlab import backend, context, correctness, costs, launch, nvrtc, tolerance, tuning_cache
from gemmlab.environment import card_name
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import Rung, Tile, rung
from gemmlab.timing import time_kernel
from gemmlab.tuning_cache import Measurement

SAMPLES, WARMUP = 5, 2
BLOCKS = MappingProxyType({"BM": (64, 128, 256), "BN": (64, 128, 256), "BK": (8, 16, 32)})
CHOICES: Mapping[int, Mapping[str, Sequence[int]]] = MappingProxyType(
    {
        3: BLOCKS | {"TM": (4, 8, 16, 32)},
        4: BLOCKS | {"TM": (4, 8, 16), "TN": (4, 8, 16)},
        5: BLOCKS | {"TM": (4, 8, 16), "TN": (4, 8, 16)},
        6: BLOCKS | {"WM": (16, 32, 64, 128), "WN": (16, 32, 64, 128), "TM": (4, 8, 16), "TN": (4, 8, 16)},
    }
)
"""What the shipped sweeps drew their settings from, by a rung's number: values for some parameters."""
# A shape that no tile divides and no float4 fits, so that the other half of the kernel is checked too.
ODD = Gemm(193, 259, 77, alpha=-0.5, beta=2.0)

Measure = Callable[[int, Gemm, Tile], Measurement]
Progress = Callable[[int], object]

# What a tile raises whenever it is tried: a wrong result, the compiler's refusal, a fault. Anything else may pass.
LASTING = (AssertionError, nvrtc.CompileError, context.ContextLost)
NOT_KEPT = "this is not kept in the cache: the next call measures the tile again"


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

    The result is checked once more after the timing. Raises AssertionError with the verdict on a wrong one, what a
    compilation or a launch raises, and ContextLost when a launch ended the process's context; a child process ends
    itself then, since it is of no more use.
    """
    here, device_inputs, before, expected = _bench(problem)
    cp, kernel = here.cp, launch.of(rung(number), tile)
    written = f"{kernel.entry} at {', '.join(kernel.options)}"
    try:
        with context.watched(cp, written):
            launch.require(launch.check(kernel, [ODD], ["uniform"], cp))
            submit = launch.submission(kernel, problem, (*device_inputs, before), cp)
            submit()
            tolerance.compare(expected, cp.asnumpy(submit.C)).require()
            timing = time_kernel(submit, samples=SAMPLES, warmup=WARMUP, name=written, cuda=cp.cuda)
            correctness.recheck(expected, submit, submit.C, before).require()
    except context.ContextLost:
        if multiprocessing.parent_process() is not None:
            os._exit(1)
        raise
    return Measurement(
        tile=dict(tile),
        milliseconds=timing.median_ms,
        samples_ms=timing.samples_ms,
        readings=timing.readings,
        registers=submit.compiled.num_regs,
        local_bytes=submit.compiled.local_size_bytes,
        device=card_name(here),
    )


def this_card() -> str:
    """Return the name of this process's GPU. Raises backend.CudaUnavailable where there is none."""
    return card_name(backend.choose("cuda"))


def sweep(
    of_rung: Rung,
    problem: Gemm,
    candidates: Sequence[Tile],
    cache: str | Path,
    executor: Executor | Callable[[], Executor] | None = None,
    measure: Measure = time_tile,
    progress: Progress = lambda done: None,
    card: Callable[[], str] = this_card,
) -> list[Measurement]:
    """Measure the tiles that a cache file does not hold yet, and return what is known of all, in the order given.

    `measure` is called with the rung's number, the problem and a full tile: in this process, or over an executor, for
    whose processes it must be a function of a module. `card`, called there first, says which card measures. Every
    result is written before the next is waited for, so that an interrupt, which ends the sweep, loses only what was
    running. `progress` is told how many tiles are newly known; what it raises ends the sweep, and so does a full disk.

    What `measure` raises is the tile's error. One that is LASTING is kept in the cache, as is the death of a process
    that had one tile alone: take the tile out of the file to try it again. Any other, and a time from another card, is
    returned and not kept, so that the next call measures the tile again.

    A process that dies breaks a pool. Given a function that makes executors, the sweep then goes on in new ones, one
    tile at a time until the one to blame is found; given an executor itself, it raises RuntimeError, and calling it
    again with another goes on. Raises ValueError for an illegal tile, and for a cache of another rung or problem; also
    for one of another card, before any tile is measured on this one.
    """
    wanted = {_key(tile): tile for tile in map(of_rung.full_tile, candidates)}
    book = _Book(of_rung, problem, cache, list(wanted), progress)
    left = [tile for key, tile in wanted.items() if key not in book.found]
    ask = functools.partial(measure, of_rung.number, problem)
    try:
        progress(len(wanted) - len(left))
        if executor is None:
            _here(card, ask, left, book)
        elif isinstance(executor, Executor):
            lost = _over(executor, card, ask, left, book)
            if lost:
                raise RuntimeError(
                    f"the executor broke, as when a process of its dies, with {len(lost)} of {len(wanted)} tiles left: "
                    "what was measured is kept; call again with a new executor, or give a function that makes them"
                )
        else:
            _over_new_ones(executor, card, ask, left, book)
    except KeyboardInterrupt:
        if not book.found:
            raise
    return [book.found[key] for key in wanted if key in book.found]


class _Book:
    """What is known of a sweep's tiles: read from its cache file, and written to it whenever more is found."""

    def __init__(self, of_rung: Rung, problem: Gemm, cache: str | Path, order: list, progress: Progress) -> None:
        self._rung, self._problem, self._cache, self._order, self._progress = of_rung, problem, cache, order, progress
        self.found = {_key(each.tile): each for each in tuning_cache.load(cache, of_rung, problem)}
        self._passing: set[tuple[int, ...]] = set()  # tiles whose errors are not kept
        self._card = next((each.device for each in self.found.values()), None)

    def require(self, card: str) -> None:
        """Take the card that measures now for the sweep's. Raises ValueError where the file holds another's times."""
        if self._card not in (None, card):
            raise ValueError(
                f"{self._cache} holds the times of {self._card}, and this sweep would measure on {card}: name another "
                "file, since times of two cards do not compare"
            )
        self._card = card

    def enter(self, tile: Tile, one: Measurement) -> None:
        """Keep what was found of a tile."""
        if one.device not in (None, self._card):
            error = f"it was measured on {one.device}, but this sweep is of {self._card}"
            self._known(tile, Measurement(tile, None, error=f"{error}; {NOT_KEPT}"), lasting=False)
        else:
            self._known(tile, one, lasting=True)

    def fail(self, tile: Tile, error: BaseException) -> None:
        """Note why a tile has no time; keep it where it would be the same another time."""
        lasting = isinstance(error, LASTING)
        why = f"{type(error).__name__}: {error}"
        self._known(tile, Measurement(tile, None, error=why if lasting else f"{why}; {NOT_KEPT}"), lasting)

    def _known(self, tile: Tile, one: Measurement, lasting: bool) -> None:
        key = _key(tile)
        self.found[key] = replace(one, tile=dict(tile), device=self._card)
        if not lasting:
            self._passing.add(key)
        # In the order of the tiles, whichever came first.
        ordered = dict.fromkeys([*(each for each in self._order if each in self.found), *self.found])
        kept = [self.found[each] for each in ordered if each not in self._passing]
        if kept:
            tuning_cache.save(self._cache, self._rung, self._problem, kept)
        self._progress(1)


def _here(card: Callable[[], str], ask: Callable[[Tile], Measurement], left: Sequence[Tile], book: _Book) -> None:
    if left:
        book.require(card())
    for tile in left:
        try:
            one = ask(tile)
        except context.ContextLost as error:
            book.fail(tile, error)
            raise
        except Exception as error:
            book.fail(tile, error)
        else:
            book.enter(tile, one)


def _over(
    executor: Executor,
    card: Callable[[], str],
    ask: Callable[[Tile], Measurement],
    left: Sequence[Tile],
    book: _Book,
) -> list[Tile]:
    """Measure tiles over an executor, and return those that it left when it broke."""
    if left:
        book.require(executor.submit(card).result())
    submitted: dict[Future[Measurement], Tile] = {}
    try:
        with contextlib.suppress(BrokenExecutor):  # which may come while there is still more to submit
            for tile in left:
                submitted[executor.submit(ask, tile)] = tile
        for future in as_completed(submitted):
            try:
                one = future.result()
            except BrokenExecutor:
                continue
            except Exception as error:
                book.fail(submitted[future], error)
            else:
                book.enter(submitted[future], one)
    finally:
        for future in submitted:
            future.cancel()
    return [tile for tile in left if _key(tile) not in book.found]


def _over_new_ones(
    make: Callable[[], Executor],
    card: Callable[[], str],
    ask: Callable[[Tile], Measurement],
    left: Sequence[Tile],
    book: _Book,
) -> None:
    while left:
        with make() as executor:
            left = _over(executor, card, ask, left, book)
        # The tile to blame was running when the pool broke, hence is among the first of those left.
        while left:
            suspect, *left = left
            with make() as executor:
                if _over(executor, card, ask, [suspect], book):
                    book.enter(suspect, Measurement(suspect, None, error="its process died"))
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
