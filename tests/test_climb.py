"""Climbs on the emulator, and on a stand-in for CuPy whose clock each launch moves on by a known time."""

import dataclasses
import hashlib
import json
import os
import re
from types import SimpleNamespace

import fake_nvml
import numpy as np
import pytest

from gemmlab import climb as climbing
from gemmlab import context, emulator, ladder, nvrtc, records
from gemmlab.__main__ import main
from gemmlab.backend import Backend
from gemmlab.climb import climb
from gemmlab.gemm import Gemm, inputs
from gemmlab.ladder import RUNGS
from gemmlab.table import table

NAIVE, COALESCED = PAIR = RUNGS[:2]
EMULATOR = Backend("emulator", emulator, "asked for")
SMALL = Gemm(M=64, N=32, K=16)
LAUNCH_MS = {"gemm_naive": 4.0, "gemm_coalesced": 0.5, "cublas": 0.25}


class FakeGpu:
    """Stands for CuPy: kernels run on the emulator, and the events read a clock that launches move on."""

    __version__ = "14.2.0"
    asarray, asnumpy = staticmethod(emulator.asarray), staticmethod(emulator.asnumpy)

    def __init__(self):
        self.now = 0.0
        self.launches = []
        self.cuda = SimpleNamespace(
            Device=lambda: SimpleNamespace(compute_capability="90", synchronize=lambda: None),
            Event=lambda: FakeEvent(self),
            get_elapsed_time=lambda start, stop: stop.time - start.time,
            nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)),
            runtime=SimpleNamespace(
                getDevice=lambda: 0,
                getDeviceProperties=lambda device: {"name": b"NVIDIA H200"},
                deviceGetPCIBusId=lambda device: "0000:18:00.0",
                runtimeGetVersion=lambda: 13000,
            ),
        )

    def passes(self, name):
        self.launches.append(name)
        self.now += LAUNCH_MS[name]

    def RawKernel(self, code, name, options):
        return FakeKernel(self, code, name, options)


class FakeKernel(emulator.RawKernel):
    """A kernel that really runs the first time; later launches would only repeat it, and move the clock alone."""

    def __init__(self, gpu, code, name, options):
        super().__init__(code, name, options)
        self.gpu = gpu

    def __call__(self, grid, block, args, *, shared_mem=0):
        if self.name not in self.gpu.launches:
            super().__call__(grid, block, args, shared_mem=shared_mem)
        self.gpu.passes(self.name)


class FakeEvent:
    def __init__(self, gpu):
        self.gpu = gpu

    def record(self):
        self.time = self.gpu.now

    def synchronize(self):
        pass


@pytest.fixture
def nvml(monkeypatch):
    return fake_nvml.install(monkeypatch)


@pytest.fixture
def gpu(monkeypatch, nvml):
    """A stand-in for a GPU with cuBLAS and NVML, as a backend."""
    fake = FakeGpu()

    def sgemm(problem, A, B, C):
        C.set(A.get() @ B.get())
        fake.passes("cublas")

    monkeypatch.setattr(climbing, "cublas_sgemm", sgemm)
    return Backend("cuda", fake, "asked for")


@pytest.fixture
def edit(monkeypatch, tmp_path):
    """Return a function that replaces text in the kernels of the ladder."""
    for rung in RUNGS:
        (tmp_path / rung.source_file).write_text(rung.source())
    monkeypatch.setattr(ladder, "KERNEL_FOLDERS", (tmp_path,))

    def replace(rung, old, new):
        assert old in rung.source()
        (tmp_path / rung.source_file).write_text(rung.source().replace(old, new))

    return replace


def line_of(rung, text):
    return next(number for number, line in enumerate(rung.source().splitlines(), 1) if text in line)


# On the emulator.


