import inspect
import itertools
import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from emulated_gpu import CARD, EmulatedGpu, runtime_info
from kernel_tuner import util
from kernel_tuner.backends import cupy as cupy_backend
from kernel_tuner.observers import cupy as cupy_observer

import gemmlab
from gemmlab import costs, kernel_tuning, ladder, tolerance, tuning, tuning_cache
from gemmlab.backend import Backend
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import RUNGS, rung
from gemmlab.tuning_cache import Measurement

RUNG2, RUNG4, RUNG6 = rung(2), rung(4), rung(6)
PROBLEM = Gemm(48, 80, 32)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU on which a launch takes as many milliseconds as it has blocks."""
    fake = EmulatedGpu(lambda grid, block: float(np.prod(grid)))
    monkeypatch.setattr(kernel_tuning.backend, "choose", lambda name: Backend(name, fake, "asked for"))
    monkeypatch.setattr(kernel_tuning.backend, "architecture", lambda: "sm_90")
    monkeypatch.setattr(cupy_backend, "cp", fake)
    monkeypatch.setattr(cupy_backend, "get_runtime_info", runtime_info, raising=False)
    monkeypatch.setattr(cupy_observer, "cp", fake)
    return fake


# C of 48 x 80: 6 x 10 blocks of 8 x 8, 3 x 5 of 16 x 16, 2 x 3 of 32 x 32.
def test_kernel_tuner_times_every_legal_tile_and_takes_none_that_is_illegal(gpu, tmp_path):
    told = []
    found = kernel_tuning.tune(RUNG2, PROBLEM, {"TILE": (8, 16, 32, 64)}, tmp_path / "cache.json", told.append)
    assert {each.tile["TILE"]: each.milliseconds for each in found} == {8: 60.0, 16: 15.0, 32: 6.0}
    assert told == [1, 1, 1]


def test_what_kernel_tuner_measured_is_not_measured_again_by_it_or_by_a_sweep(gpu, tmp_path):
    path, choices = tmp_path / "cache.json", {"TILE": (8, 16)}
    kernel_tuning.tune(RUNG2, PROBLEM, choices, path)
    told = []
    again = kernel_tuning.tune(RUNG2, PROBLEM, {"TILE": (8, 16, 32)}, path, told.append)
    assert [each.milliseconds for each in again] == [60.0, 15.0, 6.0] and len(told) == 1
    swept = tuning.sweep(RUNG2, PROBLEM, tuning.tiles(RUNG2, choices), path, measure=lambda *_: pytest.fail("known"))
    assert [each.milliseconds for each in swept] == [60.0, 15.0]
    assert swept[0].device == CARD


def test_what_a_sweep_measured_is_not_measured_again_by_kernel_tuner(gpu, tmp_path):
    path = tmp_path / "cache.json"
    tuning_cache.save(path, RUNG2, PROBLEM, [Measurement({"TILE": 8}, 99.0, device=CARD)])
    found = kernel_tuning.tune(RUNG2, PROBLEM, {"TILE": (8, 16)}, path)
    assert [each.milliseconds for each in found] == [99.0, 15.0]


def test_a_wrong_result_ends_the_search_with_the_verdict_and_leaves_what_was_found(gpu, monkeypatch, tmp_path):
    source = RUNG2.source().replace("float value = alpha * sum;", "float value = TILE == 32 ? 0.0f : alpha * sum;")
    (tmp_path / RUNG2.source_file).write_text(source)
    monkeypatch.setattr(ladder, "KERNEL_FOLDERS", (tmp_path,))
    monkeypatch.chdir(tmp_path)  # where kernel_tuner leaves the source of a setting that failed
    with pytest.raises(AssertionError, match="outside the error bound"):
        kernel_tuning.tune(RUNG2, PROBLEM, {"TILE": (8, 16, 32)}, tmp_path / "cache.json")
    kept = tuning_cache.load(tmp_path / "cache.json", RUNG2, PROBLEM)
    assert [each.tile["TILE"] for each in kept] == [8, 16]


def test_outputs_that_nobody_writes_do_not_pass(gpu, monkeypatch, tmp_path):
    source = RUNG2.source().replace("if (row >= M || col >= N)", "if (row >= M || col >= N || row == 7)")
    (tmp_path / RUNG2.source_file).write_text(source)
    monkeypatch.setattr(ladder, "KERNEL_FOLDERS", (tmp_path,))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match="80 never written"):
        kernel_tuning.tune(RUNG2, PROBLEM, {"TILE": (8,)}, tmp_path / "cache.json")


def test_choices_without_a_legal_tile_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no combination"):
        kernel_tuning.tune(RUNG2, PROBLEM, {"TILE": (64,)}, tmp_path / "cache.json")


def test_verify_is_our_verdict():
    matrices = inputs(PROBLEM)
    expected = tolerance.expect(PROBLEM, *matrices)
    right = expected.value.astype(np.float32)
    verify = util.normalize_verify_function(kernel_tuning.verify(expected))
    assert verify(None, [None, right], atol=1e-6)
    wrong = right.copy()
    wrong[3, 4] += 10 * expected.bound[3, 4]
    with pytest.raises(AssertionError, match="1 outside the error bound\nworst at row 3, column 4"):
        verify(None, [None, wrong], atol=1e-6)


@pytest.mark.parametrize("of_rung", RUNGS[2:], ids=lambda each: each.name)
def test_kernel_tuner_launches_the_grid_and_the_block_of_the_rung(of_rung):
    problem = Gemm(1000, 700, 96)
    setting = tuning_cache.configuration(of_rung, {})
    divisors = kernel_tuning.divisors(problem)
    threads, grid = util.setup_block_and_grid(
        (problem.N, problem.M, problem.K),
        [divisors[f"grid_div_{axis}"] for axis in "xyz"],
        setting,
        util.default_block_size_names,
    )
    assert (grid, threads) == of_rung.geometry(problem)[:2]


def test_the_restriction_admits_exactly_what_the_sliders_do(monkeypatch):
    asked = []

    def cost(kernel, arch):
        asked.append(kernel.options)
        if "-DBK=16" in kernel.options:
            raise costs.nvrtc.CompileError("too much shared data")
        return costs.Cost(256, 64, 0, costs.occupancy(arch, 256, 64))

    monkeypatch.setattr(costs, "cost", cost)
    choices = {"BM": (32, 64, 128), "BN": (64, 128), "BK": (8, 16), "TM": (4, 8), "TN": (4, 8)}
    axes = tuning_cache.parameters(RUNG4, tuning.tiles(RUNG4, choices))
    admits = kernel_tuning.lawful(RUNG4, tuple(axes), "sm_90")._func
    for values in itertools.product(*axes.values()):
        given = dict(zip(axes, values, strict=True))
        tile = {name: given[name] for name in RUNG4.tile}
        block = (tile["BN"] // tile["TN"], tile["BM"] // tile["TM"])
        legal = costs.refused(RUNG4, tile, "sm_90") is None
        assert admits(*values) == (legal and block == (given["block_size_x"], given["block_size_y"]))
    assert asked


@pytest.fixture
def cache(tmp_path):
    found = [
        Measurement(RUNG6.full_tile({"BM": BM, "BK": BK}), BM + BK / 10, (), 120, 0, CARD)
        for BM in (64, 128)
        for BK in (8, 16, 32)
    ]
    failed = Measurement(RUNG6.full_tile({"PAD": 8}), None, device=CARD, error="its process died")
    tuning_cache.save(tmp_path / "cache.json", RUNG6, PROBLEM, [*found, failed])
    return tmp_path / "cache.json"


def test_a_replay_finds_what_was_measured_and_nothing_else(cache, capsys):
    before = cache.read_text()
    found = kernel_tuning.replay(cache, RUNG6)
    assert {(each.tile["BM"], each.tile["BK"]): each.milliseconds for each in found} == {
        (BM, BK): BM + BK / 10 for BM in (64, 128) for BK in (8, 16, 32)
    }
    assert all(each.registers == 120 for each in found)
    assert cache.read_text() == before
    assert capsys.readouterr().out == ""


def test_a_replay_searches_by_any_strategy_within_its_budget(cache):
    found = kernel_tuning.replay(cache, RUNG6, strategy="random_sample", strategy_options={"max_fevals": 3}, seed=0)
    assert len({tuple(each.tile.values()) for each in found}) == 3
    assert all(each.milliseconds == each.tile["BM"] + each.tile["BK"] / 10 for each in found)


@pytest.mark.parametrize("strategy", ["random_sample", "simulated_annealing"])
def test_a_search_takes_the_same_way_with_the_same_seed_and_another_with_another(cache, strategy):
    def visited(seed):
        options = {"strategy": strategy, "strategy_options": {"max_fevals": 4}}
        return [each.tile for each in kernel_tuning.replay(cache, RUNG6, seed=seed, **options)]

    assert visited(1) == visited(1)
    assert any(visited(seed) != visited(1) for seed in (2, 3, 4))


def test_our_sources_call_kernel_tuner_as_it_wants_to_be_called():
    known = set(inspect.signature(kernel_tuning.kernel_tuner.tune_kernel).parameters)
    assert {"restrictions", "answer", "verify", "cache", "observers", "compiler_options", "quiet"} <= known


NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "23_tuning.ipynb"


def test_the_notebook_does_without_kernel_tuner_all_but_search_and_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "kernel_tuner", None)  # as where it is not installed
    monkeypatch.delitem(sys.modules, "gemmlab.kernel_tuning")
    monkeypatch.delattr(gemmlab, "kernel_tuning")
    cells = {cell["id"]: "".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]}
    names = {}
    for cell in ("setup", "predict", "swept", "replay", "compare", "search", "play", "executor"):
        exec(cells[cell], names)
    plt.close("all")
    said = capsys.readouterr().out
    assert "kernel_tuner is not installed" in said and "--editable '.[tune]'" in said
    assert "16 of 16 settings; the fastest first" in said
    assert list(names["visited"]) == ["all, in order"] and len(names["swept"]) == len(names["found"]) == 16
