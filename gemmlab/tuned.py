"""Tile parameters by card: those that a sweep found, with the record of it; on every other card a rung's defaults.

The sweep of the H200 timed earlier texts of rungs 3 and 4, and of rungs 5 and 6 earlier texts and the kernels' own, all
with the tiles listed there. The speeds of the kernels' own texts are in the records of climbs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gemmlab.gpus import gpu
from gemmlab.ladder import Rung, Tile


@dataclass(frozen=True)
class Choice:
    """A tile, the file of sweeps that it rests on, and the N of the N x N matrices for which it was chosen.

    `reason` says why this tile stands although the sweep holds a faster one, with the figures of both; '' where it
    holds none.
    """

    tile: Tile
    sweeps: str
    size: int
    reason: str = ""


def tile(rung: Rung, card: str | None) -> Tile:
    """Return the tile of a rung for a card, by its name in gpus.py or the driver's: the one in TUNED, or the default.

    None, and a card that gemmlab does not know, get the default.
    """
    try:
        choices = TUNED.get(gpu(card or "").name, {})
    except ValueError:
        choices = {}
    return choices[rung.name].tile if rung.name in choices else rung.tile


H200 = "nvidia_h200_2026-11-30.json"

TUNED: Mapping[str, Mapping[str, Choice]] = MappingProxyType(
    {
        "H200": MappingProxyType(
            {
                "register_tiles_1d": Choice(
                    MappingProxyType({"BM": 64, "BN": 64, "BK": 8, "TM": 8}),
                    H200,
                    4096,
                    "22.5 TFLOP/s were measured for 128 x 64 x 16 and 64 x 64 x 16 with TM = 16, 18.1 for this tile, "
                    "but of an earlier text; the kernel's own has only been timed with this tile, which its notebook "
                    "teaches",
                ),
                "register_tiles_2d": Choice(
                    MappingProxyType({"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}),
                    H200,
                    4096,
                    "34.7 TFLOP/s were measured for BK = 16, 31.6 for this tile, but of an earlier text; the kernel's "
                    "own has only been timed with this tile, which its notebook teaches",
                ),
                "vectorized": Choice(
                    MappingProxyType({"BM": 64, "BN": 128, "BK": 16, "TM": 8, "TN": 8, "PAD": 4}), H200, 4096
                ),
                "warp_tiles": Choice(
                    MappingProxyType({"BM": 64, "BN": 128, "BK": 16, "WM": 32, "WN": 64, "TM": 8, "TN": 8, "PAD": 4}),
                    H200,
                    4096,
                ),
            }
        )
    }
)