def test_a_row_on_the_emulator_has_counts_and_no_time():
    (row,) = climb([NAIVE], SMALL, EMULATOR).as_data()["rungs"]
    # 64 x 32 threads are 64 warps. A step of k loads A from 32 rows, 64 bytes apart, and one B for all; C has 32 rows.
    loads, stores = 64 * 16, 64
    A, B, C = line_of(NAIVE, "= A["), line_of(NAIVE, "= B["), line_of(NAIVE, "C[row * N + col] = value")
    assert row["accesses"] == [
        {"line": A, "op": "ld.global", "bytes": 4, "requests": loads, "sectors": 32 * loads, "ideal": 4 * loads},
        {"line": B, "op": "ld.global", "bytes": 4, "requests": loads, "sectors": loads, "ideal": loads},
        {"line": C, "op": "st.global", "bytes": 4, "requests": stores, "sectors": 32 * stores, "ideal": 4 * stores},
    ]
    assert (row["rung"], row["name"], row["entry"], row["backend"]) == (0, "naive", "gemm_naive", "emulator")
    assert (row["shape"], row["tile"]) == ([64, 32, 16], dict(NAIVE.tile))
    assert (row["correct"], row["hazards"], row["spill_bytes"], row["shared_bytes"]) == (True, [], 0, 0)
    assert (row["milliseconds"], row["gflops"], row["percent_of_cublas"]) == (None, None, None)


def test_the_digest_is_that_of_C_and_the_error_is_held_against_the_largest_bound():
    problem = Gemm(M=9, N=7, K=1)
    A, B, _ = inputs(problem, "uniform", seed=3)
    product = A * B  # one rounding, as fma(a, b, 0) has
    error = np.abs(product.astype(np.float64) - A.astype(np.float64) * B)
    gamma_3 = 3 * 2.0**-24 / (1 - 3 * 2.0**-24)
    for row in climb(RUNGS, problem, EMULATOR, seed=3).as_data()["rungs"]:
        assert row["sha256"] == hashlib.sha256(product.tobytes()).hexdigest()
        assert row["max_abs_error"] == error.max()
        assert row["error_bound"] == pytest.approx(gamma_3 * np.abs(A).max() * np.abs(B).max())


def test_the_seed_chooses_the_inputs_and_the_tile_the_launch():
    digests = {climb([NAIVE], SMALL, EMULATOR, seed=seed).rows[0].sha256 for seed in (0, 0, 1)}
    assert len(digests) == 2
    run = climb(PAIR, SMALL, EMULATOR, tiles={"naive": {"BX": 8}})
    assert [dict(row.tile) for row in run.rows] == [dict(NAIVE.tile) | {"BX": 8}, dict(COALESCED.tile)]
    # A warp of 8 rows and 4 columns reads 8 rows of A.
    assert run.rows[0].trace.accesses[0].sectors == 8 * run.rows[0].trace.accesses[0].requests


def test_a_run_on_the_emulator_is_a_record_without_a_card(tmp_path):
    run = climb([COALESCED], Gemm(5, 6, 7, alpha=0.5, beta=2.0), EMULATOR, seed=4)
    records.save(run.as_data(), tmp_path / "run.json")
    record = records.load(tmp_path / "run.json")
    assert (record.card, record.architecture, record.nvrtc) == (None, "sm_90", ".".join(map(str, nvrtc.version())))
    assert [record.conditions[name] for name in ("family", "seed", "alpha", "beta")] == ["uniform", 4, 0.5, 2.0]
    assert {record.conditions[name] for name in ("samples", "batch", "cache", "clocks", "boundary")} == {None}


def test_a_wrong_kernel_is_found_and_its_worst_output_shown(edit):
    edit(COALESCED, "alpha * sum", "alpha * sum + (row == 3 && col == 5 ? 1.0f : 0.0f)")
    run = climb(PAIR, SMALL, EMULATOR)
    assert [row.verdict.correct for row in run.rows] == [True, False] and not run.ok
    assert "rung 1 (coalesced): wrong: of 2048 outputs, 1 outside the error bound" in table(run)
    assert "worst at row 3, column 5" in table(run)


def test_a_kernel_with_a_hazard_does_not_pass_though_its_result_is_right(edit):
    edit(NAIVE, "C[row * N + col] = value;", "C[row * N + col] = value;\n    if (row == 63 && col == 31) C[M * N] = 0;")
    run = climb([NAIVE], SMALL, EMULATOR)
    assert run.rows[0].verdict.correct and not run.ok
    (hazard,) = run.as_data()["rungs"][0]["hazards"]
    assert (hazard["kind"], hazard["line"]) == ("out-of-bounds", line_of(NAIVE, "C[M * N]"))
    assert re.search(r"naive +HAZARD", table(run)) and f"out-of-bounds: {hazard['message']}" in table(run)


