import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gemmlab import compilations, costs, nvrtc
from gemmlab.compilations import Compilations, setting, steps
from gemmlab.ladder import rung

RUNG4 = rung(4)
CHOICES = {"BM": (64, 128, 256), "BN": (64, 128, 256), "TM": (4, 8, 16)}


def at(**tile):
    return setting(RUNG4, tile, "sm_90")


@pytest.fixture
def compiled(monkeypatch):
    """The settings that a compiler was asked for, in order; it finds the tile's BM for a cost."""
    asked = []

    def cost(kernel, arch):
        asked.append((kernel.options, arch))
        return kernel.options[0]

    monkeypatch.setattr(costs, "cost", cost)
    return asked


def test_a_setting_is_compiled_once_however_often_it_is_asked_for(compiled):
    found = Compilations()
    assert {found.cost(at(BM=64)) for _ in range(50)} == {"-DBM=64"}
    assert len(compiled) == 1


def test_a_setting_is_the_same_however_its_tile_is_written(compiled):
    found = Compilations()
    found.cost(at())
    found.cost(at(TN=8, BM=128))
    assert len(compiled) == 1
    found.cost(setting(RUNG4, {}, "sm_80"))
    assert [arch for _, arch in compiled] == ["sm_90", "sm_80"]


def test_what_was_compiled_ahead_is_not_compiled_again(compiled):
    found = Compilations()
    found.ahead([at(BM=64), at(BM=256)])
    found.wait()
    assert len(compiled) == 2
    assert found.cost(at(BM=256)) == "-DBM=256"
    assert len(compiled) == 2


def test_what_is_asked_for_drops_what_was_only_wanted_ahead(monkeypatch):
    started, go_on, asked = threading.Event(), threading.Event(), []

    def cost(kernel, arch):
        asked.append(kernel.options[0])
        started.set()
        go_on.wait(10)
        return kernel.options[0]

    monkeypatch.setattr(costs, "cost", cost)
    found = Compilations()
    found.ahead([at(BM=64), at(BM=256), at(BM=32)])
    assert started.wait(10)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(found.cost, at(BM=128))
        while found._wanted:  # until it has said so, the first one still compiles
            time.sleep(0.001)
        go_on.set()
        assert answer.result(10) == "-DBM=128"
    found.wait()
    assert asked == ["-DBM=64", "-DBM=128"]


def test_a_refusal_of_the_compiler_is_kept_too(monkeypatch):
    asked = []

    def refuse(kernel, arch):
        asked.append(kernel)
        raise nvrtc.CompileError("too much shared data")

    monkeypatch.setattr(costs, "cost", refuse)
    found = Compilations()
    for _ in range(3):
        with pytest.raises(nvrtc.CompileError, match="too much shared data"):
            found.cost(at())
    assert len(asked) == 1


def test_an_error_ahead_harms_nobody_and_is_raised_for_whoever_asks(monkeypatch):
    def break_down(kernel, arch):
        raise nvrtc.CompilerUnavailable("no NVRTC")

    monkeypatch.setattr(costs, "cost", break_down)
    found = Compilations()
    found.ahead([at()])
    found.wait()
    with pytest.raises(nvrtc.CompilerUnavailable):
        found.cost(at())


def test_an_illegal_setting_is_refused_with_the_rule_and_both_numbers():
    with pytest.raises(ValueError, match=r"BM = 100 is not a multiple of TM = 8"):
        at(BM=100)


# 64 x 128 with micro-tiles of 4 x 8 is 16 x 16 = 256 threads. BM = 128 makes 512, TM = 8 makes 128. With BN = 64 they
# are 128 and with 256 they are 512. BK = 8: each of those loads whole elements of 64 x 8 = 512 and BN x 8.
def test_steps_change_one_parameter_to_the_next_value_and_name_the_rule_of_the_illegal_ones():
    tile = {**RUNG4.tile, "BM": 64, "TM": 4}
    assert steps(RUNG4, tile, CHOICES) == dict.fromkeys((("BM", 128), ("BN", 64), ("BN", 256), ("TM", 8)))
    found = steps(rung(6), rung(6).tile, {"WM": (16, 32, 64), "BK": (8, 16)})
    assert "64 tiles of threads, but a warp has 32 lanes" in found["WM", 64]
    assert "16 tiles of threads, but a warp has 32 lanes" in found["WM", 16]
    assert found["BK", 8] is None


def test_the_real_compiler_is_asked_with_the_settings_own_architecture_and_options():
    # Rung 2's two tiles of 16 x 16 floats are 2,048 bytes.
    cost = compilations.Compilations().cost(setting(rung(2), {"TILE": 16}, "sm_75"))
    assert (cost.threads, cost.occupancy.architecture, cost.occupancy.shared_bytes) == (256, "sm_75", 2048)


# TILE = 32 has 8, 16 and 64 beside it; 64 x 64 threads are more than a block may have.
def test_what_one_slider_away_is_legal_comes_nearest_first():
    assert compilations.nearby(rung(2), {"TILE": 32}, {"TILE": (8, 16, 32, 64)}) == [("TILE", 16), ("TILE", 8)]
