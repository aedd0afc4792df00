"""Nbgrader alone, with its own exporter, gives the part that a check returns.

It runs a submission in the learner's own process: for a class that trusts its learners.
"""

import re
import subprocess
import sys

import nbformat
import pytest
import several
import tiny
from bs4 import BeautifulSoup
from classes import answered, hand_in, make_class
from nbgrader.api import Gradebook
from servers import jupyter_env

from grader import ROOT
from grader.lessons.release import checks, exercises

NAME = tiny.NAME
NEGATE = "def negate(x):\n    return 0 - x"
ANSWERS = {
    "ada": several.RIGHT,
    "bob": several.NO_FRACTIONS,  # which hidden cases alone can tell
    "cleo": several.WRONG,
    "dan": None,  # as it was released
}
POINTS = {"ada": 2, "bob": 1.67, "cleo": 0, "dan": 0}
BONUS = {"ada": 2, "bob": 2, "cleo": 2, "dan": 0}


def nbgrader(folder, *arguments, cwd=None):
    command = [sys.executable, "-m", "nbgrader", *arguments]
    env = jupyter_env(folder / "jupyter")
    run = subprocess.run(
        command, cwd=cwd or folder, env=env, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def settings_of_the_page():
    """Returns the settings that the handbook's page has."""
    page = (ROOT / "docs" / "handbook" / "other-doors.md").read_text()
    [settings] = re.findall(r"(?s)```python\n(import re\n.*?)```", page)
    return settings


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A class folder in which nothing but nbgrader has worked; negate is a bonus."""
    folder = tmp_path_factory.mktemp("stock")
    mark = 'points=2, essential=["negative"]'
    made = tiny.changed(several.CHECKS, (mark, f"{mark}, bonus=True"))
    lesson = make_class(folder, several.TEXT, checks=made)
    config = folder / "class" / "nbgrader_config.py"
    config.write_text(settings_of_the_page())
    nbgrader(folder / "class", "generate_assignment", NAME)
    for student, answer in ANSWERS.items():
        sources = {"double": answer, "negate": NEGATE} if answer else {}
        hand_in(folder, student, answered(lesson, **sources))
    nbgrader(folder / "class", "autograde", NAME)
    nbgrader(folder / "class", "generate_feedback", NAME)
    return folder / "class"


def test_a_missing_package_stops_nbgrader(course, tmp_path):
    missing = tmp_path / "packages" / "matplotlib.py"
    missing.parent.mkdir()
    missing.write_text("raise ModuleNotFoundError(\"No module named 'matplotlib'\")")
    run = subprocess.run(
        [sys.executable, "-m", "nbgrader", "autograde", NAME, "--force"],
        cwd=course,
        env=jupyter_env(tmp_path) | {"PYTHONPATH": str(missing.parent)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert run.stderr.startswith("No module named 'matplotlib'. Install it for ")


def notebook(course, *place):
    path = course.joinpath(*place, NAME, f"{NAME}.ipynb")
    return nbformat.read(path, as_version=4)


def test_a_released_check_is_exactly_one_line(course):
    released = notebook(course, "release")
    found = {name: cell.source for name, cell in checks(released).items()}
    assert found == {"double": 'check("double")', "negate": 'check("negate")'}
    for path in (course / "release").rglob("*.*"):
        if path.suffix in (".py", ".ipynb"):
            text = path.read_text()
            assert "rng.uniform(1, 2, 3)" not in text and "secret * x" not in text


def test_a_release_has_the_package_with_the_checks_of_its_lesson(course):
    folder = course / "release" / NAME / "coursekit"
    found = {path.name for path in (folder / "checks").glob("*.py")}
    assert found == {"__init__.py", f"{NAME}.py"}
    assert not (folder / "solutions").exists()


def test_autograding_puts_the_hidden_cases_back_and_runs_them(course):
    cell = checks(notebook(course, "autograded", "bob"))["double"]
    assert "rng.uniform(1, 2, 3)" in cell.source and "secret * x" in cell.source
    assert cell.source.endswith('### END HIDDEN TESTS\ncheck("double")')
    [output] = cell.outputs
    assert output.data["text/plain"] == "1.67"
    assert "partly right, 1.67 of 2 points" in output.data["text/html"]


def test_gradebook_has_the_fractions_and_a_bonus_as_extra_credit(course):
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "distributed-jax") as book:
        found = {
            one.student.id: {
                grade.name: (
                    grade.auto_score,
                    grade.max_score,
                    grade.extra_credit or 0,
                    grade.needs_manual_grade,
                )
                for grade in one.notebooks[0].grades
            }
            for one in book.assignment_submissions(NAME)
        }
    assert found == {
        student: {
            "check-double": (points, 2, 0, False),
            "check-negate": (0, 0, BONUS[student], False),
        }
        for student, points in POINTS.items()
    }


@pytest.mark.parametrize(
    ("student", "card"),
    [
        ("ada", "double right 2 of 2 points"),
        ("bob", "double partly right 1.67 of 2 points"),
        ("cleo", "double wrong 0 of 2 points"),
        ("dan", "double not attempted yet 0 of 2 points"),
    ],
)
def test_stock_feedback_shows_the_points_and_the_card(course, student, card):
    page = course / "feedback" / student / NAME / f"{NAME}.html"
    made = BeautifulSoup(page.read_bytes(), "html.parser")
    words = " ".join(made.get_text(" ").split())
    points = round(POINTS[student] + BONUS[student], 2)
    assert re.search(rf"Score: {float(points)} / 2(\.0)?\b", words)
    assert card in words
    assert "Traceback" not in words
    for hidden in ("rng . uniform", "secret", "HIDDEN TESTS"):  # as pages space them
        assert hidden not in words
    if student == "bob":
        assert "✗ fails: Fractions 0 of 0.33" in words
        assert "called double(1.5) seen 2" in words
        assert len(made("div", attrs={"role": "group"})) == 2


@pytest.mark.parametrize("is_right", [True, False], ids=["right", "as released"])
def test_validating_a_release_works(course, tmp_path, is_right):
    """The learner's own command, in the released folder."""
    made = notebook(course, "release")
    if is_right:
        exercises(made)["double"].source = several.NO_FRACTIONS
        exercises(made)["negate"].source = NEGATE
    place = course / "release" / NAME / "mine.ipynb"
    nbformat.write(made, place)
    try:
        said = nbgrader(course, "validate", "mine.ipynb", cwd=place.parent)
    finally:
        place.unlink()
    assert ("Success! Your notebook passes all the tests." in said) == is_right
    assert ("VALIDATION FAILED ON 1 CELL(S)!" in said) == (not is_right)
    assert "Traceback" not in said
