"""Ladders of others: the same seven steps by another hand, as their author published them, or measured for gemmlab.

No run of gemmlab's own kernels is among them; those are in records.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gemmlab import roofline
from gemmlab.columns import significant
from gemmlab.gpus import GPUS

PUBLISHED, MEASURED = "published", "published kernels, measured"


@dataclass(frozen=True)
class Ladder:
    """Speeds in GFLOP/s by the name of a rung, and of cuBLAS, for N x N x N float32 matrices on one card.

    `kind` is PUBLISHED for speeds that stand in `source`, MEASURED for a run of its kernels by gemmlab's authors;
    `date` is that of the publication or of the run. `decimals` is how many of a speed in TFLOP/s were noted, and
    `short` names the ladder where there is little room.
    """

    kind: str

    short: str
    card: str
    size: int
    date: str
    cublas: float
    gflops: Mapping[str, float]
    source: str
    decimals: int

    @property
    def label(self) -> str:
        """What a figure or a table calls this ladder."""
        return f"{self.kind}: {self.card}, {self.source}, {self.date}, {self.size}^3"

    def percent_of_cublas(self, rung: str) -> float | None:
        """Return the speed of a rung, by its name, as a percentage of cuBLAS's; None for a rung that it lacks."""
        return roofline.percent_of(self.gflops[rung], self.cublas) if rung in self.gflops else None

    def tflops(self, rung: str) -> str:
        """Return the speed of a rung, by its name, in TFLOP/s as text; a dash for a rung that it lacks."""
        return significant(self.gflops[rung] / 1e3 if rung in self.gflops else None, decimals=self.decimals)


def _by_rung(*gflops: float) -> Mapping[str, float]:
    names = (
        "naive",
        "coalesced",
        "shared_tiles",
        "register_tiles_1d",
        "register_tiles_2d",
        "vectorized",
        "warp_tiles",
    )
    return MappingProxyType(dict(zip(names, gflops, strict=True)))


A6000 = Ladder(
    kind=PUBLISHED,
    short="Boehm, RTX A6000",
    card=GPUS["RTX A6000"].name,
    size=4092,
    date="2022",
    cublas=23_250,
    gflops=_by_rung(309, 1_987, 2_980, 8_475, 15_972, 18_237, 21_779),
    source='Simon Boehm, "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance"',
    decimals=3,
)

# Its driver was 580.159.04, under CUDA 13.0 and CuPy 14.2.0, at 1980 MHz; its speeds were noted to 0.1 TFLOP/s.
H200 = Ladder(
    kind=MEASURED,
    short="Boehm's kernels, H200",
    card=GPUS["H200"].name,
    size=4096,
    date="2026-11-29",
    cublas=51_000,
    gflops=_by_rung(500, 6_300, 9_100, 17_000, 25_900, 31_300, 36_300),
    source="Simon Boehm's siboehm/SGEMM_CUDA",
    decimals=1,
)
