import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import fake_nvml
import numpy as np
import pynvml
import pytest
from emulated_gpu import CARD, EmulatedGpu

from gemmlab import climb, cutlass, cutlass_runs, sweeps, timing, tuning, tuning_cache
from gemmlab.backend import Backend
from gemmlab.gemm import Gemm
from gemmlab.ladder import rung
from gemmlab.sensors import Reading
from gemmlab.tuning_cache import Measurement

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

import cutlass_gemm
import sweep

RUNG4 = rung(4)
SIZES = (128, 64)
CHOICES = {"BM": (64, 128), "BN": (64, 128), "TM": (8, 16)}


@pytest.fixture
def gpu(monkeypatch):
    """An H200 whose launches take a microsecond for every 64 threads of a block, and cuBLAS half a one."""
    fake = EmulatedGpu(lambda grid, block: np.prod(block) / 64e3)

    def sgemm(problem, A, B, C):
        C.set(problem.alpha * (A.get() @ B.get()) + (problem.beta * C.get() if problem.beta else 0))
        fake.now += 0.5e-3

    fake_nvml.install(monkeypatch)
    monkeypatch.setattr(timing, "MIN_SAMPLE_MS", 0.01)
    for module in (sweep, tuning):
        monkeypatch.setattr(module.backend, "choose", lambda name: Backend(name, fake, "asked for"))
    monkeypatch.setattr(climb, "cublas_sgemm", sgemm)
    monkeypatch.setattr(sweep, "compilers", lambda: ThreadPoolExecutor(1))
    monkeypatch.setattr(sweep, "one_process", lambda: ThreadPoolExecutor(1))
    monkeypatch.setattr(tuning, "CHOICES", {4: CHOICES})
    for module in (tuning, cutlass_gemm):
        monkeypatch.setattr(module, "ODD", Gemm(65, 67, 9, alpha=-0.5, beta=2.0))  # smaller, for the emulator
    tuning._bench.cache_clear()
    yield fake
    tuning._bench.cache_clear()


@pytest.fixture
def command(tmp_path):
    """Return a function that runs the sweep of rung 4 with a budget, into a folder of its own."""

    def run(seconds=600.0):
        status = sweep.main(
            [
                f"--seconds={seconds}",
                f"--json={tmp_path / 'sweep.json'}",
                f"--caches={tmp_path / 'caches'}",
                "--rungs=4",
                f"--sizes={','.join(map(str, SIZES))}",
            ]
        )
        return status, sweeps.load(tmp_path / "sweep.json")

    return run


def kept(tmp_path, size):
    path = tmp_path / "caches" / f"{RUNG4.name}_{size}.json"
    return tuning_cache.load(path, RUNG4, Gemm(size, size, size))


