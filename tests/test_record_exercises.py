"""The exercise on honest entries: the untouched stub, the solution, and what is said of each wrong judgement."""

import pytest

from gemmlab import record, records
from gemmlab.exercises import Refused, record_exercises
from gemmlab.record import Decision, recorded

SOLUTION = {
    "A": "nothing was timed",
    "B": "within noise",
    "C": "honest",
    "D": "a race",
    "E": "another problem",
}


def test_an_untouched_stub_is_not_attempted():
    assert record_exercises.honest(dict.fromkeys("ABCDE", ...)) == "not attempted: A, B, C, D, E"
    assert record_exercises.honest({"C": "honest"}) == "not attempted: A, B, D, E; the rest is right"


def test_the_solution_is_accepted():
    assert record_exercises.honest(SOLUTION).startswith("accepted: one of five")


@pytest.mark.parametrize(
    ("name", "said", "evidence"),
    [
        ("A", "honest", "nothing was timed"),
        ("B", "honest", r"vectorized 0\.3996 to 0\.4017 ms, warp_tiles 0\.3966 to 0\.4003 ms"),
        ("C", "within noise", r"vectorized 3\.031 to 3\.036 ms, warp_tiles 2\.995 to 2\.998 ms"),
        ("D", "honest", "race: 33 x 33 x 65"),
        ("E", "honest", r"at 256 x 256 x 256: register_tiles_1d 0\.02578 to .*, register_tiles_2d 0\.05169 to"),
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
    with pytest.raises((ValueError, Refused), match=said):
        record_exercises.decided(folder, attempt)
    assert record.load(folder).decisions == ()


def test_every_time_that_an_entry_quotes_was_measured():
    rows = {
        (file.stem.rpartition("_")[2], row["name"]): row["milliseconds"]
        for file in records.SHIPPED.glob("*.json")
        for row in records.load(file).rungs
    }
    for name, size, new, old in (
        ("B", "2048", "warp_tiles", "vectorized"),
        ("C", "4096", "warp_tiles", "vectorized"),
        ("E", "4096", "register_tiles_2d", "register_tiles_1d"),
    ):
        for kernel in (new, old):
            low, high = recorded.middle_half(rows[size, kernel])
            (quoted,) = [
                float(word)
                for word in record_exercises.entries()[name].text.split()
                if word.replace(".", "").isdigit() and "." in word and low <= float(word) <= high
            ]
            assert quoted
