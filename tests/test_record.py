"""Records of experiments: what enters them, what is refused, and how they stand beside others."""

import copy
import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import fake_nvml
import pytest
from fake_cuda import FakeGpu

from gemmlab import climb as climbing
from gemmlab import context, emulator, launch, record, records
from gemmlab.__main__ import main
from gemmlab.backend import Backend
from gemmlab.emulator.ptx import Instruction, UnsupportedInstruction
from gemmlab.gemm import Gemm
from gemmlab.ladder import Geometry, rung
from gemmlab.record import Decision, Profile, decisions, recording
from gemmlab.record import form as record_form
from gemmlab.record import pages as record_page
from gemmlab.record.recorded import Record

EMULATOR = Backend("emulator", emulator, "asked for")
SMALL = Gemm(M=64, N=32, K=16)
NAIVE, COALESCED = launch.of(rung("naive")), launch.of(rung("coalesced"))
BOTH = {"naive": NAIVE, "coalesced": COALESCED}


def edited(name, old, new):
    """A rung's kernel with a piece of its source replaced."""
    source = rung(name).source()
    assert old in source
    return launch.of(rung(name), source=source.replace(old, new))


WRONG = edited("naive", "alpha * sum", "alpha * sum + (row == 3 ? 1.0f : 0.0f)")
RACY = edited("shared_tiles", "        __syncthreads();  // nobody reads a tile before all of it is written\n", "")
BROKEN = edited("naive", "int row", "itn row")
WILD = edited("naive", "C[row * N + col] = value", "C[row * N + col + (row == 0) * (1 << 20)] = value")
# An array that is indexed by what only the launch knows cannot stay in registers, but that is stack and no spill: this
# many values alive at once are more than the 32 registers that the bounds leave a thread.
SPILLING = edited("register_tiles_2d", "__global__ void", "__global__ void __launch_bounds__(256, 6)")


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A record of rungs 0 and 1 on the emulator: its folder. Tests that change it work on a copy."""
    folder = tmp_path_factory.mktemp("records") / "pair"
    expected = {"coalesced": "A costs a warp 1 sector a step in place of 32"}
    record.write(folder, BOTH, [SMALL], expected=expected, note="one change", where=EMULATOR, seed=3)
    return folder


@pytest.fixture
def folder(pair, tmp_path):
    """A copy of the record that a test may spoil."""
    for file in (file for file in pair.rglob("*") if file.is_file()):
        place = tmp_path / "copy" / file.relative_to(pair)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(file.read_bytes())
    return tmp_path / "copy"


@pytest.fixture
def gpu(monkeypatch):
    """A stand-in for a GPU, on which a launch of rung 0 takes 40 ms, of rung 1 20 ms, and of cuBLAS 10 ms."""
    fake_nvml.install(monkeypatch)
    fake = FakeGpu({"gemm_naive": 40.0, "gemm_coalesced": 20.0, "cuBLAS": 10.0})
    monkeypatch.setattr(climbing, "cublas_sgemm", fake.sgemm)
    return Backend("cuda", fake, "asked for")


def page_of(folder):
    """The page's text, with plain spaces."""
    return (folder / "README.md").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")


def timed(data, **samples):
    """Data of a record as if a card had been timed; the samples, in milliseconds, are made up."""
    data = copy.deepcopy(data)
    data["environment"] |= {"backend": "cuda", "card": "NVIDIA H200", "driver": "580.159.04", "date": "2026-11-30"}
    for run in data["runs"]:
        how = {"batch": 5, "warmup": 3, "cache": "warm L2", "boundary": "CUDA events", "readings": []}
        run["timing"] = {"samples_ms": samples[run["kernel"]], **how}
    return data


def spoil(folder, *path, value):
    """Set a field of record.json; `...` takes it out."""
    file = folder / "record.json"
    data = json.loads(file.read_text())
    place = data
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    file.write_text(json.dumps(data))


# Writing and reading.


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
    monkeypatch.setattr(os, "access", lambda place, mode: False)
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
        ({"profile": {"tool": "ncu"}}, "but must be record.Profile"),
        ({"profile": Profile("ncu", "2025.3", "dram__bytes.sum", "none")}, "its metrics a tuple of texts"),
        ({"profile": Profile("ncu", 2025.3, (), "none")}, "profile.version is 2025.3, but must be a string"),
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


# Decisions.


