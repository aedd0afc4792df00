"""Work that is partly right gets its fraction, wherever a class shows points."""

import csv
import re

import nbformat
import pytest
import several
import tiny
from bs4 import BeautifulSoup
from classes import answered, hand_in, is_trusted, make_class, printed
from nbgrader.api import Gradebook
from nbgrader.utils import determine_grade

from grader.__main__ import main, parse
from grader.classroom.course import make_course
from grader.classroom.explain import explain
from grader.classroom.export import export
from grader.classroom.final_result import with_points
from grader.classroom.grade import grade
from grader.lessons.release import checks
from grader.results import ExerciseResult, Outcome

NAME = tiny.NAME
NEGATE = "def negate(x):\n    return 0 - x"
ANSWERS = {
    "ada": several.RIGHT,
    "bob": several.NO_FRACTIONS,
    "cleo": several.TWO_FAIL,
    "dan": several.WRONG,
}
KOREAN = "cleo"  # the language of her notebook
POINTS = {"ada": 2, "bob": 1.67, "cleo": 1.33, "dan": 0}


def run(command, *arguments, **options):
    if command is grade:
        options = {"trusted": is_trusted(), "workers": 2} | options
    status, lines = printed(command, *arguments, **options)
    assert status == 0
    return lines.text


def make(folder, **options):
    """Makes a class of four, which is not graded yet."""
    changes = {"checks": several.CHECKS}
    lesson = make_class(folder, several.TEXT, **changes, **options)
    for student, answer in ANSWERS.items():
        notebook = answered(lesson, double=answer, negate=NEGATE)
        if student == KOREAN:
            notebook.cells[0].source += "\n\n`%env COURSE_LANGUAGE=ko`"
        hand_in(folder, student, notebook)
    return folder / "class"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = make(tmp_path_factory.mktemp("partly"))
    run(grade, made)
    return made


def words(path):
    text = BeautifulSoup(path.read_bytes(), "html.parser").main.get_text(" ")
    return " ".join(text.split())


def marks(folder):
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}", "distributed-jax") as book:
        found = {}
        for one in book.assignment_submissions(NAME):
            grades = {grade.name: grade.auto_score for grade in one.notebooks[0].grades}
            assert grades["check-negate"] == 2
            found[one.student.id] = (grades["check-double"], round(one.score, 2))
    return found


def test_gradebook_has_the_fractions(folder):
    assert marks(folder) == {who: (n, round(n + 2, 2)) for who, n in POINTS.items()}


@pytest.mark.parametrize("student", POINTS)
def test_autograded_notebook_says_the_points_as_stock_nbgrader_reads_them(
    folder, student
):
    path = folder / "autograded" / student / NAME / f"{NAME}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    cell = checks(notebook)["double"]
    assert cell.source == 'check("double")'
    assert determine_grade(cell) == (POINTS[student], 2)
    [output] = cell.outputs
    assert output.data["text/plain"] == f"{POINTS[student]:g}"
    assert f"{POINTS[student]:g} of 2 points" in output.data["text/html"]
    assert "rng" not in path.read_text() and "HIDDEN" not in path.read_text()


def test_feedback_page_shows_the_fraction_and_what_each_statement_gives(folder):
    text = words(folder / "feedback" / "bob" / NAME / f"{NAME}.html")
    assert "3.67 of 4 points" in text
    assert "double Partly right 1.67 of 2 points" in text
    for part in (
        "✓ holds: Twice essential",
        "✓ holds: Negative numbers 0.33",
        "✗ fails: Fractions 0 of 0.33",
        "called double(1.5) seen 2",
        "✓ holds: Arrays 0.33",
    ):
        assert part in text


def test_feedback_is_in_the_language_of_the_notebook(folder):
    text = words(folder / "feedback" / KOREAN / NAME / f"{NAME}.html")
    assert "cleo님의 피드백 4점 중 3.33점 채점 완료" in text
    assert "double 일부 맞음 2점 중 1.33점 ✓ 통과: Twice 필수" in text


def test_an_essential_failure_leaves_no_points_and_hidden_cases_untried(folder):
    text = words(folder / "feedback" / "dan" / NAME / f"{NAME}.html")
    assert "double Wrong 0 of 2 points ✗ fails: Twice essential" in text
    assert len(re.findall(r"not tried: (Fractions|Arrays) \(", text)) == 2


