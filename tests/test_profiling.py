"""Nsight Compute from the package, with a stand-in for ncu that prints the form of its release 2025.3."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from fake_tools import FakeTool, pretend_gpu
from test_nsight_compute import COLUMNS, LD_SECTORS, SHARED_LD, csv_row

from gemmlab import backend, columns, doctor, launch, profiling
from gemmlab.gemm import Gemm
from gemmlab.ladder import RUNGS, rung
from gemmlab.launch import Kernel
from gemmlab.profiling import child_launch, counters, nvidia_tools
from gemmlab.profiling.nvidia_tools import NoKernel, NotInstalled, NotPermitted, NotUnderstood, Tool

PROBLEM = Gemm(64, 64, 64)
NAIVE = launch.of(rung("naive"))  # at 64 x 64: 2 x 16 blocks of 32 x 4
CARD = {"card": "NVIDIA H200", "date": "2026-11-30", "nvrtc": "13.0"}
# https://developer.nvidia.com/ERR_NVGPUCTRPERM
DENIED = (
    "==PROF== Connected to process 4242 (/usr/bin/python3)\n"
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the "
    "target device 0. For instructions on enabling permissions and to get more information see "
    "https://developer.nvidia.com/ERR_NVGPUCTRPERM\n==PROF== Disconnected from process 4242\n"
)


def said(*rows: str) -> str:
    return "\n".join(("==PROF== Connected to process 4242 (/usr/bin/python3)", COLUMNS, *rows)) + "\n"


def naive_row(number: int, metric: str, value: str) -> str:
    return csv_row(number, "gemm_naive", "(32, 4, 1)", "(2, 16, 1)", metric, value)


@pytest.fixture
def ncu(tmp_path, monkeypatch):
    pretend_gpu(monkeypatch, tmp_path)
    monkeypatch.setattr(profiling, "environment", lambda where, conditions: CARD)
    tool = FakeTool(tmp_path, "ncu", "NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 1)")
    monkeypatch.setattr(doctor, "check_profiler", lambda: doctor.Check("profiler", True, "every user may"))
    return tool


def test_a_profile_has_the_counts_of_each_kernel_whole_or_not_and_names_card_date_and_releases(ncu):
    occupancy = "sm__warps_active.avg.pct_of_peak_sustained_active"
    ncu.says(
        said(
            naive_row(0, LD_SECTORS, "270,336"),
            naive_row(0, occupancy, "81.25"),
            csv_row(1, "gemm_coalesced", "(32, 16, 1)", "(4, 2, 1)", LD_SECTORS, "40,960"),
            csv_row(1, "gemm_coalesced", "(32, 16, 1)", "(4, 2, 1)", SHARED_LD, "n/a"),
        ),
        runs=True,
    )
    kernels = {"mine": NAIVE, "other": launch.of(rung("coalesced"))}
    found = profiling.profile(kernels, PROBLEM, (LD_SECTORS, SHARED_LD, occupancy))
    assert found.label == "NVIDIA H200, 2026-11-30, Nsight Compute 2025.3.1.0, NVRTC 13.0"
    assert found.counts == {
        "mine": {LD_SECTORS: 270_336, occupancy: 81.25},
        "other": {LD_SECTORS: 40_960, SHARED_LD: None},
    }


def test_a_launch_in_two_extents_is_found_among_ncus_in_three(ncu):
    ncu.says(said(naive_row(0, LD_SECTORS, "270,336")), runs=True)
    flat = replace(NAIVE, geometry=lambda problem: ((2, np.int64(16)), (32, 4), 0))
    assert profiling.profile({"mine": flat}, PROBLEM, (LD_SECTORS,)).counts == {"mine": {LD_SECTORS: 270_336}}


def test_ncu_leaves_clocks_alone_and_counts_just_what_is_asked(ncu):
    ncu.says(said(naive_row(0, LD_SECTORS, "1")))
    profiling.profile({"mine": NAIVE}, PROBLEM, (LD_SECTORS, SHARED_LD))
    (call,) = ncu.calls
    assert {"--clock-control=none", "--csv", "--print-units=base", f"--metrics={LD_SECTORS},{SHARED_LD}"} <= set(call)


def test_a_metric_that_the_gpu_lacks_is_left_out_and_the_others_are_counted_in_a_second_run(ncu):
    ncu.says("==ERROR== Failed to find metric sm__made_up.sum\n", said(naive_row(0, LD_SECTORS, "7")))
    found = profiling.profile({"mine": NAIVE}, PROBLEM, (LD_SECTORS, "sm__made_up.sum"))
    assert found.counts["mine"] == {LD_SECTORS: 7}
    assert [f"--metrics={LD_SECTORS}" in call for call in ncu.calls] == [False, True]


def test_without_the_permission_the_error_gives_the_cure_and_what_to_read_on_a_rented_gpu(ncu):
    ncu.says(DENIED, status=1)
    for ask in (profiling.profile, profiling.report):
        with pytest.raises(NotPermitted, match=r"ERR_NVGPUCTRPERM.*NVreg_RestrictProfilingToAdminUsers=0.*rented GPU"):
            ask({"mine": NAIVE}, PROBLEM)


def test_a_kernel_that_fails_under_ncu_is_named_with_its_own_error(ncu):
    ncu.says("==PROF== Connected to process 1\n==WARNING== No kernels were profiled.\n", runs=True)
    broken = launch.of(rung("naive"), source="int gemm_naive;")
    with pytest.raises(NoKernel, match=r"did not see mine run.*gemm_naive: CompileError"):
        profiling.profile({"mine": broken}, PROBLEM)


@pytest.mark.parametrize(
    "nonsense",
    [
        '"this","is"\n"no","profile"\n',
        "Segmentation fault\n",
        "",
        said(csv_row(0, "other", "(1, 1, 1)", "(1, 1, 1)", "metric", "1")),
    ],
    ids=["another table", "words", "nothing", "another kernel"],
)
def test_an_answer_of_another_form_is_quoted_and_not_taken_for_counts(ncu, nonsense):
    ncu.says(nonsense)
    with pytest.raises(NotUnderstood, match=r"no row|no counts of mine"):
        profiling.profile({"mine": NAIVE}, PROBLEM)


def test_a_row_that_breaks_off_is_no_count(ncu):
    ncu.says(said(naive_row(0, LD_SECTORS, "1"), '"0","4242","python3"'))
    with pytest.raises(NotUnderstood, match="no row of Nsight Compute's CSV"):
        profiling.profile({"mine": NAIVE}, PROBLEM)


def test_a_report_is_what_ncu_prints_less_its_remarks_and_the_process(ncu):
    ncu.says(
        "==PROF== Connected\n[4242] python3@127.0.0.1\n  gemm_naive (2, 16, 1)x(32, 4, 1)\n    Section: Occupancy\n"
    )
    assert profiling.report({"mine": NAIVE}, PROBLEM).split() == [
        *("gemm_naive", "(2,", "16,", "1)x(32,", "4,", "1)"),
        *("Section:", "Occupancy"),
    ]
    assert "--section=Occupancy" in ncu.calls[0]
    assert "--kernel-name=regex:^(gemm_naive)$" in ncu.calls[0]  # and not gemmlab's own probe of the GPU


def test_a_program_that_hangs_is_ended_and_said_to_have_been_running(ncu, monkeypatch):
    monkeypatch.setattr(profiling, "SECONDS", 1)
    program = ncu.told.with_name("ncu")
    program.write_text(program.read_text("utf-8").replace("program =", "import time; time.sleep(60)\nprogram ="))
    with pytest.raises(NoKernel, match="still running after 1 s"):
        profiling.profile({"mine": NAIVE}, PROBLEM)


def test_where_ncu_is_missing_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    pretend_gpu(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(nvidia_tools, "TOOLKIT", tmp_path)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    missing = Tool("Nsight Compute", "ncu", "nsight-compute", tmp_path, "*")
    monkeypatch.setattr(profiling, "NSIGHT_COMPUTE", missing)
    with pytest.raises(NotInstalled, match=r"no ncu on PATH.*conda install -c nvidia nsight-compute"):
        profiling.profile({"mine": NAIVE}, PROBLEM)
    assert not profiling.state().ok and "conda install" in profiling.state().cure


def test_ncu_is_found_in_a_toolkit_that_is_not_on_path(tmp_path, monkeypatch):
    folder = tmp_path / "cuda" / "bin"
    folder.mkdir(parents=True)
    FakeTool(folder, "ncu", "Version 1.0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "cuda"))
    assert nvidia_tools.NSIGHT_COMPUTE.find() == str(folder / "ncu")


def test_without_a_gpu_the_state_says_so_and_what_to_read_instead(monkeypatch):
    monkeypatch.setattr(backend, "name", "emulator", raising=False)
    monkeypatch.setattr(backend, "reason", "no GPU", raising=False)
    found = profiling.state()
    assert not found.ok and "emulator" in found.detail and "shipped captures" in found.cure


def test_the_state_names_the_release_and_the_doctors_word_on_permission(ncu, monkeypatch):
    assert (profiling.state().ok, profiling.state().detail) == (True, "2025.3.1.0 is installed, and every user may")
    denied = doctor.Check("profiler", False, "only an administrator may", doctor.PERMIT)
    monkeypatch.setattr(doctor, "check_profiler", lambda: denied)
    assert (profiling.state().ok, profiling.state().cure) == (False, doctor.PERMIT)


def test_a_child_makes_the_launches_it_is_given_and_stops_with_the_reason_at_one_that_fails(tmp_path, capfd):
    bad = Kernel('extern "C" __global__ void bad(int* p) { *p = 1; }', "bad", (), NAIVE.geometry)
    *_, path = child_launch.program(tmp_path, [(NAIVE, Gemm(2, 3, 4, alpha=-0.5, beta=2.0)), (NAIVE, Gemm(1, 1, 1))])
    assert child_launch.main(path) == 0
    *_, path = child_launch.program(tmp_path, [(NAIVE, Gemm(1, 1, 1)), (bad, Gemm(1, 1, 1))])
    assert child_launch.main(path) == 1
    assert capfd.readouterr().err.startswith("bad: ")


def test_the_table_of_questions_names_each_metric_once_with_its_section():
    table = counters.mapping_table()
    assert isinstance(counters.QUESTIONS[0].metric, str)
    sections = [line for line in table.splitlines() if line and not line.startswith(" ")]
    assert sections == list(dict.fromkeys(question.section for question in counters.QUESTIONS))
    for question in counters.QUESTIONS:
        assert table.count(question.metric) == 1
    assert max(map(len, table.splitlines())) <= columns.WIDTH


def test_what_is_counted_unless_told_answers_every_question_and_has_all_that_the_emulator_counts():
    accesses = [access for each in RUNGS for access in launch.trace(launch.of(each), Gemm(33, 34, 35)).accesses]
    assert set(counters.counts(accesses)) <= set(profiling.METRICS)
    assert {question.metric for question in counters.QUESTIONS} <= set(profiling.METRICS)
    assert len(set(profiling.METRICS)) == len(profiling.METRICS)


def test_what_was_not_counted_is_a_dash_and_zero_is_a_zero():
    launched: Mapping[str, int] = {LD_SECTORS: 270_336, SHARED_LD: 0}
    lines = counters.answers(launched).splitlines()
    assert [line.split()[-1] for line in lines[:5]] == ["-", "270,336", "-", "0", "-"]
