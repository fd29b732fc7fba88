"""Tile parameters by card, and the sweeps that they rest on."""

import copy
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from gemmlab import backend, climb, environment, records, sweeps, tuned
from gemmlab.gemm import Gemm
from gemmlab.ladder import RUNGS, rung

CHOICES = [(card, name) for card, choices in tuned.TUNED.items() for name in choices]


@pytest.fixture
def h200():
    return sweeps.shipped(tuned.H200)


def row(name, tflops, local_bytes=0, **tile):
    """A row of a sweep: rung 3 unless told otherwise, timed at 4096 alone."""
    timed = [{"size": 4096, "tflops": tflops, "min": None, "max": None}]
    return {
        "rung": name,
        "tile": dict(rung(name).tile) | tile,
        "settings": {},
        "registers": 40,
        "local_bytes": local_bytes,
        "timed": timed,
    }


def with_rows(h200, *sweeps_of_rows):
    first = h200["sweeps"][0]
    return {"environment": h200["environment"], "sweeps": [first | {"rows": rows} for rows in sweeps_of_rows]}


@pytest.mark.parametrize("card, name", CHOICES)
def test_the_named_file_timed_each_tile_on_that_card_at_the_size_it_was_chosen_for(card, name):
    choice = tuned.TUNED[card][name]
    data = sweeps.shipped(choice.sweeps)
    assert tuned.gpu(data["environment"]["card"]).name == card
    assert list(sweeps.timed_with(data, rung(name), choice.tile, choice.size))


@pytest.mark.parametrize("card, name", CHOICES)
def test_no_tile_of_the_same_sweep_is_faster_beyond_noise_or_the_reason_gives_both_figures(card, name):
    choice = tuned.TUNED[card][name]
    data = sweeps.shipped(choice.sweeps)
    faster = sweeps.faster(data, rung(name), choice.tile, choice.size)
    if not faster:
        assert not choice.reason
        return
    own = max(best for best, _ in sweeps.timed_with(data, rung(name), choice.tile, choice.size))
    assert f"{sweeps.speed(faster[0], choice.size):.1f} TFLOP/s" in choice.reason
    assert f"{own:.1f} for this tile" in choice.reason


@pytest.mark.parametrize("card, name", CHOICES)
def test_every_choice_is_a_whole_tile_that_its_rung_takes(card, name):
    assert rung(name).full_tile(tuned.TUNED[card][name].tile) == tuned.TUNED[card][name].tile


def test_a_card_is_found_by_its_name_here_or_the_drivers_and_any_other_gets_the_defaults():
    for each in RUNGS:
        assert tuned.tile(each, "NVIDIA H200") == tuned.tile(each, "H200")
        for other in (None, "Tesla T4", "NVIDIA H100 PCIe", ""):
            assert tuned.tile(each, other) == each.tile


def test_the_shipped_climbs_of_a_card_in_the_table_ran_its_tiles():
    climbs = [record for record in records.shipped() if record.card == "NVIDIA H200"]
    assert climbs
    for record in climbs:
        for seen in record.rungs:
            assert seen["tile"] == tuned.tile(rung(seen["rung"]), record.card)


@pytest.mark.parametrize("reported", ["NVIDIA H200", b"NVIDIA H200"])
def test_the_name_of_a_gpu_is_the_drivers_and_the_emulator_has_none(reported):
    runtime = SimpleNamespace(getDevice=lambda: 3, getDeviceProperties=lambda device: {"name": reported, "of": device})
    gpu = backend.Backend("cuda", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)), "asked for")
    assert environment.card_name(gpu) == "NVIDIA H200"
    assert environment.card_name(backend.choose("emulator")) is None


