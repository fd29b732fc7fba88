"""Records on a stand-in for a GPU: samples with their conditions, and what a lost context leaves."""

from types import SimpleNamespace

import fake_nvml
import pytest
from fake_cuda import FakeGpu
from record_cases import BOTH, COALESCED, NAIVE, SMALL, WILD, WRONG, page_of

from gemmlab import climb as climbing
from gemmlab import context, emulator, record
from gemmlab.backend import Backend
from gemmlab.emulator.ptx import Instruction, UnsupportedInstruction
from gemmlab.record import Decision


@pytest.fixture
def nvml(monkeypatch):
    return fake_nvml.install(monkeypatch)


@pytest.fixture
def gpu(monkeypatch, nvml):
    """A stand-in for a GPU, on which a launch of rung 0 takes 40 ms, of rung 1 20 ms, and of cuBLAS 10 ms."""
    fake = FakeGpu({"gemm_naive": 40.0, "gemm_coalesced": 20.0, "cuBLAS": 10.0})
    monkeypatch.setattr(climbing, "cublas_sgemm", fake.sgemm)
    return Backend("cuda", fake, "asked for")


def test_on_a_gpu_every_sample_is_kept_with_its_conditions_and_cublas_beside_it(gpu, tmp_path):
    written = record.write(tmp_path / "new", BOTH, [SMALL], where=gpu)
    assert written.label.startswith("NVIDIA H200, ")
    naive, coalesced = written.data["runs"]
    assert set(naive["timing"]["samples_ms"]) == {40.0} and set(coalesced["timing"]["samples_ms"]) == {20.0}
    assert set(naive["cublas"]["samples_ms"]) == {10.0}
    for field in ("batch", "warmup", "cache", "boundary"):
        assert naive["timing"][field]
    assert len(naive["timing"]["readings"]) == len(naive["timing"]["samples_ms"])
    page = page_of(tmp_path / "new")
    # 65,536 FLOPs in 20 ms; cuBLAS takes half as long.
    assert "| coalesced | 64 x 32 x 16 | 20 | 20 to 20 | 0 | 50.0 |" in page
    (entry,) = record.decide(tmp_path / "new", Decision("coalesced", "kept", "faster", against="naive")).decisions
    assert "median ms 20 (was 40)" in entry["observed"][0] and "beyond noise" in entry["observed"][0]


def test_the_page_says_which_samples_were_cut_short_and_which_share_is_of_submissions(gpu, tmp_path):
    gpu.cp.launch_ms |= {"gemm_naive": 25_000.0, "gemm_coalesced": 0.03, "cuBLAS": 0.06}
    record.write(tmp_path / "new", BOTH, [SMALL], where=gpu)
    lines = page_of(tmp_path / "new").splitlines()
    naive, coalesced = (line for line in lines if "CUDA events" in line)
    # Three samples of 25 s are more than a minute, and three are taken in any case.
    assert naive.endswith("3 samples were taken, as one more might have passed the 60 s for all |")
    assert "| 200.0 * |" in coalesced and "samples were taken" not in coalesced
    assert any(line.startswith("\\* At 0.036 ms or less a time, of cuBLAS too, may be mostly") for line in lines)


def test_the_clocks_of_a_record_are_those_after_its_last_sample(gpu, nvml, tmp_path, monkeypatch):
    def sgemm(*given, multiply=climbing.cublas_sgemm):
        nvml.sm = 1755  # at work; it was idle before
        multiply(*given)

    nvml.sm = 345
    monkeypatch.setattr(climbing, "cublas_sgemm", sgemm)
    written = record.write(tmp_path / "new", {"naive": NAIVE}, [SMALL], where=gpu)
    assert written.data["environment"]["clocks"].startswith("multiprocessors 1755 MHz")
    assert written.data["environment"]["clocks"].endswith(", after the last sample")


def test_a_record_without_samples_has_no_clocks(gpu, tmp_path):
    written = record.write(tmp_path / "new", {"wrong": WRONG}, [SMALL], where=gpu)
    assert written.data["runs"][0]["timing"] is None and written.data["environment"]["clocks"] is None


def test_a_kernel_that_would_end_the_gpus_context_is_not_launched_and_the_others_are(gpu, tmp_path):
    written = record.write(tmp_path / "new", {"wild": WILD, "coalesced": COALESCED}, [SMALL], where=gpu)
    wild, coalesced = written.data["runs"]
    assert "not launched on the GPU" in wild["failure"] and wild["timing"] is None
    assert coalesced["timing"] and "gemm_naive" not in gpu.cp.launches
    assert written.data["ended"] is None


def test_what_the_emulator_does_not_run_is_timed_on_the_gpu_all_the_same(gpu, tmp_path, monkeypatch):
    def refuse(*launch, **options):
        raise UnsupportedInstruction(Instruction(("wgmma",), (), None, line=3))

    monkeypatch.setattr(emulator, "trace", refuse)
    written = record.write(tmp_path / "new", {"naive": NAIVE}, [SMALL], where=gpu)
    (run,) = written.data["runs"]
    assert run["failure"] is None and run["timing"] and run["hazards"] is None and run["accesses"] is None
    assert "not looked for" in page_of(tmp_path / "new")


def test_a_launch_that_ends_the_context_leaves_what_was_done(gpu, tmp_path, monkeypatch):
    raw_kernel = gpu.cp.RawKernel

    def fail(*arguments):
        raise RuntimeError("cudaErrorLaunchFailure")

    def ending(code, name, options=()):
        kernel = raw_kernel(code, name, options)

        def end_the_context(*arguments, shared_mem=0):
            device = SimpleNamespace(compute_capability="90", synchronize=fail)
            gpu.cp.cuda.Device, gpu.cp.cuda.runtime, gpu.cp.asnumpy = lambda: device, None, fail

        return end_the_context if name == "gemm_coalesced" else kernel

    monkeypatch.setattr(gpu.cp, "RawKernel", ending)
    monkeypatch.setattr(context, "_ended", [])
    written = record.write(tmp_path / "new", BOTH, [SMALL], where=gpu)
    assert [bool(run["timing"]) for run in written.data["runs"]] == [True, False]
    assert "gemm_coalesced" in written.data["runs"][1]["failure"]
    assert written.data["ended"].startswith("ContextLost: ") and "Restart" in written.data["ended"]
    assert record.load(tmp_path / "new") == written
    with pytest.raises(context.ContextLost):
        record.write(tmp_path / "later", BOTH, [SMALL], where=gpu)
    assert not (tmp_path / "later").exists()