def test_a_decision_holds_what_was_expected_and_what_the_record_shows(folder):
    decision = Decision("coalesced", "kept", "the waste is gone", against="naive")
    (entry,) = record.decide(folder, decision).decisions
    # A step of k costs a warp of rung 0 32 sectors of A and 1 of B, one of rung 1 1 and 4; 64 warps, 16 steps. C's
    # store costs a warp 32, and 4.
    before, after = 64 * (16 * 33 + 32), 64 * (16 * 5 + 4)
    assert entry["expected"] == "A costs a warp 1 sector a step in place of 32"
    assert entry["observed"] == [f"64 x 32 x 16: right, global sectors {after:,} (was {before:,}), nothing was timed"]
    assert (entry["verdict"], entry["why"], entry["against"]) == ("kept", "the waste is gone", "naive")
    assert record.load(folder).decisions == (entry,)
    assert "| kept | the waste is gone |" in (folder / "README.md").read_text()


def test_decisions_are_only_added(folder):
    record.decide(folder, Decision("coalesced", "dropped", "not yet understood"))
    first = (folder / "decisions.jsonl").read_text()
    record.decide(folder, Decision("coalesced", "kept", "understood now", against="naive"))
    assert (folder / "decisions.jsonl").read_text().startswith(first)
    assert [entry["verdict"] for entry in record.load(folder).decisions] == ["dropped", "kept"]


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (Decision("nave", "kept", "why"), "the record has no kernel 'nave'; it has naive, coalesced"),
        (Decision("naive", "kept", "why", against="nave"), "the record has no kernel 'nave'"),
        (Decision("naive", "maybe", "why"), "verdict is 'maybe', but must be kept or dropped"),
        (Decision("naive", "kept", "  "), "why is empty: say in a sentence why 'naive' is kept"),
        (Decision("naive", "kept", "why", against="naive"), "'naive' is held against itself"),
        (Decision("naive", "kept", "why", despite="spill"), "despite is 'spill', but must be a tuple"),
        (
            Decision("naive", "kept", "why", despite=("race",)),
            r"despite is \('race',\), but must be a tuple out of spill",
        ),
        (Decision("naive", "kept", "why", despite=("spill",)), "despite names a spill, but the record shows none"),
    ],
)
def test_a_decision_that_the_record_does_not_allow_is_refused_and_leaves_no_trace(decision, message, folder):
    with pytest.raises(ValueError, match=message):
        record.decide(folder, decision)
    assert not (folder / "decisions.jsonl").exists()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (WRONG, r"'mine' cannot be kept: wrong result: 64 x 32 x 16: wrong: of 2048 outputs, 32 outside"),
        (RACY, r"'mine' cannot be kept: race: 64 x 32 x 16, line \d+: thread"),
        (BROKEN, r"'mine' cannot be kept: failed launch: 64 x 32 x 16: kernel.cu\(21\): error: identifier"),
        (WILD, r"'mine' cannot be kept: out-of-bounds: 64 x 32 x 16, line \d+: "),
    ],
    ids=["wrong result", "race", "failed launch", "wild store"],
)
def test_a_kernel_with_a_finding_that_nothing_excuses_can_only_be_dropped(kernel, message, tmp_path):
    record.write(tmp_path / "new", {"mine": kernel}, [SMALL], where=EMULATOR)
    for despite in ((), ("spill",)):
        with pytest.raises(ValueError, match=message if not despite else "cannot be kept|despite names a spill"):
            record.decide(tmp_path / "new", Decision("mine", "kept", "it is fast", despite=despite))
    (entry,) = record.decide(tmp_path / "new", Decision("mine", "dropped", "it is wrong")).decisions
    assert entry["stops"]


def test_a_race_that_shows_only_in_the_second_step_along_k_is_found_whatever_was_asked_for(tmp_path):
    second = "        __syncthreads();  // nobody overwrites a tile that somebody still reads\n"
    kernel = edited("shared_tiles", second, "")
    written = record.write(tmp_path / "new", {"mine": kernel}, [Gemm(32, 32, 8)], where=EMULATOR)
    assert written.data["runs"][0]["hazards"] == []
    assert {stop.kind for stop in decisions.stops(written, "mine")} == {"race"}


def test_a_spill_is_kept_only_with_a_word_on_it(tmp_path):
    record.write(tmp_path / "new", {"mine": SPILLING}, [Gemm(128, 128, 8)], where=EMULATOR)
    with pytest.raises(
        ValueError, match=r"without a word on this: spill: .* bytes a thread .* add despite=\('spill',\)"
    ):
        record.decide(tmp_path / "new", Decision("mine", "kept", "more blocks fit"))
    kept = record.decide(tmp_path / "new", Decision("mine", "kept", "outside the loop", despite=("spill",)))
    assert kept.decisions[0]["stops"] == ["spill"]
    assert "| kept despite spill | outside the loop |" in (tmp_path / "new" / "README.md").read_text()