def test_a_climb_gives_a_rung_its_tile_for_the_card_unless_told_otherwise(monkeypatch):
    small = {"BM": 32, "BN": 32, "BK": 8, "TM": 4}
    monkeypatch.setattr(tuned, "tile", lambda rung, card: small if rung.number == 3 else rung.tile)
    (own,) = climb.climb([rung(3)], Gemm(33, 33, 33)).rows
    (told,) = climb.climb([rung(3)], Gemm(33, 33, 33), tiles={"register_tiles_1d": {"TM": 16}}).rows
    assert own.tile == small
    assert told.tile == dict(rung(3).tile) | {"TM": 16}


def test_only_rows_of_a_sweep_that_timed_the_tile_are_held_against_it(h200):
    name, tile = "register_tiles_1d", rung(3).tile
    together = with_rows(h200, [row(name, 10.0), row(name, 11.0, TM=16)])
    apart = with_rows(h200, [row(name, 10.0)], [row(name, 11.0, TM=16)])
    assert [found["tile"]["TM"] for found in sweeps.faster(together, rung(3), tile, 4096)] == [16]
    assert sweeps.faster(apart, rung(3), tile, 4096) == []
    assert sweeps.faster(together, rung(3), tile, 2048) == []


def test_a_row_within_noise_one_that_spills_and_one_that_the_rung_refuses_are_not_faster(h200):
    name, tile = "register_tiles_1d", rung(3).tile
    rows = [
        row(name, 10.0),
        row(name, 10.0 * (1 + sweeps.NOISE), TM=16),
        row(name, 20.0, local_bytes=8, TM=16),
        row(name, 20.0, BM=60),
        row("vectorized", 20.0),
    ]
    assert sweeps.faster(with_rows(h200, rows), rung(3), tile, 4096) == []


def test_min_and_max_enclose_the_median_and_cublas_ran_in_each_sweep_at_the_size_of_the_choices(h200):
    for sweep in h200["sweeps"]:
        assert any(seen["size"] == 4096 and seen["tflops"] for seen in sweep["cublas"])
        for timed in (timed for each in sweep["rows"] for timed in each["timed"] if timed["min"] is not None):
            assert timed["min"] <= timed["tflops"] <= timed["max"]


def test_a_file_of_sweeps_with_a_wrong_field_is_refused_by_its_place(tmp_path, h200):
    damaged = copy.deepcopy(h200)
    damaged["sweeps"][0]["rows"][0]["timed"][0]["tflops"] = None
    path = tmp_path / "sweeps.json"
    path.write_text(json.dumps(damaged))
    place = r"sweeps.json is no file of sweeps: sweeps\[0\].rows\[0\].timed\[0\].tflops is None, but must be a finite"
    with pytest.raises(ValueError, match=place):
        sweeps.load(path)


def test_the_table_of_a_card_gives_both_figures_of_each_sweep_and_the_reason():
    text = tuned.table("H200")
    assert "rung 6 (warp_tiles), BM = 64, BN = 128, BK = 16, WM = 32, WN = 64, TM = 8, TN = 8, PAD = 4" in text
    # Of the kernels' own texts, 16 tiles: 45.894 for the chosen one, 45.486 for the next.
    assert "45.9 TFLOP/s; the fastest of 15 others 45.5, with BN = 64" in text
    assert " ".join(tuned.TUNED["H200"]["register_tiles_2d"].reason.split()) in " ".join(text.split())


def test_notebook_3_gives_the_sweeps_speeds_of_longer_strips(h200):
    notebook = Path(__file__).parent.parent / "notebooks" / "03_register_tiles_1d.ipynb"
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    said = "".join(next(cell["source"] for cell in cells if cell["id"] == "play-sweep"))
    strips = [row for sweep in h200["sweeps"] for row in sweep["rows"] if row["rung"] == "register_tiles_1d"]
    speeds = {tuple(row["tile"].values()): sweeps.speed(row, 4096) for row in strips}
    shown = [speeds[64, 64, 8, 8], speeds[64, 64, 8, 32], speeds[128, 64, 32, 32]]
    assert re.findall(r"did (\d+\.\d)", said) == [f"{speed:.1f}" for speed in shown]
    assert max(speeds.values()) == shown[-1]
