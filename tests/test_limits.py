"""What holds each rung, and the exercises on it."""

import ast
import json
import re
from pathlib import Path

import pytest

from gemmlab import limits, measured
from gemmlab.climb import climb
from gemmlab.exercises import NOT_ATTEMPTED, Refused, ladder_exercises
from gemmlab.gemm import Gemm
from gemmlab.ladder import RUNGS

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
    # 4096^3 / 32 steps of warps, 33 cycles each, over 132 multiprocessors at 1.98 GHz: 271 ms. 271.86 ms were measured.
    assert found[0].bounds.seconds == pytest.approx(4096**3 / 32 * 33 / (132 * 1.98e9), rel=0.01)
    assert found[0].share == pytest.approx(0.271 / 0.27186, rel=0.01)


def test_a_rung_is_held_by_the_level_it_reaches_seven_tenths_of(found):
    held = {limit.rung.name: limit.held_by for limit in found}
    assert held == BINDING | {"register_tiles_2d": None}


def test_a_gain_is_the_next_rungs_speed_over_this_ones(found):
    # 21.979 ms of rung 1 in 271.856 ms of rung 0; the last rung has none after it.
    assert found[0].gain == pytest.approx(271.856 / 21.979, rel=1e-4)
    assert found[-1].gain is None


def test_without_a_record_the_bounds_stand_and_nothing_is_measured(found):
    (alone,) = limits.limits(RUNGS[:1], CUBE, None)
    assert (alone.measured, alone.share, alone.held_by, alone.gain) == (None, None, None, None)
    assert alone.bounds == found[0].bounds
    *_, row = limits.table([alone], None).splitlines()
    assert row.split()[-3:] == ["-", "-", "-"]


def test_the_table_names_card_shape_and_run_and_keeps_model_and_measurement_apart(found, record):
    about, sources, _, *rows = limits.table(found, record).splitlines()
    assert about == "model: H200, 4096 x 4096 x 4096; measured: NVIDIA H200, 2026-11-30"
    assert sources.index("model") < sources.index("measured")
    assert [row.split()[1] for row in rows] == [rung.name for rung in RUNGS]
    assert rows[0].split()[-4:] == ["0.506", "100%", "12.4", "times"]


def test_demands_of_rungs_0_and_1_are_those_of_their_warps(found):
    _, _, _, naive, coalesced, *_ = limits.demands(found).splitlines()
    # Each step: a request of A and one of B, of 32 + 1 lines in naive, 1 + 1 in coalesced. A store to C, once in 4096
    # steps, does not show in three digits.
    assert naive.split()[2:4] == ["2.000", "33.000"]
    assert coalesced.split()[2:4] == ["2.000", "2.000"]


def test_exercise_1_stub_is_not_attempted_and_the_solution_is_accepted(found):
    assert printed_by_the_stub(1, on_h200=found) == [f"{NOT_ATTEMPTED}: {', '.join(BINDING)}"]
    assert folded_solution(1) == BINDING
    assert ladder_exercises.binding(BINDING, found).startswith("accepted: 7 of 7")


@pytest.mark.parametrize("wrong", [{"warp_tiles": "FMA"}, {"coalesced": "DRAM"}, {"shared_tiles": 3}])
def test_exercise_1_refuses_a_wrong_level_with_the_least_time_of_each(found, wrong):
    (name,) = wrong
    with pytest.raises(Refused, match=rf"{name}: .* is not what binds: DRAM .* ms, L2 .* ms, L1 and shared .* ms"):
        ladder_exercises.binding(BINDING | wrong, found)


def test_exercise_1_refuses_a_wrong_level_among_gaps(found):
    with pytest.raises(Refused, match="naive"):
        ladder_exercises.binding({"naive": "DRAM"}, found)


def test_exercise_2_stub_is_not_attempted_and_the_solution_is_accepted(run, record):
    assert printed_by_the_stub(2, run=run, h200=record) == [f"{NOT_ATTEMPTED}: {'; '.join(REFUTED)}"]
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
    with pytest.raises(Refused, match=evidence):
        ladder_exercises.refuted(REFUTED | {name: pair}, run, record)
