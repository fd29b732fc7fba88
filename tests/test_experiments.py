"""Experiments on measuring, on a stand-in for a GPU that knows how long everything takes."""

import sys
from functools import partial
from pathlib import Path

import fake_nvml
import pytest
from fake_cuda import FakeGpu

from gemmlab import emulator, experiments, measurements
from gemmlab.backend import Backend
from gemmlab.experiments import CALL, CALL_AND_WAIT, EXPERIMENTS, measure
from gemmlab.gemm import Gemm
from gemmlab.timing import BOUNDARY, END_TO_END, FLUSHED, GRAPH, WARM

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

import measuring

MS = {"gemm_shared_tiles": 4.0, "gemm_warp_tiles": 2.0, "cuBLAS": 1.0}
EMULATOR = Backend("emulator", emulator, "asked for")


@pytest.fixture
def gpu(monkeypatch):
    """A stand-in for a GPU with cuBLAS, whose large problems are small enough to check here."""
    fake_nvml.install(monkeypatch)
    fake = FakeGpu(MS)
    monkeypatch.setattr(experiments, "cublas_sgemm", fake.sgemm)
    monkeypatch.setattr(experiments, "LARGE", Gemm(96, 96, 96))
    monkeypatch.setattr(experiments, "MEDIUM", Gemm(64, 64, 64))
    monkeypatch.setattr(experiments, "fitting", lambda l2_bytes: Gemm(64, 64, 64))
    monkeypatch.setattr(experiments, "SMALL", Gemm(32, 32, 32))
    return Backend("cuda", fake, "asked for")


def by(found, *names):
    """The medians in milliseconds by attributes of the measurement."""
    return {tuple(getattr(each, name) for name in names): each.timing.median_ms for each in found.measurements}


def test_one_kernel_is_timed_by_two_stopwatches_and_by_events(gpu):
    found = measure(["stopwatch"], gpu)
    assert [each.label for each in found.measurements] == [CALL, CALL_AND_WAIT, BOUNDARY]
    assert found.measurements[2].timing.median_ms == MS["gemm_warp_tiles"]
    assert all(len(each.timing.samples_ms) == 20 for each in found.measurements)
    assert all(each.timing.boundary == each.label for each in found.measurements)


def test_a_host_clock_waits_before_each_launch_and_only_then_at_its_end(monkeypatch):
    said = []
    monkeypatch.setattr(experiments.time, "perf_counter", lambda: said.append("clock") or len(said))
    submit, settle, wait = (partial(said.append, what) for what in ("launch", "settle", "wait"))
    timing = experiments._by_the_host(submit, CALL, settle, wait, count=2, warmup=1)
    assert said == ["launch", *2 * ["settle", "clock", "launch", "wait", "clock"], "settle"]
    assert (timing.samples_ms, timing.warmup) == ((3000.0, 3000.0), 1)


def test_the_first_launch_is_of_a_source_that_was_never_compiled(gpu, monkeypatch):
    compiled = []
    kernel = gpu.cp.RawKernel
    monkeypatch.setattr(
        gpu.cp, "RawKernel", lambda code, *rest, **more: compiled.append(code) or kernel(code, *rest, **more)
    )
    for _ in range(2):
        first, later = measure(["first launch"], gpu).measurements
        assert (len(first.timing.samples_ms), first.timing.warmup) == (1, 0)
        assert (len(later.timing.samples_ms), later.timing.warmup) == (20, 1)
    fresh = [code for code in compiled if "// " in code.splitlines()[-1]]
    assert len(fresh) == len(set(fresh)) == 2


def test_both_cache_policies_are_tried_at_both_sizes_beside_cublas(gpu):
    found = measure(["L2"], gpu)
    assert by(found, "kernel", "label", "problem") == {
        (name, f"{cache}; A, B, C fit 60 MiB", problem): ms
        for name, ms in (("shared_tiles", 4.0), ("warp_tiles", 2.0), ("cuBLAS", 1.0))
        for cache in (WARM, FLUSHED)
        for problem in (Gemm(64, 64, 64), experiments.LARGE)
    }
    assert all(each.label.startswith(each.timing.cache) for each in found.measurements)


