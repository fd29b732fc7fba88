"""Shipped figures of the GPU's counters, captures, predictions and their pictures, and the notebook's exercises."""

import ast
import importlib.util
import json
import re
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
from fake_tools import FakeTool, pretend_gpu
from test_nsight_compute import COLUMNS, csv_row

from gemmlab import backend, columns, launch
from gemmlab.exercises import Refused, profiling_exercises
from gemmlab.figures import counter_pictures
from gemmlab.gemm import Gemm
from gemmlab.ladder import RUNGS, rung
from gemmlab.profiling import captures, counters, nsight_compute, predictions, sanitizer_report
from gemmlab.profiling.captures import Capture
from gemmlab.profiling.counters import Counted
from gemmlab.profiling.defects import DEFECTS, PROBLEM
from gemmlab.profiling.nvidia_tools import NotInstalled
from gemmlab.profiling.predictions import LOAD_SECTORS, LOAD_WAVEFRONTS, PREDICTIONS, SHARED_LOADS, STORE_WAVEFRONTS
from gemmlab.profiling.sanitizer import Report
from gemmlab.profiling.sanitizer_report import Finding

matplotlib.use("agg")

ROOT = Path(__file__).parent.parent
CELLS = json.loads((ROOT / "notebooks" / "22_profiling.ipynb").read_text("utf-8"))["cells"]
CUBE = Gemm(256, 256, 256)
M = N = K = 256
WARP = 32
ENVIRONMENT = {
    "card": "NVIDIA T4",
    "date": "2027-01-02",
    "nvrtc": "13.1",
    "conditions": {"nsight_compute": "2026.1", "compute_sanitizer": "2026.1"},
}
CAPTURE = Capture(
    ENVIRONMENT,
    (256, 256, 256),
    {"naive": {"counts": {LOAD_SECTORS: 5, "lts__t_sector_hit_rate.pct": 49.26}, "report": "Section: Occupancy"}},
    (
        {
            "kernel": "no second barrier",
            "tool": "racecheck",
            "text": "Error: Race reported between Write access at k()+0x90 in k.cu:39\n"
            "    and Read access at k()+0x100 in k.cu:43 [508 hazards]\n\nRACECHECK SUMMARY: 1 hazard displayed",
        },
    ),
)


def cell(cell_id: str) -> str:
    return "".join(next(each["source"] for each in CELLS if each["id"] == cell_id))


def shown(number: int) -> dict:
    """The dictionary in the solution of an exercise."""
    (block,) = re.findall(r"```python\n(.*?)```", cell(f"exercise-{number}-answer"), re.DOTALL)
    (statement,) = ast.parse(block).body
    return ast.literal_eval(statement.value)


@pytest.fixture(scope="module")
def emulated():
    return {each.name: counters.counts(launch.trace(launch.of(each), CUBE).accesses) for each in RUNGS}


# What is shipped.


