"""Tile parameters by card: those that a sweep found, with the record of it; on every other card a rung's defaults.

A tile stands here although the sweep holds a faster one where the notebook of its rung teaches it: each rung of the
ladder shows its idea with the numbers that the learner has worked with. The choice says so, with both figures.
"""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gemmlab import columns, sweeps
from gemmlab.gpus import gpu
from gemmlab.ladder import Rung, Tile, rung
from gemmlab.tile_rules import written


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


def table(card: str) -> str:
    """Return a card's choices as text: each rung's tile, its TFLOP/s in each sweep that timed it, beside the fastest
    other tile of the same sweep, and the reason where that is faster beyond noise.
    """
    lines = []
    for name, choice in TUNED[card].items():
        data = sweeps.shipped(choice.sweeps)
        lines.append(f"rung {rung(name).number} ({name}), {written(choice.tile)}; at {choice.size}^3:")
        for best, rows in sweeps.timed_with(data, rung(name), choice.tile, choice.size):
            others = [row for row in rows if row["tile"] != choice.tile]
            other = max(others, key=lambda row: sweeps.speed(row, choice.size))
            changed = {macro: value for macro, value in other["tile"].items() if value != choice.tile[macro]}
            lines.append(
                f"    {best:.1f} TFLOP/s; the fastest of {len(others)} others {sweeps.speed(other, choice.size):.1f}, "
                f"with {written(changed)}"
            )
        if choice.reason:
            lines.append(textwrap.fill(choice.reason, columns.WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 4))
    return "\n".join(lines)


H200 = "nvidia_h200_2026-11-30.json"

TUNED: Mapping[str, Mapping[str, Choice]] = MappingProxyType(
    {
        "H200": MappingProxyType(
            {
                "register_tiles_1d": Choice(
                    MappingProxyType({"BM": 64, "BN": 64, "BK": 8, "TM": 8}),
                    H200,
                    4096,
                    "24.4 TFLOP/s were measured for 128 x 64 x 32 with TM = 32, and 18.8 for this tile. The ladder "
                    "keeps this one, which the rung's notebook teaches: a strip four times as long is another number, "
                    "not another idea",
                ),
                "register_tiles_2d": Choice(
                    MappingProxyType({"BM": 128, "BN": 128, "BK": 8, "TM": 8, "TN": 8}),
                    H200,
                    4096,
                    "34.5 TFLOP/s were measured for BK = 16, and 31.1 for this tile. The ladder keeps this one, which "
                    "the rung's notebook teaches: BK doubles only at rung 5",
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
