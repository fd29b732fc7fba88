import json
from pathlib import Path

import pytest

from gemmlab import kernel_tuning, sweep_replay, sweeps, tuned, tuning, tuning_cache
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung, written
from gemmlab.tuning_cache import Measurement

RUNG4, RUNG6 = rung(4), rung(6)
CARD = "NVIDIA H200"


def row(tile, speeds, of_rung=RUNG4, **fields):
    timed = [{"size": size, "tflops": tflops, "min": None, "max": None} for size, tflops in speeds.items()]
    full = {"rung": of_rung.name, "tile": of_rung.full_tile(tile), "settings": {}, "registers": 96, "local_bytes": 0}
    return full | {"timed": timed} | fields


SMALL = {"BM": 64}
DATA = {
    "environment": {"card": CARD},
    "sweeps": [
        {"rows": [row({}, {4096: 20.0})]},
        {
            "rows": [
                row({}, {1024: 10.0, 4096: 40.0}),
                row({}, {4096: 50.0}),
                row(SMALL, {1024: 20.0, 4096: 25.0}),
                row({"BK": 16}, {4096: 30.0}),
                row({}, {4096: 90.0}, RUNG6),
            ]
        },
    ],
}


# 2 x 4096^3 = 137,438,953,472 FLOPs at 50 TFLOP/s are 2.749 ms; at 25 and 30, 5.498 and 4.581.
def test_rows_become_times_by_the_conventional_work_and_of_one_tile_the_fastest():
    found = sweep_replay.measurements(DATA["sweeps"][1], RUNG4, 4096, CARD)
    assert [each.milliseconds for each in found] == pytest.approx([2.74878, 5.49756, 4.58130], abs=1e-5)
    assert [sweep_replay.tflops(each, Gemm(4096, 4096, 4096)) for each in found] == pytest.approx([50, 25, 30])
    assert {(each.registers, each.device) for each in found} == {(96, CARD)}


def test_the_fullest_sweep_is_the_one_that_timed_most_tiles_of_the_rung():
    assert sweep_replay.fullest(DATA, RUNG4, 4096) is DATA["sweeps"][1]
    with pytest.raises(ValueError, match="no sweep of NVIDIA H200 timed rung 4 at N = 8192"):
        sweep_replay.fullest(DATA, RUNG4, 8192)


def test_a_cache_of_a_sweep_replays_its_speeds_and_no_other(tmp_path):
    path = sweep_replay.write_cache(tmp_path, DATA, RUNG4, 4096)
    found = kernel_tuning.replay(path, RUNG4)
    cube = Gemm(4096, 4096, 4096)
    assert {written(each.tile): round(sweep_replay.tflops(each, cube)) for each in found} == {
        written(RUNG4.full_tile(tile)): speed for tile, speed in (({}, 50), (SMALL, 25), ({"BK": 16}, 30))
    }
    assert len(tuning_cache.load(path, RUNG4, cube)) == 3


def at(milliseconds, **tile):
    return Measurement(RUNG4.full_tile(tile), milliseconds)


def test_an_effect_is_of_one_parameter_alone_in_pairs_that_agree_in_all_others():
    found = [at(4.0), at(2.0, BK=16), at(8.0, BM=64), at(2.0, BM=64, BK=16), at(None, BN=64)]
    effects = sweep_replay.effects(found)
    assert sorted(effects["BK"]) == [(8, 16, 2.0), (8, 16, 4.0)]
    assert sorted(effects["BM"]) == [(64, 128, 1.0), (64, 128, 2.0)]
    assert effects["BN"] == effects["TM"] == effects["TN"] == []
    assert sweep_replay.effects_table(found).splitlines()[1:] == [
        "BM: 64 to 128          2   1.000 to 2.000",
        "BN                  none   -",
        "BK: 8 to 16            2   2.000 to 4.000",
        "TM                  none   -",
        "TN                  none   -",
    ]


