"""What a kernel takes of a multiprocessor: threads, registers, what spills, and the occupancy that is left."""

from dataclasses import dataclass

from gemmlab import nvrtc
from gemmlab.gemm import Gemm
from gemmlab.ladder import Rung, Tile
from gemmlab.launch import Kernel, of
from gemmlab.resources import Occupancy, occupancy


@dataclass(frozen=True)
class Cost:
    """Threads of a block, registers and spilled bytes (stores and loads) of a thread, and the occupancy."""

    threads: int
    registers: int
    spilled_bytes: int
    occupancy: Occupancy

    def __str__(self) -> str:
        return (
            f"{self.threads:>5} threads, {self.registers:>3} registers, {self.spilled_bytes:>5,} bytes spilled, "
            f"{self.occupancy.fraction:>4.0%} occupancy"
        )


def cost(kernel: Kernel, arch: str) -> Cost:
    """Return what the compiler gives a kernel on an architecture such as 'sm_90'. Raises what a compilation raises."""
    used = nvrtc.resources(kernel.source, kernel.entry, kernel.options, arch)
    _, (x, y, z), shared_mem = kernel.geometry(Gemm(1, 1, 1))
    threads = x * y * z
    held = occupancy(arch, threads, used.registers, used.shared_bytes + shared_mem)
    return Cost(threads, used.registers, used.spill_store_bytes + used.spill_load_bytes, held)


def refused(rung: Rung, tile: Tile, arch: str, source: str | None = None) -> str | None:
    """Return the rule that a tile breaks on an architecture, with both numbers, or None for one that runs.

    The rules are the rung's own, shared memory among them, the compiler's, and those of occupancy. `source` may be an
    edited one, which the compiler may refuse at a tile that the rung takes.
    """
    try:
        held = cost(of(rung, tile, source), arch).occupancy
    except (ValueError, nvrtc.CompileError) as error:
        return str(error)
    return None if held.blocks else held.sentence