FAST, NEAR, SLOW = [1.0, 1.01, 1.02, 1.03, 1.04], [1.02, 1.03, 1.04, 1.05, 1.06], [1.5, 1.51, 1.52, 1.53, 9.0]


@pytest.mark.parametrize(
    ("ours", "theirs", "stopped"),
    [(SLOW, FAST, True), (NEAR, FAST, False), (FAST, SLOW, False), ([2.0], [1.0], False)],
    ids=["beyond noise", "within noise", "faster", "too few samples to know the noise"],
)
def test_a_slowdown_stops_a_branch_when_the_middle_halves_of_the_samples_do_not_meet(pair, ours, theirs, stopped):
    loaded = record.load(pair)
    seen = Record(timed(loaded.data, coalesced=ours, naive=theirs), loaded.sources)
    decision = Decision("coalesced", "kept", "why", against="naive")
    assert [stop.kind for stop in decisions.stops(seen, "coalesced", "naive")] == ["slowdown"] * stopped
    if stopped:
        with pytest.raises(ValueError, match=r"1\.52 ms, 1\.49 times 1\.02 ms, .*add despite=\('slowdown',\)"):
            decisions.entry(seen, decision)
    else:
        assert decisions.entry(seen, decision)["verdict"] == "kept"


def test_the_middle_half_of_samples_lies_between_their_quartiles():
    from gemmlab.record.recorded import middle_half

    assert middle_half([5.0, 1.0, 3.0, 2.0, 4.0]) == (2.0, 4.0)
    assert middle_half([1.0, 2.0, 3.0]) is None


# What others wrote, or changed.


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("tolerance",), ..., "the data lacks tolerance"),
        (("rumour",), 1, "the data has unknown rumour"),
        (("environment", "date"), "yesterday", "environment.date is 'yesterday', but must be year-month-day"),
        (("inputs", "family"), "secret", "inputs.family is 'secret', but must be one of zeros"),
        (("kernels", 0, "name"), "../../x", r"a kernel is called '../../x'"),
        (("kernels", 0, "name"), "other", r"kernels\[0\].name is 'other', but there is no sources/other.cu"),
        (("kernels", 1, "sha256"), "00", r"kernels\[1\].sha256 is '00', but that of sources/coalesced.cu is"),
        (("runs", 0, "kernel"), "warp", r"runs\[0\].kernel is 'warp', but must be one of"),
        (("runs", 0, "problem", "M"), 0, r"runs\[0\].problem is none: M is 0, but must be at least 1"),
        (("runs", 0, "launch", "grid"), [1, 1], r"runs\[0\].launch.grid is \[1, 1\], but must be three numbers"),
        (("runs", 0, "verdict"), None, r"runs\[0\] must hold a verdict, or a failure that says why there is none"),
        (("runs", 0, "verdict", "outputs"), 7, r"runs\[0\].verdict.outputs is 7, but C has 2048"),
        (("runs", 0, "verdict", "wrong"), -1, r"runs\[0\].verdict.wrong is -1, but must be an integer of at least 0"),
        (("runs", 0, "verdict", "wrong"), 2049, r"runs\[0\].verdict counts more outputs that fail than the 2048 of C"),
        (
            ("runs", 0, "failure"),
            "no",
            r"runs\[0\].failure is 'no', but must say why there is no result, and .*verdict",
        ),
        (("runs", 0, "registers"), -1, r"runs\[0\].registers is -1, but must be an integer of at least 0"),
        (("runs", 1, "kernel"), "naive", r"runs\[1\] repeats runs\[0\], but each may be there once"),
        (("examinations", 1, "kernel"), "naive", r"examinations\[1\] repeats examinations\[0\]"),
        (("examinations", 0, "checks", 0, "verdict"), None, r"examinations\[0\] holds a check without a verdict"),
        (("environment", "card"), "NVIDIA H200", "environment.backend is 'emulator' and environment.card 'NVIDIA"),
        (("environment", "backend"), "cuda", "environment.backend is 'cuda' and environment.card None"),
        (("inputs", "seed"), -1, "inputs.seed is -1, but must be an integer of at least 0"),
        (("runs", 1, "registers"), 31.5, r"runs\[1\].registers is 31.5, but must be an integer"),
        (("runs", 1, "accesses", 0, "sectors"), "many", r"runs\[1\].accesses\[0\].sectors is 'many', but must be"),
        (("examinations", 0, "checks", 0, "family"), "x", r"examinations\[0\].checks\[0\].family is 'x', but must"),
    ],
)
def test_data_that_is_not_of_the_form_is_refused_with_the_field_named(path, value, message, folder):
    spoil(folder, *path, value=value)
    with pytest.raises(ValueError, match=rf"record\.json is no part of a record: {message}"):
        record.load(folder)


