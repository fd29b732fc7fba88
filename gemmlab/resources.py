"""Occupancy: how many blocks of a kernel one multiprocessor holds at a time, and what it runs out of first."""

from collections.abc import Mapping
from dataclasses import dataclass

from gemmlab import gpus


@dataclass(frozen=True)
class Occupancy:
    """What one multiprocessor holds of a kernel at a time, in blocks, warps and threads.

    `fraction` is of the warps that it can hold. `blocks_allowed` says how many blocks each resource alone would allow
    ('threads', 'blocks', 'registers', 'shared memory'); `limited_by` names those that allow the fewest.
    """

    architecture: str
    threads_per_block: int
    registers: int
    shared_bytes: int
    blocks: int
    warps: int
    fraction: float
    blocks_allowed: Mapping[str, int]
    limited_by: tuple[str, ...]

    @property
    def threads(self) -> int:
        """Resident threads of the multiprocessor."""
        return self.blocks * self.threads_per_block

    @property
    def sentence(self) -> str:
        """The same in words, such as '2 blocks of 256 threads ...: 16 warps, 25% occupancy, limited by registers.'"""
        if not self.blocks:
            return self._refusal()
        plural = "s" if self.blocks > 1 else ""
        return (
            f"{self.blocks} block{plural} of {self.threads_per_block} threads on a multiprocessor of "
            f"{self.architecture}: {self.warps} warps, {self.fraction:.0%} occupancy, "
            f"limited by {' and '.join(self.limited_by)}."
        )

    def _refusal(self) -> str:
        limits = gpus.architecture(self.architecture)
        most = {
            "threads": f"{limits.max_threads_per_block} threads",
            "registers": f"{limits.registers_per_block} registers, {limits.max_registers_per_thread} a thread",
            "shared memory": f"{limits.shared_bytes_per_block_optin} bytes of shared memory",
        }
        return (
            f"A block of {self.threads_per_block} threads with {self.registers} registers each "
            f"({self.threads_per_block * self.registers} in all) and {self.shared_bytes} bytes of shared memory "
            f"cannot run on {self.architecture}: the most a block may have is "
            f"{' and '.join(most[resource] for resource in self.limited_by)}."
        )


def occupancy(architecture: str, threads: int, registers: int, shared_bytes: int = 0) -> Occupancy:
    """Return the occupancy of blocks of `threads` threads that take `registers` a thread and `shared_bytes` a block.

    `shared_bytes` is static plus dynamic; the opt-in above 48 KiB is taken as given. A block that no multiprocessor can
    hold gives zero blocks. Raises ValueError for an unknown architecture and for numbers that no kernel can have.

    The rules are those of NVIDIA's cuda_occupancy.h (CUDA 13.0), which the CUDA occupancy functions follow.
    """
    if threads < 1 or registers < 1 or shared_bytes < 0:
        raise ValueError(
            "a block has at least 1 thread, 1 register a thread and 0 bytes of shared memory, "
            f"not {threads}, {registers} and {shared_bytes}"
        )
    limits = gpus.architecture(architecture)
    warps = _ceil_div(threads, limits.warp_size)
    max_warps = limits.max_threads_per_multiprocessor // limits.warp_size
    blocks_allowed = {
        "threads": max_warps // warps if threads <= limits.max_threads_per_block else 0,
        "blocks": limits.max_blocks_per_multiprocessor,
        "registers": _blocks_by_registers(limits, warps, registers),
        "shared memory": _blocks_by_shared_memory(limits, shared_bytes),
    }
    blocks = min(blocks_allowed.values())
    return Occupancy(
        architecture=architecture,
        threads_per_block=threads,
        registers=registers,
        shared_bytes=shared_bytes,
        blocks=blocks,
        warps=blocks * warps,
        fraction=blocks * warps / max_warps,
        blocks_allowed=blocks_allowed,
        limited_by=tuple(resource for resource, allowed in blocks_allowed.items() if allowed == blocks),
    )


def taken(held: Occupancy) -> dict[str, tuple[int, int]]:
    """Return what one block takes of each resource and what a multiprocessor has of it, allocation units included.

    The resources are those of `blocks_allowed`: 'threads' counts whole warps of threads, 'shared memory' bytes.
    """
    limits = gpus.architecture(held.architecture)
    warps = _ceil_div(held.threads_per_block, limits.warp_size)
    return {
        "threads": (warps * limits.warp_size, limits.max_threads_per_multiprocessor),
        "blocks": (1, limits.max_blocks_per_multiprocessor),
        "registers": (warps * _registers_per_warp(limits, held.registers), limits.registers_per_multiprocessor),
        "shared memory": (_shared_per_block(limits, held.shared_bytes), limits.shared_bytes_per_multiprocessor),
    }


def _registers_per_warp(limits: gpus.Architecture, registers: int) -> int:
    return _round_up(registers * limits.warp_size, limits.register_allocation_unit)


def _shared_per_block(limits: gpus.Architecture, shared_bytes: int) -> int:
    return _round_up(shared_bytes + limits.reserved_shared_bytes, limits.shared_allocation_unit)


def _blocks_by_registers(limits: gpus.Architecture, warps: int, registers: int) -> int:
    if registers > limits.max_registers_per_thread:
        return 0
    per_warp = _registers_per_warp(limits, registers)
    # A warp lives in one subpartition and takes its registers there, so what is left over in each is lost.
    warps_per_subpartition = limits.registers_per_multiprocessor // limits.subpartitions // per_warp
    return warps_per_subpartition * limits.subpartitions // warps


def _blocks_by_shared_memory(limits: gpus.Architecture, shared_bytes: int) -> int:
    if shared_bytes > limits.shared_bytes_per_block_optin:
        return 0
    # Without a reserve, a kernel that declares none takes none: it counts as one unit, which limits nothing.
    per_block = max(_shared_per_block(limits, shared_bytes), limits.shared_allocation_unit)
    return limits.shared_bytes_per_multiprocessor // per_block


def _round_up(number: int, unit: int) -> int:
    return _ceil_div(number, unit) * unit


def _ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)
