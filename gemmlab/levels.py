"""What each level of memory allows a traced launch as requested: with no cache, and loads as PTX has them.

A GPU may be faster: L1 and L2 serve sectors that are asked for again, and ptxas merges loads. `hierarchy` has the other
reading, the least that any card's caches and compiler leave, which is a lower bound of time.
"""

from collections.abc import Mapping

from gemmlab import roofline
from gemmlab.emulator import Trace
from gemmlab.gemm import Gemm
from gemmlab.gpus import GPU, architecture
from gemmlab.measured import roofs
from gemmlab.roofline import Bound

SPACES = {"DRAM": "global", "shared memory": "shared"}


def bandwidths(card: GPU) -> dict[str, float]:
    """Return bytes/s by level: of DRAM from `measured.roofs`, of all shared memory from `roofline.on_chip_rate`."""
    a_cycle = architecture(card.architecture).shared_bytes_per_cycle
    return {"DRAM": roofs(card).bandwidths["DRAM"], "shared memory": roofline.on_chip_rate(card, a_cycle)}


def bounds(traced: Trace, problem: Gemm, card: GPU) -> dict[str, Bound]:
    """Return the least time of a launch by level, from the sectors and wavefronts that were counted in PTX.

    All sectors are taken to come from DRAM, and a wavefront to carry 128 bytes.
    """
    moved = {level: traced.total(space).moved_bytes for level, space in SPACES.items()}
    return roofline.bounds(problem.flops, roofs(card).peak, moved, bandwidths(card))


def slowest(bounds: Mapping[str, Bound]) -> str:
    """Return what a launch is held down by: the level of the largest bound, or 'arithmetic' where no memory is."""
    level = max(bounds, key=lambda name: bounds[name].memory)
    return level if bounds[level].limited_by == "memory" else "arithmetic"


def speed(bounds: Mapping[str, Bound], problem: Gemm) -> float:
    """Return the FLOP/s that the largest bound allows."""
    return problem.flops / max(bound.seconds for bound in bounds.values())


def shared_loads_per_fma(traced: Trace, problem: Gemm) -> float:
    """Return the shared loads of a thread that were counted for each FMA of the product.

    M, N and K must be multiples of the kernel's tile, so that it does no other FMAs. `roofline.shared_loads_per_fma`
    has the formula.
    """
    loads = sum(access.lanes for access in traced.accesses if access.op == "ld.shared")
    return loads / (problem.M * problem.N * problem.K)
