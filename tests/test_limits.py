"""What holds each rung, and the exercises on it."""

import ast
import dataclasses
import json
import re
import statistics
from pathlib import Path

import pytest

from gemmlab import hierarchy, launch, limits, measured
from gemmlab.climb import climb
from gemmlab.exercises import NOT_ATTEMPTED, Refused, ladder_exercises
from gemmlab.gemm import Gemm
from gemmlab.ladder import RUNGS, rung

CUBE = Gemm(4096, 4096, 4096)
# A step of a warp of rung 0 touches 33 lines, one a cycle; a multiprocessor starts 4 warp-wide FMAs a cycle. In rungs 1
# to 3 loads of 4 bytes are as many as FMAs or twice that; from rung 4 on there are fewer than one for four FMAs.
BINDING = dict(
    naive="L1 and shared",
    coalesced="L1 and shared",
    shared_tiles="L1 and shared",
    register_tiles_1d="L1 and shared",
    register_tiles_2d="issue",
    vectorized="issue",
    warp_tiles="issue",
)
REFUTED = dict(
    zip(
        ladder_exercises.CLAIMS,
        (("naive", "coalesced"), ("register_tiles_2d", "vectorized"), ("vectorized", "warp_tiles")),
        strict=True,
    )
)


NOTEBOOK = json.loads((Path(__file__).parent.parent / "notebooks" / "20_ladder.ipynb").read_text(encoding="utf-8"))
CELLS = {cell["id"]: "".join(cell["source"]) for cell in NOTEBOOK["cells"]}


def folded_solution(number):
    """Return the answer that the notebook folds away."""
    (block,) = re.findall(r"```python\n(.*?)```", CELLS[f"exercise-{number}-answer"], re.DOTALL)
    (assignment,) = ast.parse(block).body
    return ast.literal_eval(assignment.value)


def printed_by_the_stub(number, **names):
    """Return what the cell of an exercise prints as the notebook has it."""
    printed = []
    exec(CELLS[f"exercise-{number}-attempt"], {"ladder_exercises": ladder_exercises, "print": printed.append, **names})
    return printed


@pytest.fixture(scope="module")
def record():
    (record,) = measured.runs(RUNGS, CUBE)
    return record


@pytest.fixture(scope="module")
def found(record):
    return limits.limits(RUNGS, CUBE, record)


@pytest.fixture(scope="module")
def run():
    return climb(RUNGS, Gemm(128, 128, 64))


def test_no_measured_speed_passes_its_modelled_bound(found):
    assert all(0 < limit.share <= 1 for limit in found)


def test_rung_0_reaches_its_bound_of_33_lines_a_step_at_1980_mhz(found):
    # 4096^3 / 32 steps of warps, 33 cycles each, over 132 multiprocessors at 1.98 GHz: 271 ms
    assert found[0].bounds.seconds == pytest.approx(4096**3 / 32 * 33 / (132 * 1.98e9), rel=0.01)
    assert found[0].share == pytest.approx(1, rel=0.05)


def test_a_rung_is_held_by_the_level_it_reaches_seven_tenths_of(found):
    held = {limit.rung.name: limit.held_by for limit in found}
    assert held == BINDING | {"register_tiles_2d": None}


def test_a_gain_is_the_next_rungs_speed_over_this_ones(found, record):
    before, after = (measured.timed(record)[name]["milliseconds"] for name in ("naive", "coalesced"))
    assert found[0].gain == pytest.approx(statistics.median(before) / statistics.median(after), rel=1e-4)
    assert found[-1].gain is None  # no rung follows


def test_without_a_record_the_bounds_stand_and_nothing_is_measured(found):
    (alone,) = limits.limits(RUNGS[:1], CUBE, None)
    assert (alone.measured, alone.share, alone.held_by, alone.gain) == (None, None, None, None)
    assert alone.bounds == found[0].bounds
    *_, row = limits.table([alone], None).splitlines()
    assert row.split()[-3:] == ["-", "-", "-"]


