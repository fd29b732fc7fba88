"""kernel_tuner over a rung: its search strategies on a GPU, and the replay of a sweep that was measured before.

kernel_tuner (van Werkhoven, "Kernel Tuner: A search-optimizing GPU code auto-tuner", 2019) defines each parameter as a
macro above the kernel's source, as the rungs' files expect. It launches blocks of block_size_x by block_size_y threads,
which therefore stand among the parameters, and follow from the tile. Its time is the mean of launches that were timed
one by one, where a sweep's is the median of samples of many.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gemmlab import backend, context, costs, tolerance, tuning_cache
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import Rung, arguments
from gemmlab.tuning import tiles
from gemmlab.tuning_cache import Measurement

try:
    import kernel_tuner
    from constraint import FunctionConstraint
    from kernel_tuner.observers import BenchmarkObserver
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"{missing.name} is not installed, which tuning needs: install it, in gemmlab's own folder, with "
        ".venv/bin/python -m pip install --editable '.[tune]'",
        name=missing.name,
    ) from None

Progress = Callable[[int], object]


def tune(
    of_rung: Rung,
    problem: Gemm,
    choices: Mapping[str, Sequence[int]],
    cache: str | Path,
    progress: Progress = lambda done: None,
    seed: int | None = None,
    **options: Any,
) -> list[Measurement]:
    """Search the legal tiles of `choices` on the GPU, and return what was found of each, in the order of the search.

    A tile is legal by `costs.refused`, the rules of the sliders, and its result is right by `tolerance.compare`. What
    is measured is kept in the cache file, whose settings are not measured again. `options` are kernel_tuner's, such as
    strategy="genetic_algorithm" and strategy_options={"max_fevals": 20}. `progress` is told of each tile that is timed.
    With a `seed` a search takes the same way again.

    Raises AssertionError with the verdict on a wrong result, which ends the search, backend.CudaUnavailable where there
    is no GPU, and ValueError where no tile is legal.
    """
    legal = tiles(of_rung, choices)
    if not legal:
        raise ValueError(f"no combination of {dict(choices)} is a tile that rung {of_rung.number} takes")
    cp = backend.choose("cuda").cp
    A, B, C = inputs(problem, "uniform")
    before = tolerance.initial_output(problem, C)
    axes = tuning_cache.parameters(of_rung, legal)
    _plant(seed)
    with context.watched(cp, f"{of_rung.entry}, while kernel_tuner searched its tiles,"):
        found, _ = kernel_tuner.tune_kernel(
            of_rung.entry,
            of_rung.source(),
            (problem.N, problem.M, problem.K),
            list(arguments(problem, A, B, before)),
            axes,
            **divisors(problem),
            restrictions=[lawful(of_rung, tuple(axes), backend.architecture())],
            answer=[before if argument is before else None for argument in arguments(problem, A, B, before)],
            verify=verify(tolerance.expect(problem, A, B, C)),
            lang="CUPY",
            compiler_options=["-std=c++17"],
            observers=[_Watch(progress)],
            cache=str(cache),
            quiet=True,
            **options,
        )
    return [_measurement(of_rung, each) for each in found]


def replay(cache: str | Path, of_rung: Rung, seed: int | None = None, **options: Any) -> list[Measurement]:
    """Search what a cache file holds, without a GPU, and return what was found, in the order of the search.

    Only settings that were timed are in the space. `seed` and `options` are as for `tune`; of kernel_tuner's strategies
    some, such as greedy_ils, do not end on a space of a few settings.
    """
    _plant(seed)
    found, _ = kernel_tuner.tune_cache(str(cache), quiet=True, **options)
    return [_measurement(of_rung, each) for each in found if each]


def lawful(of_rung: Rung, names: Sequence[str], arch: str) -> FunctionConstraint:
    """Return the restriction that admits the tiles that `costs.refused` does not refuse, with the blocks they make.

    It is called with the values of the parameters `names`, in order. A tile that the rung admits is compiled once.
    """

    def admits(*values: int) -> bool:
        given = dict(zip(names, values, strict=True))
        tile = {name: given[name] for name in of_rung.tile}
        try:
            if tuning_cache.configuration(of_rung, tile) != given:
                return False
        except ValueError:
            return False
        return costs.refused(of_rung, tile, arch) is None

    return FunctionConstraint(admits)


def verify(expected: tolerance.Expected) -> Callable[..., bool]:
    """Return kernel_tuner's `verify`: whether C, the last of a launch's arguments, is within its error bound.

    It raises AssertionError with the verdict where it is not, since kernel_tuner's own message has none.
    """

    def right(answer: Sequence[Any], result: Sequence[Any], atol: float | None = None) -> bool:
        return tolerance.compare(expected, result[-1]).require().correct

    return right


def divisors(problem: Gemm) -> dict[str, list[Any]]:
    """Return kernel_tuner's grid divisors: N over the columns of a block's tile, M over its rows, one block along K.

    K is a dimension of the problem so that a cache tells problems apart by it.
    """
    return {
        "grid_div_x": [lambda given: given["BN" if "BN" in given else "TILE"]],
        "grid_div_y": [lambda given: given["BM" if "BM" in given else "TILE"]],
        "grid_div_z": [problem.K],
    }


def _plant(seed: int | None) -> None:
    # kernel_tuner 1.5 has an option `seed`, but its strategies draw from the generators that all of Python shares.
    if seed is not None:
        random.seed(seed)
        np.random.seed(seed)


class _Watch(BenchmarkObserver):
    """Tells of progress when kernel_tuner times a setting; the first one, with which it warms up, comes twice."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._seen: set[tuple[int, ...]] = set()

    def register_configuration(self, params: Mapping[str, int]) -> None:
        setting = tuple(params.values())
        if setting not in self._seen:
            self._seen.add(setting)
            self._progress(1)

    def get_results(self) -> dict[str, Any]:
        return {}


def _measurement(of_rung: Rung, found: Mapping[str, Any]) -> Measurement:
    failed = "__error__" in found
    return Measurement(
        tile={name: found[name] for name in of_rung.tile},
        milliseconds=None if failed else float(found["time"]),
        samples_ms=() if failed else tuple(found.get("times", ())),
        registers=found.get("registers"),
        local_bytes=found.get("local_bytes"),
        error=str(found.get("error", found["__error__"])) if failed else None,
    )
