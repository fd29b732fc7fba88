"""The comparison of timers, with stand-ins for a GPU, for cupyx.profiler and for cuda-bench."""

import json
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import fake_nvml
import pytest
from fake_cuda import FakeGpu

from gemmlab import emulator, experiments
from gemmlab.backend import Backend
from gemmlab.timing import FLUSHED, WARM, Timing

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

import timers
from timers import BATCH, COLD, CUPY, Figure, compared

MS = {"gemm_shared_tiles": 4.0, "gemm_warp_tiles": 2.0, "cuBLAS": 1.0}
KERNELS = {"shared_tiles": 4.0, "warp_tiles": 2.0, "cuBLAS": 1.0}


class FakeBench(ModuleType):
    """Stands for cuda.bench: runs what was registered on a stream of its own, and writes what it is told to see."""

    def __init__(self, gpu, slower=1.0):
        super().__init__("cuda.bench")
        self.gpu, self.slower = gpu, slower
        self.registered, self.argv, self.streams = [], None, []
        self.skipped = ""

    def register(self, function):
        benchmark = SimpleNamespace(function=function, name=None, min_samples=None)
        benchmark.set_name = lambda name: vars(benchmark).update(name=name) or benchmark
        benchmark.set_min_samples = lambda count: vars(benchmark).update(min_samples=count) or benchmark
        self.registered.append(benchmark)
        return benchmark

    def run_all_benchmarks(self, argv):
        assert self.argv is None, "cuda-bench runs once a process"
        self.argv = argv
        stream = SimpleNamespace(addressof=lambda: 0x5EED)
        launch = SimpleNamespace(get_stream=lambda: stream)
        found = {}
        for benchmark in self.registered:
            before = len(self.gpu.launches)
            benchmark.function(SimpleNamespace(exec=lambda run, batched: [run(launch) for _ in range(3)]))
            assert len(self.gpu.launches) == before + 3
            found[benchmark.name] = KERNELS[benchmark.name] * self.slower / 1e3
        Path(argv[argv.index("--jsonbin") + 1]).write_text(json.dumps(found))

    def from_json(self, path):
        return {name: [self.state(seconds)] for name, seconds in json.loads(Path(path).read_text()).items()}

    def state(self, seconds):
        if self.skipped:
            return SimpleNamespace(samples=None, summaries={}, skip_reason=self.skipped)
        mean = SimpleNamespace(value=seconds * 1.01)
        samples = [seconds, seconds, 5 * seconds]
        return SimpleNamespace(samples=samples, summaries={"nv/batch/time/gpu/mean": mean}, skip_reason=None)


class ExternalStream:
    """Stands for cupy.cuda.ExternalStream, and tells which streams were made current."""

    def __init__(self, used, address, device):
        self.used, self.made_of = used, (address, device)

    def __enter__(self):
        self.used.append(self.made_of)

    def __exit__(self, *error):
        pass


@pytest.fixture
def gpu(monkeypatch):
    fake_nvml.install(monkeypatch)
    fake = FakeGpu(MS)
    fake.streams = []
    fake.cuda.ExternalStream = partial(ExternalStream, fake.streams)
    monkeypatch.setattr(experiments, "cublas_sgemm", fake.sgemm)
    monkeypatch.setattr(timers.backend, "choose", lambda requested: Backend("cuda", fake, "asked for"))
    return fake