def test_the_table_names_card_shape_and_run_and_keeps_model_and_measurement_apart(found, record):
    about, sources, _, *rows = limits.table(found, record).splitlines()
    assert about == f"model: H200, 4096 x 4096 x 4096; measured: NVIDIA H200, {record.date}"
    assert sources.index("model") < sources.index("measured")
    assert [row.split()[1] for row in rows] == [rung.name for rung in RUNGS]
    first, second = (statistics.median(row["milliseconds"]) for row in record.rungs[:2])
    speed = 2 * 4096**3 / first / 1e9
    *_, measured_speed, share, gain, times = rows[0].split()
    assert (measured_speed, gain, times) == (f"{speed:.3f}", f"{first / second:.1f}", "times")
    assert share == f"{found[0].share:.0%}"


def test_the_bound_beside_a_measured_speed_is_that_of_the_tile_that_ran(record):
    other = {"BM": 64, "BN": 64, "BK": 8, "TM": 8, "TN": 8}  # not the one in tuned.TUNED
    rows = [row | ({"tile": other} if row["name"] == "register_tiles_2d" else {}) for row in record.rungs]
    (limit,) = limits.limits([rung("register_tiles_2d")], CUBE, dataclasses.replace(record, rungs=tuple(rows)))
    # Blocks of 64 x 64 read A and B 64 times each, twice as often as blocks of 128 x 128, and write C once: in sectors.
    assert hierarchy.counts(limit.kernel, CUBE).sectors == (2 * 64 + 1) * 4096**2 * 4 // 32


def test_a_problem_seen_before_is_bounded_without_another_trace(monkeypatch):
    traces, submission = [], launch.submission
    monkeypatch.setattr(launch, "submission", lambda *given: traces.append(given) or submission(*given))
    rungs, first, second = (rung("naive"), rung("vectorized")), Gemm(128, 128, 192, 0.75), Gemm(128, 128, 256, 0.75)
    there = limits.limits(rungs, first, None)
    seen = len(traces)
    limits.limits(rungs, second, None)
    moved = len(traces)
    back = limits.limits(rungs, first, None)
    assert 0 < seen <= moved == len(traces)
    assert [limit.bounds for limit in back] == [limit.bounds for limit in there]


def test_a_level_that_is_charged_with_nothing_allows_no_figure():
    # A, B and C of 1024 x 1024 are 12.6 MB, which the 60 MB of L2 keep from launch to launch.
    *_, row = limits.table(limits.limits(RUNGS[:1], Gemm(1024, 1024, 1024), None), None).splitlines()
    assert row.split()[2] == "-"


def test_demands_of_rungs_0_and_1_are_those_of_their_warps(found):
    _, _, _, naive, coalesced, *_ = limits.demands(found).splitlines()
    # Each step: a request of A and one of B, of 32 + 1 lines in naive, 1 + 1 in coalesced. A store to C, once in 4096
    # steps, does not show in three digits.
    assert naive.split()[2:4] == ["2.000", "33.000"]
    assert coalesced.split()[2:4] == ["2.000", "2.000"]


def test_exercise_1_stub_is_not_attempted_and_the_solution_is_accepted(found):
    (printed,) = printed_by_the_stub(1, on_h200=found)
    assert " ".join(printed.split()) == f"{NOT_ATTEMPTED}: {', '.join(BINDING)}"
    assert folded_solution(1) == BINDING
    assert ladder_exercises.binding(BINDING, found).startswith("accepted: 7 of 7")


@pytest.mark.parametrize(("name", "level"), [("warp_tiles", "FMA"), ("coalesced", "DRAM"), ("naive", "issue")])
def test_exercise_1_refuses_a_wrong_level_with_its_own_time_and_not_the_answer(found, name, level):
    with pytest.raises(Refused) as refused:
        ladder_exercises.binding(BINDING | {name: level}, found)
    said = str(refused.value)
    assert re.fullmatch(rf"{name}: {level} takes [\d.]+ ms, and another level takes longer", said)
    assert BINDING[name] not in said


