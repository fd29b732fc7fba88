"""compute-sanitizer from the package, with a stand-in that prints what NVIDIA's documentation shows.

The texts are those of docs.nvidia.com/compute-sanitizer: "Example Use of Memcheck", "Example Use of Racecheck",
"Understanding Racecheck Hazard Reports", "Understanding Synccheck Reports", "Initcheck Address Space Selection".
"""

import pytest
from fake_tools import FakeTool, pretend_gpu

from gemmlab import launch
from gemmlab.profiling import sanitizer
from gemmlab.profiling.defects import DEFECTS, PROBLEM, RUNG
from gemmlab.profiling.nvidia_tools import NoKernel, NotUnderstood
from gemmlab.profiling.sanitizer_report import CUT, Finding, beside, listed, read

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at unaligned_kernel()+0x100 in memcheck_demo.cu:34
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7cc43aa00001 is misaligned
=========     and is inside the nearest allocation at 0x7cc43aa00000 of size 4 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at out_of_bounds_function()+0xb0 in memcheck_demo.cu:39
=========     by thread (3,2,1) in block (4,5,6)
=========     Address 0x87654320 is out of bounds
=========     and is 137,179,965,340,896 bytes before the nearest allocation at 0x7cc43a800000 of size 1,024 bytes
=========     Device Frame: out_of_bounds_kernel()+0x30 in memcheck_demo.cu:44
=========
========= ERROR SUMMARY: 2 errors
"""
ANALYSIS = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sumKernel(int *, int *)+0x90 in block_error.cu:41
=========     and Read access at sumKernel(int *, int *)+0x100 in block_error.cu:51 [508 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
HAZARDS = """========= COMPUTE-SANITIZER
========= Error: Potential RAW hazard detected at __shared__ 0x8c in block (0,0,0) :
=========     Write Thread (35,0,0) at sumKernel(int *, int *)+0x90 in block_error.cu:41
=========     Read Thread (0,0,0) at sumKernel(int *, int *)+0x100 in block_error.cu:51
=========     Current Value : 35
=========
========= Error: Potential RAW hazard detected at __shared__ 0x8d in block (0,0,0) :
=========     Write Thread (35,0,0) at sumKernel(int *, int *)+0x90 in block_error.cu:41
=========     Read Thread (0,0,0) at sumKernel(int *, int *)+0x100 in block_error.cu:51
=========
========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)
"""
WARP = """========= Warning: (Warp Level Programming) Potential WAW hazard detected at __shared__ 0x0 in block (0,0,0) :
=========     Write Thread (0, 0, 0) at WAW()+0x2f0 in raceWAW.cu:20
=========     Write Thread (1, 0, 0) at WAW()+0x2f0 in raceWAW.cu:20
=========     Current Value : 1, Incoming Value : 2
"""
NO_RACE = "========= COMPUTE-SANITIZER\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
SYNCCHECK = """========= Barrier error detected. Divergent thread(s) in warp
=========     at ThreadDivergence(int *, int)+0xf0 in divergence.cu:79
=========     by thread (37,0,0) in block (0,0,0)
========= ERROR SUMMARY: 1 error
"""
INITCHECK = """========= Uninitialized __shared__ memory read of size 4 bytes
=========     at KernelSharedError()+0x1a0 in uninitialized_shared.cu:7
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x0
"""
RIGHT = launch.of(RUNG)
SECOND = DEFECTS["no second barrier"]


@pytest.fixture
def tool(tmp_path, monkeypatch):
    pretend_gpu(monkeypatch, tmp_path)
    return FakeTool(tmp_path, "compute-sanitizer", "NVIDIA (R) Compute Sanitizer\nVersion 2025.3.1.0 (build 1)")


def test_memory_errors_have_their_line_block_and_thread_and_what_is_wrong():
    assert read(MEMCHECK) == (
        Finding("Invalid __global__ write of size 4 bytes, misaligned", ((34, "write"),), (0, 0, 0), ((0, 0, 0),)),
        Finding("Invalid __global__ write of size 4 bytes, out of bounds", ((39, "write"),), (4, 5, 6), ((3, 2, 1),)),
    )


def test_what_follows_a_race_that_breaks_off_does_not_make_it_a_memory_error():
    stray = "=========     Address 0x10 is out of bounds\n=========     at kernel()+0x10 in a.cu:7\n"
    for report in (ANALYSIS, HAZARDS):
        begun = report.splitlines()[1]
        assert read(f"{begun}\n{stray}") == ()
        assert read(f"{begun}\n{stray}{MEMCHECK}") == read(MEMCHECK)


def test_out_of_bounds_is_told_in_the_form_of_release_2025_too():
    newer = MEMCHECK.replace("Address 0x87654320 is out of bounds", "Access to 0x7fd44a802818 is out of bounds")
    assert read(newer) == read(MEMCHECK)


def test_there_are_more_findings_where_a_text_was_cut_or_its_summary_has_more_than_it_printed():
    assert not any(one.more for one in read(MEMCHECK))
    assert all(one.more for one in read(MEMCHECK.replace("SUMMARY: 2 errors", "SUMMARY: 6,004 errors")))
    whole, _, _ = MEMCHECK.rpartition("========= ERROR SUMMARY")
    (first, _) = read(f"{whole}\n{CUT}\n")
    assert first.more and first.seen.startswith(f"error: {first.what} (1 or more); thread")
    # An analysis has all hazards, however many of them were printed.
    assert not any(one.more for one in read(f"{ANALYSIS}{HAZARDS}\n{CUT}"))


def test_findings_are_listed_and_nothing_found_is_not_the_same_as_not_run():
    first, second = listed(read(MEMCHECK)).splitlines()[0], listed(read(MEMCHECK)).splitlines()[-1]
    assert first.startswith("write on line 34: error: Invalid") and second.endswith("of block (4, 5, 6)")
    assert max(map(len, listed(read(MEMCHECK)).splitlines())) <= 100
    assert (listed(()), listed(None)) == ("nothing found", "not run")


def test_the_older_form_of_a_place_and_a_report_without_lines_are_read_too():
    older = MEMCHECK.replace("unaligned_kernel()+0x100 in memcheck_demo.cu:34", "0x160 in memcheck_demo.cu:6:k()")
    assert read(older)[0].accesses == ((6, "write"),)
    assert read(MEMCHECK.replace(" in memcheck_demo.cu:34", ""))[0].accesses == ((0, "write"),)


def test_an_analysis_has_both_lines_and_all_hazards_and_no_thread():
    assert read(ANALYSIS) == (Finding("race", ((41, "write"), (51, "read")), count=508),)


def test_a_hazard_gives_its_analysis_the_order_of_time_and_two_threads():
    threads = ((35, 0, 0), (0, 0, 0))
    expected = Finding("read after write", ((41, "write"), (51, "read")), (0, 0, 0), threads, 508)
    assert read(ANALYSIS + HAZARDS) == (expected,)
    assert [one.count for one in read(HAZARDS)] == [2]


def test_one_analysis_with_two_partners_is_two_races():
    more = ANALYSIS.replace(
        "[508 hazards]", "[508 hazards]\n=========     and Write access at k()+0x9 in a.cu:7 [4 hazards]"
    )
    assert [(one.accesses, one.count) for one in read(more)] == [
        (((41, "write"), (51, "read")), 508),
        (((41, "write"), (7, "write")), 4),
    ]  # fmt: skip


def test_the_hazards_of_all_instructions_of_a_line_are_added():
    more = ANALYSIS.replace(
        "[508 hazards]", "[508 hazards]\n=========     and Read access at k()+0x110 in block_error.cu:51 [492 hazards]"
    )
    assert [one.count for one in read(more)] == [508 + 492]
    assert [one.count for one in read(more + HAZARDS)] == [508 + 492]


def test_a_hazard_that_breaks_off_after_its_first_thread_is_no_finding():
    whole, _, _ = HAZARDS.rpartition("=========     Read Thread")
    assert read(whole) == read(
        HAZARDS.partition("========= Error: Potential RAW hazard detected at __shared__ 0x8d")[0]
    )
    assert read(WARP.partition("=========     Write Thread (1, 0, 0)")[0]) == ()


def test_hazards_within_a_warp_are_warnings():
    (found,) = read(WARP)
    assert (found.what, found.severity, found.threads) == ("write after write", "warning", ((0, 0, 0), (1, 0, 0)))


def test_barrier_errors_and_uninitialized_reads_have_their_line_and_thread():
    barrier, unwritten = read(SYNCCHECK + INITCHECK)
    assert (barrier.what, barrier.accesses[0][0]) == ("Barrier error detected. Divergent thread(s) in warp", 79)
    assert (barrier.threads, barrier.block) == (((37, 0, 0),), (0, 0, 0))
    assert (unwritten.what, unwritten.accesses) == (
        "Uninitialized __shared__ memory read of size 4 bytes",
        ((7, "read"),),
    )


def test_words_that_are_no_report_are_no_finding():
    assert read("hello\n========= COMPUTE-SANITIZER\n========= Maximum number of hazards reached.\n") == ()


def test_racecheck_runs_for_its_analysis_and_for_its_hazards_with_source_lines(tool):
    tool.says(ANALYSIS, HAZARDS, status=sanitizer.FINDINGS_EXIT, runs=True)
    report = sanitizer.check(SECOND.kernel, PROBLEM, "racecheck")
    assert [one.count for one in report.findings] == [508]
    assert "Write Thread" in report.text and "=====" not in report.text
    reports = [call[call.index("--racecheck-report") + 1] for call in tool.calls]
    assert reports == ["analysis", "hazard"]


def test_the_kernel_is_compiled_with_line_information(tool, monkeypatch):
    given = []
    monkeypatch.setattr(sanitizer.child_launch, "program", lambda folder, made: given.extend(made) or ["true"])
    monkeypatch.setattr(sanitizer.child, "run", lambda command, seconds: "")
    with pytest.raises(NotUnderstood):
        sanitizer.check(RIGHT, PROBLEM, "memcheck")
    ((kernel, problem),) = given
    assert kernel.options == (*RIGHT.options, "-lineinfo") and problem == PROBLEM


def test_a_right_kernel_has_no_finding(tool):
    tool.says(NO_RACE, runs=True)
    assert sanitizer.check(RIGHT, PROBLEM, "racecheck").findings == ()


@pytest.mark.parametrize("text", ["========= COMPUTE-SANITIZER\n", "Segmentation fault", None])
def test_no_summary_is_never_taken_for_no_finding(tool, text):
    tool.says(text)
    with pytest.raises(NotUnderstood, match="printed no summary"):
        sanitizer.check(RIGHT, PROBLEM, "memcheck")


def test_a_program_that_made_no_cuda_call_was_not_checked(tool):
    tool.says("========= Error: Target application terminated before first instrumented API call\n")
    with pytest.raises(NoKernel, match=r"saw no launch.*first instrumented API call"):
        sanitizer.check(RIGHT, PROBLEM, "memcheck")


def test_a_launch_that_fails_for_another_reason_is_no_clean_report(tool):
    tool.says("========= Error: process didn't terminate successfully\n========= ERROR SUMMARY: 1 error\n", runs=True)
    broken = launch.of(RUNG, source="int gemm_shared_tiles;")
    with pytest.raises(NoKernel, match=r"found no reason in the kernel: .*gemm_shared_tiles: CompileError"):
        sanitizer.check(broken, PROBLEM, "memcheck")


def test_an_error_of_the_tool_itself_is_no_clean_report(tool):
    tool.says(
        '========= Error: Device not supported. Please refer to the "Supported Devices" section of the sanitizer '
        "documentation\n========= ERROR SUMMARY: 1 error\n"
    )
    with pytest.raises(NoKernel, match="Device not supported"):
        sanitizer.check(RIGHT, PROBLEM, "memcheck")


def test_another_tool_is_refused_with_those_that_there_are():
    with pytest.raises(ValueError, match="no tool 'leakcheck'; it has memcheck, racecheck, initcheck, synccheck"):
        sanitizer.check(RIGHT, PROBLEM, "leakcheck")


def test_the_state_names_the_release_or_the_cure(tool, tmp_path, monkeypatch):
    assert (sanitizer.state().ok, sanitizer.state().detail) == (True, "2025.3.1.0 is installed")
    (tmp_path / "compute-sanitizer").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("gemmlab.profiling.nvidia_tools.TOOLKIT", tmp_path)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    found = sanitizer.state()
    assert not found.ok and "conda install -c nvidia cuda-sanitizer-api" in found.cure


# The defects, and both tools' findings of one.


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found_by_the_emulator_and_moves_no_line(name):
    defect = DEFECTS[name]
    assert defect.kind in {one.kind for one in launch.trace(defect.kernel, PROBLEM).hazards}
    assert len(defect.source.splitlines()) == len(RUNG.source().splitlines())
    assert defect.tool in sanitizer.RUNS


def test_races_stand_side_by_side_by_their_pair_of_lines_in_either_order():
    hazards = launch.trace(SECOND.kernel, PROBLEM).hazards
    lines = RUNG.source().splitlines()
    store = next(i for i, line in enumerate(lines, 1) if "Bs[ty][tx] = b_value" in line)
    read_line = next(i for i, line in enumerate(lines, 1) if "fmaf(As[ty][k], Bs[k][tx], sum)" in line)
    theirs = (
        Finding("write after read", ((read_line, "read"), (store, "write")), (1, 0, 0), ((0, 1, 0), (5, 0, 0)), 9),
    )
    text = beside(hazards, theirs, "H200, date").splitlines()
    place = text.index(f"write on line {store} and read on line {read_line}")
    # 32 x 32 words, in however many chunks and blocks
    assert text[place + 1].split(None, 2)[2] == "read after write (1,024 words);"
    assert text[place + 2].strip().startswith("thread (0, 0, 0) and (0, 31, 0) of block")
    assert text[place + 3].split(None, 2)[2] == "error: write after read (9 in all);"
    assert text[place + 4].strip() == "thread (0, 1, 0) and (5, 0, 0) of block (1, 0, 0)"
    assert any(line.endswith("not found") for line in text)


def test_what_racecheck_did_not_check_is_a_dash():
    hazards = launch.trace(SECOND.kernel, PROBLEM).hazards
    theirs = [line for line in beside(hazards, None, "H200").splitlines() if line.startswith("    H200")]
    assert [line.split() for line in theirs] == [["H200", "-"], ["H200", "-"]]
    assert beside((), (), "H200") == "no race"
