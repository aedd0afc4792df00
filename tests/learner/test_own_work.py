"""Learners check their own notebooks: a table, or one line that says what to do."""

import json
import os
import subprocess
import sys

import nbformat
import pytest
import tiny

from coursekit import i18n
from coursekit.context import current_context
from grader import ROOT
from grader.learner.own_work import check_own
from grader.lessons.release import exercises, release
from grader.pages.terminal import cards_of_failures, table
from grader.results import ExerciseResult, Outcome, Result

MIXED = Result(
    "01_tiny",
    (
        ExerciseResult("double", Outcome.PASSED, 1, 1),
        ExerciseResult("halve", Outcome.PARTLY, 1.67, 2, message="It is whole."),
        ExerciseResult("negate", Outcome.FAILED, 0, 2.5, message="It is wrong."),
        ExerciseResult("shard_batch", Outcome.NOT_ATTEMPTED, 0, 3, message="Its stub."),
    ),
)
MIXED_TABLE = """\
01_tiny
exercise     outcome            points
double       right              1 of 1
halve        partly right       1.67 of 2    It is whole.
negate       wrong              0 of 2.5     It is wrong.
shard_batch  not attempted yet  0 of 3       Its stub.
total                           2.67 of 8.5
"""


def test_table_lists_outcomes_points_and_what_went_wrong():
    assert table(MIXED) == MIXED_TABLE


def test_long_message_is_cut_to_the_width():
    message = "It says much more than there is room for. " * 9
    row = ExerciseResult("f", Outcome.RAISED, 0, 1, message=message)
    result = Result("01_tiny", (row,))
    lines = table(result, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2].startswith("f         your code raised  0 of 1  It says much more")
    assert lines[2].endswith(" ...")


def test_message_of_several_lines_takes_one_row():
    row = ExerciseResult("f", Outcome.RAISED, 0, 1, message="First.\n\tSecond.")
    assert table(Result("01_tiny", (row,))).splitlines()[2].endswith("First. Second.")


@pytest.fixture(autouse=True)
def english(monkeypatch):
    """A check of one's own work sets the language of what shows it."""
    monkeypatch.setattr(current_context(), "language", "")


@pytest.fixture
def course(tmp_path):
    path = tiny.write_course(tmp_path / "course", setup=tiny.SETUP_WITHOUT_JAX)
    return path.parents[1]


def test_own_notebook_is_graded_from_its_file(tmp_path):
    root = tmp_path / "course"
    notebook = release(tiny.lesson(root))
    exercises(notebook)["double"].source = "def double(x):\n    return x + x"
    exercises(notebook)["negate"].source = "def negate(x):\n    return x"
    nbformat.write(notebook, root / "lessons" / "01_tiny.ipynb")
    [result] = check_own(root=root)
    assert table(result) == (
        "01_tiny\n"
        "exercise  outcome  points\n"
        "double    right    1 of 1\n"
        "negate    wrong    0 of 2  The result is wrong.\n"
        "total              1 of 3\n"
    )
    [card] = cards_of_failures(result)
    [head, statement, *rows] = card.splitlines()
    assert head.split() == ["negate", "wrong", "0", "of", "2", "points"]
    assert statement.split() == ["✗", "negative", "essential"]
    assert [" ".join(row.split()) for row in rows] == [
        *("The result is wrong.", "called negate(3)", "seen 3", "expected -3")
    ]


def test_one_exercise_is_checked_alone_and_others_are_named(tmp_path):
    root = tmp_path / "course"
    notebook = release(tiny.lesson(root))
    exercises(notebook)["negate"].source = "def negate(x):\n    return x"
    nbformat.write(notebook, root / "lessons" / "01_tiny.ipynb")
    [result] = check_own(["01"], root, exercise="negate")
    [one] = result.exercises
    assert (one.exercise, one.outcome, one.points) == ("negate", Outcome.FAILED, 0)
    with pytest.raises(ValueError, match=r'no exercise "nega".*double, negate'):
        [*check_own(["01"], root, exercise="nega")]


def test_a_terminal_shows_one_exercises_card_or_its_json():
    command = [sys.executable, "-m", "grader", "check", "02", "masked_mean"]
    card, written = (
        subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True)
        for more in ((), ("--json",))
    )
    assert card.stdout.startswith("masked_mean  not attempted yet")
    [one] = json.loads(written.stdout)["exercises"]
    assert (one["exercise"], one["outcome"]) == ("masked_mean", "not attempted yet")