def test_the_fidelity_check_gives_each_rung_the_h200s_half_of_its_pairs():
    counted = captures.fidelity(RUNGS, CUBE)
    assert counted.label == "NVIDIA H200, 2026-11-30, Nsight Compute 2025.3.1.0, NVRTC 13.0"
    assert list(counted.counts) == [each.name for each in RUNGS]
    # As Nsight Compute counted on 2026-11-30: emulator/README.md, "Where PTX and machine code differ".
    assert counted.counts["shared_tiles"][SHARED_LOADS] == 40 * (M // 32) * (N // 32) * (K // 32) * 32
    assert counted.counts["register_tiles_1d"][STORE_WAVEFRONTS] == 16_385
    assert counted.counts["register_tiles_2d"][STORE_WAVEFRONTS] == 8_472
    assert counted.counts["register_tiles_2d"][captures.REGISTERS] == 117


def test_a_shape_that_was_not_counted_is_refused_with_those_that_were():
    with pytest.raises(ValueError, match=r"rung0_naive_8x8x8.*256x256x256, 129x127x65"):
        captures.fidelity([rung("naive")], Gemm(8, 8, 8))


def test_without_tools_counts_are_shipped_ones_and_say_why(monkeypatch, tmp_path):
    def fail(*_):
        raise NotInstalled("ncu is not here", "Install it")

    monkeypatch.setattr(captures.profiling, "profile", fail)
    monkeypatch.setattr(captures, "newest", lambda: None)
    counted, how = captures.counts(RUNGS, CUBE)
    assert counted == captures.fidelity(RUNGS, CUBE)
    assert how == "shipped, since none can be counted here: ncu is not here"
    monkeypatch.setattr(captures, "newest", lambda: CAPTURE)
    assert captures.counts(RUNGS, CUBE)[0] == CAPTURE.counted
    assert captures.counts(RUNGS, Gemm(129, 127, 65))[0] == captures.fidelity(RUNGS, Gemm(129, 127, 65))


def test_what_a_capture_lacks_comes_from_the_check_of_the_same_card_day_and_releases(monkeypatch):
    check = captures.fidelity([rung("naive")], CUBE)
    environment = json.loads(captures.FIDELITY.read_text("utf-8"))["environment"]
    environment["conditions"]["compute_sanitizer"] = "2025.3.1.0"
    profiles = {"naive": {"counts": {LOAD_SECTORS: 5}, "report": ""}}
    monkeypatch.setattr(captures, "newest", lambda: Capture(environment, (256, 256, 256), profiles, ()))
    assert captures.counts([rung("naive")], CUBE)[0].counts == {"naive": {**check.counts["naive"], LOAD_SECTORS: 5}}
    other = Capture(environment | {"date": "2027-01-02"}, (256, 256, 256), profiles, ())
    monkeypatch.setattr(captures, "newest", lambda: other)
    assert captures.counts([rung("naive")], CUBE)[0].counts == {"naive": {LOAD_SECTORS: 5}}


def test_with_the_tool_counts_are_made_now(monkeypatch):
    now = Counted("this card", {"naive": {LOAD_SECTORS: 1}})
    monkeypatch.setattr(captures.profiling, "profile", lambda kernels, problem: now)
    assert captures.counts([rung("naive")], CUBE) == (now, "counted now")


def test_a_capture_comes_back_as_it_was_saved_and_the_newest_is_taken(tmp_path):
    captures.save(CAPTURE, tmp_path / "new" / "t4.json")
    assert captures.load(tmp_path / "new" / "t4.json") == CAPTURE
    assert captures.newest(tmp_path) is None
    assert captures.newest(tmp_path / "new") == CAPTURE
    assert CAPTURE.label == "NVIDIA T4, 2027-01-02, Nsight Compute 2026.1, NVRTC 13.1"
    assert CAPTURE.report("naive") == "Section: Occupancy"
    with pytest.raises(ValueError, match="no rung 'warp'; it has naive"):
        CAPTURE.report("warp")


def test_a_defect_is_checked_now_where_it_can_be_else_as_captured_else_not_at_all(monkeypatch):
    found = (Finding("race", ((39, "write"), (43, "read")), count=508),)

    def fail(*_):
        raise NotInstalled("compute-sanitizer is not here", "Install it")

    monkeypatch.setattr(captures, "newest", lambda: CAPTURE)
    monkeypatch.setattr(captures.sanitizer, "check", lambda kernel, problem, tool: Report(tool, (), ""))
    assert captures.check("no second barrier") == ((), "racecheck, now")
    monkeypatch.setattr(captures.sanitizer, "check", fail)
    where = "racecheck, NVIDIA T4, 2027-01-02, compute-sanitizer 2026.1"
    assert captures.check("no second barrier") == (found, where)
    assert captures.check("no first barrier") == (None, where)
    monkeypatch.setattr(captures, "newest", lambda: None)
    assert captures.check("no second barrier") == (None, "racecheck: compute-sanitizer is not here")


def test_a_capture_tells_what_a_tool_found_nothing_found_and_not_run_apart():
    (found,) = CAPTURE.findings("no second barrier", "racecheck")
    assert (found.accesses, found.count) == (((39, "write"), (43, "read")), 508)
    clean = Capture(ENVIRONMENT, (1, 1, 1), {}, ({"kernel": "naive", "tool": "memcheck", "text": "SUMMARY: 0 errors"},))
    assert clean.findings("naive", "memcheck") == () and clean.findings("naive", "racecheck") is None


@pytest.mark.parametrize(
    "text", ["{}", "[]", "no json", '{"environment": {}, "shape": [1], "profiles": {}, "checks": []}']
)
def test_a_file_that_is_no_capture_is_refused_by_name_with_the_command_that_makes_one(tmp_path, text):
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ValueError, match=r"bad\.json is no capture.*benchmarks/captures\.py"):
        captures.load(tmp_path / "bad.json")


