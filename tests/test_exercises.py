import ast
import json
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from gemmlab import exercises, nvrtc
from gemmlab.exercises import (
    Refused,
    register_tile_exercises,
    shared_tile_exercises,
    vector_load_exercises,
    warp_tile_exercises,
)

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
EXERCISES = [(name, number) for name in ("00_naive", "01_coalesced") for number in (1, 2)]


def cell(notebook: str, cell_id: str) -> str:
    """Return the source of a cell of a notebook, by its id."""
    cells = json.loads((NOTEBOOKS / f"{notebook}.ipynb").read_text(encoding="utf-8"))["cells"]
    return "".join(next(each["source"] for each in cells if each["id"] == cell_id))


def answers(notebook: str, number: int) -> list[str]:
    """Return what the cell of an exercise prints, as the notebook has it."""
    printed = []
    exec(cell(notebook, f"exercise-{number}-attempt"), {"exercises": exercises, "print": printed.append})
    return printed


def shown(notebook: str, number: int, language: str) -> str:
    """Return the solution that the notebook folds away: its only fenced block of a language."""
    (block,) = re.findall(rf"```{language}\n(.*?)```", cell(notebook, f"exercise-{number}-answer"), re.DOTALL)
    return block


def shown_prediction(notebook: str, number: int) -> dict:
    (assignment,) = ast.parse(shown(notebook, number, "python")).body
    return ast.literal_eval(assignment.value)


def changed(source: str, old: str, new: str) -> str:
    assert old in source, f"{old!r} is not in the source"
    return source.replace(old, new)


@pytest.mark.parametrize("notebook, number", EXERCISES)
def test_an_exercise_as_the_notebook_gives_it_is_not_attempted_and_stops_nothing(notebook, number):
    (answer,) = answers(notebook, number)
    assert answer.startswith("not attempted")


def test_the_prediction_shown_for_block_shapes_is_accepted_and_says_what_comes_next():
    answer = exercises.block_shapes(shown_prediction("00_naive", 1))
    assert answer.startswith("accepted") and "Next: exercise 2" in answer


@pytest.mark.parametrize(
    "block, row, difference",
    [
        ((8, 4), (4, 8, 8, 1, 8), "8 x 4: rows"),  # rows and columns exchanged
        ((8, 4), (8, 4, 32, 1, 8), "8 x 4: sectors of A"),  # a sector a lane
        ((16, 16), (16, 16, 16, 1, 16), "16 x 16: columns"),  # the block's columns for the warp's
        ((16, 16), (16, 2, 16, 2, 16), "16 x 16: sectors of B"),  # a sector a column
        ((32, 32), (32, 1, 32, 1, 4), "32 x 32: sectors of C"),  # as if coalesced
        ((32, 32), (32, 1, math.nan, 1, 32), "32 x 32: sectors of A"),
        ((32, 32), (32, 1, "many", 1, 32), "32 x 32: sectors of A"),
    ],
)
def test_a_wrong_prediction_for_a_block_is_refused_beside_what_was_counted(block, row, difference):
    with pytest.raises(Refused, match=difference):
        exercises.block_shapes({block: row})


def test_a_prediction_begun_says_what_is_still_missing():
    answer = exercises.block_shapes({(8, 4): (8, 4, 8, 1, 8), (16, 16): (16, ..., ..., ..., ...)})
    assert answer.startswith("not attempted: 16 x 16: columns") and "32 x 32: rows" in answer
    assert "8 x 4: rows" not in answer


def test_a_refusal_does_not_give_away_what_was_not_predicted():
    with pytest.raises(Refused) as refusal:
        exercises.block_shapes({(8, 4): (9, ..., ..., ..., ...)})
    assert "columns" not in str(refusal.value) and "32 x 32" not in str(refusal.value)


TRANSPOSE = shown("00_naive", 2, "cuda")
STORE = "C[row * N + col] = value;"
GUARD = "    if (row >= M || col >= N)\n        return;\n"


