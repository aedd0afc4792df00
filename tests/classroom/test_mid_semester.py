"""A graded lesson gains or loses an exercise, and the scores of the others stay."""

import dataclasses
import shutil

import nbformat
import pytest
import term
import tiny
from classes import RIGHT, WRONG, generate_assignment, make_class, printed
from pretended import (
    NAME,
    decide,
    grade,
    gradebook_of,
    page,
    pretended,
    regrade,
    set_due,
    submit,
)

from coursekit.outcomes import BROKEN, StatementResult
from grader.__main__ import main
from grader.classroom import course, gradebook
from grader.classroom import grade as grading
from grader.classroom.course import PRIVATE
from grader.classroom.export import export
from grader.results import Outcome
from grader.workers.jobs import FinishedJob

pytestmark = pytest.mark.usefixtures("pretended")
__all__ = ["pretended"]  # a fixture
COMMENT = "Only the sign is missing."
HALVE = "def halve(x):\n    return x / 2"
IMPORT = "import double,", "import double, halve,"
CHECKS = term.CHECKS[term.CHECKS.index('\n\n@visible("halve"') :]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A graded class; a person gave points after that."""
    make_class(tmp_path)
    submit(tmp_path, "ada", **RIGHT)
    submit(tmp_path, "bob", **WRONG)
    monkeypatch.setitem(RIGHT, "halve", "return x / 2")
    grade(tmp_path)
    set_due(tmp_path, "2026-04-01 12:00 UTC")
    decide(tmp_path, "bob", "double", 0.5, COMMENT)
    defaults = course.make_course.__kwdefaults__
    monkeypatch.setitem(defaults, "root", tmp_path / "course")
    monkeypatch.setattr(course, "refuse_unbuilt", lambda folder: None)
    return tmp_path


def private_copy(folder, name):
    """Copies the lesson and its checks; the cell that sets up is the course's own."""
    ours = shutil.ignore_patterns("setup_cell.py")
    shutil.copytree(
        folder / "course" / "solutions", folder / name / "solutions", ignore=ours
    )
    return folder / name


@pytest.fixture
def own(folder):
    """A private copy of the lesson with one more exercise, a bonus."""
    own = private_copy(folder, "own")
    for path, *changes in (
        (own / "solutions" / f"{NAME}.py", (term.END, term.HALVE + term.END)),
        (own / "solutions" / "checks" / f"{NAME}.py", IMPORT),
    ):
        path.write_text(tiny.changed(path.read_text(), *changes))
    with open(path, "a", encoding="utf-8") as file:
        file.write(CHECKS)
    return own


def update(folder, *options, status=0):
    words = ["course", folder / "class", "--update", *options]
    found, lines = printed(main, [*map(str, words)])
    assert found == status, lines
    return lines


def scores(folder):
    """Reads the scores in nbgrader's gradebook; ours must be the same."""
    printed(export, folder / "class")
    with gradebook_of(folder) as book:
        found = {one.student.id: one.score for one in book.assignment_submissions(NAME)}
    for student, score in found.items():
        assert f"{score:g} of 3 points" in page(folder, student)
    return found


def grades(folder, student):
    with gradebook_of(folder) as book:
        [found] = book.find_submission(NAME, student).notebooks
        return {one.name: (one.auto_score, one.manual_score) for one in found.grades}


def test_an_exercise_is_added_and_the_scores_stay(folder, own):
    lines = update(folder, "--with", own)
    assert f"{NAME}: renewed" in lines
    said = f"{NAME} has gained or lost exercises: its 2 graded submissions keep"
    assert said in lines.text
    with gradebook_of(folder) as book:  # before anything is graded again
        found = {one.student.id: one.score for one in book.assignment_submissions(NAME)}
        assert found == {"ada": 3, "bob": 2.5}
        assert str(book.find_assignment(NAME).duedate) == "2026-04-01 12:00:00"
    generate_assignment(folder / "class", NAME)
    lines = grade(folder)
    assert "2 submissions: 0 graded before, 2 to grade" in lines.text
    assert scores(folder) == {"ada": 3, "bob": 2.5} and COMMENT in page(folder, "bob")
    assert grades(folder, "bob")["check-double"] == (0, 0.5)
    assert {*grades(folder, "ada")} == {f"check-{one}" for one in RIGHT}
    submit(folder, "ada", **RIGHT | {"halve": HALVE})
    assert "halve: wrong, 0 -> right" in grade(folder).text


def test_it_is_taken_out_again_and_the_scores_stay(folder, own):
    update(folder, "--with", own)
    grade(folder)
    decide(folder, "bob", "double", 0.75)
    decide(folder, "bob", "halve", 1)
    lines = update(folder, "--without", own)
    assert f"{NAME}: renewed" in lines and "keep the scores of the others" in lines.text
    assert (folder / "class" / PRIVATE).read_text() == ""
    grade(folder)
    assert scores(folder) == {"ada": 3, "bob": 2.75} and COMMENT in page(folder, "bob")
    assert {*grades(folder, "bob")} == {"check-double", "check-negate"}
    update(folder)
    assert said_nothing(grade(folder))