def test_times_cannot_be_put_into_a_record_of_the_emulator(folder):
    how = {"batch": 5, "warmup": 3, "cache": "warm L2", "boundary": "events", "readings": []}
    spoil(folder, "runs", 0, "timing", value={"samples_ms": [1.0], **how})
    with pytest.raises(ValueError, match=r"runs\[0\].timing.samples_ms holds samples, but environment.card is null"):
        record.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples_ms": []}, r"samples_ms is \[\], but must hold times of 1e-09 to 1e\+09 ms"),
        ({"samples_ms": [1.0, 0.0]}, "samples_ms is .*, but must hold times"),
        ({"samples_ms": [5e-324]}, "samples_ms is .*, but must hold times"),
        ({"samples_ms": [1e308] * 3}, "samples_ms is .*, but must hold times"),
        ({"batch": -5}, "batch is -5, but must be an integer of at least 0"),
        ({"readings": [None] * 3}, "readings holds 3, but must hold one of each of the 2 samples, or none"),
    ],
)
def test_samples_that_no_clock_gave_are_refused(change, message, pair):
    data = timed(record.load(pair).data, naive=[1.0, 2.0], coalesced=[1.0, 2.0])
    data["runs"][0]["timing"] |= change
    with pytest.raises(ValueError, match=rf"runs\[0\]\.timing\.{message}"):
        record_form.check(data, record.load(pair).sources)


def test_a_source_that_is_no_text_is_named(folder):
    (folder / "sources" / "naive.cu").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"naive\.cu is no part of a record"):
        record.load(folder)


def test_an_edited_source_is_noticed(folder):
    source = folder / "sources" / "naive.cu"
    source.write_text(source.read_text().replace("alpha * sum", "alpha * sum + 0"))
    with pytest.raises(ValueError, match=r"kernels\[0\].sha256 .* put back what was run, or record the edited kernel"):
        record.load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, '{"ended": NaN}'])
def test_text_that_is_no_record_is_refused(text, folder):
    (folder / "record.json").write_text(text)
    with pytest.raises(ValueError, match=r"record\.json is no part of a record"):
        record.load(folder)


def test_a_folder_without_a_record_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no record at .*: it has no record\.json"):
        record.load(tmp_path)


def test_a_decision_that_was_written_by_hand_against_the_findings_is_refused(tmp_path):
    folder = tmp_path / "new"
    record.write(folder, {"mine": WRONG}, [SMALL], where=EMULATOR)
    entry = record.decide(folder, Decision("mine", "dropped", "wrong")).decisions[0]
    (folder / "decisions.jsonl").write_text(json.dumps(entry | {"verdict": "kept"}) + "\n")
    with pytest.raises(
        ValueError, match=r"decisions\.jsonl is no part of a record: 'mine' cannot be kept: wrong result"
    ):
        record.load(folder)
    (folder / "decisions.jsonl").write_text(json.dumps(entry | {"kernel": "other"}) + "\n")
    with pytest.raises(ValueError, match=r"line 1\.kernel is 'other', but the record has mine"):
        record.load(folder)
    (folder / "decisions.jsonl").write_text(json.dumps(entry) + "\nkept\n")
    with pytest.raises(ValueError, match="line 2 is no JSON"):
        record.load(folder)


# Side by side, and again.


def lines_of(text, kernel):
    """The lines of a comparison that belong to a kernel, a list of cells each."""
    rows, inside = [], False
    for line in text.splitlines():
        if line and not line.startswith(" "):
            inside = line.startswith(f"{kernel} ")
        if inside and line:
            rows.append([cell.strip() for cell in line.split("  ") if cell.strip()])
    return rows


