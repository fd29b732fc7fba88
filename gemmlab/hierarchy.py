"""The hierarchical roofline, a model: the least time of a kernel at each level of memory, at issue and at FMA units.

It is a lower bound: a level is charged with the least that the kernel needs of it, as the emulator counts that for the
very source, against a rate that the card does not pass. The slowest level binds, and a measured time may only be
longer. `levels` has another reading, of what is requested with no cache and no merging, which a GPU may well beat.

- DRAM: each operand once, less what L2 keeps from the launch before (`roofline.dram_bytes`), at the published rate. A
  bound always. Flushed, nothing is kept, and yet C may end in L2.
- L2: each block reads a sector once and writes it once, as though L1 kept all that a block has loaded. **No bound**,
  and so it never binds: blocks of one multiprocessor may share what L1 holds, and the rate is a measured one, which a
  run may pass, for none is published.
- L1 and shared memory, one set of data banks: a cycle for each wavefront of shared memory, its loads merged as ptxas
  may merge them, and for each that a load from global memory takes by the same rule (`emulator.reach`).
- issue: a slot for each FMA of the product and each request, of as many a cycle as there are warp schedulers; address
  arithmetic, branches and barriers go free.
- FMA: a lane for each FMA of the product.

The last three are bounds of a card that does not pass its published clock. The multiprocessor with the most blocks ends
last, which they count in (`roofline.busy`): with the blocks that no edge of C cuts, and what those need, for a cut one
may need less, or more. Left out are latency, too few warps to hide it, launches, spills, which PTX does not show, and
everything that two levels do in turn.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import lru_cache
from itertools import product
from math import inf, lcm, prod

from gemmlab import launch, roofline
from gemmlab.emulator.merging import Merged
from gemmlab.emulator.reach import Reach
from gemmlab.emulator.wavefronts import SECTOR, WARP, WAVEFRONT
from gemmlab.gemm import Gemm, inputs
from gemmlab.gpus import GPU, architecture
from gemmlab.launch import Kernel
from gemmlab.timing import FLUSHED, WARM

LARGEST = 256  # rows or columns of C, of the largest tile that is looked for
CHUNKS = 64  # steps of k that whole chunks of any rung fill
ALIGNED = WAVEFRONT // roofline.FLOAT_BYTES  # a row longer by so many floats begins in the same bank
APART = SECTOR // roofline.FLOAT_BYTES  # what is so many floats away lies in another sector
CARRIES = {"bytes": 1, "wavefronts": WAVEFRONT}  # bytes, by the unit of a level of memory


@dataclass(frozen=True)
class Counts:
    """What a launch needs at least: blocks, of which no edge of C cuts `uncut`, warp-wide FMAs of the product, requests
    to global and shared memory, wavefronts of L1 and shared memory, and sectors that blocks reach. No level is charged
    with `requested`, the bytes that lanes ask global memory for, a byte again for every lane. An average block needs up
    to `heavier` times as much as an uncut one; infinite where that is not known.
    """

    blocks: int
    uncut: int
    fmas: int
    requests: int
    wavefronts: int
    sectors: int
    requested: int
    heavier: float = field(default=1.0, compare=False)


@dataclass(frozen=True)
class Level:
    """One level: `amount` of `unit`, of which the whole card does `rate` a second, and a kernel the share `busy` of it.

    `holds` says whether its time is a bound; where it does not, a run may be faster.
    """

    name: str
    unit: str
    amount: float
    rate: float
    busy: float = 1.0
    holds: bool = True

    @property
    def seconds(self) -> float:
        """The least time that this level takes."""
        return roofline.least_time(self.amount, self.rate, self.busy)


@dataclass(frozen=True)
class Bounds:
    """The levels of a kernel on a card, for one problem; `cache` is the policy of `timing` that DRAM is charged for."""

    problem: Gemm
    card: GPU
    levels: tuple[Level, ...]
    cache: str = WARM

    @property
    def binding(self) -> Level:
        """The level that takes longest of those that hold; of equal ones the one farthest from the FMA units."""
        return max((level for level in self.levels if level.holds), key=lambda level: level.seconds)

    @property
    def seconds(self) -> float:
        """The least time of the kernel: the levels work at once, so their times are not added."""
        return self.binding.seconds

    @property
    def speed(self) -> float:
        """The most FLOP/s."""
        return self.allowed(self.binding)

    def allowed(self, level: Level) -> float:
        """The FLOP/s that a level allows; infinite where it is charged with nothing."""
        return self.problem.flops / level.seconds if level.amount else inf

    def intensity(self, level: Level) -> float:
        """The FLOPs for each unit that a level is charged with; infinite where that is nothing."""
        return roofline.intensity(self.problem.flops, level.amount) if level.amount else inf


def of(kernel: Kernel, problem: Gemm, card: GPU, cache: str = WARM) -> Bounds:
    """Return the least time of a kernel at every level of a card, timed under a policy of `timing`.

    Raises as `counts` does.
    """
    return bounds(counts(kernel, problem), problem, card, cache)


def bounds(counted: Counts, problem: Gemm, card: GPU, cache: str = WARM) -> Bounds:
    """Return the least time at every level of a card; L2 is missing where nobody measured its bandwidth.

    A policy other than timing.FLUSHED is charged as timing.WARM, which is the least.
    """
    limits = architecture(card.architecture)
    crossing = roofline.dram_bytes(problem, card.l2_bytes, flushed=cache == FLUSHED)
    busy = _busy(counted, card.multiprocessors)
    wavefronts_a_cycle = limits.shared_bytes_per_cycle / WAVEFRONT
    seen = card.measured
    L2 = [Level("L2", "bytes", roofline.moved_bytes(counted.sectors), seen.l2_bandwidth, holds=False)] if seen else []
    on_chip = (
        ("L1 and shared", "wavefronts", counted.wavefronts, wavefronts_a_cycle),
        ("issue", "warp instructions", counted.fmas + counted.requests, limits.subpartitions),
        ("FMA", "FMAs", WARP * counted.fmas, limits.fp32_lanes),
    )
    return Bounds(
        problem,
        card,
        (
            Level("DRAM", "bytes", crossing, card.dram_bandwidth),
            *L2,
            *(
                Level(name, unit, amount, roofline.on_chip_rate(card, a_cycle), busy)
                for name, unit, amount, a_cycle in on_chip
            ),
        ),
        cache,
    )


def counts(kernel: Kernel, problem: Gemm, progress: Callable[[float], object] = lambda share: None) -> Counts:
    """Return what a launch needs at least, from small launches on the emulator, whatever the backend; each is kept.

    Larger problems follow exactly from smaller ones: blocks of one kind (inside, at an edge) need the same, and each
    CHUNKS steps of k as much as the next. So the counts are linear in M, in N and in K, along steps of whole tiles that
    keep every address in its place in a sector and in its bank. `progress` is told each share that was newly done.

    Raises ValueError for a hazard, and for a grid that does not grow with C as tiles do; and what a launch raises.
    """
    edges = _edge(kernel, problem, "M"), _edge(kernel, problem, "N")
    rows, columns = edges[0], lcm(edges[1], ALIGNED)
    along = (
        _whole(problem.M, rows) or _sampled(problem.M, rows),
        _whole(problem.N, columns) or _sampled(problem.N, columns, APART),
        _sampled(problem.K, CHUNKS),
    )
    counted = _sum(kernel, problem, along, progress)
    inside = list(map(_uncut_step, along, edges))
    uncut = _sum(kernel, problem, (*inside, along[2])) if all(inside) else None
    counted = replace(counted, fmas=_fmas(problem), uncut=_uncut(kernel, problem), heavier=_heavier(counted, uncut))
    blocks = _blocks(kernel, problem)
    if counted.blocks != blocks:
        raise ValueError(
            f"{problem.M} x {problem.N} x {problem.K} takes {blocks} blocks, but its parts of {rows} x {columns} come "
            f"to {counted.blocks}: the grid must grow with C, by tiles of at most {LARGEST} x {LARGEST}"
        )
    return counted


def _sum(
    kernel: Kernel,
    problem: Gemm,
    along: Sequence[Mapping[int, int]],
    progress: Callable[[float], object] = lambda share: None,
) -> Counts:
    """The sum of what launches of sizes along M, N and K need, by their weights."""
    samples = list(product(*(each.items() for each in along)))
    totals = [0] * len(Counts.__dataclass_fields__)
    for sampled in samples:
        (M, N, K), weights = zip(*sampled, strict=True)
        seen = astuple(_traced(kernel, replace(problem, M=M, N=N, K=K)))
        totals = [total + prod(weights) * each for total, each in zip(totals, seen, strict=True)]
        progress(1 / len(samples))
    return Counts(*totals)


def _heavier(counted: Counts, uncut: Counts | None) -> float:
    """How many times as much as an uncut block an average one needs, of what it needs most; 1 where that is less."""
    if uncut is None:
        return inf
    pairs = ((counted.requests, uncut.requests), (counted.wavefronts, uncut.wavefronts))
    return max(1.0, *(all_of / counted.blocks / (its / uncut.blocks) for all_of, its in pairs if its))


def _busy(counted: Counts, multiprocessors: int) -> float:
    """The share of the multiprocessors' time that blocks fill at most.

    Any multiprocessor may have the cut ones, so the fullest is sure of its share of the uncut ones alone. Where that is
    one block, some multiprocessor has one that needs the average at least.
    """
    heavier = counted.heavier if counted.uncut > multiprocessors else 1.0
    return min(1.0, roofline.busy(counted.uncut, multiprocessors) * counted.blocks / counted.uncut * heavier)


def _blocks(kernel: Kernel, problem: Gemm) -> int:
    return prod(launch.geometry(kernel, problem).grid)


def _uncut(kernel: Kernel, problem: Gemm) -> int:
    """The blocks whose tile lies inside C; along a side that is shorter than a tile all are alike, and count."""
    tiles = (max(1, getattr(problem, side) // _edge(kernel, problem, side)) for side in ("M", "N"))
    return prod(tiles) * _blocks(kernel, replace(problem, M=1, N=1))


def _edge(kernel: Kernel, problem: Gemm, side: str) -> int:
    """The most rows (M) or columns (N) of C that a grid covers by no more blocks than one; at most LARGEST."""

    def blocks(size: int) -> int:
        return _blocks(kernel, replace(problem, **{side: size}))

    return bisect_right(range(1, LARGEST + 1), blocks(1), key=blocks)


def _fmas(problem: Gemm) -> int:
    return -(-problem.M * problem.N * problem.K // WARP)


def _whole(size: int, step: int) -> Mapping[int, int]:
    return {step: size // step} if size % step == 0 else {}


def _uncut_step(sampled: Mapping[int, int], edge: int) -> Mapping[int, int]:
    """The weights with which counts at sampled sizes are those of whole tiles of `edge` alone, as many as may be; of a
    side that is shorter, of its one tile. None where a part of a tile was traced with the others alone.
    """
    if len(sampled) == 2:
        first, second = sorted(sampled)
        return {first: -1, second: 1}
    (size,) = sampled
    return {size: 1} if size < edge or size % edge == 0 else {}


def _sampled(size: int, step: int, apart: int = 0) -> Mapping[int, int]:
    """Sizes to trace, and the weights with which a linear count at `size` is the sum of theirs.

    Each leaves `apart` beyond a step: of two rows, the end of one in a block and the start of the next, which at `size`
    are far apart, would else share a sector.
    """
    edge = size % step
    first = edge + step if edge >= apart else edge + 2 * step
    steps = (size - first) // step
    return {size: 1} if steps < 2 else {first: 1 - steps, first + step: steps}


@lru_cache(maxsize=4096)
def _traced(kernel: Kernel, problem: Gemm) -> Counts:
    merged, reach = Merged(), Reach()
    submitted = launch.submission(kernel, problem, inputs(problem))
    traced = submitted.trace((merged, reach))
    if traced.hazards:
        raise ValueError(f"nothing is bounded of a launch with a hazard: {traced.hazards[0].message}")
    # an asynchronous copy is one request, counted with shared memory's
    far = [each for each in traced.accesses if each.space == "global"]
    asked = sum(each.requests for each in far if each.op != "cp.async.global")
    return Counts(
        blocks=prod(submitted.geometry.grid),
        uncut=_uncut(kernel, problem),
        fmas=_fmas(problem),
        requests=merged.requests + asked,
        wavefronts=merged.wavefronts + reach.wavefronts,
        sectors=reach.sectors,
        requested=sum(each.useful_bytes for each in far),
    )
