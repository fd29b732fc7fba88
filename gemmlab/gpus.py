"""What GPUs can do: the limits of each compute capability, and the published and measured ceilings of known cards."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

KIB = 1024
MIB = 1024 * KIB

SECTOR_BYTES = 32  # what global memory moves at least, however few bytes of it were asked for


@dataclass(frozen=True)
class Architecture:
    """The limits of one compute capability. Shared memory is in bytes, registers are 32-bit, extents are (x, y, z)."""

    name: str
    max_threads_per_multiprocessor: int
    max_blocks_per_multiprocessor: int
    shared_bytes_per_multiprocessor: int
    shared_bytes_per_block_optin: int
    shared_allocation_unit: int
    fp32_lanes: int  # FMAs that a multiprocessor starts in a cycle
    reserved_shared_bytes: int  # taken by the system from each block's share, on top of what the kernel declares
    shared_bytes_per_block: int = 48 * KIB  # without the opt-in
    max_threads_per_block: int = 1024
    max_block: tuple[int, int, int] = (1024, 1024, 64)
    max_grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    registers_per_multiprocessor: int = 65536
    registers_per_block: int = 65536
    max_registers_per_thread: int = 255
    register_allocation_unit: int = 256  # registers are handed to a warp in multiples of this
    shared_bytes_per_cycle: int = 128  # of a multiprocessor: 32 banks of 4 bytes
    subpartitions: int = 4  # a multiprocessor's warps are dealt over this many equal register files
    warp_size: int = 32
    source: str = (
        "CUDA Programming Guide 13, Compute Capabilities, and throughput of arithmetic instructions and shared memory; "
        "allocation units: cuda_occupancy.h of CUDA 13.0"
    )


@dataclass(frozen=True)
class Ceilings:
    """The most that a card was seen to do: FLOP/s of FP32 FMA, bytes/s from DRAM and from L2."""

    fp32: float
    dram_bandwidth: float
    l2_bandwidth: float
    source: str


@dataclass(frozen=True)
class GPU:
    """One card: published FP32 FLOP/s without tensor cores, DRAM bytes/s, bytes of L2, and measured ceilings if any."""

    name: str
    device_names: tuple[str, ...]  # as the CUDA driver reports the card
    architecture: str
    multiprocessors: int
    peak_fp32: float
    dram_bandwidth: float
    l2_bytes: int
    source: str
    measured: Ceilings | None = None


def _limits(
    name: str, threads: int, blocks: int, shared_kib: int, reserved: int = KIB, unit: int = 128, lanes: int = 128
) -> Architecture:
    return Architecture(
        name=name,
        max_threads_per_multiprocessor=threads,
        max_blocks_per_multiprocessor=blocks,
        shared_bytes_per_multiprocessor=shared_kib * KIB,
        shared_bytes_per_block_optin=shared_kib * KIB - reserved,
        shared_allocation_unit=unit,
        fp32_lanes=lanes,
        reserved_shared_bytes=reserved,
    )


ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        limits.name: limits
        for limits in (
            _limits("sm_75", 1024, 16, 64, reserved=0, unit=256, lanes=64),
            _limits("sm_80", 2048, 32, 164, lanes=64),
            _limits("sm_86", 1536, 16, 100),
            _limits("sm_87", 1536, 16, 164),
            _limits("sm_89", 1536, 24, 100),
            _limits("sm_90", 2048, 32, 228),
            _limits("sm_100", 2048, 32, 228),
            _limits("sm_103", 2048, 32, 228),
            _limits("sm_120", 1536, 24, 100),
        )
    }
)

# fmt: off
GPUS: Mapping[str, GPU] = MappingProxyType({
    card.name: card
    for card in (
        GPU("T4", ("Tesla T4",), "sm_75", 40, 8.1e12, 320e9, 4 * MIB,
            "NVIDIA T4 datasheet; Turing architecture white paper"),
        GPU("A100 40GB", ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-PCIE-40GB"), "sm_80", 108, 19.5e12, 1555e9, 40 * MIB,
            "NVIDIA A100 datasheet; Ampere architecture white paper (GA100)"),
        GPU("A100 80GB", ("NVIDIA A100-SXM4-80GB",), "sm_80", 108, 19.5e12, 2039e9, 40 * MIB,
            "NVIDIA A100 80GB SXM datasheet; Ampere architecture white paper (GA100)"),
        GPU("RTX A6000", ("NVIDIA RTX A6000",), "sm_86", 84, 38.7e12, 768e9, 6 * MIB,
            "NVIDIA RTX A6000 datasheet; Ampere architecture white paper (GA102)"),
        GPU("RTX 3090", ("NVIDIA GeForce RTX 3090",), "sm_86", 82, 35.6e12, 936e9, 6 * MIB,
            "Ampere architecture white paper (GA102)"),
        GPU("RTX 4090", ("NVIDIA GeForce RTX 4090",), "sm_89", 128, 82.6e12, 1008e9, 72 * MIB,
            "Ada architecture white paper (AD102)"),
        GPU("H100", ("NVIDIA H100 80GB HBM3",), "sm_90", 132, 66.9e12, 3350e9, 50 * MIB,
            "NVIDIA H100 SXM datasheet; Hopper architecture white paper"),
        GPU("H200", ("NVIDIA H200",), "sm_90", 132, 66.9e12, 4800e9, 60 * MIB,
            "NVIDIA H200 SXM datasheet; 66.9 TFLOP/s is 132 x 128 lanes x 2 x 1.98 GHz; L2 as its driver reports it",
            # Of a measured range the high end stands: a ceiling that a run has already passed is none.
            Ceilings(61.7e12, 4280e9, 8160e9,
                     "NVIDIA H200, 2026-11-29, driver 580.159.04, CUDA 13.0, 1980 MHz: FMA from registers, "
                     "device-to-device copy (4,180 to 4,280 GB/s), 16-byte reads of L2 (8,100 to 8,160 GB/s)")),
        GPU("B200", ("NVIDIA B200",), "sm_100", 148, 75e12, 7700e9, 126 * MIB,
            "NVIDIA HGX B200 datasheet, an eighth of eight GPUs; Blackwell Tuning Guide (L2)"),
    )
})
# fmt: on


def architecture(name: str) -> Architecture:
    """Return the limits of an architecture such as 'sm_90'. Raises ValueError for one that is not listed."""
    if name not in ARCHITECTURES:
        raise ValueError(f"no limits are known for architecture {name!r}; known: {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def gpu(name: str) -> GPU:
    """Return a card by its name here ('H200') or the driver's ('NVIDIA H200'). Raises ValueError for any other.

    A near name is no match: an H100 PCIe, an RTX 3090 Ti or a laptop's RTX 4090 are other cards with other ceilings.
    """
    wanted = _bare(name)
    for card in GPUS.values():
        if wanted in map(_bare, (card.name, *card.device_names)):
            return card
    near = [card.name for card in GPUS.values() if wanted and _bare(card.name).startswith(wanted)]
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    raise ValueError(f"no ceilings are known for GPU {name!r}; known: {', '.join(GPUS)}{meant}")


def _bare(name: str) -> str:
    words = name.lower().replace("-", " ").split()
    return " ".join(word for word in words if word not in ("nvidia", "tesla", "geforce", "rtx"))
