"""The hierarchical roofline, a model: the least time of a kernel at each level of memory, at issue and at FMA units.

It is a lower bound: each level is charged with the least that the kernel needs of it, as the emulator counts that for
the very source, against a rate that the card does not pass. The slowest level binds, and a measured time may only be
longer. `levels` has another reading, of what is requested with no cache and no merging, which a GPU may well beat.

- DRAM: each operand crosses once, for L2 may hold the rest.
- L2: each block reads a sector once and writes it once, as though L1 kept all that a block has loaded. Blocks that
  share a multiprocessor may share L1 too: then less crosses than is charged here.
- L1 and shared memory, one set of data banks: a cycle for each wavefront of shared memory, its loads merged as ptxas
  may merge them, and for each that a load from global memory takes by the same rule (`emulator.reach`).
- issue: a slot for each FMA of the product and each request, of as many a cycle as there are warp schedulers; address
  arithmetic, branches and barriers go free.
- FMA: a lane for each FMA of the product.

The multiprocessor with the most blocks ends last, which the last three levels count in (`roofline.busy`). Left out are
latency, too few warps to hide it, launches, spills, which PTX does not show, and everything that two levels do in turn.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from itertools import product
from math import prod

from gemmlab import emulator, roofline
from gemmlab.emulator.merging import Merged
from gemmlab.emulator.reach import Reach
from gemmlab.emulator.wavefronts import WARP, WAVEFRONT
from gemmlab.gemm import Gemm, inputs
from gemmlab.gpus import GPU, architecture
from gemmlab.ladder import arguments
from gemmlab.launch import Kernel
from gemmlab.measured import roofs

TILES = 256  # rows and columns of C that whole blocks of any rung fill
CHUNKS = 64  # steps of k that whole chunks fill


@dataclass(frozen=True)
class Counts:
    """What a launch needs at least: blocks, warp-wide FMAs of the product, requests to global and shared memory,
    wavefronts of L1 and shared memory, and sectors that blocks reach. No level is charged with `requested`, the bytes
    that lanes ask global memory for, a byte again for every lane.
    """

    blocks: int
    fmas: int
    requests: int
    wavefronts: int
    sectors: int
    requested: int = 0


@dataclass(frozen=True)
class Level:
    """One level: `amount` of `unit`, of which the card does `rate` a second where all of it is `busy`, a share."""

    name: str
    unit: str
    amount: float
    rate: float
    busy: float = 1.0

    @property
    def seconds(self) -> float:
        """The least time that this level takes."""
        return roofline.least_time(self.amount, self.rate, self.busy)


@dataclass(frozen=True)
class Bounds:
    """The levels of a kernel on a card, for one problem."""

    problem: Gemm
    card: GPU
    levels: tuple[Level, ...]

    @property
    def binding(self) -> Level:
        """The level that takes longest; of equal ones the one farthest from the FMA units."""
        return max(self.levels, key=lambda level: level.seconds)

    @property
    def seconds(self) -> float:
        """The least time of the kernel: the levels work at once, so their times are not added."""
        return self.binding.seconds

    @property
    def speed(self) -> float:
        """The most FLOP/s."""
        return self.problem.flops / self.seconds

    def intensity(self, level: Level) -> float:
        """The FLOPs for each unit that a level is charged with."""
        return roofline.intensity(self.problem.flops, level.amount)


def of(kernel: Kernel, problem: Gemm, card: GPU) -> Bounds:
    """Return the least time of a kernel at every level of a card. Raises as `counts` does."""
    return bounds(counts(kernel, problem), problem, card)


def bounds(counted: Counts, problem: Gemm, card: GPU) -> Bounds:
    """Return the least time at every level of a card; L2 is missing where nobody measured its bandwidth."""
    limits, known = architecture(card.architecture), roofs(card).bandwidths
    compulsory = roofline.requests(problem, BM=problem.M, BN=problem.N).bytes
    crossing = {"DRAM": compulsory, "L2": roofline.moved_bytes(counted.sectors)}
    busy = roofline.busy(counted.blocks, card.multiprocessors)
    cycles = roofline.clock(card.peak_fp32, card.multiprocessors, limits.fp32_lanes) * card.multiprocessors
    on_chip = (
        ("L1 and shared", "bytes", WAVEFRONT * counted.wavefronts, limits.shared_bytes_per_cycle),
        ("issue", "warp instructions", counted.fmas + counted.requests, limits.subpartitions),
        ("FMA", "FMAs", WARP * counted.fmas, limits.fp32_lanes),
    )
    return Bounds(
        problem,
        card,
        (
            *(Level(name, "bytes", crossing[name], rate) for name, rate in known.items()),
            *(Level(name, unit, amount, a_cycle * cycles, busy) for name, unit, amount, a_cycle in on_chip),
        ),
    )


@lru_cache(maxsize=256)
def counts(kernel: Kernel, problem: Gemm) -> Counts:
    """Return what a launch needs at least, from small launches on the emulator, whatever the backend.

    Larger problems follow exactly from smaller ones where TILES rows and columns and CHUNKS steps of k are filled by
    whole tiles of the kernel: blocks of one kind (inside, at an edge) need the same, and each chunk of k as much as the
    next. So the counts are linear in M, in N and in K, along steps that keep every address in its
    place in a sector and in its bank.

    Raises ValueError for a hazard, and for a grid that does not grow with C as tiles do; and what a launch raises.
    """
    along = (_whole(problem.M), _whole(problem.N), _sampled(problem.K, CHUNKS))
    totals = [0] * len(Counts.__dataclass_fields__)
    for sampled in product(*(each.items() for each in along)):
        (M, N, K), weights = zip(*sampled, strict=True)
        seen = astuple(_traced(kernel, replace(problem, M=M, N=N, K=K)))
        totals = [total + prod(weights) * each for total, each in zip(totals, seen, strict=True)]
    counted, blocks = Counts(*totals), prod(kernel.geometry(problem).grid)
    if counted.blocks != blocks:
        raise ValueError(
            f"{problem.M} x {problem.N} x {problem.K} takes {blocks} blocks, but its parts of {TILES} x {TILES} come "
            f"to {counted.blocks}: use tiles whose edges divide {TILES}, or a problem of at most that size"
        )
    return counted


def _whole(size: int) -> Mapping[int, int]:
    return {TILES: size // TILES} if size % TILES == 0 else _sampled(size, TILES)


def _sampled(size: int, step: int) -> Mapping[int, int]:
    """Sizes to trace, and the weights with which a linear count at `size` is the sum of theirs."""
    first = size % step + step  # not less, or rows would share a sector that at `size` are far apart
    steps = (size - first) // step
    return {size: 1} if steps < 2 else {first: 1 - steps, first + step: steps}


def _traced(kernel: Kernel, problem: Gemm) -> Counts:
    A, B, C = map(emulator.asarray, inputs(problem))
    grid, block, shared_mem = kernel.geometry(problem)
    merged, reach = Merged(), Reach()
    launch = emulator.RawKernel(kernel.source, kernel.entry, options=kernel.options)
    args = arguments(problem, A, B, C)
    traced = emulator.trace(launch, grid, block, args, shared_mem, observers=(merged, reach))
    if traced.hazards:
        raise ValueError(f"nothing is bounded of a launch with a hazard: {traced.hazards[0].message}")
    # an asynchronous copy is one request, counted with shared memory's
    far = [each for each in traced.accesses if each.space == "global"]
    asked = sum(each.requests for each in far if each.op != "cp.async.global")
    return Counts(
        blocks=prod(grid),
        fmas=-(-problem.M * problem.N * problem.K // WARP),
        requests=merged.requests + asked,
        wavefronts=merged.wavefronts + reach.wavefronts,
        sectors=reach.sectors,
        requested=sum(each.useful_bytes for each in far),
    )