def test_the_mended_kernel_that_the_notebook_shows_is_accepted():
    assert exercises.transposed(TRANSPOSE).startswith("accepted")


def test_a_comment_does_not_make_the_given_kernel_an_attempt():
    given = exercises.transposed_source()
    assert exercises.transposed("// mine\n" + given.replace("C[col * M", "C[ col*M ")).startswith("not attempted")


@pytest.mark.parametrize(
    "store, evidence",
    [
        ("C[col * N + row] = value;", r"line \d+: thread .* writes 4 bytes"),  # right for square C^T alone
        ("C[row * M + col] = value;", "wrong|writes"),  # right where M == N
        (
            "if (M == N) C[row * N + col] = value; else C[col * M + row] = value;",
            r"outside the error bound(.|\n)*the result equals \(A @ B\)\.T",
        ),
        ("C[row * N + col] = (float)K;", "outside the error bound"),  # hard-coded: right for ones
        ("C[row * N + col] = value + 1e-3f;", "outside the error bound"),
        ("C[row * N + col] = value * (0.0f / 0.0f);", "NaN"),
        ("if (row != col) C[row * N + col] = value;", "never written"),
        ("(void)value;", "never written"),
        ("C[row * N + col] = value + 0.0f * C[row * N + col];", "NaN"),  # reads C although beta == 0
        ("C[row * N + col] = sum;", "the result is A @ B"),  # forgets alpha and beta
    ],
)
def test_a_kernel_that_stores_the_wrong_thing_is_refused_with_the_evidence(store, evidence):
    with pytest.raises(Refused, match=evidence):
        exercises.transposed(changed(TRANSPOSE, STORE, store))


@pytest.mark.parametrize(
    "old, new, evidence",
    [
        (GUARD, "", r"line \d+: thread .* outside|bytes at byte"),
        ("k < K", "k < K - 1", "outside the error bound"),
        ("k < K", "k < 32", "outside the error bound|bytes at byte"),
        ("float sum = 0.0f;", "float sum = C[row * N + col];", "NaN"),
        ("fmaf(a, b, sum)", "a + b", "outside the error bound"),
        # 16 bits, which no small shape fills: 17 * 4096 + 16 elements and more
        ("A[row * K + k]", "A[(unsigned short)(row * K + k)]", "1 of 2 results are right"),
        ("B[k * N + col]", "B[(unsigned short)(k * N + col)]", "1 of 2 results are right"),
        (
            "C[row * N + col] = value",
            "C[(unsigned short)(row * N + col)] = value",
            "0 of 2 results (.|\n)*never written",
        ),
    ],
)
def test_a_kernel_with_another_mistake_is_refused_too(old, new, evidence):
    with pytest.raises(Refused, match=evidence):
        exercises.transposed(changed(TRANSPOSE, old, new))


def test_a_kernel_whose_blocks_race_is_refused_although_the_answer_came_out_right():
    with pytest.raises(Refused, match=r"right here, but by luck(.|\n)*nothing orders the two"):
        exercises.transposed(changed(TRANSPOSE, STORE, f"{STORE}\n    C[M * N - 1 - row * N - col] += 0.0f;"))


def test_a_syntax_error_of_an_attempt_is_the_compilers_own():
    with pytest.raises(nvrtc.CompileError, match=r'expected a ";"'):
        exercises.transposed(changed(TRANSPOSE, STORE, STORE.rstrip(";")))


BLOCK_1D = shown("01_coalesced", 1, "cuda")
ROW, COL = "blockIdx.x * 32 + threadIdx.x / 32", "blockIdx.y * 32 + threadIdx.x % 32"


def test_the_one_dimensional_block_that_the_notebook_shows_is_accepted():
    assert exercises.one_dimensional_block(BLOCK_1D).startswith("accepted")