@pytest.mark.parametrize("level", ["l1", None, 3, ("L2",), {}])
def test_exercise_1_names_the_levels_that_there_are_to_what_is_none(found, level):
    with pytest.raises(Refused, match=r"is no level; the levels are: DRAM, L2, L1 and shared, issue, FMA$"):
        ladder_exercises.binding(BINDING | {"naive": level}, found)


@pytest.mark.parametrize("given", [None, "L2", 7, ["L2"]])
def test_what_is_no_dict_is_refused_by_both_exercises(found, run, record, given):
    with pytest.raises(Refused, match="is no dictionary: keep the names"):
        ladder_exercises.binding(given, found)
    with pytest.raises(Refused, match="is no dictionary: keep the names"):
        ladder_exercises.refuted(given, run, record)


def test_a_misspelt_key_is_refused_with_the_keys(found, run, record):
    with pytest.raises(Refused, match="'warps' is no name of this exercise; the names are: naive; coalesced"):
        ladder_exercises.binding(BINDING | {"warps": "L2"}, found)
    with pytest.raises(Refused, match="'rung 0' is no name of this exercise"):
        ladder_exercises.refuted({"rung 0": ("naive", "coalesced")}, run, record)


def test_what_the_exercises_say_fits_the_page(found, run, record):
    said = [ladder_exercises.binding(BINDING, found), ladder_exercises.refuted(REFUTED, run, record)]
    said += [ladder_exercises.binding({}, found), ladder_exercises.refuted({}, run, record)]
    with pytest.raises(Refused) as refused:
        ladder_exercises.refuted(dict.fromkeys(REFUTED, ("vectorized", "vectorized")), run, record)
    assert all(len(line) <= 100 for text in [*said, str(refused.value)] for line in text.splitlines())


def test_exercise_1_counts_the_rungs_that_each_level_binds(found):
    said = ladder_exercises.binding(BINDING, found)
    assert said.startswith("accepted: 7 of 7. Of the rungs, L1 and shared binds 4, issue binds 3.")
    # of rungs 4 to 6 alone, another sentence
    last = {name: level for name, level in BINDING.items() if level == "issue"}
    assert "Of the rungs, issue binds 3." in ladder_exercises.binding(last, found[4:])


def test_exercise_1_refuses_a_wrong_level_among_gaps(found):
    with pytest.raises(Refused, match="naive"):
        ladder_exercises.binding({"naive": "DRAM"}, found)


def test_exercise_2_stub_is_not_attempted_and_the_solution_is_accepted(run, record):
    (printed,) = printed_by_the_stub(2, run=run, h200=record)
    assert " ".join(printed.split()) == f"{NOT_ATTEMPTED}: {', '.join(REFUTED)}"
    assert folded_solution(2) == REFUTED
    assert ladder_exercises.refuted(REFUTED, run, record).startswith("accepted: 3 of 3")


@pytest.mark.parametrize(
    "claim, pair, evidence",
    [
        (0, ("naive", "shared_tiles"), "the claim could still be true"),
        (1, ("register_tiles_2d", "register_tiles_1d"), "the claim could still be true"),
        (1, ("coalesced", "shared_tiles"), "must begin with 'register_tiles_2d'"),
        (2, ("vectorized", "vectorized"), "the claim could still be true"),
        (2, ("vectorized", "cuBLAS"), "is no pair of rungs"),
        (2, "vectorized", "is no pair of rungs"),
        (0, 7, "is no pair of rungs"),
    ],
)
def test_exercise_2_refuses_a_pair_that_does_not_refute_with_counts_and_speeds(run, record, claim, pair, evidence):
    name = list(REFUTED)[claim]
    with pytest.raises(Refused, match=evidence.replace(" ", r"\s")):
        ladder_exercises.refuted(REFUTED | {name: pair}, run, record)