def test_progress_adds_up_to_one_a_rung():
    shares = []
    climb(PAIR, Gemm(300, 70, 2), EMULATOR, progress=shares.append)
    assert sum(shares) == pytest.approx(2)
    assert len(shares) > 4, "a launch of more than one batch is told of more than once"


def test_progress_is_told_while_a_batch_of_blocks_is_at_work_and_never_of_more_than_there_is(monkeypatch):
    now, shares = [0.0], []

    def clock():
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(climbing, "time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(climbing, "EMULATED_PER_FLOP", 4000.0 / SMALL.flops)  # a launch is expected to take 4000 s
    climb([NAIVE], SMALL, EMULATOR, progress=shares.append)
    # One batch: at each access a second more of the 4000 s is gone.
    assert shares[:3] == pytest.approx([1 / 4000] * 3) and sum(shares) == pytest.approx(1)
    shares.clear()
    monkeypatch.setattr(climbing, "EMULATED_PER_FLOP", 2.0 / SMALL.flops)  # and now far less than it takes
    climb([NAIVE], SMALL, EMULATOR, progress=shares.append)
    assert shares[:3] == pytest.approx([0.5, 0.45, 0.0]) and sum(shares) == pytest.approx(1)


def test_an_interrupt_keeps_the_rungs_that_are_done():
    told = []

    def interrupt_the_second_rung(share):
        told.append(share)
        if sum(told) > 1.01:
            raise KeyboardInterrupt

    run = climb(PAIR, SMALL, EMULATOR, progress=interrupt_the_second_rung)
    assert [row.rung.name for row in run.rows] == ["naive"]
    assert climb(PAIR, SMALL, EMULATOR).ok, "the emulator goes on"


def test_an_interrupt_before_the_first_rung_is_done_is_passed_on():
    def interrupt(share):
        raise KeyboardInterrupt

    before = emulator.time_limit()
    with pytest.raises(KeyboardInterrupt):
        climb(PAIR, SMALL, EMULATOR, progress=interrupt)
    assert emulator.time_limit() == before


def test_a_long_problem_gets_more_time_than_the_limit_of_a_launch(monkeypatch):
    limits = []
    monkeypatch.setattr(climbing, "LIMIT_PER_FLOP", 1.0)
    climb([NAIVE], SMALL, EMULATOR, progress=lambda share: limits.append(emulator.time_limit()))
    assert set(limits) == {2.0 * 64 * 32 * 16}


def test_a_rung_that_the_gpu_is_too_old_for_is_refused():
    newer = dataclasses.replace(COALESCED, requires="sm_100")
    with pytest.raises(ValueError, match=r"rung 1 \(coalesced\) needs sm_100 or newer, but this GPU is sm_90"):
        climb([NAIVE, newer], SMALL, EMULATOR)


# On a GPU.


def test_speed_follows_from_the_median_and_from_cublas_beside_it(gpu):
    run = climb(PAIR, SMALL, gpu)
    naive, coalesced = run.as_data()["rungs"]
    assert naive["milliseconds"] == [4.0] * 20 and coalesced["milliseconds"] == [0.5] * 20
    # 2 * 64 * 32 * 16 FLOPs in 4 ms and in 0.5 ms; cuBLAS takes 0.25 ms.
    assert naive["gflops"] == pytest.approx(65_536 / 4e-3 / 1e9)
    assert coalesced["gflops"] == pytest.approx(65_536 / 0.5e-3 / 1e9)
    assert (naive["percent_of_cublas"], coalesced["percent_of_cublas"]) == (6.25, 50.0)
    assert run.environment["conditions"]["cublas_milliseconds"] == [0.25] * 20


def test_the_two_backends_agree_on_the_bits_of_C_and_on_the_traffic(gpu):
    measured, emulated = climb(PAIR, SMALL, gpu).as_data(), climb(PAIR, SMALL, EMULATOR).as_data()
    for ours, theirs in zip(measured["rungs"], emulated["rungs"], strict=True):
        assert (ours["backend"], theirs["backend"]) == ("cuda", "emulator")
        for field in ("sha256", "accesses", "hazards", "registers", "error_bound", "max_abs_error"):
            assert ours[field] == theirs[field]


def test_a_problem_too_large_to_trace_in_passing_has_no_counts(gpu, monkeypatch):
    monkeypatch.setattr(climbing, "TRACED_BESIDE_A_GPU", SMALL.flops - 1)
    run = climb([NAIVE], SMALL, gpu)
    row = run.as_data()["rungs"][0]
    assert row["accesses"] is None and row["hazards"] is None
    # Sectors and their fewest; the last columns are 4 ms, 0.016 GFLOP/s, 6.2 % (of 6.25, halves to even).
    assert re.search(r"naive +right .* - +- +4\.000 +0 +6\.2$", table(run), re.MULTILINE)


def test_the_table_warns_where_submission_takes_longer_than_the_kernel(gpu, monkeypatch):
    caution = "Below 0.036 ms a time may be mostly that of submitting the launch"
    assert caution not in table(climb(PAIR, SMALL, gpu)) and caution not in table(climb(PAIR, SMALL, EMULATOR))
    monkeypatch.setitem(LAUNCH_MS, "cublas", 0.02)
    assert caution in table(climb(PAIR, SMALL, gpu))


def test_a_wrong_result_is_not_timed(gpu, edit):
    edit(NAIVE, "alpha * sum", "alpha * sum + 1.0f")
    run = climb(PAIR, SMALL, gpu)
    assert [row.timing is None for row in run.rows] == [True, False]
    assert gpu.cp.launches.count("gemm_naive") == 1
    assert run.rows[0].gflops is None and run.rows[0].percent_of_cublas is None


def test_a_wrong_yardstick_stops_the_climb(gpu, monkeypatch):
    monkeypatch.setattr(climbing, "cublas_sgemm", lambda problem, A, B, C: C.fill(0))
    with pytest.raises(AssertionError, match="cuBLAS, the yardstick, is wrong: of 2048 outputs"):
        climb(PAIR, SMALL, gpu)


def test_a_result_that_timing_spoils_is_wrong_and_has_no_time(gpu, edit):
    kernel = FakeKernel.__call__

    def spoil_the_last(self, grid, block, args, *, shared_mem=0):
        kernel(self, grid, block, args, shared_mem=shared_mem)
        if self.gpu.launches.count("gemm_naive") > 10:
            args[-1].fill(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeKernel, "__call__", spoil_the_last)
        run = climb([NAIVE], SMALL, gpu)
    assert not run.ok and run.rows[0].timing is None
    assert "rung 0 (naive): wrong after it was timed: of 2048 outputs" in table(run)


def test_a_launch_that_ends_the_context_leaves_the_rungs_before_it(gpu, monkeypatch, capsys):
    illegal = "cudaErrorIllegalAddress: an illegal memory access was encountered"
    kernel = FakeKernel.__call__

    def fail(*arguments):
        raise RuntimeError(illegal)

    def end_the_context(self, grid, block, args, *, shared_mem=0):
        if self.name != "gemm_coalesced":
            return kernel(self, grid, block, args, shared_mem=shared_mem)
        device = SimpleNamespace(compute_capability="90", synchronize=fail)
        self.gpu.cuda.Device, self.gpu.cuda.runtime, self.gpu.asnumpy = lambda: device, None, fail

    monkeypatch.setattr(FakeKernel, "__call__", end_the_context)
    monkeypatch.setattr(context, "_ended", [])
    run = climb(PAIR, SMALL, gpu)
    assert [row.rung.name for row in run.rows] == ["naive"] and run.rows[0].timing and not run.ok
    assert run.environment["card"] == "NVIDIA H200"
    said = table(run)
    assert "stopped: the launch of gemm_coalesced, grid (4, 1, 1), block (32, 16, 1), at M=64, N=32, K=16 ended" in said
    assert illegal in said and "Restart the notebook's kernel" in said
    with pytest.raises(context.ContextLost, match="the launch of gemm_coalesced"):
        climb(PAIR, SMALL, gpu)


def test_a_run_on_a_gpu_is_a_record_with_its_card_and_conditions(gpu, tmp_path):
    run = climb(PAIR, SMALL, gpu)
    records.save(run.as_data(), tmp_path / "run.json")
    record = records.load(tmp_path / "run.json")
    assert record.label == f"NVIDIA H200, {run.environment['date']}"
    assert (record.driver, record.cuda, record.cupy, record.nvrtc) == ("580.159.04", "13.0", "14.2.0", "13.0")
    assert record.conditions["clocks"] == "multiprocessors 1980 MHz, memory 3201 MHz, 36 C, after the last sample"
    # 10 ms of cuBLAS are 40 launches of 0.25 ms.
    assert [record.conditions[name] for name in ("samples", "batch", "warmup", "cache")] == [20, 40, 3, "warm L2"]
    assert [(row["batch"], row["remarks"]) for row in record.rungs] == [(3, []), (20, [])]


def test_throttling_is_told_in_the_table_and_kept_in_the_record(gpu, nvml):
    nvml.reasons = 0x4
    run = climb([NAIVE], SMALL, gpu)
    assert "rung 0 (naive): throttled in 20 of 20 samples: power cap" in table(run)
    assert "cuBLAS: throttled in 20 of 20 samples: power cap" in table(run)
    assert run.as_data()["rungs"][0]["remarks"] == ["throttled in 20 of 20 samples: power cap"]


def test_samples_that_a_minute_did_not_leave_time_for_are_told_in_the_table_and_kept_in_the_record(gpu, monkeypatch):
    monkeypatch.setitem(LAUNCH_MS, "gemm_naive", 25_000.0)
    run = climb([NAIVE], SMALL, gpu)
    said = "3 samples were taken, as one more might have passed the 60 s for all"  # 75 s; the least are three
    assert f"rung 0 (naive): {said}" in table(run)
    assert run.as_data()["rungs"][0]["remarks"] == [said]


def test_a_run_without_nvml_leaves_driver_and_clocks_unknown(gpu, monkeypatch):
    fake_nvml.remove(monkeypatch)
    seen = climb([NAIVE], SMALL, gpu).environment
    assert (seen["driver"], seen["conditions"]["clocks"]) == (None, None)
    assert seen["card"] == "NVIDIA H200"


# The command line.


def command(*arguments):
    return main(["climb", "--backend", "emulator", *arguments])


def test_the_command_prints_a_table_whose_unmeasured_columns_hold_dashes(capsys):
    assert command("--size", "64") == 0
    printed = capsys.readouterr().out
    assert "emulator of sm_90" in printed and "M = 64, N = 64, K = 64" in printed
    # 64 warps x 2 for 64 x 64 outputs, 64 steps: 33 sectors a step and 32 at the end; coalesced 5 and 4.
    naive, coalesced = 128 * (64 * 33 + 32), 128 * (64 * 5 + 4)
    assert re.search(rf"0 +naive +right .* {naive:,} +{coalesced:,} +- +- +-$", printed, re.MULTILINE)
    assert re.search(rf"1 +coalesced +right .* {coalesced:,} +{coalesced:,} +- +- +-$", printed, re.MULTILINE)


def test_columns_stand_under_their_headers_and_the_origin_of_their_figures(capsys):
    command("--rungs", "0-1", "--size", "32")
    origin, header, naive, coalesced = capsys.readouterr().out.splitlines()[-4:]
    assert len(header) == len(naive) == len(coalesced) == len(origin)
    assert origin.split("-")[0].strip() == ""
    for name, first in (("compiler", "registers"), ("emulator", "sectors"), ("measured", "ms")):
        start = origin.index(name)
        assert header.index(first) <= start, f"{first} stands under {name}"
    assert len(header) <= 120


def test_the_command_writes_what_it_knows_as_json(tmp_path, capsys):
    path = tmp_path / "new" / "run.json"
    assert command("--rungs", "1", "--shape", "33,5,7", "--json", str(path)) == 0
    run = json.loads(path.read_text())
    assert set(run) == {"environment", "rungs"}
    assert [(rung["rung"], rung["shape"]) for rung in run["rungs"]] == [(1, [33, 5, 7])]
    # What every reader of such a file may count on.
    assert set(run["rungs"][0]) >= {
        "rung", "name", "entry", "shape", "tile", "backend", "correct", "max_abs_error", "error_bound", "registers",
        "spill_bytes", "shared_bytes", "accesses", "hazards", "sha256", "milliseconds", "gflops", "percent_of_cublas",
    }  # fmt: skip
    assert all(
        {"line", "op", "bytes", "requests", "sectors", "ideal"} <= set(row) for row in run["rungs"][0]["accesses"]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "1,2"], "'1,2' is not three integers M,N,K"),
        (["--size", "big"], "'big' is not an integer"),
        (["--size", "8", "--shape", "1,2,3"], "not allowed with argument"),
    ],
)
def test_an_argument_that_does_not_parse_exits_with_status_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        command(*arguments)
    assert stopped.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "0"], "gemmlab climb: M is 0, but must be at least 1"),
        (["--shape", "65536,1,32768"], "A would have 65536 x 32768 = 2147483648 elements"),
        (["--rungs", "7"], "there is no rung '7'; known: 0 (naive), 1 (coalesced)"),
        (["--rungs", ""], "gemmlab climb: --rungs '': "),
        (["--rungs", "0,naive"], "gemmlab climb: --rungs '0,naive' names rung 0 (naive) twice: name it once"),
        (["--rungs", "1-0"], "'1-0' runs backwards: write 0-1"),
        (["--json", os.curdir], "is a folder, but must be a file"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_with_status_2(arguments, message, capsys):
    assert command(*arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.out == ""


def test_a_climb_that_takes_long_on_the_emulator_says_so_first_and_a_short_one_does_not(monkeypatch, capsys):
    monkeypatch.setattr(climbing, "EMULATED_PER_FLOP", 30.0 / (2 * 32**3))
    assert command("--rungs", "0-1", "--size", "32") == 0
    assert "takes about" not in capsys.readouterr().err
    monkeypatch.setattr(climbing, "EMULATED_PER_FLOP", 90.0 / (2 * 32**3))
    assert command("--rungs", "0-1", "--size", "32") == 0
    said = capsys.readouterr().err.splitlines()[0]
    assert "takes about 3 minutes" in said and "a smaller --size shows the same counts per tile" in said


def test_the_bar_shows_before_the_first_rung_runs(monkeypatch, capsys):
    monkeypatch.setattr(climbing, "climb", lambda *given, **also: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        command("--rungs", "0", "--size", "32")
    assert "climbing |" in capsys.readouterr().err


def test_a_wrong_rung_gives_status_1(edit, capsys):
    edit(COALESCED, "alpha * sum", "alpha * sum + 1.0f")
    assert command("--size", "32") == 1
    assert re.search(r"0 +naive +right .*\n +1 +coalesced +WRONG", capsys.readouterr().out)


def test_a_rung_that_does_not_compile_gives_status_1_and_the_compilers_message(edit, capsys):
    edit(NAIVE, "float sum = 0.0f;", "float sum = 0.0f")
    assert command("--size", "32") == 1
    line = line_of(NAIVE, "float sum = 0.0f") + 1
    assert re.search(rf'kernel\.cu\({line}\): error: expected a ";"', capsys.readouterr().err)


def test_an_interrupted_command_prints_the_rungs_that_are_done_and_gives_status_130(monkeypatch, capsys, tmp_path):
    from tqdm import tqdm

    told = []

    def update(bar, share):
        told.append(share)
        if sum(told) > 1.01:
            raise KeyboardInterrupt

    monkeypatch.setattr(tqdm, "update", update)
    assert command("--rungs", "0-1", "--size", "32", "--json", str(tmp_path / "run.json")) == 130
    printed = capsys.readouterr()
    assert "naive" in printed.out and "coalesced" not in printed.out
    assert "interrupted: 1 of 2 rungs are done" in printed.err
    assert len(json.loads((tmp_path / "run.json").read_text())["rungs"]) == 1