def test_records_stand_side_by_side_labelled_by_machine_and_date_measured_apart_from_counted(pair):
    ours = record.load(pair)
    theirs = Record(timed(ours.data, naive=SLOW, coalesced=FAST), ours.sources)
    text = record.compare(ours, theirs)
    counted, measured = text.split("\nMeasured\n")
    heads = [line for line in text.splitlines() if line.startswith("kernel")]
    assert len(heads) == 2 and all("b: NVIDIA H200, 2026-11-30" in head for head in heads)
    assert all(f"a: emulator (sm_90), {ours.data['environment']['date']}" in head for head in heads)
    assert "ms" not in counted.split("kernel", 1)[1] and "sectors" not in measured
    assert ["median ms", "-", "1.52", "-"] == lines_of(measured, "naive")[0][2:]
    assert ["median ms", "-", "1.02", "-"] == lines_of(measured, "coalesced")[0][2:]
    assert ["middle half of the samples", "-", "1.51 to 1.53", "-"] in lines_of(measured, "naive")


def test_a_ratio_of_times_needs_both_and_says_whether_it_is_beyond_noise(pair):
    loaded = record.load(pair)
    a, b = (Record(timed(loaded.data, naive=FAST, coalesced=ours), loaded.sources) for ours in (FAST, SLOW))
    measured = record.compare(a, b).split("\nMeasured\n")[1]
    assert lines_of(measured, "naive")[0][2:] == ["median ms", "1.02", "1.02", "1, within noise"]
    assert lines_of(measured, "coalesced")[0][2:] == ["median ms", "1.02", "1.52", "1.49, beyond noise"]


def test_a_shipped_climb_stands_as_a_column_beside_a_record(tmp_path):
    cube = Gemm(256, 256, 256)
    ours = record.write(tmp_path / "new", {"coalesced": COALESCED}, [cube], where=EMULATOR)
    theirs = record.load("nvidia_h200_2026-11-30_256")
    text = record.compare(ours, theirs)
    assert "b: NVIDIA H200, 2026-11-30; driver 580.159.04" in text
    counted, measured = (lines_of(part, "coalesced") for part in text.split("\nMeasured\n"))
    # 2048 warps; 256 steps of 5 sectors, and 4 and 1 for C's store and what the fifth sector does not need.
    sectors = f"{2048 * (256 * 5 + 4):,}"
    assert ["global sectors", sectors, sectors, "1"] in counted
    (row,) = (
        row for row in records.load(records.SHIPPED / "nvidia_h200_2026-11-30_256.json").rungs if row["rung"] == 1
    )
    assert ["GFLOP/s", "-", f"{row['gflops']:,.0f}", "-"] in measured
    assert ["% of cuBLAS", "-", f"{row['percent_of_cublas']:.1f}", "-"] in measured


def test_every_shipped_climb_loads_as_a_column():
    for file in records.SHIPPED.glob("*.json"):
        loaded = record.load(file)
        assert loaded.label == "NVIDIA H200, 2026-11-30" and loaded.runs.keys()
        with pytest.raises(ValueError, match="is a climb without sources, so it cannot be run again"):
            record.rerun(loaded, EMULATOR)


def test_times_that_are_mostly_submission_are_marked(pair):
    loaded = record.load(pair)
    caution = "Below 0.036 ms a time may be mostly that of submitting the launch"
    for samples, marked in ((FAST, False), ([0.02] * 5, True)):
        seen = Record(timed(loaded.data, naive=FAST, coalesced=samples), loaded.sources)
        assert (caution in record.compare(loaded, seen)) == marked


def test_records_with_nothing_in_common_say_so(pair):
    assert "nothing can be held side by side" in record.compare(
        record.load(pair), record.load("nvidia_h200_2026-11-30_4096")
    )


def test_a_record_runs_again_to_the_same_bits_verdicts_and_counts(pair):
    before = record.load(pair)
    now = record.rerun(before, EMULATOR)
    assert record.differences(before, now) == ()
    assert [run["sha256"] for run in now.data["runs"]] == [run["sha256"] for run in before.data["runs"]]
    assert now.data["examinations"] == before.data["examinations"]
    assert [run["launch"] for run in now.data["runs"]] == [run["launch"] for run in before.data["runs"]]


def test_what_is_not_repeated_is_named(pair):
    before = record.load(pair)
    data = copy.deepcopy(before.data)
    data["runs"][0] |= {"sha256": "00", "registers": 99}
    data["runs"][1]["verdict"]["wrong"] = 5
    data["examinations"][1]["checks"][0]["verdict"]["nan"] = 1
    registers = before.data["runs"][0]["registers"]
    checks = len(data["examinations"][1]["checks"])
    assert record.differences(before, Record(data, before.sources)) == (
        "naive, 64 x 32 x 16: the bits of C differ",
        f"naive, 64 x 32 x 16: registers of a thread 99, and was {registers}",
        "coalesced, 64 x 32 x 16: the result is WRONG, and was right",
        f"coalesced: 1 of {checks} checks on other shapes and inputs came out otherwise",
    )