def test_class_report_counts_how_many_fail_each_statement(folder):
    page = folder / "grading" / "report" / f"{NAME}.html"
    made = BeautifulSoup(page.read_bytes(), "html.parser")
    [heading] = [h for h in made("h2") if h.get_text() == "Statements that fail"]
    rows = [
        [cell.get_text(" ", strip=True) for cell in row(["th", "td"])]
        for row in heading.find_next("table")("tr")
    ]
    assert rows[1:] == [
        ["double"],
        ["1", "4 answers", "twice (essential) The result is wrong. (dan)"],
        ["2", "4 answers", "negative numbers The result is wrong. (cleo)"],
        ["2", "3 answers", "fractions The result is wrong. (bob)"],
    ]
    assert "Median 3.5, mean 3.25, of 4" in words(page)


def test_exports_have_the_fractions(folder, tmp_path):
    path = tmp_path / "grades.csv"
    export(folder, path)
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = {row["student"]: row["score"] for row in csv.DictReader(file)}
    assert rows == {"ada": "4", "bob": "3.67", "cleo": "3.33", "dan": "2"}


def test_explain_shows_the_card(folder):
    text = run(explain, folder, "bob", "1")
    assert text.splitlines()[0] == "bob 01_tiny: GRADED            3.67 of 4"
    said = " ".join(text.split())
    assert "double partly right 1.67 of 2 points ✓ twice essential" in said
    assert "✗ fractions 0 of 0.33" in said and "called double(1.5)" in said
    assert "✓ arrays 0.33" in said


@pytest.mark.parametrize(
    ("points", "outcome", "share"),
    [(2, Outcome.PASSED, 1), (0.5, Outcome.PARTLY, 0.25), (0, Outcome.FAILED, 0)],
)
def test_what_a_person_gives_is_right_partly_right_or_wrong(points, outcome, share):
    was = ExerciseResult("double", Outcome.FAILED, 0, 2, worth=2, message="It is off.")
    now = with_points(was, points)
    assert (now.outcome, now.points, now.share) == (outcome, points, share)
    assert now.message == ("A person gave these points." if points < 2 else "")


def test_helper_cell_that_calls_the_check_keeps_its_points(tmp_path):
    lesson = make_class(tmp_path, several.TEXT, checks=several.CHECKS)
    uses = "def double(x):\n    return twice(x)"
    notebook = answered(lesson, double=uses, negate=NEGATE)
    place = [cell.id for cell in notebook.cells].index("double")
    helper = 'def twice(x):\n    return x + x\n\n\ncheck("double")'
    notebook.cells.insert(place, nbformat.v4.new_code_cell(helper))
    hand_in(tmp_path, "eve", notebook)
    run(grade, tmp_path / "class")
    assert marks(tmp_path / "class") == {"eve": (2, 4)}


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """The same class, all or nothing."""
    made = make(tmp_path_factory.mktemp("strict"), all_or_nothing=True)
    run(grade, made)
    return made


def test_all_or_nothing_gives_all_points_or_none(strict):
    expected = {"ada": (2, 4)} | {who: (0, 2) for who in ("bob", "cleo", "dan")}
    assert marks(strict) == expected


def test_all_or_nothing_shows_all_statements_as_essential(strict):
    text = words(strict / "feedback" / "bob" / NAME / f"{NAME}.html")
    assert "double Wrong 0 of 2 points" in text
    assert "✓ holds: Negative numbers essential ✗ fails: Fractions essential" in text


SETTING = "partial_credit=False"


def setup_of(folder):
    path = folder / "source" / NAME / f"{NAME}.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    return next(cell.source for cell in cells if cell.id == "setup")


@pytest.mark.parametrize(
    ("before", "asked", "after"),
    [
        (True, None, True),
        (None, None, False),
        (True, False, False),
        (None, True, True),
    ],
    ids=["kept", "kept off", "turned off", "turned on"],
)
def test_an_update_keeps_the_setting_unless_asked(tmp_path, before, asked, after):
    make_class(tmp_path, all_or_nothing=before)
    folder, course = tmp_path / "class", tmp_path / "course"
    assert (SETTING in setup_of(folder)) == bool(before)
    make_course(folder, update=True, all_or_nothing=asked, root=course)
    assert (SETTING in setup_of(folder)) == after
    compile(setup_of(folder), "setup", "exec")


def test_the_command_makes_such_a_class_of_our_lessons(tmp_path, capsys):
    assert parse(["course", "x"]).all_or_nothing is None
    folder = tmp_path / "class"
    assert main(["course", str(folder), "--all-or-nothing"]) == 0
    for path in folder.glob("source/*/*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        [text] = [cell.source for cell in cells if cell.id == "setup"]
        assert text.count(f", {SETTING})\n") == 1


def test_setup_that_cannot_be_asked_is_named(tmp_path):
    tiny.lesson(tmp_path / "course", setup=tiny.SETUP_WITHOUT_JAX)
    with pytest.raises(ValueError, match=r"does not call setup\.with_devices"):
        make_course(tmp_path / "class", all_or_nothing=True, root=tmp_path / "course")
