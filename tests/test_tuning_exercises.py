import itertools
import json
import re
from pathlib import Path

import pytest

from gemmlab.exercises import Refused, tuning_exercises
from gemmlab.exercises.tuning_exercises import restriction, under_budget


def solution(BM, BN, BK, WM, WN, TM, TN):
    if BM % WM or BN % WN or WM % TM or WN % TN or TM % 4 or TN % 4:
        return False
    rows, columns = WM // TM, WN // TN
    threads = 32 * (BM // WM) * (BN // WN)
    if rows * columns != 32 or rows % 2 or threads > 1024:
        return False
    if threads % (BK // 4) or threads % (BN // 4):
        return False
    whole_rows = BM % (threads // (BK // 4)) == 0 and BK % (threads // (BN // 4)) == 0
    return whole_rows and 4 * BK * (BM + 4 + BN) <= 49_152


def without(*rules):
    """The solution with some of its rules forgotten."""

    def attempt(BM, BN, BK, WM, WN, TM, TN):
        checks = {
            "whole warps": BM % WM == 0 and BN % WN == 0,
            "whole threads": WM % TM == 0 and WN % TN == 0,
            "quads": TM % 4 == 0 and TN % 4 == 0,
            "32 lanes": (WM // TM) * (WN // TN) == 32,
            "pairs of rows": (WM // TM) % 2 == 0,
            "threads": 32 * (BM // WM) * (BN // WN) <= 1024,
            "shared memory": 4 * BK * (BM + 4 + BN) <= 49_152,
        }
        if not all(holds for name, holds in checks.items() if name not in rules):
            return False
        threads = 32 * (BM // WM) * (BN // WN)
        whole = threads % (BK // 4) == 0 and threads % (BN // 4) == 0
        alike = threads > 0 and BM % (4 * threads / BK) == 0 and BK % (4 * threads / BN) == 0
        return (whole or "whole rows" in rules) and (alike or "loads" in rules)

    return attempt


SPACE = list(itertools.product(*tuning_exercises.SPACE.values()))
LEGAL = sum(solution(*values) for values in SPACE)


def test_the_solution_admits_exactly_the_legal_tiles():
    assert restriction(solution).startswith(f"accepted: {LEGAL} of {len(SPACE):,} combinations")
    assert restriction(without()).startswith("accepted")


def test_the_rungs_own_rule_is_accepted():
    assert restriction(lambda **tile: tuning_exercises.legal(**tile)).startswith("accepted")


@pytest.mark.parametrize(
    ("number", "name", "judge"), [(1, "restriction", restriction), (2, "best_under", under_budget)]
)
def test_the_notebooks_solution_is_accepted_and_its_stub_is_not_attempted(number, name, judge):
    notebook = json.loads((Path(__file__).parent.parent / "notebooks" / "23_tuning.ipynb").read_text(encoding="utf-8"))
    cells = {cell["id"]: "".join(cell["source"]) for cell in notebook["cells"]}
    (solved,) = re.findall(r"```python\n(.*?)```", cells[f"exercise-{number}-answer"], re.DOTALL)
    stub, _, _ = cells[f"exercise-{number}-attempt"].partition("\n\n\nprint(")
    for text, verdict in ((solved, "accepted"), (stub, "not attempted")):
        names = {}
        exec(text, names)
        assert judge(names[name]).startswith(verdict)


def test_a_stub_is_not_attempted():
    assert restriction(lambda **tile: ...).startswith("not attempted")
    assert under_budget(lambda found, registers: ...).startswith("not attempted")


@pytest.mark.parametrize(
    "forgotten",
    [
        "quads",
        "32 lanes",
        "pairs of rows",
        "whole rows",
        "loads",
        "whole warps",
        "shared memory",
    ],
)
def test_a_restriction_that_forgets_a_rule_is_refused_with_a_tile_and_the_rule(forgotten):
    with pytest.raises(Refused, match=r"It admits BM = \d+, .*\d"):
        restriction(without(forgotten))


def test_a_restriction_that_is_too_strict_is_refused_with_a_legal_tile():
    with pytest.raises(Refused, match=r"admits no illegal tile, but refuses \d+ of \d+ legal ones, such as BM = "):
        restriction(lambda **tile: solution(**tile) and tile["TM"] == tile["TN"])
    with pytest.raises(Refused, match=f"refuses {LEGAL} of {LEGAL}"):
        restriction(lambda **tile: False)


def test_a_restriction_that_raises_is_refused_with_the_tile():
    with pytest.raises(Refused, match=r"at BM = 32, .* it raised ZeroDivisionError"):
        restriction(lambda **tile: 1 // 0)


def fitting(found, registers):
    return [each for each in found if each.milliseconds and each.registers and each.registers <= registers]


def best(found, registers):
    fits = fitting(found, registers)
    return min(fits, key=lambda each: each.milliseconds).tile if fits else None


def test_the_fastest_tile_under_the_budget_is_accepted():
    assert under_budget(best).startswith("accepted")


def slowest(found, registers):
    fits = fitting(found, registers)
    return max(fits, key=lambda each: each.milliseconds).tile if fits else None


def without_a_budget(found, registers):
    return min((each for each in found if each.milliseconds), key=lambda each: each.milliseconds).tile


def first_in_the_list(found, registers):
    fits = fitting(found, registers)
    return fits[0].tile if fits else None


def failing_on_missing_times(found, registers):
    fits = [each for each in found if each.registers is not None and each.registers <= registers]
    return min(fits, key=lambda each: each.milliseconds).tile if fits else None


def taking_unknown_registers_for_none(found, registers):
    fits = [each for each in found if each.milliseconds and (each.registers or 0) <= registers]
    return min(fits, key=lambda each: each.milliseconds).tile if fits else None


@pytest.mark.parametrize(
    "attempt",
    [slowest, without_a_budget, first_in_the_list, failing_on_missing_times, taking_unknown_registers_for_none],
)
def test_a_wrong_choice_under_the_budget_is_refused_with_the_evidence(attempt):
    with pytest.raises(Refused, match="registers"):
        under_budget(attempt)


def test_what_is_no_yes_or_no_is_refused_as_it_stands():
    with pytest.raises(Refused, match=r"at BM = 32, .* it returned None, but must return True or False"):
        restriction(lambda **tile: None)


def test_a_measurement_in_place_of_its_tile_is_refused():
    with pytest.raises(Refused, match=r"the whole sweep, 128 registers: it returned Measurement\(.*, which is no tile"):
        under_budget(lambda found, registers: found[0])


def test_a_tile_that_was_never_timed_is_refused():
    with pytest.raises(Refused, match="is no tile of the sweep"):
        under_budget(lambda found, registers: {"BM": 1})
