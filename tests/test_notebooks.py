"""The form of the notebooks: kept tidy, and in one rhythm."""

import ast
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.ipynb"))}
RUNGS = {name: notebook for name, notebook in NOTEBOOKS.items() if int(name[:2]) < 20}
RHYTHM = (
    "",
    "The idea",
    "Predict",
    "The source",
    "Check",
    "Look",
    "Time, and the roofline",
    "Play",
    "Exercises",
    "Quiz",
)
TIDY = "make format tidies notebooks"

every_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS.values(), ids=NOTEBOOKS)
every_rung = pytest.mark.parametrize("notebook", RUNGS.values(), ids=RUNGS)


def sources(notebook: dict, kind: str) -> list[str]:
    """Return the text of each cell of a kind, 'markdown' or 'code'."""
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def prose(notebook: dict) -> str:
    return "\n\n".join(sources(notebook, "markdown"))


def sections(notebook: dict) -> list[str]:
    """Return the headings of the second level, without those in fenced blocks."""
    unfenced = re.sub(r"```.*?```", "", prose(notebook), flags=re.DOTALL)
    return re.findall(r"^## (.*)$", unfenced, re.MULTILINE)


def statements(notebook: dict) -> Iterator[list[ast.stmt]]:
    """Yield each list of statements in the notebook's code, those nested in others too."""
    for source in sources(notebook, "code"):
        for node in ast.walk(ast.parse(source)):
            for field in ("body", "orelse", "finalbody"):
                if isinstance(getattr(node, field, None), list):
                    yield getattr(node, field)


def called(statement: ast.stmt) -> str:
    """Return 'plotting.roofline' for a statement that only calls plotting.roofline(...), '' for any other."""
    is_call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    return ast.unparse(statement.value.func) if is_call else ""


@every_notebook
def test_a_notebook_holds_nothing_that_an_editor_left_in_it(notebook):
    assert set(notebook["metadata"]) == {"kernelspec"}, TIDY
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    for cell in notebook["cells"]:
        assert cell["metadata"] == {}, TIDY
        assert "".join(cell["source"]).strip(), f"cell {cell['id']} is empty"


@every_notebook
def test_each_cell_has_a_name_of_its_own_that_somebody_chose(notebook):
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))
    for name in ids:
        assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", name), (
            f"{name!r}: name the cell by what it holds, as in 'exercise-1'"
        )


@every_rung
def test_a_notebook_begins_with_what_it_gives_what_it_needs_and_how_long_it_takes(notebook):
    opening = sources(notebook, "markdown")[0]
    for promise in (r"^# \d+\. ", r"\*\*Afterwards you can\*\*", r"\*\*You need\*\*", r"\*\*Time\*\*.*minutes"):
        assert re.search(promise, opening, re.MULTILINE), promise


@every_rung
def test_the_sections_of_a_notebook_follow_one_rhythm(notebook):
    numbered = [heading for heading in sections(notebook) if heading[0].isdigit()]
    assert len(numbered) == len(RHYTHM)
    for number, (heading, word) in enumerate(zip(numbered, RHYTHM, strict=True), start=1):
        assert heading.startswith(f"{number}. {word}")


@every_rung
def test_a_notebook_ends_with_what_to_remember_the_next_bottleneck_and_its_sources(notebook):
    assert sections(notebook)[-2:] == ["Remember", "Sources"]
    assert "**The next bottleneck**" in prose(notebook)


@every_rung
def test_each_exercise_has_an_attempt_and_a_hint_and_a_solution_folded_away(notebook):
    numbers = re.findall(r"^### Exercise (\d+)", prose(notebook), re.MULTILINE)
    cells = {cell["id"]: "".join(cell["source"]) for cell in notebook["cells"]}
    assert numbers
    for number in numbers:
        assert "exercises." in cells[f"exercise-{number}-attempt"]
        answer = cells[f"exercise-{number}-answer"]
        folds = re.findall(r"<details><summary>(.*?)</summary>\n\n.*?\n\n</details>", answer, re.DOTALL)
        assert folds == ["Hint", "Solution"]


@every_rung
def test_each_question_of_the_quiz_has_an_answer_folded_away(notebook):
    (quiz,) = (text for text in sources(notebook, "markdown") if re.match(r"## \d+\. Quiz", text))
    questions = re.findall(r"^\*\*\d+\. ", quiz, re.MULTILINE)
    answers = re.findall(r"<details><summary>Answer</summary>\n\n.*?\n\n</details>", quiz, re.DOTALL)
    assert len(questions) == len(answers) in (2, 3)


@every_notebook
def test_each_figure_is_shown_by_the_statement_after_it(notebook):
    for body in statements(notebook):
        for statement, following in pairwise([*body, None]):
            if re.fullmatch(r"plotting\.[a-z_]+", called(statement)):
                assert following is not None and called(following) == "plt.show", ast.unparse(statement)


@pytest.mark.parametrize(
    "name",
    ["00_naive", "01_coalesced", "02_shared_tiles", "03_register_tiles_1d", "05_vectorized", "06_warp_tiles"],
)
def test_each_assertion_that_an_edited_kernel_may_fail_says_what_was_expected(name):
    for body in statements(NOTEBOOKS[name]):
        for statement in body:
            assert not isinstance(statement, ast.Assert) or statement.msg is not None, ast.unparse(statement)


@every_notebook
def test_no_line_of_code_hides_its_output_by_a_semicolon(notebook):
    for source in sources(notebook, "code"):
        in_strings = {
            line
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
            for line in range(node.lineno, node.end_lineno + 1)
        }
        for number, line in enumerate(source.splitlines(), start=1):
            assert number in in_strings or not line.rstrip().endswith(";"), line