@pytest.mark.parametrize(("mebibytes", "n"), [(4, 512), (40, 1024), (50, 1024), (60, 1024), (72, 2048), (1, 256)])
def test_the_size_that_fits_is_that_of_the_gpus_own_l2(mebibytes, n):
    # Three matrices of n x n floats: 0.75 MiB at 256, 3 MiB at 512, 12 MiB at 1024, 48 MiB at 2048.
    assert experiments.fitting(mebibytes << 20) == Gemm(n, n, n)


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_a_result_that_timing_spoils_stops_the_experiment(name, gpu, monkeypatch):
    right = experiments.correctness.recheck

    def spoil(expected, launch_again, C, before):
        C.fill(0)
        return right(expected, launch_again, C, before)

    monkeypatch.setattr(experiments.correctness, "recheck", spoil)
    with pytest.raises(AssertionError, match=r"is wrong after it was timed: of \d+ outputs"):
        measure([name], gpu)


def test_zeros_and_random_numbers_take_turns(gpu):
    found = measure(["values"], gpu)
    labels = dict.fromkeys(each.label for each in found.measurements)
    assert list(labels) == ["zeros", "uniform", "zeros, again", "uniform, again"]
    assert all(len(each.timing.samples_ms) == len(each.timing.readings) == 100 for each in found.measurements)


def test_a_graph_and_an_end_to_end_figure_have_names_of_their_own(gpu):
    found = measure(["submission", "end to end"], gpu)
    assert [each.label for each in found.of("submission")] == 2 * [BOUNDARY, GRAPH]
    assert [each.label for each in found.of("end to end")] == [BOUNDARY, END_TO_END]


def test_the_kernels_are_checked_before_they_are_timed(gpu, monkeypatch):
    monkeypatch.setattr(gpu.cp, "RawKernel", lambda code, name, options=(): lambda *launch, **shared: None)
    with pytest.raises(AssertionError, match=r"(?s)M=129, N=130, K=33.*never written|wrong"):
        measure(["stopwatch"], gpu)
    assert "gemm_warp_tiles" not in gpu.cp.launches


def test_without_a_gpu_nothing_is_timed_and_what_is_shipped_is_shown(monkeypatch, tmp_path, gpu):
    with pytest.raises(ValueError, match="nothing is timed on the emulator"):
        measure(["L2"], EMULATOR)
    monkeypatch.setattr(measurements, "SHIPPED", tmp_path)
    assert experiments.known("submission", EMULATOR) is None
    found = measure(["submission"], gpu)
    measurements.save(found, tmp_path / "nvidia_h200.json")
    assert experiments.known("submission", EMULATOR) == found
    assert experiments.known("L2", EMULATOR) is None
    assert experiments.known("end to end", gpu).of("end to end")


def test_an_unknown_experiment_is_refused_with_those_there_are(gpu):
    with pytest.raises(ValueError, match="no experiment is called 'l2'; there are: stopwatch, first launch, L2"):
        measure(["stopwatch", "l2"], gpu)


# The script.


def test_the_script_writes_every_sample_and_prints_a_table_of_each_experiment(gpu, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(measuring.backend, "choose", lambda requested: gpu)
    path = tmp_path / "new" / "card.json"
    assert measuring.main([str(path), "--experiments", "L2, submission"]) == 0
    found = measurements.load(path)
    assert {each.experiment for each in found.measurements} == {"L2", "submission"}
    assert found.environment["card"] == "NVIDIA H200" and found.environment["conditions"]["clocks"]
    printed = capsys.readouterr().out
    assert printed.count("measured: NVIDIA H200") == 2 and "flushed L2" in printed


def test_the_script_says_so_where_there_is_no_gpu(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("GEMMLAB_BACKEND", "emulator")
    assert measuring.main([str(tmp_path / "card.json")]) == 1
    assert "nothing is timed on the emulator" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_script_runs_all_experiments_unless_told_which():
    assert list(EXPERIMENTS) == ["stopwatch", "first launch", "L2", "values", "submission", "end to end"]