def said_nothing(lines):
    return "gained or lost" not in lines.text and "0 to grade." in lines.text


def test_the_folder_that_was_named_last_wins(folder, own):
    old = private_copy(folder, "old")
    update(folder, "--with", old)
    assert "gained or lost" in update(folder, "--with", own).text
    assert "gained or lost" in update(folder, "--with", old).text
    assert "gained or lost" not in update(folder).text
    lines = (folder / "class" / PRIVATE).read_text().splitlines()
    assert lines == [str(own), str(old)]


def test_a_lesson_of_a_folder_that_is_left_out_stays_and_is_named(folder, own, capsys):
    for path in own.rglob(f"{NAME}.py"):
        path.rename(path.with_stem("06_more"))
    update(folder, "--with", own)
    shutil.rmtree(own)
    update(folder, status=2)
    assert f"--update --without {own}" in capsys.readouterr().err
    update(folder, "--without", folder / "other", status=2)
    assert (
        f"no lessons from {folder}/other, but from: {own}." in capsys.readouterr().err
    )
    lines = update(folder, "--without", own)
    said = "stays as it is: no folder of lessons has it. To take it out, remove source/"
    assert f"06_more: {said}06_more" in lines


def test_without_apply_a_regrade_leaves_the_gradebook_as_it_is(folder, own):
    before = grades(folder, "bob")
    make = course.make_course
    make(folder / "class", update=True, private=[own])
    assert "halve: not there -> wrong, 0" in regrade(folder).text
    assert grades(folder, "bob") == before


def test_one_exercise_is_tried_alone_until_it_is_applied(folder, monkeypatch):
    path = folder / "class/source" / NAME / "coursekit/checks" / f"{NAME}.py"
    path.write_text(path.read_text() + "\n# mended\n")
    for name in ("double", "negate"):
        monkeypatch.setitem(RIGHT, name, "no such text")
    lines = regrade(folder, "ada", exercise="negate")
    assert lines[:2] == [
        "1 submissions to grade again.",
        f"ada {NAME}: negate: right, 2 -> wrong, 0",
    ]
    lines = regrade(folder, "ada", exercise="negate", apply=True)
    held = f"ada {NAME}: not applied, since it also differs in double: right, 1 -> "
    assert held in lines.text
    assert lines[-1] == "0 of the 1 applied."


def test_a_lesson_that_is_put_back_has_its_grades(folder):
    grade(folder)
    before = scores(folder)
    place = folder / "class" / "source" / NAME
    place.rename(folder / "aside")
    lines = grade(folder)
    assert f"left alone: submitted/ada/{NAME}" in lines
    _, lines = printed(export, folder / "class")
    assert lines[-1].endswith(": 0 grades")
    (folder / "aside").rename(place)
    assert "2 submissions: 2 graded before, 0 to grade." in grade(folder)
    assert scores(folder) == before


def test_an_exercise_is_taken_out_by_deleting_its_cells(folder):
    path = folder / "class" / "source" / NAME / f"{NAME}.ipynb"
    notebook = nbformat.read(path, 4)
    gone = ("negate", "check-negate")
    notebook.cells = [cell for cell in notebook.cells if cell.id not in gone]
    nbformat.write(notebook, path)
    assert "keep the scores of the others" in grade(folder).text
    assert "0.5 of 1 point" in page(folder, "bob") and COMMENT in page(folder, "bob")
    assert {*grades(folder, "bob")} == {"check-double"}
    assert "kept: you changed the cell" in update(folder).text


def test_a_class_that_was_moved_has_its_grades(folder):
    grade(folder)
    before = scores(folder)
    (folder / "moved").mkdir()
    shutil.move(folder / "class", folder / "moved" / "class")
    gradebook.create_tables.cache_clear()
    moved = folder / "moved"
    assert "2 submissions: 2 graded before, 0 to grade." in grade(moved)
    assert scores(moved) == before


WHY = "NameError: name 'three' is not defined"


def broken(name):
    return StatementResult(name, True, 0.5, BROKEN, WHY)


@pytest.mark.parametrize(
    "facts",
    [
        {"outcome": Outcome.BROKEN, "message": WHY},
        {"outcome": Outcome.PARTLY, "statements": (broken("odd"), broken("even"))},
    ],
    ids=["whole check", "statements"],
)
def test_a_mended_check_that_is_wrong_itself_shows_why(folder, monkeypatch, facts):
    jobs = grading.grade_jobs

    def grade_jobs(executor, todo):
        for one in jobs(executor, todo):
            result = one.record.result
            negate = dataclasses.replace(result.exercises[-1], **facts)
            result = dataclasses.replace(result, exercises=(negate,))
            yield FinishedJob(one.job, dataclasses.replace(one.record, result=result))

    monkeypatch.setattr(grading, "grade_jobs", grade_jobs)
    lines = regrade(folder, "ada", exercise="negate")
    [line] = [line for line in lines if "negate" in line]
    assert line.startswith(f"ada {NAME}: negate: ") and line.endswith(f" ({WHY})")