@pytest.fixture
def bench(monkeypatch, gpu):
    """Stand-ins for cupyx.profiler, whose kernels take 1% longer, and for cuda-bench."""
    profiler = ModuleType("cupyx.profiler")

    def benchmark(submit, n_repeat, n_warmup, name):
        before = gpu.cuda.now
        for _ in range(n_warmup + n_repeat):
            submit()
        seconds = 1.01 * (gpu.cuda.now - before) / (n_warmup + n_repeat) / 1e3
        return SimpleNamespace(gpu_times=[[seconds] * n_repeat])

    profiler.benchmark = benchmark
    fake = FakeBench(gpu)
    results = ModuleType("cuda.bench.results")
    results.BenchmarkResult = fake
    for name, module in {
        "cupyx": ModuleType("cupyx"),
        "cupyx.profiler": profiler,
        "cuda.bench": fake,
        "cuda.bench.results": results,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    return fake


def test_all_three_time_the_same_launches_and_agree(bench, gpu, tmp_path, capsys):
    assert timers.main([str(tmp_path / "timers.json"), "--size", "64"]) == 0
    printed = capsys.readouterr().out
    assert "9 of 9 within 2%" in printed
    for kernel, ms in KERNELS.items():
        assert f"{kernel} cupyx.profiler warm L2 median {1.01 * ms:.4g} {ms:g} +1.00%" in " ".join(printed.split())
        assert f"{kernel} cuda-bench cold flushed L2 median {ms:g} {ms:g} +0.00%" in " ".join(printed.split())


def test_everything_is_written_with_card_driver_date_and_conditions(bench, tmp_path):
    timers.main([str(tmp_path / "timers.json"), "--size", "64"])
    run = json.loads((tmp_path / "timers.json").read_text())
    seen = run["environment"]
    assert (seen["card"], seen["driver"], run["shape"]) == ("NVIDIA H200", fake_nvml.DRIVER, [64, 64, 64])
    assert seen["date"] and seen["conditions"]["clocks"] and seen["conditions"]["warmup"] == 3
    assert {(row["kernel"], row["cache"]) for row in run["gemmlab"]} == {
        (k, c) for k in KERNELS for c in (WARM, FLUSHED)
    }
    assert all(len(row["samples_ms"]) == 20 for row in run["gemmlab"])
    assert {row["timer"] for row in run["others"]} == {CUPY, COLD, BATCH}


def test_cuda_bench_launches_on_its_own_stream_of_the_one_device_and_runs_once(bench, gpu, tmp_path):
    timers.main([str(tmp_path / "timers.json"), "--size", "64"])
    assert set(gpu.streams) == {(0x5EED, 0)}
    assert bench.argv[:3] == ["timers", "--devices", "0"]
    assert [benchmark.name for benchmark in bench.registered] == list(KERNELS)
    assert {benchmark.min_samples for benchmark in bench.registered} == {timers.SAMPLES}


def test_a_timer_that_differs_by_more_than_two_percent_fails_the_run(bench, tmp_path, capsys):
    bench.slower = 1.03
    assert timers.main([str(tmp_path / "timers.json"), "--size", "64"]) == 1
    # Cold medians are 3% off, batch means 4%; cupyx's three are as before.
    assert "3 of 9 within 2%" in capsys.readouterr().out


def test_a_benchmark_that_was_left_out_is_named_with_its_reason(bench, tmp_path):
    bench.skipped = "throttled"
    with pytest.raises(ValueError, match="cuda-bench has no figures of shared_tiles: throttled"):
        timers.main([str(tmp_path / "timers.json"), "--size", "64"])


def test_each_figure_stands_against_gemmlabs_with_the_same_state_of_l2():
    ours = {
        ("warp_tiles", WARM): Timing((1.0, 2.0, 3.0), 1, 3, WARM),
        ("warp_tiles", FLUSHED): Timing((4.0,), 1, 3, FLUSHED),
    }
    figures = compared(ours, {"warp_tiles": [2.0, 2.5, 9.0]}, {"warp_tiles": {"samples_ms": [5.0], "mean_ms": 1.0}})
    assert figures == [
        Figure("warp_tiles", CUPY, WARM, "median", 2.5, 2.0, (2.0, 2.5, 9.0)),
        Figure("warp_tiles", BATCH, WARM, "mean", 1.0, 2.0, ()),
        Figure("warp_tiles", COLD, FLUSHED, "median", 5.0, 4.0, (5.0,)),
    ]
    assert [figure.difference for figure in figures] == [0.25, -0.5, 0.25]


def test_without_a_gpu_or_cuda_bench_the_script_says_what_is_missing(monkeypatch, tmp_path, capsys, gpu):
    monkeypatch.setitem(sys.modules, "cuda.bench", None)
    assert timers.main([str(tmp_path / "timers.json")]) == 1
    assert "pip install --editable '.[bench]'" in capsys.readouterr().err
    monkeypatch.setattr(timers.backend, "choose", lambda requested: Backend("emulator", emulator, "asked for"))
    assert timers.main([str(tmp_path / "timers.json")]) == 1
    assert "nothing is timed on the emulator" in capsys.readouterr().err
    assert not (tmp_path / "timers.json").exists()