def test_a_figure_that_is_no_number_is_not_saved(tmp_path):
    wrong = Capture(ENVIRONMENT, (1, 1, 1), {"naive": {"counts": {"m": float("nan")}, "report": ""}}, ())
    with pytest.raises(ValueError):
        captures.save(wrong, tmp_path / "nan.json")


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("make_captures", ROOT / "benchmarks" / "captures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_text_of_a_capture_is_cut_at_a_line(script):
    assert script.shortened("short") == "short"
    text = script.shortened("01234\n56789\n\n" * script.LONGEST)
    assert len(text) < script.LONGEST + 40 and text.endswith("01234\n56789\n... the rest is cut\n")


def test_one_run_captures_every_rung_and_keeps_what_is_done_when_a_check_fails(script, tmp_path, monkeypatch, capsys):
    pretend_gpu(monkeypatch, tmp_path)
    monkeypatch.setattr(script.backend, "choose", lambda requested: backend.Backend("cuda", None, "a test says so"))
    monkeypatch.setattr(script, "environment", lambda where, conditions: ENVIRONMENT | {"conditions": conditions})
    monkeypatch.setattr(captures.profiling, "environment", lambda where, conditions: ENVIRONMENT)
    rows = [
        csv_row(each.number, each.entry, each.geometry(CUBE).block, each.geometry(CUBE).grid, LOAD_SECTORS, "7")
        for each in RUNGS
    ]
    FakeTool(tmp_path, "ncu", "Version 2026.1").says("\n".join([COLUMNS, *rows]), "    Section: Occupancy\n")
    clean = "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n"
    FakeTool(tmp_path, "compute-sanitizer", "Version 2026.1").says("nonsense", clean)
    monkeypatch.setattr("sys.argv", ["captures.py", str(tmp_path / "t4.json")])
    assert script.main() == 0
    made = captures.load(tmp_path / "t4.json")
    assert made.counted.counts == {each.name: {LOAD_SECTORS: 7} for each in RUNGS}
    assert made.report("naive").strip() == "Section: Occupancy"
    # memcheck and racecheck of seven rungs, and the tools of four defects, less the first run, which was nonsense
    assert len(made.checks) == 2 * 7 + 4 - 1
    assert "racecheck of no first barrier: racecheck printed no summary" in capsys.readouterr().err


# The capture of an H200 that is shipped, and what notebook 22 says of it.


@pytest.fixture(scope="module")
def h200():
    return captures.load(captures.SHIPPED / "nvidia_h200.json")


def test_the_shipped_capture_has_every_rung_and_answers_every_question_or_says_that_it_has_no_figure(h200):
    assert list(h200.profiles) == [each.name for each in RUNGS] and h200.shape == (256, 256, 256)
    for name, counts in h200.counted.counts.items():
        missing = {question.metric for question in counters.QUESTIONS} - set(counts)
        assert not missing, f"{name} lacks {missing}"
        assert all(count is None or count >= 0 for count in counts.values())


@pytest.mark.parametrize("each", RUNGS, ids=lambda each: each.name)
def test_a_shipped_report_is_of_the_rungs_own_kernel_alone_at_the_captures_shape(h200, each):
    report, (grid, block, _) = h200.report(each.name), each.geometry(Gemm(*h200.shape))
    assert re.findall(r"^  (\w+) \(.*Context", report, re.MULTILINE) == [each.entry]
    assert f"{each.entry} {tuple(grid)}x{tuple(block)}, Context" in report
    known = nsight_compute.read_report(report)
    for section, figures in nsight_compute.LOOK_FIRST.items():
        assert set(figures) <= set(known[section])
    registers = h200.counted.counts[each.name][captures.REGISTERS]
    assert known["Launch Statistics"]["Registers Per Thread"] == f"{registers} register/thread"
    assert known["Launch Statistics"]["Grid Size"] == f"{grid[0] * grid[1]:,}"


@pytest.mark.parametrize("path", sorted(captures.SHIPPED.glob("*.json")), ids=lambda path: path.name)
def test_a_shipped_capture_can_be_read_and_names_no_place_on_a_machine(path):
    captures.load(path)
    text = re.sub(r"https?://\S+", "", path.read_text("utf-8"))
    assert not re.search(r"[^\w.]/(?:home|root|tmp|usr|opt|var|work|mnt|data|proc)\b|[A-Z]:\\\\|~/|==\d+==", text)
    assert not re.search(r"\[\d+\] \w+@|/\w+/\w+\.(?:py|json|cu)\b", text)


def test_each_check_of_the_shipped_capture_was_summed_up_or_cut_and_the_rungs_have_no_finding(h200):
    made = {(run["kernel"], run["tool"]): run["text"] for run in h200.checks}
    rungs = {(each.name, tool) for each in RUNGS for tool in ("memcheck", "racecheck")}
    assert set(made) == rungs | {(name, defect.tool) for name, defect in DEFECTS.items()}
    for text in made.values():
        assert text.startswith("COMPUTE-SANITIZER") and ("SUMMARY: " in text or sanitizer_report.CUT in text)
    for kernel, tool in rungs:
        assert h200.findings(kernel, tool) == () and " 0 " in made[kernel, tool]


def line_of(name: str, text: str) -> int:
    """The number of the only line of a defective source that has a text."""
    (number,) = [number for number, line in enumerate(DEFECTS[name].source.splitlines(), 1) if text in line]
    return number


@pytest.mark.parametrize(
    "name, order", [("no second barrier", "read after write"), ("no first barrier", "write after read")]
)
def test_racecheck_named_the_lines_and_the_order_that_the_barrier_is_for_and_so_does_the_emulator(h200, name, order):
    stores = {array: line_of(name, f"{array}[ty][tx] = ") for array in ("As", "Bs")}
    reading = line_of(name, "fmaf(As[ty][k], Bs[k][tx]")
    pairs = {array: frozenset({(line, "write"), (reading, "read")}) for array, line in stores.items()}
    found = {frozenset(one.accesses): one for one in h200.findings(name, "racecheck")}
    assert set(found) == set(pairs.values())
    # All warps use Bs: an error. A warp has a row of As to itself: a warning, whose hazards were printed singly.
    assert (found[pairs["Bs"]].severity, found[pairs["Bs"]].what) == ("error", "race")
    assert (found[pairs["As"]].severity, found[pairs["As"]].what) == ("warning", order)
    races = launch.trace(DEFECTS[name].kernel, PROBLEM).hazards
    assert {frozenset(race.accesses) for race in races} == set(pairs.values())
    (_, first), (_, second) = races[0].accesses
    assert f"{second} after {first}" == order


def test_racecheck_counted_a_byte_once_for_every_block_and_chunk(h200):
    blocks, chunks, words = (-(-33 // 32)) * (-(-34 // 32)), -(-70 // 32), 32 * 32
    assert (PROBLEM.M, PROBLEM.N, PROBLEM.K) == (33, 34, 70)
    counted = {one.severity: one.count for one in h200.findings("no second barrier", "racecheck")}
    assert counted["warning"] == blocks * chunks * words * 4 == 49_152


def test_memcheck_named_the_line_block_and_thread_that_the_emulator_names(h200):
    (found,) = h200.findings("no edge of A", "memcheck")
    (ours,) = launch.trace(DEFECTS["no edge of A"].kernel, PROBLEM).hazards
    assert found.accesses == ((line_of("no edge of A", "a_value = *a"), "read"),) == ((ours.line, "read"),)
    assert (found.block, found.threads) == (ours.block, ours.threads)
    assert found.what.endswith("out of bounds") and found.more
    assert f"counts {ours.count:,} such" in cell("play-memcheck") and f"first {found.count}." in cell("play-memcheck")
    (text,) = [run["text"] for run in h200.checks if run["kernel"] == "no edge of A"]
    # 33 rows of 70 floats
    assert "and is 1 bytes after the nearest allocation at" in text and f"of size {33 * 70 * 4:,} bytes" in text


def test_synccheck_found_nothing_where_threads_left_early(h200):
    assert h200.findings("early return", "synccheck") == ()


def test_what_notebook_22_says_of_rung_6s_report_stands_in_it(h200):
    report, counts = h200.report("warp_tiles"), h200.counted.counts["warp_tiles"]
    known = nsight_compute.read_report(report)
    # 8 blocks for 132 multiprocessors; 4 warps of a block on one of them, where 64 have a place, and 4 schedulers
    assert f"Est. Speedup: {100 * (1 - 8 / 132):.2f}%" in report and cell("report-says").count("93.94%") == 1
    assert known["Occupancy"]["Achieved Occupancy"] == f"{100 * 4 / 64} %"
    assert known["Occupancy"]["Theoretical Occupancy"] == f"{100 * 4 * 4 // 64} %"
    assert known["Scheduler Statistics"]["Issued Warp Per Scheduler"] == "0.39"
    assert known["Warp State Statistics"]["Warp Cycles Per Issued Instruction"] == "2.56 cycle"
    assert "0.39 of the cycles, every 2.56th" in cell("report-says")
    shown = counters.hardware_only(counts)
    for figure in ("590,080", "0.42", "0.78", "0.12", "0.07"):
        assert figure in shown and figure in cell("report-says")
    assert counts["dram__bytes_write.sum"] == counts["l1tex__t_sector_hit_rate.pct"] == 0
    grid, _, _ = rung("warp_tiles").geometry(Gemm(4096, 4096, 4096))
    assert grid[0] * grid[1] == 2048


def test_the_counter_of_conflicts_has_the_surplus_of_rungs_3_and_4_and_what_the_emulator_has_above_the_least(h200):
    traces = {each.name: launch.trace(launch.of(each), CUBE) for each in RUNGS}
    text = predictions.shared_stores(traces, h200.counted, captures.fidelity(RUNGS, CUBE))
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[2:]}
    assert rows == {
        "shared_tiles": ["32,768", "32,768", "32,768", "0", "0"],
        "register_tiles_1d": ["16,384", "16,385", "16,385", "0", "1"],
        "register_tiles_2d": ["8,192", "8,531", "8,472", "0", "339"],
        "vectorized": ["16,384", "16,384", "16,384", "4,096", "4,096"],
        "warp_tiles": ["16,384", "16,384", "16,384", "4,096", "4,096"],
    }
    assert max(map(len, text.splitlines())) <= columns.WIDTH
    said = cell("stores-after")
    for figure in (8531 - 8192, 8472 - 8192):
        assert str(figure) in said
    none = predictions.shared_stores({"warp_tiles": traces["warp_tiles"]}, Counted("", {}), Counted("", {}))
    assert none.splitlines()[2].split()[1:] == ["16,384", "-", "-", "4,096", "-"]


# Predictions.

BY_HAND = {
    "naive": M * N * K // WARP * (32 + 1),
    "coalesced": M * N * K // WARP * (1 + 4),
    "shared_tiles": M * N * K // WARP * 2,
    "register_tiles_1d": M * N * K // WARP * (8 + 1) // 8,
    "register_tiles_2d": (M // 128) * (N // 128) * (K // 8) * (2 * 128 * 8) // WARP,
    "vectorized": M * N * K // (WARP * 8 * 8) * 12,
    "warp_tiles": M * N * K // (WARP * 8 * 8) * 8,
}


def test_each_rung_has_one_prediction_and_arithmetic_gives_the_emulators_count(emulated):
    assert [each.rung for each in PREDICTIONS] == [each.name for each in RUNGS]
    assert {each.rung: emulated[each.rung][each.metric] for each in PREDICTIONS} == BY_HAND


def test_the_h200_confirms_four_and_refutes_three_each_with_its_reason(emulated):
    text = predictions.one_a_rung(BY_HAND, emulated, captures.fidelity(RUNGS, CUBE))
    verdicts = {line.split()[0]: line for line in text.splitlines()[2:9]}
    refuted = {name for name, line in verdicts.items() if "refuted" in line}
    assert refuted == {"shared_tiles", "register_tiles_1d", "register_tiles_2d"}
    assert "confirmed" in verdicts["naive"] and "(e, h)" in verdicts["naive"]
    assert "(e)" in verdicts["shared_tiles"] and not any("(no)" in line for line in verdicts.values())
    assert text.count("\nshared_tiles, 0.6250 times as many: ptxas merges four") == 1  # 40 loads for 64
    assert text.count("\nregister_tiles_1d, 0.5556 times as many: ") == 1  # 40 for 72
    assert predictions.UNEXPLAINED not in text
    assert max(map(len, text.splitlines())) <= columns.WIDTH


def test_all_counts_but_six_are_confirmed_and_every_other_one_is_explained(emulated):
    text = predictions.summary(predictions.verdicts(emulated, captures.fidelity(RUNGS, CUBE)))
    assert text.startswith("42 of 48 counts confirmed; 0 not counted")
    assert predictions.UNEXPLAINED not in text
    assert max(map(len, text.splitlines())) <= columns.WIDTH


@pytest.mark.parametrize("name, metric", [("naive", LOAD_SECTORS), ("shared_tiles", SHARED_LOADS)])
def test_another_gpus_difference_is_not_explained_by_the_h200s(name, metric):
    (one,) = predictions.verdicts({name: {metric: 64}}, Counted("another", {name: {metric: 48}}))
    assert one.confirmed is False and one.why == predictions.UNEXPLAINED


def test_what_was_not_counted_is_a_dash_and_no_verdict(emulated):
    text = predictions.one_a_rung({}, emulated, Counted("nothing", {}))
    assert text.count("not counted") == 7 and "confirmed" not in text and "refuted" not in text


def test_a_prediction_is_shown_beside_the_counts_whatever_was_typed(emulated):
    text = predictions.one_a_rung({"naive": 7, "coalesced": "a lot"}, emulated, captures.fidelity(RUNGS, CUBE))
    assert "7 (no)" in text and "no number" in text and text.count("not attempted") == 5


# Of 72 loads 40 are left: 64^3 x (9 / 8) x 8 x 40 / 72 = 327,680 is what the H200 counted, 589,824 the emulator.
def test_who_predicts_what_the_hardware_counted_is_told_so(emulated):
    h200 = captures.fidelity(RUNGS, CUBE)
    text = predictions.one_a_rung({"register_tiles_1d": 327_680}, emulated, h200)
    assert "327,680 (h)" in text
    assert "589,824 (e)" in predictions.one_a_rung({"register_tiles_1d": 589_824}, emulated, h200)


def test_what_only_hardware_tells_is_shown_without_what_the_emulator_tells_too():
    text = counters.hardware_only({LOAD_SECTORS: 5, "dram__bytes_read.sum": 4096})
    first, rest = text.splitlines()
    assert first.split() == "How many bytes came from DRAM? 4,096".split()
    # Two of DRAM, two hit rates, one of issue, seven of waiting.
    assert rest == "not counted: 11 of the 12 figures that only hardware has"


def test_wavefronts_that_merged_loads_take_are_those_that_were_counted():
    counted = captures.fidelity(RUNGS, CUBE).counts["shared_tiles"]
    tiles = (M // 32) * (N // 32) * (K // 32) * 32  # tiles, and warps of each
    assert counted[LOAD_WAVEFRONTS] == tiles * (8 * 2 + 32)


def test_pictures_hold_what_the_table_says(emulated):
    figure = counter_pictures.ratios(emulated, captures.fidelity(RUNGS, CUBE))
    (axis,) = figure.axes
    points = [line for line in axis.lines if line.get_marker() not in ("None", "")]
    heights = [float(line.get_ydata()[0]) for line in points]
    assert len(heights) == 48 and sum(height == 1 for height in heights) == 42
    assert sorted(heights)[:2] == [pytest.approx(40 / 72)] * 2
    hollow = [line.get_markerfacecolor() for line in points].count("white")
    assert hollow == 6 and "NVIDIA H200, 2026-11-30" in axis.get_title()
    plt.close(figure)
    way = counter_pictures.way()
    words = {text.get_text() for text in way.axes[0].texts}
    assert {"smsp__", "l1tex__", "lts__", "dram__"} <= words
    plt.close(way)


# The exercises.


@pytest.mark.parametrize("number, check", list(enumerate(["whose", "conflict", "choose", "diagnose"], start=1)))
def test_a_stub_is_not_attempted_and_the_solution_is_accepted(number, check):
    judge = getattr(profiling_exercises, check)
    stub = re.search(r"= (\{.*?\n\})", cell(f"exercise-{number}-attempt"), re.DOTALL)
    keys = list(shown(number))
    assert stub and all(repr(key).strip("'\"") in stub[1] for key in keys)
    assert judge(dict.fromkeys(keys, ...)).startswith("not attempted")
    assert judge({}).startswith("not attempted")
    assert judge(shown(number)).startswith("accepted: ")
    first = {keys[0]: shown(number)[keys[0]]}
    assert "the rest is right" in judge(first)


@pytest.mark.parametrize(
    "check, attempt, evidence",
    [
        ("whose", {"launch 0": "vectorized"}, r"8,192 global loads of 4 sectors.*3,072 global loads of 16 sectors"),
        ("whose", {"launch 1": "coalesced"}, r"16\.5 sectors.*coalesced on the emulator.* of 2\.5 sectors"),
        ("whose", {"launch 2": "vectorized"}, r"2 wavefronts a shared load.*3 wavefronts a shared load"),
        ("whose", {"launch 3": 1}, r"there is no rung 1"),
        ("conflict", {"line": 5}, r"line 5 st\.shared, 32 requests, 32 wavefronts"),
        ("conflict", {"wavefronts of one load": 8}, r"8 shared loads and 256 wavefronts"),
        ("conflict", {"loads in the source for one load": 1}, r"32 loads in the source's loop, the profile has 8"),
        ("choose", {"How many bytes came from DRAM?": "dram__bytes_write.sum"}, r"How many bytes went to DRAM\?"),
        ("choose", {"How many bytes came from DRAM?": ["x"]}, r"is no metric of section 4"),
        ("diagnose", {"A": "not installed"}, r"the driver's no to a user"),
        ("diagnose", {"C": "nothing wrong"}, r"the kernel faulted"),
        ("diagnose", {"D": "who knows"}, r"none of not installed, not permitted"),
    ],
)
def test_a_wrong_attempt_is_refused_with_the_evidence(check, attempt, evidence):
    with pytest.raises(Refused, match=re.compile(evidence, re.DOTALL)):
        getattr(profiling_exercises, check)(attempt)


def test_the_conflicting_kernel_is_the_one_that_was_counted_on_the_h200():
    spec = importlib.util.spec_from_file_location("case", ROOT / "tests" / "cases" / f"{profiling_exercises.PADDED}.py")
    case = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(case)
    assert profiling_exercises.PADDED_SOURCE == case.SOURCE


def test_the_profile_of_exercise_1_names_no_kernel():
    text = profiling_exercises.hidden_profile()
    assert not any(each.name in text or each.entry in text for each in RUNGS)
    assert '"17,301,504"' in text


@pytest.mark.parametrize("check", ["whose", "conflict", "choose", "diagnose"])
@pytest.mark.parametrize("typed", [None, "naive", 3])
def test_what_is_no_dictionary_is_refused_in_words(check, typed):
    with pytest.raises(Refused, match="is no dictionary: keep the names"):
        getattr(profiling_exercises, check)(typed)
