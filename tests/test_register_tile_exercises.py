"""The exercises of rungs 3 and 4: as the notebooks give them, their solutions, and wrong attempts that are refused."""

import ast
import json
import re
from pathlib import Path

import pytest

from gemmlab import nvrtc
from gemmlab.exercises import Refused, register_tile_exercises

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
STRIPS, MICRO = "03_register_tiles_1d", "04_register_tiles_2d"


def cell(notebook: str, name: str) -> str:
    cells = json.loads((NOTEBOOKS / f"{notebook}.ipynb").read_text(encoding="utf-8"))["cells"]
    return "".join(next(each["source"] for each in cells if each["id"] == name))


def solution(notebook: str, number: int, language: str) -> str:
    (block,) = re.findall(rf"```{language}\n(.*?)```", cell(notebook, f"exercise-{number}-answer"), re.DOTALL)
    return block


def shown_numbers(notebook: str, number: int) -> dict:
    (assignment,) = ast.parse(solution(notebook, number, "python")).body
    return ast.literal_eval(assignment.value)


def changed(source: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in source, f"{old!r} is not in the source"
        source = source.replace(old, new)
    return source


@pytest.fixture(scope="module")
def by_hand():
    return solution(STRIPS, 2, "cuda")


@pytest.mark.parametrize("notebook", [STRIPS, MICRO])
@pytest.mark.parametrize("number", [1, 2])
def test_an_exercise_as_the_notebook_gives_it_is_not_attempted_and_stops_nothing(notebook, number):
    printed = []
    given = cell(notebook, f"exercise-{number}-attempt")
    exec(given, {"register_tile_exercises": register_tile_exercises, "print": printed.append})
    (answer,) = printed
    assert answer.startswith("not attempted")


# Predictions.


@pytest.mark.parametrize(
    ("judge", "notebook"),
    [(register_tile_exercises.strips, STRIPS), (register_tile_exercises.micro_tiles, MICRO)],
    ids=[STRIPS, MICRO],
)
def test_the_prediction_shown_is_accepted_and_says_what_comes_next(judge, notebook):
    answer = judge(shown_numbers(notebook, 1))
    assert answer.startswith("accepted") and "Next: exercise 2" in answer


@pytest.mark.parametrize(
    ("row", "difference"),
    [
        ((64 * 64, 16, 1.125, 48), "threads of a block"),  # a thread an output
        ((512, 8, 1.125, 48), "FLOP a byte loaded"),  # rung 2's
        ((512, 16, 2, 48), "shared loads an FMA"),  # rung 2's
        ((512, 16, 9 / 16, 48), "shared loads an FMA"),  # as if A were reused as well
        ((512, 16, 1.125, 9), "registers"),  # the sums and the value of B alone
        ((512, 16, "few", 48), "shared loads an FMA"),
    ],
)
def test_a_wrong_prediction_for_a_strip_is_refused_beside_what_was_counted(row, difference):
    with pytest.raises(Refused, match=f"TM = 8: {difference}"):
        register_tile_exercises.strips({"64 x 64 x 8, TM = 8": row})


@pytest.mark.parametrize(
    ("row", "difference"),
    [
        ((16, 16, 0.5, 48), "threads of a block"),  # the outputs of a thread
        ((256, 32, 0.5, 48), "FLOP a byte loaded"),  # the tile of 128
        ((256, 16, 1.25, 48), "shared loads an FMA"),  # a strip of four
        ((256, 16, 0.5, 24), "registers"),  # sums and values alone
    ],
)
def test_a_wrong_prediction_for_a_micro_tile_is_refused_beside_what_was_counted(row, difference):
    with pytest.raises(Refused, match=f"4 x 4: {difference}"):
        register_tile_exercises.micro_tiles({"64 x 64 x 8, 4 x 4": row})


def test_a_prediction_begun_says_what_is_still_missing():
    answer = register_tile_exercises.strips({"64 x 64 x 8, TM = 8": (512, 16, ..., ...)})
    assert answer.startswith("not attempted: 64 x 64 x 8, TM = 8: shared loads an FMA")


# From 1D to 2D by hand.


def test_the_kernel_shown_is_accepted_and_so_is_a_square_of_neighbours(by_hand):
    neighbours = changed(
        by_hand,
        ("a0 = As[ty][k], a1 = As[ty + 16][k]", "a0 = As[2 * ty][k], a1 = As[2 * ty + 1][k]"),
        ("ty + 16 * i", "2 * ty + i"),
    )
    for attempt in (by_hand, neighbours):
        answer = register_tile_exercises.two_by_two(attempt)
        assert answer.startswith("accepted") and "rung 4" in answer


BARRIER = "        __syncthreads();\n"
STRIP_OF_FOUR = (
    ("a0 = As[ty][k], a1 = As[ty + 16][k]", ", ".join(f"a{i} = As[ty % 8 * 4 + {i}][k]" for i in range(4))),
    ("b0 = Bs[k][tx], b1 = Bs[k][tx + 16]", "b0 = Bs[k][tx + ty / 8 * 16]"),
    ("fmaf(a0, b1, sum01)", "fmaf(a1, b0, sum01)"),
    ("fmaf(a1, b0, sum10)", "fmaf(a2, b0, sum10)"),
    ("fmaf(a1, b1, sum11)", "fmaf(a3, b0, sum11)"),
    ("ty + 16 * i", "ty % 8 * 4 + 2 * i + j"),
    ("tx + 16 * j", "tx + ty / 8 * 16"),
)
FROM_GLOBAL = (
    ("As[ty][k]", "(row0 + ty < M && k0 + k < K ? A[(row0 + ty) * K + k0 + k] : 0.0f)"),
    ("As[ty + 16][k]", "(row0 + ty + 16 < M && k0 + k < K ? A[(row0 + ty + 16) * K + k0 + k] : 0.0f)"),
)


@pytest.mark.parametrize(
    ("pairs", "evidence"),
    [
        ([("a1 = As[ty + 16]", "a1 = As[ty]")], r"the rows from 16 on are wrong"),  # one row twice
        ([("b1 = Bs[k][tx + 16]", "b1 = Bs[k][tx]")], r"the columns from 16 on are wrong"),  # one column twice
        ([("fmaf(a1, b0, sum10)", "fmaf(a0, b1, sum10)")], r"wrong: of 992 outputs"),  # two sums exchanged
        (
            [("ty + 16 * i", "ty + 16 * j"), ("tx + 16 * j", "tx + 16 * i")],
            r"wrong: of 992 outputs",
        ),  # stored transposed
        ([("if (row < M && col < N) {", "{")], r"guard the access with the array.s bounds"),  # no mask on the store
        ([(f"{BARRIER}    }}", "    }")], r"by luck: line 18: .* nothing orders the two"),  # the second barrier
        ([(f"{BARRIER}\n", "\n")], r"by luck: line 24: .* nothing orders the two"),  # the first
        (STRIP_OF_FOUR, r"1\.25 shared loads an FMA, where 2 x 2 outputs need 1"),
        (FROM_GLOBAL, r"loads [\d,]+ bytes of A and B from global memory, where tiles of 32 x 32 need"),
    ],
    ids=["row", "column", "sums", "transposed", "mask", "second barrier", "first barrier", "strip", "global"],
)
def test_a_wrong_kernel_is_refused_with_the_evidence(by_hand, pairs, evidence):
    with pytest.raises(Refused, match=evidence):
        register_tile_exercises.two_by_two(changed(by_hand, *pairs))


def test_a_kernel_that_does_not_compile_brings_the_compilers_own_message(by_hand):
    with pytest.raises(nvrtc.CompileError, match="sum12"):
        register_tile_exercises.two_by_two(changed(by_hand, ("fmaf(a1, b1, sum11)", "fmaf(a1, b1, sum12)")))


# A budget of registers.


def test_the_choice_shown_is_accepted_and_so_is_its_mirror_image():
    shown = shown_numbers(MICRO, 2)
    mirrored = {budget: pair[::-1] for budget, pair in shown.items()}
    for chosen in (shown, mirrored):
        assert register_tile_exercises.register_budgets(chosen).startswith("accepted")


@pytest.mark.parametrize(
    ("budget", "pair", "evidence"),
    [
        (100, (8, 8), r"8 x 8 for 100 registers: the compiler takes \d+ registers"),
        (
            100,
            (4, 4),
            r"4 x 4 fits 100 registers, and makes 0\.5 shared loads an FMA; another one that fits makes 0\.375",
        ),
        (100, (2, 2), r"makes a block of 4096 threads, but a GPU takes at most 1024"),
        (100, (16, 8), r"16 x 8 for 100 registers: 128 sums and 16 \+ 8 values are 152 registers already"),
        (220, (8, 8), r"8 x 8 fits 220 registers, and makes 0\.25 .* makes 0\.1875"),
        (220, (16, 16), r"256 sums and 16 \+ 16 values are 288 registers already"),
        (220, (8, 12), r"TN is 12: choose from 1, 2, 4, 8, 16, 32"),
    ],
)
def test_a_choice_that_does_not_fit_or_is_not_the_best_is_refused_with_the_numbers(budget, pair, evidence):
    with pytest.raises(Refused, match=evidence):
        register_tile_exercises.register_budgets({budget: pair})


def test_one_budget_spent_is_not_yet_both():
    assert register_tile_exercises.register_budgets({100: (8, 4)}) == "not attempted: a micro-tile for 220 registers"
