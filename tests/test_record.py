"""Records of experiments: what enters them, what is refused before anything runs, and what a failure leaves."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest
from record_cases import BOTH, BROKEN, COALESCED, EMULATOR, NAIVE, SMALL, edited, page_of

from gemmlab import climb as climbing
from gemmlab import record
from gemmlab.gemm import Gemm
from gemmlab.ladder import Geometry, rung
from gemmlab.profiling.counters import Counted
from gemmlab.record import Decision, recording
from gemmlab.record import form as record_form
from gemmlab.record import pages as record_page


def test_a_record_comes_back_from_its_folder_with_all_that_a_colleague_needs(pair):
    loaded = record.load(pair)
    data = loaded.data
    assert loaded.sources == {"naive": NAIVE.source, "coalesced": COALESCED.source}
    assert [kernel["options"] for kernel in data["kernels"]] == [list(NAIVE.options), list(COALESCED.options)]
    assert data["kernels"][0]["parameters"] == {"BX": "32", "BY": "4"}
    assert [kernel["expected"] for kernel in data["kernels"]] == [None, "A costs a warp 1 sector a step in place of 32"]
    assert data["inputs"] == {"family": "uniform", "seed": 3}
    # Blocks of 32 x 4 threads over 64 rows and 32 columns; of 32 columns and 16 rows.
    launches = [(run["launch"]["grid"], run["launch"]["block"]) for run in data["runs"]]
    assert launches == [([2, 8, 1], [32, 4, 1]), ([4, 1, 1], [32, 16, 1])]
    assert all(run["hazards"] == [] and run["verdict"]["wrong"] == 0 for run in data["runs"])
    assert all(len(run["sha256"]) == 64 for run in data["runs"])
    assert data["runs"][0]["sha256"] == data["runs"][1]["sha256"], "both add the products in the same order"
    assert data["environment"]["nvrtc"] and data["environment"]["numpy"] and data["environment"]["python"]
    assert "2^-24" in data["tolerance"] and data["profile"] is None and data["ended"] is None


def test_what_was_not_measured_is_null_and_prints_as_a_dash(pair):
    loaded = record.load(pair)
    for run in loaded.data["runs"]:
        assert run["timing"] is None and run["cublas"] is None
    for name in ("card", "driver", "cuda", "cupy", "clocks"):
        assert loaded.data["environment"][name] is None
    page = page_of(pair)
    assert "| naive | 64 x 32 x 16 | - | - | - | - | - |" in page
    assert "| GPU | - |" in page and "| profiler: metrics | - |" in page
    assert "None" not in page.replace("None yet.", "") and "nan" not in page


def test_every_kernel_is_examined_on_other_shapes_and_searched_for_hazards(pair):
    examinations = record.load(pair).data["examinations"]
    assert [each["kernel"] for each in examinations] == ["naive", "coalesced"]
    for each in examinations:
        assert len(each["checks"]) > 30 and each["fault"] is None and each["trace"]["hazards"] == []
        assert all(check["verdict"]["wrong"] == check["verdict"]["unwritten"] == 0 for check in each["checks"])


def test_no_file_of_a_record_holds_a_path_of_the_machine(pair):
    for file in (file for file in pair.rglob("*") if file.is_file()):
        for place in (Path.home(), Path.cwd(), pair.parent):
            assert str(place) not in file.read_text()


def test_an_error_keeps_the_names_of_files_and_not_of_folders_whose_names_have_spaces(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "Ada King"))
    error = f"{tmp_path}/Ada King/my notes.cuh(3): error, in /opt/cuda/include/mma.h"
    assert recording._without_folders(error) == "my notes.cuh(3): error, in mma.h"


@pytest.mark.parametrize("entering", ["note", "expected", "source"])
def test_a_text_with_a_path_of_the_machine_is_refused(entering, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    secret = f"see {tmp_path / 'ada' / 'notes'}"
    kernels = {"mine": edited("naive", "#ifndef BX", f"// {secret}\n#ifndef BX")} if entering == "source" else BOTH
    texts = {"note": {"note": secret}, "expected": {"expected": {"naive": secret}}}.get(entering, {})
    with pytest.raises(ValueError, match=r"holds .*ada, a path that only this machine has: leave it out"):
        record.write(tmp_path / "new", kernels, [SMALL], where=EMULATOR, **texts)
    assert not (tmp_path / "new").exists()


def test_a_record_is_never_written_over(folder):
    before = (folder / "record.json").read_bytes()
    with pytest.raises(FileExistsError, match="is there already, and a record is never written over"):
        record.write(folder, BOTH, [SMALL], where=EMULATOR)
    assert (folder / "record.json").read_bytes() == before


def test_a_folder_that_cannot_be_made_is_refused_before_anything_runs(tmp_path, monkeypatch):
    def refuse(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(record.tempfile, "TemporaryFile", refuse)
    monkeypatch.setattr(climbing, "run", None)
    with pytest.raises(PermissionError, match="cannot be made: you may not write to"):
        record.write(tmp_path / "deep" / "new", BOTH, [SMALL], where=EMULATOR)
    (tmp_path / "file").write_text("")
    with pytest.raises(PermissionError, match="cannot be made"):
        record.write(tmp_path / "file" / "new", BOTH, [SMALL], where=EMULATOR)


@pytest.mark.parametrize(
    ("kernels", "problems", "message"),
    [
        ({"../mine": NAIVE}, [SMALL], r"a kernel is called '../mine', but its name becomes that of a file"),
        ({"mine": NAIVE, "Mine": NAIVE}, [SMALL], "two kernels are called 'mine' and 'Mine'"),
        ({"mine": rung("naive")}, [SMALL], r"mine is Rung, but must be a launch.Kernel: launch.of\(rung\) makes one"),
        ([NAIVE], [SMALL], "kernels is list, but must be a dict"),
        ({"mine": NAIVE}, SMALL, r"problems is one Gemm\(.*\), but must be a list of them"),
        ({"mine": NAIVE}, [], "1 kernels on 0 problems make no record"),
        ({"mine": NAIVE}, [(8, 8, 8)], r"problems holds \(8, 8, 8\), but must hold gemm.Gemm"),
        ({"Con": NAIVE}, [SMALL], "'Con', .* no name that Windows keeps for a device"),
        ({"mine": replace(NAIVE, options=("-Ihere",))}, [SMALL], "compiled with -Ihere"),
        ({"mine": replace(NAIVE, options="-DBX=8")}, [SMALL], "options of 'mine' are '-DBX=8', but must be a tuple"),
        ({"mine": replace(NAIVE, source="\udcff")}, [SMALL], r"the source of 'mine' holds '\\udcff', which is no char"),
        ({"mine": replace(NAIVE, source=b"")}, [SMALL], "the source of 'mine' is b'', but must be a string"),
        ({"mine": replace(NAIVE, geometry=lambda problem: (1, 2, 3))}, [SMALL], "must be Geometry"),
    ],
)
def test_what_cannot_be_recorded_is_refused_with_the_reason(kernels, problems, message, tmp_path):
    with pytest.raises((ValueError, TypeError), match=message):
        record.write(tmp_path / "new", kernels, problems, where=EMULATOR)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", ['#include "mine.cuh"', " # include <../mine.cuh>"])
def test_a_source_that_includes_a_file_of_the_learner_is_refused(line, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    for place in (tmp_path, tmp_path / "here"):
        (place / "mine.cuh").write_text("")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(
        ValueError, match=r"includes .*mine\.cuh, a file of yours that is no part of a record: paste it"
    ):
        record.write("new", {"mine": replace(NAIVE, source=f"{line}\n{NAIVE.source}")}, [SMALL], where=EMULATOR)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"note": 3}, "note is 3, but must be a string"),
        ({"note": "\ud800"}, r"note holds '\\ud800', which is no character"),
        ({"expected": {"naive": None}}, r"expected\['naive'\] is None, but must be a string"),
        ({"seed": -1}, "seed is -1, but must be at least 0"),
        ({"profile": {"tool": "ncu"}}, r"but must be what profiling\.profile\(kernels, problem\) returns"),
        ({"profile": Counted("a card", {})}, r"but must be what profiling\.profile"),
        ({"profile": Counted("a card", {"mine": {}}, SMALL, "2025.3")}, "the profile counts 'mine', but the kernels"),
        ({"profile": Counted("a card", {}, Gemm(8, 8, 8), "2025.3")}, "the profile is of 8 x 8 x 8, which is not"),
    ],
)
def test_a_text_that_cannot_be_recorded_is_refused_before_anything_runs(texts, message, tmp_path, monkeypatch):
    monkeypatch.setattr(climbing, "run", None)
    with pytest.raises((ValueError, TypeError), match=message):
        record.write(tmp_path / "new", BOTH, [SMALL], where=EMULATOR, **texts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (edited("naive", "float sum = 0.0f;", "float sum = malloc(K) != nullptr;"), "malloc"),
        (replace(NAIVE, source=""), "the CUDA source is empty"),
        (BROKEN, "itn"),
    ],
)
def test_a_kernel_that_cannot_run_is_recorded_as_failed_and_the_others_as_ever(kernel, message, tmp_path):
    written = record.write(tmp_path / "new", {"naive": NAIVE, "mine": kernel}, [SMALL], where=EMULATOR)
    assert [run["failure"] is None for run in written.data["runs"]] == [True, False]
    assert message in written.data["runs"][1]["failure"] and written.data["ended"] is None
    assert record.load(tmp_path / "new") == written


def test_a_launch_that_is_the_mistake_is_recorded_as_it_was_asked_for(tmp_path):
    no_blocks = replace(NAIVE, geometry=lambda problem: Geometry((problem.M // 32, 4, 1), (32, 4, 1), 0))
    record.write(tmp_path / "new", {"mine": no_blocks}, [SMALL], where=EMULATOR)
    (examination,) = record.load(tmp_path / "new").data["examinations"]
    assert "grid.x = 0, but every extent must be at least 1" in examination["fault"]


def test_a_problem_that_has_no_bound_leaves_what_was_done_before_it(tmp_path):
    written = record.write(tmp_path / "new", {"naive": NAIVE}, [SMALL, Gemm(1, 1, 2**24)], where=EMULATOR)
    assert written.data["ended"].startswith("ValueError: no error bound exists for sums of 16777218 roundings")
    assert len(record.load(tmp_path / "new").runs) == 1


def test_what_an_earlier_recording_left_half_written_is_in_nobodys_way(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(record, "page", lambda written: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            record.write(tmp_path / "new", {"naive": NAIVE}, [SMALL], where=EMULATOR)
    record.write(tmp_path / "new", {"naive": NAIVE}, [SMALL], where=EMULATOR)


def test_a_name_too_long_for_a_folder_is_refused_before_anything_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(climbing, "run", None)
    with pytest.raises(ValueError, match="the folder's name has 201 bytes, but may have 200"):
        record.write(tmp_path / ("x" * 201), BOTH, [SMALL], where=EMULATOR)


def test_an_expectation_of_no_kernel_is_refused(tmp_path):
    with pytest.raises(ValueError, match="something is expected of 'nave', but the kernels are naive, coalesced"):
        record.write(tmp_path / "new", BOTH, [SMALL], where=EMULATOR, expected={"nave": "more"})


def test_an_interrupt_leaves_what_was_done_and_says_so(tmp_path):
    told = []

    def interrupt_the_second_run(share):
        told.append(share)
        if sum(told) > 1.01:
            raise KeyboardInterrupt

    written = record.write(tmp_path / "new", BOTH, [SMALL], where=EMULATOR, progress=interrupt_the_second_run)
    assert [run["kernel"] for run in written.data["runs"]] == ["naive"]
    assert record.load(tmp_path / "new").data["ended"] == "KeyboardInterrupt"
    assert "**Incomplete**" in (tmp_path / "new" / "README.md").read_text()
    with pytest.raises(ValueError, match="'coalesced' was not run, as the record is incomplete"):
        record.decide(tmp_path / "new", Decision("coalesced", "dropped", "no time"))


def test_an_error_of_the_program_is_no_word_on_how_a_recording_ended(tmp_path, monkeypatch):
    run, runs = climbing.run, []

    def fail_the_second(*given):
        runs.append(given)
        return run(*given) if len(runs) == 1 else {}["a name that is not there"]

    monkeypatch.setattr(climbing, "run", fail_the_second)
    with pytest.raises(KeyError):
        record.write(tmp_path / "new", BOTH, [SMALL], where=EMULATOR)


def test_an_interrupt_before_the_first_run_leaves_no_folder(tmp_path):
    def interrupt(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record.write(tmp_path / "new", BOTH, [SMALL], where=EMULATOR, progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_a_figure_is_read_by_its_name(pair):
    loaded = record.load(pair)
    # 64 warps, 16 steps of 1 sector of A and 4 of B, and 4 of C for each warp.
    assert loaded.figure("coalesced", SMALL, "global sectors") == 64 * (16 * 5 + 4)
    assert loaded.figure("coalesced", SMALL, "median ms") is None
    with pytest.raises(ValueError, match="no figure is called 'speed'; known: registers of a thread, "):
        loaded.figure("coalesced", SMALL, "speed")
    with pytest.raises(ValueError, match="mine was not run at 64 x 32 x 16; the record has naive at 64 x 32 x 16; "):
        loaded.figure("mine", SMALL, "median ms")


def test_the_page_shows_text_of_learners_as_text():
    assert record_page.table(("a|b",), [("<b>x</b>\ny",), (None,)]).splitlines() == [
        "| a\\|b |",
        "| --- |",
        "| &lt;b>x&lt;/b><br>y |",
        "| - |",
    ]


def test_a_profile_enters_a_record_with_its_settings_and_counts_and_comes_back(tmp_path):
    counts = {"naive": {"lts__t_sectors.sum": 1234, "dram__bytes_read.sum": None}}
    profile = Counted("a card, a day", counts, SMALL, "2025.3.1.0")
    written = record.write(tmp_path / "new", {"naive": NAIVE}, [SMALL], where=EMULATOR, profile=profile)
    assert record.load(tmp_path / "new").data["profile"] == {
        "tool": "Nsight Compute",
        "version": "2025.3.1.0",
        "label": "a card, a day",
        "clock_control": "none",
        "metrics": ["lts__t_sectors.sum", "dram__bytes_read.sum"],
        "problem": {"M": 64, "N": 32, "K": 16, "alpha": 1.0, "beta": 0.0},
        "counts": counts,
    }
    page = page_of(tmp_path / "new")
    assert "| profiler: version | 2025.3.1.0 |" in page and "| profiler: clock control | none |" in page
    assert "| lts__t_sectors.sum | 1,234 |" in page and "| dram__bytes_read.sum | - |" in page
    spoiled = copy.deepcopy(written.data)
    spoiled["profile"]["counts"]["naive"]["lts__t_sectors.sum"] = "many"
    with pytest.raises(ValueError, match=r"profile\.counts\.naive\.lts__t_sectors\.sum is 'many'"):
        record_form.check(spoiled, written.sources)


def test_the_names_of_kernels_are_names_of_files():
    record_form.require_names(["mine", "warp_tiles", "v2-final"])
    for name in ("", "a/b", "a.b", "a b", "x" * 65, 7):
        with pytest.raises(ValueError, match="its name becomes that of a file"):
            record_form.require_names([name])