# On a GPU.


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


# The page.


def test_the_page_shows_text_of_learners_as_text():
    assert record_page.table(("a|b",), [("<b>x</b>\ny",), (None,)]).splitlines() == [
        "| a\\|b |",
        "| --- |",
        "| &lt;b>x&lt;/b><br>y |",
        "| - |",
    ]


def test_the_profilers_settings_stand_on_the_page_where_there_are_some(tmp_path):
    profile = record.Profile("Nsight Compute", "2025.3", ("lts__t_sectors.sum",), "none")
    written = record.write(tmp_path / "new", {"naive": NAIVE}, [SMALL], where=EMULATOR, profile=profile)
    assert written.data["profile"]["metrics"] == ["lts__t_sectors.sum"]
    assert "| profiler: clock control | none |" in (tmp_path / "new" / "README.md").read_text()


# The command line.


def test_the_command_records_decides_compares_and_runs_again(tmp_path, capsys):
    mine = tmp_path / "mine.cu"
    mine.write_text(COALESCED.source)
    folder = str(tmp_path / "new")
    options = ["--rungs", "0", "--edited", f"coalesced={mine}", "--shape", "64,32,16", "--backend", "emulator"]
    assert main(["record", folder, *options, "--expect", "mine=fewer sectors", "--note", "a try"]) == 0
    assert main(["decide", folder, "mine", "kept", "--why", "fewer sectors", "--against", "naive"]) == 0
    assert "mine is kept" in capsys.readouterr().out
    assert main(["compare", folder, "nvidia_h200_2026-11-30_256"]) == 0
    assert "b: NVIDIA H200, 2026-11-30" in capsys.readouterr().out
    assert main(["rerun", folder, "--backend", "emulator"]) == 0
    assert "results, bits of C and counts are equal" in capsys.readouterr().out


def test_the_command_says_what_is_wrong_by_its_status(tmp_path, capsys):
    mine = tmp_path / "mine.cu"
    mine.write_text(WRONG.source)
    options = ["--edited", f"naive={mine}", "--size", "32", "--backend", "emulator"]
    assert main(["record", str(tmp_path / "new"), *options]) == 1
    assert "mine: wrong result" in capsys.readouterr().out and (tmp_path / "new" / "record.json").exists()
    assert main(["record", str(tmp_path / "new"), *options]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["decide", str(tmp_path / "new"), "mine", "kept", "--why", "fast"]) == 2
    assert "cannot be kept" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "new"), str(tmp_path)]) == 2
    assert main(["rerun", str(tmp_path / "nowhere")]) == 2
    assert main(["record", str(tmp_path / "other"), "--edited", "naive=none.cu"]) == 2
    assert "none.cu" in capsys.readouterr().err
    mine.write_bytes(b"\xff")
    assert main(["record", str(tmp_path / "other"), "--edited", f"naive={mine}"]) == 2
    assert "mine.cu: the file is no text in UTF-8" in capsys.readouterr().err
    twice = ["--rungs", "0", "--expect", "naive=slow", "--expect", "naive=fast"]
    assert main(["record", str(tmp_path / "other"), *twice]) == 2
    assert "--expect naive=slow: there is another of 'naive'" in capsys.readouterr().err


def test_the_command_says_in_a_line_which_launch_ended_the_context(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        record, "write", lambda *given, **also: (_ for _ in ()).throw(context.ContextLost("mine", "an error"))
    )
    assert main(["record", str(tmp_path / "new"), "--rungs", "0", "--backend", "emulator"]) == 1
    assert "gemmlab record: mine ended this process's CUDA context: an error" in capsys.readouterr().err


def test_a_record_that_is_not_repeated_has_a_status_of_its_own(folder, capsys):
    spoil(folder, "runs", 0, "sha256", value="00")
    assert main(["rerun", str(folder), "--backend", "emulator"]) == 1
    assert "naive, 64 x 32 x 16: the bits of C differ" in capsys.readouterr().out


def test_the_names_of_kernels_are_names_of_files():
    record_form.require_names(["mine", "warp_tiles", "v2-final"])
    for name in ("", "a/b", "a.b", "a b", "x" * 65, 7):
        with pytest.raises(ValueError, match="its name becomes that of a file"):
            record_form.require_names([name])
