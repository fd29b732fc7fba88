"""The exercise on honest entries: the untouched stub, the solution, and what is said of each wrong judgement."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from gemmlab import columns, measured, measurements, record, records
from gemmlab.exercises import Refused, record_exercises
from gemmlab.gemm import Gemm
from gemmlab.measurements import Findings, Measurement
from gemmlab.record import Decision
from gemmlab.record.recorded import written
from gemmlab.records import Record
from gemmlab.timing import Timing

SOLUTION = {
    "A": "nothing was timed",
    "B": "within noise",
    "C": "honest",
    "D": "a race",
    "E": "another problem",
}


def test_an_untouched_stub_is_not_attempted():
    assert record_exercises.honest(dict.fromkeys("ABCDE", ...)) == "not attempted: A, B, C, D, E"
    assert record_exercises.honest(...).startswith("not attempted")
    assert record_exercises.honest({"C": "honest"}).endswith("the rest is right")


def test_the_solution_is_accepted():
    assert record_exercises.honest(SOLUTION).startswith("accepted: 5 of 5. Only C is honest")


@pytest.mark.parametrize(
    ("name", "said", "evidence"),
    [
        ("A", "honest", "nothing was timed"),
        ("B", "honest", "middle half of the samples at"),
        ("C", "within noise", "middle half of the samples at"),
        ("D", "honest", "race: 33 x 33 x 65"),
        ("E", "honest", "middle half of the samples at .*: register_tiles_2d .*, register_tiles_1d"),
        ("C", "a lie", "'a lie' is none of 'honest', 'nothing was timed', 'within noise', 'a race', 'another problem'"),
    ],
)
def test_a_wrong_judgement_is_refused_with_what_the_record_says(name, said, evidence):
    with pytest.raises(Refused, match=f"{name}: .*{evidence}"):
        record_exercises.honest(SOLUTION | {name: said})


def test_the_log_breaks_its_lines_between_words():
    lines = record_exercises.log().splitlines()
    assert max(map(len, lines)) <= 100
    assert " ".join(lines).replace("  ", " ") == " ".join(
        f"{name}. {entry.text}" for name, entry in record_exercises.entries().items()
    )


def test_an_entry_is_shown_field_by_field_in_lines_that_do_not_break():
    observed = ["64 x 64 x 64: " + "right, " * 20]
    first, *middle, last = record_exercises.entry_text({"kernel": "mine", "observed": observed, "despite": []}).split(
        "\n"
    )
    assert (first, last) == ("kernel    mine", "despite   -") and len(middle) == 2
    assert middle[0].startswith("observed  64 x 64 x 64: right,") and middle[1].startswith(" " * 10 + "right,")
    assert max(map(len, middle)) <= 100


def test_a_decision_of_ones_own_enters_the_log_and_is_shown_as_lines(folder):
    said = record_exercises.decided(folder, Decision("coalesced", "kept", "fewer sectors", against="naive"))
    assert "verdict   kept" in said.splitlines() and "despite   -" in said.splitlines()
    assert len(record.load(folder).decisions) == 1


@pytest.mark.parametrize(
    ("attempt", "said"),
    [
        (..., "write a record.Decision in place of the dots"),
        (Decision("coalesced", ..., ..., against="naive"), "the dots of verdict, why"),
    ],
)
def test_a_decision_with_a_dot_left_is_not_attempted_and_enters_no_log(attempt, said, folder):
    answer = record_exercises.decided(folder, attempt)
    assert answer.startswith("not attempted") and said in answer and record.load(folder).decisions == ()


@pytest.mark.parametrize(
    ("attempt", "said"),
    [
        ("kept", "'kept' is no decision"),
        (Decision("coalesced", "kept", None), "why is None, but must be a string"),
        (Decision("coalesced", "kept", 5), "why is 5, but must be a string"),
        (Decision("coalesced", "kept", "faster", despite=3), "despite is 3, but must be a tuple"),
        (Decision("coalesced", "kept", "faster", despite=None), "despite is None, but must be a tuple"),
        (Decision("coalesced", "kept", "faster", despite=([],)), "despite is .*, but must be a tuple"),
        (Decision(["coalesced"], "kept", "faster"), "has no kernel"),
        (Decision("coalesced", [], "faster"), "verdict is"),
    ],
)
def test_a_decision_of_something_else_is_refused_with_what_to_write(attempt, said, folder):
    with pytest.raises(Refused, match=said):
        record_exercises.decided(folder, attempt)
    assert record.load(folder).decisions == ()


def test_every_time_that_an_entry_quotes_is_the_median_of_a_shipped_measurement():
    medians = {
        (written(measured.problem_of(climb)), name, columns.significant(of.median_ms, 4))
        for climb in records.shipped()
        for name, of in measured.timings(climb).items()
    }
    for row in measurements.newest("values", measurements.SHIPPED).of("values"):
        name = f"a second run of {row.kernel}" if row.label.endswith(", again") else "the first"
        medians.add((written(row.problem), name, columns.significant(row.timing.median_ms, 4)))
    for letter in "BCE":
        text = record_exercises.entries()[letter].text
        quoted = re.search(r"^(.+) in place of (.+); for .* median (\S+) ms in place of (\S+) ms at (.*)\. Kept", text)
        new, old, after, before, problem = quoted.groups()
        assert {(problem, new, after), (problem, old, before)} <= medians


# Climbs that are made up, each with what is to be found in it.

CONDITIONS = {"alpha": 1.0, "beta": 0.0, "batch": 5, "warmup": 3, "cache": "warm L2", "boundary": "events"}


def climb(n, card="NVIDIA H200", **milliseconds):
    """A climb at n x n x n of rungs that took so long, with samples of 1% to either side."""
    rows = [
        {"name": name, "shape": [n] * 3, "milliseconds": [ms * (1 + each / 100) for each in range(-2, 3)], "batch": 5}
        for name, ms in milliseconds.items()
    ]
    fields = dict.fromkeys(Record.__dataclass_fields__, "")
    return Record(**fields | {"card": card, "date": "2026-12-01"} | {"conditions": CONDITIONS | CUBLAS, "rungs": rows})


CUBLAS = {"cublas_milliseconds": [0.5] * 5}
REVERSED = (
    climb(256, register_tiles_1d=0.1, register_tiles_2d=0.2),
    climb(2048, register_tiles_1d=4.0, register_tiles_2d=2.0),
)


@pytest.fixture
def shipping(monkeypatch):
    """Let gemmlab ship other climbs, and other measurements of notebook 21."""

    def ship(*climbs, findings=None):
        record_exercises.entries.cache_clear()
        monkeypatch.setattr(records, "shipped", lambda: climbs)
        monkeypatch.setattr(measurements, "newest", lambda *asked: findings)

    yield ship
    record_exercises.entries.cache_clear()


def test_the_entries_are_found_in_whatever_climbs_are_shipped(shipping):
    # Middle halves of 1% to either side meet where two medians differ by less than 2%.
    shipping(
        *REVERSED,
        climb(4096, vectorized=30.3, warp_tiles=30.0, coalesced=33.0),
        climb(1024, naive=0.02, vectorized=0.01),
    )
    entries = record_exercises.entries()
    assert "warp_tiles in place of vectorized; for 4096 x 4096 x 4096 (NVIDIA H200)." in entries["B"].text
    assert "median 30.00 ms in place of 30.30 ms at 4096 x 4096 x 4096." in entries["B"].text
    assert entries["B"].evidence.endswith("vectorized 30.00 to 30.60 ms, warp_tiles 29.70 to 30.30 ms")
    # 33.0 over 30.3 is the smallest gain beyond noise.
    assert "vectorized in place of coalesced; for 4096 x 4096 x 4096" in entries["C"].text
    assert "register_tiles_2d in place of register_tiles_1d; for 256 x 256 x 256" in entries["E"].text
    assert "median 2.000 ms in place of 4.000 ms at 2048 x 2048 x 2048." in entries["E"].text
    assert {letter: entry.verdict for letter, entry in entries.items()} == SOLUTION
    assert record_exercises.honest(SOLUTION).startswith("accepted: 5 of 5. Only C is honest")


def test_where_all_gains_are_beyond_noise_two_runs_of_one_kernel_show_what_noise_is(shipping):
    def row(label, *milliseconds):
        return Measurement("values", "warp_tiles", label, Gemm(8, 8, 8), Timing(milliseconds, 5, 3, "warm L2"))

    rows = (row("zeros", 3.0, 3.0, 3.0, 3.0), row("zeros, again", 4.0, 4.0, 4.0, 4.0))  # slower: nobody would boast
    rows += (row("uniform", 2.0, 2.1, 2.2, 2.3), row("uniform, again", 1.9, 2.1, 2.1, 2.2))
    found = Findings({"card": "NVIDIA H200", "date": "2026-12-03"}, rows)
    shipping(climb(2048, register_tiles_1d=4.0, register_tiles_2d=2.0), findings=found)
    entry = record_exercises.entries()["B"]
    assert entry.text.startswith("a second run of warp_tiles in place of the first; for 8 x 8 x 8 (NVIDIA H200).")
    assert "median 2.100 ms in place of 2.150 ms" in entry.text and entry.verdict == "within noise"
    lines = [line.split() for line in record_exercises.samples().splitlines()]
    # Quartiles of four samples, by linear interpolation.
    assert "the first 2.150 2.075 to 2.225".split() in lines
    assert "a second run of warp_tiles 2.100 2.050 to 2.125".split() in lines
    shipping(*REVERSED, climb(4096, vectorized=30.3, warp_tiles=30.0), findings=found)
    assert "vectorized" in record_exercises.entries()["B"].text and "second run" not in record_exercises.samples()


def test_a_gain_of_launches_that_the_host_holds_up_is_not_called_honest(shipping):
    shipping(climb(256, naive=0.02, coalesced=0.01))
    assert "C" not in record_exercises.entries()


def test_an_entry_that_no_climb_has_is_left_out_and_the_solution_still_accepted(shipping):
    shipping(climb(2048, register_tiles_1d=4.0, register_tiles_2d=2.0))
    assert set(record_exercises.entries()) == {"A", "C", "D"}
    assert record_exercises.honest(SOLUTION).startswith("accepted: 3 of 3. Only C is honest")
    shipping()
    assert set(record_exercises.entries()) == {"A", "D"}


def test_a_gain_on_one_card_is_not_held_against_another(shipping):
    shipping(
        climb(256, card="Tesla T4", register_tiles_1d=0.1, register_tiles_2d=0.2),
        climb(2048, register_tiles_1d=4.0, register_tiles_2d=2.0),
    )
    assert "E" not in record_exercises.entries()


def test_the_samples_of_the_named_rungs_stand_by_problem_and_climb(shipping):
    shipping(*reversed(REVERSED), climb(4096, naive=300.0))
    lines = record_exercises.samples().splitlines()
    assert [line for line in lines if line.startswith("2")] == [
        "256 x 256 x 256, measured: NVIDIA H200, 2026-12-01",
        "2048 x 2048 x 2048, measured: NVIDIA H200, 2026-12-01",
    ]
    assert "register_tiles_2d 2.000 1.980 to 2.020".split() in [line.split() for line in lines]
    assert "naive" not in record_exercises.samples() and "4096" not in record_exercises.samples()


@pytest.mark.parametrize("odd", [None, "honest", 3, ["honest"], float("nan"), 10**400])
def test_what_is_no_dictionary_of_judgements_is_refused(odd):
    with pytest.raises(Refused, match="is no dictionary"):
        record_exercises.honest(odd)


@pytest.mark.parametrize("odd", [None, 3, float("nan"), [], np.array(["honest", "honest"]), 10**400, "honest " * 99])
def test_a_judgement_that_is_none_is_refused_with_those_there_are(odd):
    with pytest.raises(Refused, match=r"^A: .{1,90} is none of 'honest', 'nothing was timed', 'within noise'"):
        record_exercises.honest({"A": odd})


def test_the_solution_that_the_notebook_folds_away_is_accepted():
    notebook = json.loads((Path(__file__).parent.parent / "notebooks" / "25_record.ipynb").read_text("utf-8"))
    (cell,) = (cell for cell in notebook["cells"] if cell["id"] == "exercise-1-answer")
    (solution,) = re.findall(r"```python\n(.*?)```", "".join(cell["source"]), re.DOTALL)
    names = {}
    exec(solution, names)
    assert names["attempt"] == SOLUTION and record_exercises.honest(names["attempt"]).startswith("accepted")