def test_a_sweep_times_every_tile_worth_it_and_the_best_at_every_size(gpu, command, tmp_path):
    status, data = command()
    assert status == 0
    (swept,) = data["sweeps"]
    worth = {tuple(tile.values()) for tile in tuning.affordable(RUNG4, tuning.tiles(RUNG4, CHOICES), "sm_90")}
    whole = {tuple(row["tile"].values()) for row in swept["rows"] if sweeps.speed(row, 128) is not None}
    assert whole <= worth and RUNG4.full_tile() in [row["tile"] for row in swept["rows"]]
    assert (64, 64, 8, 8, 8) in whole
    for row in swept["rows"]:
        tile = row["tile"]
        threads = (tile["BM"] // tile["TM"]) * (tile["BN"] // tile["TN"])
        # threads / 64 microseconds a launch; 2 x 128^3 FLOPs.
        assert sweeps.speed(row, 128) == pytest.approx(2 * 128**3 / (threads / 64) / 1e6, abs=1e-3)
    at_both = [row for row in swept["rows"] if sweeps.speed(row, 64) is not None]
    assert 1 <= len(at_both) <= 1 + sweep.BEST
    assert data["environment"]["card"] == CARD
    assert {each["size"]: len(each["tflops"]) for each in swept["cublas"]} == {128: 2, 64: 1}
    assert swept["cublas"][0]["tflops"][0] == pytest.approx(2 * 128**3 / 0.5 / 1e6, abs=1e-3)


def test_what_spills_or_leaves_a_multiprocessor_nearly_empty_is_compiled_and_not_timed(gpu):
    spilling = RUNG4.full_tile({"BM": 256, "BN": 256, "TM": 16, "TN": 16})
    assert sweep.prepare(4, spilling, "sm_90") is None
    # 32 KiB of shared memory: 6 blocks of a single warp, of the 64 warps that a multiprocessor holds.
    assert sweep.prepare(4, RUNG4.full_tile({"BM": 16, "BN": 16, "BK": 256, "TM": 4, "TN": 4}), "sm_90") is None
    assert gpu.compiled == []
    assert sweep.prepare(4, RUNG4.full_tile(), "sm_90").spilled_bytes == 0
    assert len(gpu.compiled) == 1


def test_a_sweep_that_ran_out_of_time_goes_on_with_the_same_command(gpu, command, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sweep, "worth_timing", lambda of_rung, *_: tuning.tiles(of_rung, CHOICES))
    clock = iter(range(10_000))
    monkeypatch.setattr(sweep, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    _, first = command(seconds=9)
    some = kept(tmp_path, 128)
    assert 0 < len(some) < len(tuning.tiles(RUNG4, CHOICES))
    monkeypatch.undo()
    assert len(first["sweeps"][0]["rows"]) == len(some)
    told = capsys.readouterr().out
    assert f"time was up after {len(some)} of" in told and "interrupted" not in told


def test_ctrl_c_is_told_from_the_end_of_the_time(gpu, command, monkeypatch, capsys):
    right = tuning.time_tile

    def interrupted(number, problem, tile):
        if (tile["BM"], tile["BN"]) == (64, 64):
            raise KeyboardInterrupt
        return right(number, problem, tile)

    monkeypatch.setattr(tuning, "time_tile", interrupted)
    command()
    told = capsys.readouterr().out
    assert "interrupted: the same command again goes on" in told and "time was up" not in told


# 300 W is what the stand-in for NVML reports unless told otherwise, at 1980 MHz and 36 C.
def test_the_clocks_of_a_sweep_are_those_read_while_its_tiles_ran(gpu, command):
    _, data = command()
    at_128, at_64 = data["sweeps"][0]["clocks"]
    assert at_128.startswith(f"{RUNG4.name} at 128: 1980 to 1980 MHz, 36 to 36 C, 300 to 300 W, slowed in 0 of ")
    assert at_64.startswith(f"{RUNG4.name} at 64: ")


def test_clocks_are_ranges_over_all_samples_with_what_slowed_them():
    fast, slow = Reading(1980, 3201, 40, 500.5, ()), Reading(1500, 3201, 70, None, ("power cap",))
    found = [Measurement({}, 1.0, readings=(fast, None)), Measurement({}, 1.0, readings=(slow,)), Measurement({}, None)]
    assert (
        sweep.clocks(found) == "1500 to 1980 MHz, 40 to 70 C, 500.5 to 500.5 W, slowed in 1 of 2 samples by power cap"
    )
    assert sweep.clocks([Measurement({}, 1.0, readings=(None,))]) is None


def test_a_throttled_time_is_told(gpu, command, monkeypatch, capsys):
    fake_nvml.install(monkeypatch, reasons=pynvml.nvmlClocksEventReasonSwPowerCap)
    status, _ = command()
    assert status == 0 and "timed, but throttled in 5 of 5 samples: power cap: {'BM'" in capsys.readouterr().out


def test_tiles_that_were_compiled_are_not_compiled_again(gpu, tmp_path):
    first = sweep.worth_timing(RUNG4, "sm_90", tmp_path, 600)
    compiled = len(gpu.compiled)
    assert sweep.worth_timing(RUNG4, "sm_90", tmp_path, 600) == first
    assert len(gpu.compiled) == compiled == len(first)
    assert first[0] == RUNG4.full_tile()


def test_a_wrong_tile_is_told_and_the_rest_is_written(gpu, command, monkeypatch, capsys):
    right = tuning.time_tile

    def wrong_at_64_x_64(number, problem, tile):
        if (tile["BM"], tile["BN"]) == (64, 64):
            raise AssertionError("wrong: of 16384 outputs, 3 NaN")
        return right(number, problem, tile)

    monkeypatch.setattr(tuning, "time_tile", wrong_at_64_x_64)
    status, data = command()
    assert status == 1
    assert "AssertionError: wrong: of 16384 outputs, 3 NaN" in capsys.readouterr().out
    assert all((row["tile"]["BM"], row["tile"]["BN"]) != (64, 64) for row in data["sweeps"][0]["rows"])


# CUTLASS's benchmark, with a rung in CUTLASS's place.


def test_the_benchmark_of_cutlass_writes_a_run_that_loads_and_gives_the_ladders_row(gpu, monkeypatch, tmp_path):
    from gemmlab import launch

    monkeypatch.setattr(cutlass, "kernel", lambda setting: launch.of(RUNG4))
    monkeypatch.setattr(cutlass_gemm.importlib.metadata, "version", lambda name: "4.2.0.0")
    path = tmp_path / "cutlass.json"
    assert cutlass_gemm.main([f"--json={path}", "--sizes=128", "--settings=0,2"]) == 0
    run = cutlass_runs.load(path)
    assert [row["threadblock"] for row in run["rows"]] == [[128, 128, 8], [64, 128, 8]]
    # 256 threads: 4 microseconds a launch, against cuBLAS's half.
    row = cutlass_runs.best([run], CARD, Gemm(128, 128, 128))
    assert np.median(row["milliseconds"]) == pytest.approx(0.004)
    assert np.median(row["cublas_milliseconds"]) == pytest.approx(0.0005)
    assert json.loads(path.read_text())["environment"]["card"] == CARD