def test_the_notebook_that_was_saved_last_is_graded(tmp_path):
    root = tmp_path / "course"
    lesson = tiny.lesson(root)
    (root / "solutions/locales/ko").mkdir(parents=True)
    (root / "lessons/ko").mkdir()
    for folder, answer, age in (("", "x", 100), ("ko", "2 * x", 0)):
        notebook = release(lesson)
        exercises(notebook)["negate"].source = "def negate(x):\n    return x"
        exercises(notebook)["double"].source = f"def double(x):\n    return {answer}"
        path = root / "lessons" / folder / "01_tiny.ipynb"
        nbformat.write(notebook, path)
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    [result] = check_own(root=root)
    assert result.exercises[0].points == 1
    [note] = result.notes
    assert note == "lessons/ko/01_tiny.ipynb was graded: it was saved last."
    [card] = cards_of_failures(result)
    wrong = i18n.translated("wrong", "ko")
    assert wrong != "wrong" and wrong in card.splitlines()[0]


COPIES = {
    "of JupyterLab": "01_tiny-Copy1.ipynb",
    "of nbgitpuller": "01_tiny__20261104104101.ipynb",
    "of a browser": "01_tiny (1).ipynb",
    "of Windows": "01_tiny - Copy.ipynb",
}


@pytest.mark.parametrize("name", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("is_answered", [True, False])
def test_a_newer_copy_with_answers_is_named(tmp_path, name, is_answered):
    root = tmp_path / "course"
    lesson = tiny.lesson(root)
    for file, answered, age in (("01_tiny.ipynb", is_answered, 9), (name, True, 0)):
        notebook = release(lesson)
        if answered:
            exercises(notebook)["double"].source = "def double(x):\n    return x"
        path = root / "lessons" / file
        nbformat.write(notebook, path)
        os.utime(path, (path.stat().st_mtime - age,) * 2)
    [result] = check_own(root=root)
    [note] = result.notes
    assert note.startswith(f"lessons/{name} holds answers, too")
    assert note.endswith("rename it to 01_tiny.ipynb.")


@pytest.mark.parametrize(
    "name, age, answer",
    [
        ("01_tiny-Copy1.ipynb", 9, "def double(x):\n    return x"),
        ("01_tiny-Copy1.ipynb", 0, ""),
        ("02_more.ipynb", 0, "def double(x):\n    return x"),
    ],
    ids=["older", "without answers", "another lesson"],
)
def test_another_copy_is_not_named(tmp_path, name, age, answer):
    root = tmp_path / "course"
    lesson = tiny.lesson(root)
    for file, source in (("01_tiny.ipynb", "def double(x):\n    pass"), (name, answer)):
        notebook = release(lesson)
        if source:
            exercises(notebook)["double"].source = source
        nbformat.write(notebook, root / "lessons" / file)
    path = root / "lessons" / name
    os.utime(path, (path.stat().st_mtime - age,) * 2)
    [result] = check_own(root=root)
    assert result.notes == ()


def test_missing_notebook_is_named_with_the_way_to_get_it_back(course):
    path = course / "lessons" / "01_tiny.ipynb"
    with pytest.raises(ValueError) as caught:
        list(check_own(["1"], course))
    remedy = "Get it back: git checkout -- lessons/01_tiny.ipynb"
    assert str(caught.value) == f"{path} is missing. {remedy}"


DAMAGED = {
    "empty": b"",
    "cut off": b'{"cells": [{"cell_type": "co',
    "log-in page": b"<html><body>Please log in.</body></html>",
    "list": b"[]",
    "number": b"7",
    "null": b"null",
    "other JSON": b'{"name": "ada"}',
    "without cells": b'{"metadata": {}, "nbformat": 4, "nbformat_minor": 5}',
    "not UTF-8": b"\xff\xfe{\x00}\x00",
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_notebook_is_named_with_its_remedy(course, damage):
    path = course / "lessons" / "01_tiny.ipynb"
    path.write_bytes(DAMAGED[damage])
    with pytest.raises(ValueError) as caught:
        list(check_own(root=course))
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value)) > len(f"{path}: ") + 30


def test_folder_in_the_place_of_a_notebook_is_named(course):
    (course / "lessons" / "01_tiny.ipynb").mkdir()
    with pytest.raises(ValueError, match=r"01_tiny\.ipynb"):
        list(check_own(root=course))


def test_unknown_lesson_is_one_line_and_exit_status_2():
    command = [sys.executable, "-m", "grader", "check", "nosuch"]
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (child.returncode, child.stdout) == (2, "")
    [line] = child.stderr.splitlines()
    assert line.startswith('There is no lesson "nosuch". The lessons are: 01_pmap_spmd')
