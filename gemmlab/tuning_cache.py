"""Measured tiles of a rung on one problem as a cache file of kernel_tuner: one format, whoever measured.

A file is {"device_name", "kernel_name", "problem_size": [N, M, K], "tune_params_keys", "tune_params", "objective",
"cache": {"64,128,...": {each parameter, "time": ms, ...}}}, as kernel_tuner 1.5 writes and reads it. Beside the rung's
tile parameters stand block_size_x and block_size_y, which follow from them and from which kernel_tuner launches. A
setting without a time has "__error__". alpha and beta are not recorded: sweeps are of C = A @ B. What the GPU reported
during each sample stands in "readings", a field that kernel_tuner passes over.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gemmlab import steadiness
from gemmlab.gemm import Gemm
from gemmlab.ladder import Rung, Tile
from gemmlab.sensors import Reading

BLOCK = ("block_size_x", "block_size_y")


@dataclass(frozen=True)
class Measurement:
    """What was found of one tile: the time of one launch in milliseconds, or why there is none.

    `samples_ms` are the samples that the time is the median of (the mean, where kernel_tuner measured), if they are
    known, and `readings` what the GPU reported during each; `registers` and `local_bytes`, of a thread, and the card's
    name are None where they are not.
    """

    tile: Tile
    milliseconds: float | None
    samples_ms: tuple[float, ...] = ()
    registers: int | None = None
    local_bytes: int | None = None
    device: str | None = None
    error: str | None = None
    readings: tuple[Reading | None, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader should know before trusting the time: throttling, an unsteady clock, a drift; in words."""
        return steadiness.remarks(self.samples_ms, self.readings)


def configuration(rung: Rung, tile: Tile) -> dict[str, int]:
    """Return every parameter of a setting by name: the full tile, and the threads of its block. Raises as full_tile."""
    full = rung.full_tile(tile)
    return full | dict(zip(BLOCK, rung.block(full), strict=False))


def parameters(rung: Rung, tiles: Sequence[Tile]) -> dict[str, list[int]]:
    """Return the values that each parameter takes over some tiles, ascending: the axes of kernel_tuner's space."""
    settings = [configuration(rung, tile) for tile in tiles]
    return {name: sorted({setting[name] for setting in settings}) for name in (*rung.tile, *BLOCK)}


def save(path: str | Path, rung: Rung, problem: Gemm, found: Sequence[Measurement]) -> None:
    """Write measurements of one card to a cache file, whole or not at all. Raises ValueError where cards differ."""
    devices = sorted({each.device for each in found if each.device is not None})
    if len(devices) != 1:
        raise ValueError(f"a cache holds the times of one card, not of {len(devices)}: {', '.join(devices) or 'none'}")
    axes = parameters(rung, [each.tile for each in found])
    header = {
        "device_name": devices[0],
        "kernel_name": rung.entry,
        "problem_size": [problem.N, problem.M, problem.K],
        "tune_params_keys": list(axes),
        "tune_params": axes,
        "objective": ["time"],
        "cache": {},
    }
    # kernel_tuner appends to a file after cutting off its last "}\n}".
    entries = ",\n".join(json.dumps(_entry(rung, each))[1:-1] for each in found)
    text = json.dumps(header, indent=0)[: -len("}\n}")] + f"\n{entries}}}\n}}"
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def load(path: str | Path, rung: Rung, problem: Gemm) -> list[Measurement]:
    """Return what a cache file holds, also of one that kernel_tuner was stopped in; nothing where there is no file.

    Raises ValueError that names the file for one of another rung or problem, and for one that is no cache.
    """
    path = Path(path)
    if not path.is_file():
        return []
    try:
        data = json.loads(_closed(path.read_text(encoding="utf-8")))
        held = data["kernel_name"], list(data["problem_size"]), list(data["tune_params_keys"])
        entries, device = list(data["cache"].values()), data["device_name"]
        found = [_measurement(rung, entry, device) for entry in entries]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is no cache of kernel_tuner for {rung.entry}: {error!r}") from None
    wanted = rung.entry, [problem.N, problem.M, problem.K], [*rung.tile, *BLOCK]
    if held != wanted:
        raise ValueError(f"{path} holds times of {held}, not of {wanted}: name another file")
    return found


def _closed(text: str) -> str:
    """Return the text of a cache as JSON; one that kernel_tuner was writing ends in a comma, or within a setting."""
    text = text.rstrip()
    if text.endswith("}\n}"):
        return text
    whole = text[: text.rfind("\n")] if not text.endswith("},") else text
    return whole.rstrip().rstrip(",") + "}\n}"


def _entry(rung: Rung, found: Measurement) -> dict[str, dict[str, Any]]:
    setting = configuration(rung, found.tile)
    known = {"registers": found.registers, "local_bytes": found.local_bytes}
    if found.milliseconds is None:
        # The word is one of kernel_tuner's own, which it passes over.
        result = {"__error__": "RuntimeFailedConfig", "error": found.error or "no reason is known"}
    else:
        readings = [each and asdict(each) for each in found.readings]
        result = {"time": float(found.milliseconds), "times": list(found.samples_ms), "readings": readings}
    return {",".join(map(str, setting.values())): setting | result | known}


def _measurement(rung: Rung, entry: Mapping[str, Any], device: str) -> Measurement:
    failed = "__error__" in entry
    return Measurement(
        tile={name: int(entry[name]) for name in rung.tile},
        milliseconds=None if failed else float(entry["time"]),
        samples_ms=() if failed else tuple(entry.get("times", ())),
        registers=entry.get("registers"),
        local_bytes=entry.get("local_bytes"),
        device=device,
        error=entry.get("error", entry["__error__"]) if failed else None,
        readings=tuple(_reading(each) for each in entry.get("readings", ())),
    )


def _reading(data: Mapping[str, Any] | None) -> Reading | None:
    return data and Reading(**data | {"slowed_by": tuple(data["slowed_by"])})