def test_a_kernel_that_is_right_but_not_coalesced_is_refused_with_its_traffic():
    swapped = changed(changed(BLOCK_1D, "threadIdx.x / 32", "threadIdx.x @ 32"), "threadIdx.x % 32", "threadIdx.x / 32")
    with pytest.raises(Refused, match=r"right, but not coalesced: its loads move(.|\n)*32\.000"):
        exercises.one_dimensional_block(changed(swapped, "@", "%"))


SCATTERED_STORE = """
    tile[threadIdx.x / 32][threadIdx.x % 32] = sum;
    __syncthreads();
    const int r = blockIdx.x * 32 + threadIdx.x % 32;
    const int c = blockIdx.y * 32 + threadIdx.x / 32;
    if (r >= M || c >= N)
        return;
    float value = alpha * tile[threadIdx.x % 32][threadIdx.x / 32];
    if (beta != 0.0f)
        value = fmaf(beta, C[r * N + c], value);
    C[r * N + c] = value;
}
"""


def test_a_kernel_whose_store_alone_is_scattered_is_refused():
    # Each lane stores what another computed, whose row is the lane's column: the loads are coalesced, the store is not.
    kernel = changed(BLOCK_1D, GUARD, "    __shared__ float tile[32][33];\n")
    kernel = changed(kernel, "A[row * K + k]", "row < M ? A[row * K + k] : 0.0f")
    kernel = changed(kernel, "B[k * N + col]", "col < N ? B[k * N + col] : 0.0f")
    kernel = kernel[: kernel.index("    float value")] + SCATTERED_STORE
    with pytest.raises(Refused, match="right, but not coalesced: its stores move"):
        exercises.one_dimensional_block(kernel)


@pytest.mark.parametrize(
    "old, new, evidence",
    [
        (ROW, "blockIdx.x * 32", "never written"),
        (COL, "threadIdx.x % 32", "never written"),
        (ROW, "blockIdx.y * 32 + threadIdx.x / 32", "never written"),  # tiles along the wrong axis: right where square
        ("threadIdx.x / 32", "threadIdx.y", "never written"),
        ("C[row * N + col] = value;", "C[row * N + col] = 0.0f;", "outside the error bound"),
        ("C[row * N + col] = value;", 'C[row * N + col] = nanf("");', "NaN"),
        (GUARD, "", r"line \d+"),
    ],
)
def test_a_wrong_one_dimensional_block_is_refused_with_the_evidence(old, new, evidence):
    with pytest.raises(Refused, match=evidence):
        exercises.one_dimensional_block(changed(BLOCK_1D, old, new))


def test_the_prediction_shown_for_the_fifth_sector_is_accepted():
    assert exercises.fifth_sector(shown_prediction("01_coalesced", 2)).startswith("accepted")


@pytest.mark.parametrize(
    "name, guess",
    [("step 0", 5), ("step 1", 4), ("step 8", 5), ("steps 0 to 7 together", 40), ("floats in a padded row", 64)],
)
def test_a_wrong_prediction_for_the_fifth_sector_is_refused(name, guess):
    with pytest.raises(Refused, match=name):
        exercises.fifth_sector({name: guess})


def test_predictions_are_compared_with_counts_and_none_is_refused():
    table = exercises.compare(
        {"sectors": 8, "bytes": ..., "registers": 32}, {"sectors": 32, "bytes": 1056, "registers": 32}
    )
    lines = table.splitlines()[1:]
    assert lines[0].endswith("0.25 times as much")
    assert "not attempted" in lines[1] and lines[1].endswith("1,056")
    assert lines[2].endswith("as predicted")


@pytest.mark.parametrize("row", [5, (8, 4, 8, 1, 8, 9)])
def test_a_prediction_for_a_block_that_is_no_row_of_five_numbers_is_refused(row):
    with pytest.raises(Refused, match=r"block \(8, 4\): .* is no row of 5 numbers \(rows, columns"):
        exercises.block_shapes({(8, 4): row})


def test_a_prediction_is_compared_with_a_count_of_zero():
    assert exercises.compare({"conflicts": 3}, {"conflicts": 0}).split()[-1] == "differs"


