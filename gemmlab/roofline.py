"""Every formula of work and traffic: FLOPs, requested and moved bytes, arithmetic intensity, and the bounds they set.

FLOP rates are in FLOP/s, bandwidths in bytes/s, times in seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from gemmlab.gemm import Gemm
from gemmlab.gpus import GPU, SECTOR_BYTES, architecture

FLOAT_BYTES = 4


@dataclass(frozen=True)
class Requests:
    """How many elements of each matrix a kernel asks memory for."""

    A: int
    B: int
    C: int

    @property
    def elements(self) -> int:
        """All three together."""
        return self.A + self.B + self.C

    @property
    def bytes(self) -> int:
        """All three together, in bytes of float32."""
        return FLOAT_BYTES * self.elements


@dataclass(frozen=True)
class Bound:
    """The least time that a kernel needs at one level of memory: the larger of its two parts, which overlap."""

    compute: float
    memory: float

    @property
    def seconds(self) -> float:
        """max(compute, memory): the parts run at once, so they are not added."""
        return max(self.compute, self.memory)

    @property
    def limited_by(self) -> str:
        """'compute' or 'memory'; a tie is 'compute', for the ridge belongs to the roof."""
        return "memory" if self.memory > self.compute else "compute"


@dataclass(frozen=True)
class Reading:
    """What the tile model says of a product: a model to be falsified, for caches make the real traffic of DRAM lower.

    It was made under a `bandwidth` and a `peak`. `requested` is the traffic of square tiles, `shared_bytes` what a
    block keeps of A and B, `bound` the least time for both FLOPs and bytes.
    """

    problem: Gemm
    tile: int
    bandwidth: float
    peak: float
    requested: Requests
    shared_bytes: int
    bound: Bound

    @property
    def ridge(self) -> float:
        """The FLOP/byte from which on the FLOPs take longer."""
        return ridge(self.peak, self.bandwidth)

    @property
    def intensity(self) -> float:
        """FLOPs a byte requested."""
        return intensity(self.problem.flops, self.requested.bytes)

    @property
    def speed(self) -> float:
        """The most FLOP/s that the bound allows."""
        return self.problem.flops / self.bound.seconds


def read(problem: Gemm, tile: int, bandwidth: float, peak: float) -> Reading:
    """Return what the tile model says of a product in tiles of `tile` x `tile`: F = 2MNK, Q = 4(2MNK/T + MN) where T
    divides all three, and the time max(F/peak, Q/bandwidth). T = 1 is the direct kernel, which has no shared memory.

    Left out are occupancy, issue, barriers, launches and every cache. Raises ValueError for a tile, a bandwidth or a
    peak that is not positive.
    """
    for name, given in (("bandwidth", bandwidth), ("peak", peak)):
        if not 0 < given < inf:
            raise ValueError(f"the {name} is {given:g}, but must be above 0 and finite")
    if tile < 1:
        raise ValueError(f"the tile is {tile}, but must be at least 1")
    requested = requests(problem, BM=tile, BN=tile)
    return Reading(
        problem=problem,
        tile=tile,
        bandwidth=bandwidth,
        peak=peak,
        requested=requested,
        shared_bytes=0 if tile == 1 else shared_bytes(tile, tile, tile),
        bound=bound(problem.flops, requested.bytes, peak, bandwidth),
    )


def exact_flops(problem: Gemm) -> int:
    """Return the additions and multiplications of A @ B, M*N*(2K-1): the first product of an output is not added.

    The conventional count is `problem.flops`, 2*M*N*K.
    """
    return problem.M * problem.N * (2 * problem.K - 1)


def padded_flops(problem: Gemm, BM: int, BN: int, BK: int) -> int:
    """Return the FLOPs that tiles of BM x BN outputs and chunks of BK execute, edges filled up with zeros: 2*M'*N'*K'.

    M', N' and K' are M, N and K rounded up to whole tiles. Raises ValueError for a tile that is not positive.
    """
    _require_positive(BM=BM, BN=BN, BK=BK)
    M, N, K = (-(-size // tile) * tile for size, tile in ((problem.M, BM), (problem.N, BN), (problem.K, BK)))
    return 2 * M * N * K


def requests(problem: Gemm, BM: int = 1, BN: int = 1) -> Requests:
    """Return what a kernel requests whose blocks keep BM x BN outputs and read each element of A and B once a block.

    A is read once for every BN columns of C, B once for every BM rows; C is written, and read too unless beta == 0.
    BM = BN = 1 is the direct kernel, which asks for A and B M*N*K times each; BM, BN = M, N reads each operand once.
    With square matrices and BM = BN = T this is the tile model Q = 4 * (2*N^3/T + N^2) bytes.

    Raises ValueError for a tile that is not positive.
    """
    _require_positive(BM=BM, BN=BN)
    M, N, K = problem.M, problem.N, problem.K
    passes_over_C = 1 if problem.beta == 0.0 else 2
    return Requests(A=M * K * -(-N // BN), B=K * N * -(-M // BM), C=M * N * passes_over_C)


def shared_bytes(BM: int, BN: int, BK: int) -> int:
    """Return the bytes of shared memory that a BM x BK tile of A and a BK x BN tile of B take: 8*T^2 when all are T."""
    return FLOAT_BYTES * (BM * BK + BK * BN)


def shared_loads_per_fma(TM: int = 1, TN: int = 1) -> float:
    """Return how many values a thread reads from shared memory for each of its FMAs, (TM + TN) / (TM * TN).

    The thread owns TM x TN outputs. In a step of k it reads TM values of A and TN of B, and multiplies each by each.
    The plain tile, TM = TN = 1, reads 2. Raises ValueError for a tile that is not positive.
    """
    _require_positive(TM=TM, TN=TN)
    return (TM + TN) / (TM * TN)


def moved_bytes(sectors: int) -> int:
    """Return the bytes that a number of 32-byte sectors carries, wanted or not."""
    return SECTOR_BYTES * sectors


def dram_bytes(problem: Gemm, l2_bytes: int, flushed: bool = False) -> int:
    """Return the least bytes that cross between DRAM and L2 in each of many like launches, by L2's size alone.

    A byte that L2 keeps from one launch to the next crosses neither when it is read nor when it is written: so L2 saves
    a crossing for each byte that it can hold, and where C is read and written two. Of a launch after a flush all reads
    cross; what it writes may stay in L2 as it ends.
    """
    once, passes = requests(problem, BM=problem.M, BN=problem.N), 1 if problem.beta == 0.0 else 2
    kept = min(FLOAT_BYTES * problem.M * problem.N, l2_bytes)
    if flushed:
        return once.bytes - kept
    return once.bytes - passes * kept - min(FLOAT_BYTES * (once.A + once.B), l2_bytes - kept)


def intensity(flops: float, bytes_: float) -> float:
    """Return the arithmetic intensity in FLOP/byte. Which bytes (requested, or moved at some level) the caller says."""
    return flops / bytes_


def ridge(peak: float, bandwidth: float) -> float:
    """Return the intensity in FLOP/byte at which the memory roof meets the compute roof."""
    return peak / bandwidth


def attainable(intensity: float, peak: float, bandwidth: float) -> float:
    """Return the roofline, min(peak, intensity * bandwidth), in FLOP/s.

    Source: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
    """
    return min(peak, intensity * bandwidth)


def bound(flops: float, bytes_: float, peak: float, bandwidth: float) -> Bound:
    """Return the least time for some FLOPs and for bytes that cross one level of memory.

    The peak must be that of the arithmetic the kernel does: never a tensor-core peak for an FP32 kernel.
    """
    return Bound(compute=flops / peak, memory=bytes_ / bandwidth)


def bounds(flops: float, peak: float, bytes_: Mapping[str, float], bandwidths: Mapping[str, float]) -> dict[str, Bound]:
    """Return the bound at each level of memory that `bytes_` names ('DRAM', 'L2', ...), from that level's bandwidth.

    Raises ValueError for a level without a bandwidth.
    """
    unknown = [level for level in bytes_ if level not in bandwidths]
    if unknown:
        raise ValueError(f"no bandwidth is given for {', '.join(unknown)}; given: {', '.join(bandwidths)}")
    return {level: bound(flops, bytes_[level], peak, bandwidths[level]) for level in bytes_}


def least_time(amount: float, rate: float, busy: float = 1.0) -> float:
    """Return the seconds that an amount of anything takes at a rate a second, where a share of the card is busy."""
    return amount / (rate * busy)


def busy(blocks: int, multiprocessors: int) -> float:
    """Return the share of the multiprocessors' time that equal blocks fill, if the fullest multiprocessor never waits.

    It runs ceil(blocks / multiprocessors) of them, and the others wait for it: blocks / (multiprocessors * that). The
    field calls what is lost so wave quantization, with one block on a multiprocessor at a time (NVIDIA, "Matrix
    Multiplication Background User's Guide").
    """
    return blocks / (multiprocessors * -(-blocks // multiprocessors))


def clock(peak: float, multiprocessors: int, fp32_lanes: int) -> float:
    """Return the cycles a second at which FMA units reach a peak in FLOP/s: a lane starts an FMA, 2 FLOPs, a cycle."""
    return peak / (2 * multiprocessors * fp32_lanes)


def on_chip_rate(card: GPU, a_cycle: float) -> float:
    """Return what a card does a second of which each multiprocessor does `a_cycle` a cycle, such as bytes of its banks.

    The clock is that at which the FMA units reach the card's published peak: a measured peak falls short of it for
    reasons of its own, and the banks do not slow down with it.
    """
    cycles = clock(card.peak_fp32, card.multiprocessors, architecture(card.architecture).fp32_lanes)
    return a_cycle * cycles * card.multiprocessors


def throughput(flops: float, milliseconds: float) -> float:
    """Return the speed in FLOP/s of work done in some milliseconds."""
    return flops / (milliseconds * 1e-3)


def percent_of(speed: float, yardstick: float) -> float:
    """Return a speed as a percentage of another, in the same unit: of cuBLAS's, say, in the same run."""
    return 100 * speed / yardstick


def _require_positive(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} is {value}, but must be at least 1")