def test_the_best_tile_is_named_at_each_size_among_those_timed_at_several():
    speeds = sweep_replay.by_size(DATA["sweeps"][1], RUNG4)
    first, small = written(RUNG4.full_tile()), written(RUNG4.full_tile(SMALL))
    assert speeds == {first: {1024: 10.0, 4096: 50.0}, small: {1024: 20.0, 4096: 25.0}}
    assert sweep_replay.best_by_size(speeds) == {1024: small, 4096: first}


def test_the_best_at_each_size_is_told_with_its_lead_and_the_rungs_own_speed():
    # 20 over 10 TFLOP/s is 100% ahead, 50 over 25 too; at 4096 the fastest is the rung's own tile.
    lines = [line.split() for line in sweep_replay.best_table(DATA["sweeps"][1], [RUNG4]).splitlines()[1:]]
    small, own = written(RUNG4.full_tile(SMALL)).split(), written(RUNG4.full_tile()).split()
    assert lines == [
        ["4", "1024", "2", "20.0", "100.0%", "10.0", *small],
        ["4", "4096", "2", "50.0", "100.0%", "50.0", *own],
    ]


@pytest.mark.parametrize("number", (3, 4, 5, 6))
def test_every_tile_of_the_shipped_sweep_is_one_of_the_legal_choices(number):
    legal = tuning.tiles(rung(number), tuning.CHOICES[number])
    (sweep,) = sweeps.shipped(tuned.H200)["sweeps"]
    assert all(row["tile"] in legal for row in sweep["rows"] if row["rung"] == rung(number).name)


@pytest.mark.parametrize("number", (3, 4, 5, 6))
def test_the_shipped_sweep_replays_every_rung_that_it_timed_at_4096(number, tmp_path):
    data = sweeps.shipped(tuned.H200)
    path = sweep_replay.write_cache(tmp_path, data, rung(number), 4096)
    found = kernel_tuning.replay(path, rung(number))
    sweep = sweep_replay.fullest(data, rung(number), 4096)
    rows = [each for each in sweep["rows"] if each["rung"] == rung(number).name]
    best = max(sweeps.speed(each, 4096) for each in rows)
    cube = Gemm(4096, 4096, 4096)
    assert max(sweep_replay.tflops(each, cube) for each in found) == pytest.approx(best)
    assert all(rung(number).full_tile(each.tile) == each.tile for each in found)


def test_what_notebook_23_says_of_the_shipped_sweep_is_what_it_holds():
    path = Path(__file__).parent.parent / "notebooks" / "23_tuning.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    said = {cell["id"]: "".join(cell["source"]) for cell in cells}
    (sweep,) = sweeps.shipped(tuned.H200)["sweeps"]

    def steps(of_rung, name, low, high):
        effects = sweep_replay.effects(sweep_replay.measurements(sweep, of_rung, 4096, CARD))[name]
        return sorted(ratio for *step, ratio in effects if step == [low, high])

    (deeper,), (deepest,) = steps(RUNG6, "BK", 8, 16), steps(RUNG6, "BK", 16, 32)
    assert f"{deeper - 1:.0%} faster than 8 in the only pair" in said["effects-reading"]
    assert f"32 is {1 - deepest:.1%} slower than 16" in said["effects-reading"]
    sides = [ratio for name in ("BM", "BN") for ratio in steps(RUNG6, name, 64, 128)]
    assert "worth 2% at most" in said["effects-reading"] and all(round(abs(ratio - 1), 2) <= 0.02 for ratio in sides)
    worst, *wins = steps(RUNG4, "BK", 8, 16)
    wanted = f"wins in three pairs of four, by {wins[0] - 1:.0%} to {wins[-1] - 1:.0%}, and loses {1 - worst:.0%}"
    assert wanted in said["micro-reading"] and len(wins) == 3
    assert "loses more than a third" in said["micro-reading"] and max(steps(RUNG4, "BK", 16, 32)) < 2 / 3
    assert "31 settings" in said["micro-text"] and len(sweep_replay.measurements(sweep, RUNG4, 4096, CARD)) == 31