def test_a_whole_number_is_written_to_its_last_digit():
    assert "1,081,344" in exercises.compare({}, {"wavefronts": 1081344.0})
    assert exercises.compare({"x": float("inf")}, {"x": 1}).splitlines()[1].split()[1] == "inf"


def test_a_refusal_shows_its_evidence_in_a_notebook_in_place_of_a_traceback():
    assert Refused("too many sectors")._render_traceback_() == ["Refused: too many sectors"]


def test_a_comparison_with_a_measurement_says_so():
    header, row = exercises.compare({"gain": 2}, {"gain": 2.5}, "measured").splitlines()
    assert header.split() == ["predicted", "measured"] and row.split()[:3] == ["gain", "2", "2.5"]


def test_what_was_found_is_shown_and_compared_to_the_digits_that_were_asked_for():
    # 3 / 2 to two decimals; a prediction of 1.5 is that number.
    rows = exercises.compare({"gain": 1.5, "other": 1.4}, {"gain": f"{3 / 2:.2f}", "other": "1.40"}).splitlines()[1:]
    assert rows[0].split() == ["gain", "1.5", "1.50", "as", "predicted"]
    assert rows[1].split() == ["other", "1.4", "1.40", "as", "predicted"]


# What is no answer.

JUDGES = (
    exercises.block_shapes,
    exercises.fifth_sector,
    shared_tile_exercises.intensity,
    register_tile_exercises.register_budgets,
    vector_load_exercises.counts,
    vector_load_exercises.least_conflicts,
    warp_tile_exercises.reuse,
)


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.__name__)
@pytest.mark.parametrize("given", [None, "12", 3, [1, 2]])
def test_what_is_no_dictionary_is_refused_with_what_to_write(judge, given):
    with pytest.raises(Refused, match="is no dictionary: keep the names"):
        judge(given)


@pytest.mark.parametrize("guess", ["1", None, [1], True])
def test_what_is_no_number_is_refused_as_such(guess):
    with pytest.raises(Refused, match="write a number"):
        exercises.judge_numbers({"loads": guess}, {"loads": 1}, "")
    assert exercises.compare({"loads": guess}, {"loads": 1}).endswith("write a number")


@pytest.mark.parametrize(
    ("guess", "written"),
    [(10**400, "over 1e+15"), (1e300, "1e+300"), (float("nan"), "nan"), (Fraction(10**400, 3), "over 1e+15")],
)
def test_a_number_out_of_all_proportion_is_refused_in_few_characters(guess, written):
    with pytest.raises(Refused) as refused:
        exercises.judge_numbers({"loads": guess}, {"loads": 3}, "")
    assert written in str(refused.value) and max(map(len, str(refused.value).splitlines())) < 80


def test_answers_in_words_are_judged_one_by_one_and_told_how_far_they_got():
    def judge(given):
        return exercises.judge_answers(
            given, ["a", "b"], lambda name, said: "" if said == name else f"not {said}", "Go."
        )

    assert judge(...) == judge({}) == judge({"a": ..., "b": ...}) == "not attempted: a, b"
    assert judge({"b": "b"}) == "not attempted: a; the rest is right"
    assert judge({"b": "b", "a": "a"}) == "accepted: 2 of 2. Go."
    with pytest.raises(Refused, match=r"^not x\nnot y$"):
        judge({"a": "x", "b": "y"})
    with pytest.raises(Refused, match=r"^not x$"):
        judge({"a": "x"})
    with pytest.raises(Refused, match="'c' is no name of this exercise; the names are: a; b"):
        judge({"c": "c"})


@pytest.mark.parametrize("answer", [None, [3], np.array([3, 3]), "3", ..., {}])
def test_what_is_neither_the_text_nor_the_number_is_not_the_same(answer):
    assert not exercises.same(answer, 3) and exercises.same(3.0, 3) and exercises.same(np.int32(3), 3)


def test_true_is_not_the_same_as_one():
    assert not exercises.same(True, 1) and exercises.same(1, 1)
