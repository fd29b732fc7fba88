import json
from pathlib import Path

import numpy as np
import pytest

from gemmlab import records
from gemmlab.exercises import Refused, roofline_exercises

NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "24_roofline.ipynb"


def solutions() -> list[str]:
    """The code of each solution that the notebook folds away."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    answers = ["".join(cell["source"]) for cell in cells if cell["id"].endswith("-answer")]
    return [answer.split("```python\n")[1].split("```")[0] for answer in answers]


def test_the_notebooks_solutions_are_accepted():
    least, tile = solutions()
    given: dict = {}
    exec(least, given)
    exec(tile, given)
    assert roofline_exercises.least_time(given["least"]).startswith("accepted")
    assert roofline_exercises.thin_tile(given["tile"]).startswith("accepted")


def test_a_bound_that_was_not_written_is_not_attempted():
    assert roofline_exercises.least_time(lambda levels: ...).startswith("not attempted")
    assert roofline_exercises.least_time(None).startswith("not attempted")


@pytest.mark.parametrize(
    ("attempt", "said"),
    [
        # rung 0 in ms: 0.03 + 271.2 + 6.2 + 2.1 = 279.4, while it is measured at hardly more than 271.2
        (
            lambda levels: sum(levels.values()),
            "naive: (you say at least 279.4 ms, but it was|279.4 ms follows from no)",
        ),
        (lambda levels: 2 * max(levels.values()), "naive: you say at least 542.4 ms, but it was measured at"),
        (lambda levels: min(levels.values()), "0.02884 ms, but L1 and shared alone takes 271.2 ms"),
        (lambda levels: levels["DRAM"], "0.02884 ms, but L1 and shared alone takes 271.2 ms"),
        (lambda levels: max(levels.values()) * 1.001, "follows from no level"),
        (lambda levels: levels["L1 and shared"], "register_tiles_2d: .* but issue alone takes 2.715 ms"),
        (lambda levels: max(levels), "'issue' is no number of milliseconds"),
        (lambda levels: float("nan"), "naive: you say at least nan ms"),
        (lambda levels: levels["L3"], "naive: there is no level 'L3'; the keys are DRAM, L1 and shared, issue, FMA"),
        (lambda levels: 10**400, "naive: 10{79}... is no number of milliseconds"),
        (lambda levels: -(10**400), "naive: -10{78}... is no number of milliseconds"),
        (lambda levels: levels.pop(), "naive: it raised TypeError: pop expected at least 1 argument"),
        ("max", "'max' is no function: write def least"),
        ("x" * 10**6, "'x{79}... is no function: write def least"),
        (lambda levels: None, "None is no number of milliseconds"),
    ],
)
def test_a_wrong_bound_is_refused_with_a_rung_and_a_number(attempt, said):
    with pytest.raises(Refused, match=said):
        roofline_exercises.least_time(attempt)


@pytest.mark.parametrize("tile", [..., None, {}, {"BM": ...}])
def test_a_tile_that_was_not_chosen_is_not_attempted(tile):
    assert roofline_exercises.thin_tile(tile).startswith("not attempted")


@pytest.mark.parametrize(
    ("tile", "said"),
    [
        ({"BK": 16}, "yours: at least 0.143 ms by issue, 48% busy"),  # the default: 64 blocks on 132 multiprocessors
        ({"BM": 128, "BN": 128}, "32 blocks|24% busy"),
        ({"BM": 32, "BN": 32}, "by L1 and shared, 97% busy"),
        ({"BM": 64, "BN": 64, "TM": 4, "TN": 4}, "by L1 and shared"),
        ({"BM": 48}, "BM"),
        ("64 x 64", "'64 x 64' is no tile: write a dict"),
        (np.array([64, 64]), r"array\(\[64, 64\]\) is no tile: write a dict"),
        ({"BM": np.array([64, 64])}, "BM"),
        ({"WM": 32}, "has no tile parameter 'WM'"),
    ],
)
def test_a_tile_that_does_not_help_is_refused_with_what_binds(tile, said):
    with pytest.raises(Refused, match=said):
        roofline_exercises.thin_tile(tile)


def test_a_missing_record_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setattr(records, "shipped", lambda: ())
    with pytest.raises(
        ValueError, match=r"no record of all 7 rungs at 4096 x 4096 x 4096 on an H200.*install gemmlab anew"
    ):
        roofline_exercises.least_time(lambda levels: 1.0)
