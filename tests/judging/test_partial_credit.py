"""Credit for what holds: the grader and nbgrader's own rule give the same number."""

import contextlib

import pytest
import tiny
from classes import answered, is_trusted
from nbgrader.utils import determine_grade

from grader.classroom.publishing import autograded_notebook
from grader.containment.limits import Limits
from grader.judging.grade_submission import grade_submission
from grader.judging.judge_process import JudgeProcess
from grader.lessons.release import checks, dumps
from grader.pages.feedback import feedback_page
from grader.results import Outcome, Status, from_json, to_json
from grader.submissions.read_submission import parse_submission

STATED = """\
@visible(
    "double",
    points=5,
    essential=["twice"],
    others=["of a list", "of a text", "of nothing", "leaves a list as it was"],
)
def examples_of_double():
    with statement("twice"):
        expect_close(observe(double, 3), 6)
    with statement("of a text"):
        expect_close(observe(double, "a"), "aa")
    seen = observe(double, [1, 2])
    with statement("of a list"):
        expect_close(seen, [1, 2, 1, 2])
    with statement("leaves a list as it was"):
        expect_unchanged(seen)


@hidden("double")
def cases_of_double():
    with statement("twice"):
        expect_close(observe(double, -7), -14)
    with statement("of nothing"):
        expect_close(observe(double, []), [])"""
OWN = tiny.CHECKS[tiny.CHECKS.index("@visible") : tiny.CHECKS.index('@visible("neg')]
CHECKS = tiny.changed(
    tiny.CHECKS,
    (OWN, f"{STATED}\n\n\n"),
    ('"negate", points=2', '"negate", points=2, bonus=True'),
    ("import expect_close", "import expect_close, expect_unchanged"),
)
STATEMENTS = """\
# - [twice] `double(x)` returns twice `x`.
# - [of a list] Of a list it returns its items twice.
# - [of a text] So it does of a text.
# - [of nothing] And of an empty list.
# - [leaves a list as it was] A list that it gets stays as it was."""
TEXT = ("# - [twice] `double(x)` returns twice `x`.", STATEMENTS)
IN_PLACE = """\
def double(x):
    x *= 2
    return x"""
NUMBERS_ONLY = """\
def double(x):
    return 2 * x if isinstance(x, int) else None"""
ENDS = """\
import os


def double(x):
    if x == []:
        os._exit(0)
    return x + x"""
# What an answer gets, and how its statements stand: see STATED for their order.
ANSWERS = {
    "all": ("def double(x):\n    return x + x", 5, "holds holds holds holds holds"),
    "in place": (IN_PLACE, 4.38, "holds holds holds holds fails"),
    "numbers only": (NUMBERS_ONLY, 3.12, "holds fails fails fails holds"),
    "not negative": (
        "def double(x):\n    return x + abs(x) if isinstance(x, int) else x + x",
        0,
        "fails holds holds untried holds",
    ),
    "ends in the last case": (ENDS, 0, ""),
}
NEGATE = "def negate(x):\n    return 0 - x"


def judge_of(lesson):
    return contextlib.closing(JudgeProcess(lesson, trusted=is_trusted()))


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course") / "course"
    return tiny.lesson(folder, TEXT, checks=CHECKS)


@pytest.fixture(scope="module")
def judge(lesson):
    with judge_of(lesson) as judge:
        yield judge


def graded(lesson, judge, *changes, **sources):
    """Grades answers; `changes` are parts of the file that are replaced."""
    text = tiny.changed(dumps(answered(lesson, **sources)), *changes)
    submitted = parse_submission(text.encode())
    return grade_submission(
        submitted, lesson, tiny.NAME, judge, Limits(), trusted=is_trusted()
    )


def given_by_nbgrader(lesson, result):
    """Maps exercises to what nbgrader reads off the autograded notebook."""
    cells = checks(autograded_notebook(lesson, result)).items()
    return {name: determine_grade(cell) for name, cell in cells}


@pytest.mark.parametrize("case", ANSWERS.values(), ids=ANSWERS.keys())
def test_an_answer_gets_the_points_of_what_holds(lesson, judge, case):
    source, points, standings = case
    result = graded(lesson, judge, double=source, negate=NEGATE)
    double, negate = result.exercises
    assert result.status is Status.GRADED
    assert [one.standing for one in double.statements] == standings.split()
    assert (double.points, double.worth) == (points, 5)
    assert double.points == round(5 * double.share, 2)
    whole = {5: Outcome.PASSED, 0: Outcome.FAILED if standings else Outcome.RAISED}
    assert double.outcome is whole.get(points, Outcome.PARTLY)
    assert (negate.points, negate.max_points, negate.worth) == (2, 0, 2)
    assert (result.points, result.max_points) == (points + 2, 5)
    assert from_json(to_json(result)) == result

    assert given_by_nbgrader(lesson, result) == {
        "double": (points, 5),
        "negate": (0, 0),
    }
    page = feedback_page(result, title="Tiny", student="ada").lower()
    assert f"{points:g} of 5 points" in page
    for one in double.statements:
        assert one.name in page  # a card may begin it with a capital letter


def test_a_neighbour_costs_no_part_of_the_points(lesson, judge):
    uses = "two = 2\n\n\ndef double(x):\n    return x * (2 if x in (3, -7) else two)"
    result = graded(lesson, judge, double=uses, negate=f"two = 3\n\n\n{NEGATE}")
    double, negate = result.exercises
    assert (double.outcome, double.points) == (Outcome.PASSED, 5)
    assert negate.outcome is Outcome.PASSED


def test_work_without_any_point_gets_none_by_nbgraders_rule_either(lesson, judge):
    result = graded(lesson, judge)
    assert {one.outcome for one in result.exercises} == {Outcome.NOT_ATTEMPTED}
    assert given_by_nbgrader(lesson, result) == {"double": (0, 5), "negate": (0, 0)}


def test_a_class_may_give_all_points_or_none(tmp_path):
    all_or_none = tiny.changed(tiny.SETUP, ("(8,", "(8, partial_credit=False,"))
    lesson = tiny.lesson(tmp_path / "course", TEXT, setup=all_or_none, checks=CHECKS)
    with judge_of(lesson) as judge:
        for name, points in {"all": 5, "in place": 0}.items():
            result = graded(lesson, judge, double=ANSWERS[name][0])
            [double, _] = result.exercises
            assert double.points == points
            assert all(one.is_essential for one in double.statements)
            assert given_by_nbgrader(lesson, result)["double"] == (points, 5)
        change = (
            "partial_credit=False",
            "partial_credit=True",
        )  # the learner would like it
        result = graded(lesson, judge, change, double=ANSWERS["in place"][0])
        assert result.exercises[0].points == 0
