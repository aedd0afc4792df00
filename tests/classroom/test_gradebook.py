"""The gradebook waits for other programs, says what is wrong, and is filled again."""

import contextlib
import csv
import sqlite3
import subprocess
import sys

import nbgrader.api
import pytest
from classes import RIGHT, WRONG, make_class, printed
from pretended import (
    NAME,
    decide,
    grade,
    gradebook_of,
    page,
    pretended,
    set_due,
    submit,
)
from sqlalchemy import event

from grader import CourseError
from grader.classroom import gradebook
from grader.classroom.explain import explain
from grader.classroom.export import export
from grader.classroom.folder import Classroom
from grader.classroom.returning import return_feedback

pytestmark = pytest.mark.usefixtures("pretended")
__all__ = ["pretended"]  # a fixture


@pytest.fixture
def folder(tmp_path):
    """A class of one, graded; then there is a second learner."""
    make_class(tmp_path)
    submit(tmp_path, "ada", **RIGHT)
    grade(tmp_path)
    submit(tmp_path, "bob", **RIGHT)
    return tmp_path


@pytest.fixture
def other_program(folder):
    """Another program, which writes to the gradebook and does not end."""
    path = folder / "class" / "gradebook.db"
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute("BEGIN EXCLUSIVE")
        yield file


def test_connections_wait_for_another_program_for_a_minute(folder, monkeypatch):
    waiting = f"sqlite:///{folder / 'class' / 'gradebook.db'}?timeout=60"
    looked_at = []
    monkeypatch.setattr(gradebook, "create_tables", looked_at.append)
    grade(folder)
    assert {*looked_at} == {waiting}
    with gradebook.usable(waiting.removesuffix("?timeout=60")) as address:
        assert address == waiting


def test_grade_says_that_it_waits_for_another_program_and_goes_on(
    folder, other_program, monkeypatch
):
    said = []

    def say(line):
        said.append(line)
        other_program.rollback()

    monkeypatch.setattr(gradebook, "PATIENCE_S", 0)
    monkeypatch.setattr(gradebook, "say", say)
    grade(folder)
    [line] = said
    assert line.endswith("gradebook.db is in use by another program: waiting for it.")
    with gradebook_of(folder) as book:
        assert book.find_submission(NAME, "bob").score == 3


def test_a_lock_that_stays_ends_the_command_with_a_sentence(
    folder, other_program, monkeypatch
):
    monkeypatch.setattr(gradebook, "PATIENCE_S", 0)
    monkeypatch.setattr(gradebook, "LOCK_TIMEOUT_S", 0)
    with pytest.raises(CourseError, match="Close the program that uses") as error:
        grade(folder)
    assert "SQL" not in str(error.value)
    other_program.rollback()
    assert "GRADED                2" in grade(folder).text


def test_a_file_that_is_no_gradebook_is_named_without_sql(folder):
    (folder / "class" / "gradebook.db").write_bytes(b"This is no database." * 99)
    with pytest.raises(CourseError) as error:
        grade(folder)
    said = str(error.value)
    assert said.endswith("gradebook.db cannot be used: file is not a database")


def test_a_table_that_is_missing_is_named_without_sql(folder):
    with contextlib.closing(sqlite3.connect(folder / "class/gradebook.db")) as file:
        file.execute("ALTER TABLE grade RENAME COLUMN manual_score TO other")
    with pytest.raises(CourseError, match="manual_score") as error:
        grade(folder)
    assert "SELECT" not in str(error.value) and "\n" not in str(error.value)


def test_a_full_disk_is_said_in_a_line_with_the_remedy(folder, monkeypatch, caplog):
    """By itself, nbgrader logs a hundred lines of Python, too."""

    def create_engine(*arguments, **options):
        engine = real(*arguments, **options)
        event.listen(engine, "connect", let_no_page_be_added)
        return engine

    def let_no_page_be_added(connection, _):
        [pages] = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")

    real = nbgrader.api.create_engine
    for number in range(30):
        submit(folder, f"learner-{number}", **RIGHT)
    gradebook.add_students(Classroom(folder / "class"))
    with monkeypatch.context() as full:
        full.setattr(nbgrader.api, "create_engine", create_engine)
        with pytest.raises(CourseError, match=r"full\. Make room on the disk") as error:
            grade(folder)
    assert "\n" not in str(error.value) and not caplog.records
    assert "GRADED               32" in grade(folder).text


COMMENT = "Only the sign is missing."


@pytest.fixture
def marked(tmp_path):
    """A class of four; cy is late, and a person looked at bob's and dan's work."""
    make_class(tmp_path)
    with open(tmp_path / "class" / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write('c.LateSubmissionPlugin.penalty_method = "zero"\n')
    submit(tmp_path, "ada", **RIGHT)
    submit(tmp_path, "bob", **WRONG)
    path = submit(tmp_path, "cy", **RIGHT)
    path.with_name("timestamp.txt").write_text("2026-04-02 12:00 UTC")
    submit(tmp_path, "dan", **RIGHT | {"negate": "settrace"})
    grade(tmp_path)
    set_due(tmp_path, "2026-04-01 12:00 UTC")
    decide(tmp_path, "bob", "double", 0.5, COMMENT, extra=0.25)
    decide(tmp_path, "dan", "double", 1)  # and not yet the other one
    grade(tmp_path)
    return tmp_path


def lose(folder, how):
    path = folder / "class" / "gradebook.db"
    if how == "one learner":
        with gradebook_of(folder) as book:
            book.remove_student("bob")
    elif how == "emptied":
        with contextlib.closing(sqlite3.connect(path)) as file:
            names = file.execute("SELECT name FROM sqlite_master WHERE type='table'")
            for (name,) in [*names]:
                if name != "alembic_version":
                    file.execute(f"DELETE FROM {name}")
            file.commit()
    else:
        path.unlink()
        gradebook.create_tables.cache_clear()  # as in another process


def facts_of(folder):
    """Reads what nbgrader itself makes of the class, and our own pages and export."""
    with gradebook_of(folder) as book:
        rows = [
            (
                *(one.student.id, one.score, one.late_submission_penalty),
                *((g.auto_score, g.manual_score, g.extra_credit) for g in n.grades),
                *(comment.comment for comment in n.comments),
                *(one.needs_manual_grade, one.duedate, one.total_seconds_late),
            )
            for one in book.assignment_submissions(NAME)
            for n in one.notebooks
        ]
    printed(export, folder / "class")
    exported = (folder / "class" / "grading" / "grades.csv").read_text()
    return sorted(rows), exported, [page(folder, s) for s in ("bob", "cy", "dan")]


@pytest.mark.parametrize("how", ["lost", "emptied", "one learner"])
def test_what_a_gradebook_lost_is_filled_in_again_by_grade(marked, how):
    before = facts_of(marked)
    lose(marked, how)
    lines = grade(marked)
    count = 1 if how == "one learner" else 4
    said = f"The gradebook had lost {count} graded submissions. They were filled in "
    assert [line for line in lines if line.startswith("The gradebook")] == [
        said + "again from grading/, with the scores that people gave."
    ]
    assert "4 submissions: 4 graded before, 0 to grade." in lines
    assert facts_of(marked) == before
    assert said not in grade(marked).text


@pytest.mark.parametrize("command", ["export", "explain", "return"])
def test_no_command_takes_a_lost_gradebook_for_an_empty_one(marked, command):
    lose(marked, "lost")
    place = marked / "class"
    if command == "explain":
        lines = printed(explain, place, "bob", "1")[1]
        assert lines.text.count(COMMENT) == 1 and "2.75 of 3" in lines.text
    elif command == "return":
        printed(return_feedback, place, "1")
        assert COMMENT in page(marked, "bob")
    else:
        printed(export, place)
        with open(place / "grading/grades.csv", encoding="utf-8-sig") as file:
            scores = {row["student"]: row["score"] for row in csv.DictReader(file)}
        assert scores == {"ada": "3", "bob": "2.75", "cy": "0", "dan": ""}


def test_a_new_file_after_the_loss_keeps_the_scores_of_a_person(marked):
    lose(marked, "lost")
    submit(marked, "bob", **RIGHT | {"double": RIGHT["double"] + "  # again"})
    lines = grade(marked)
    assert "A person gave the points for double to an earlier file." in lines.text
    with gradebook_of(marked) as book:
        found = book.find_grade("check-double", NAME, NAME, "bob")
        assert (found.auto_score, found.manual_score) == (1, 0.5)


def test_a_score_that_a_person_took_back_stays_away(marked):
    with gradebook_of(marked) as book:
        found = book.find_grade("check-double", NAME, NAME, "bob")
        found.manual_score = found.extra_credit = None
    grade(marked)
    lose(marked, "lost")
    grade(marked)
    with gradebook_of(marked) as book:
        assert book.find_grade("check-double", NAME, NAME, "bob").score == 0


def test_nbgraders_own_export_has_the_scores_again(marked):
    lose(marked, "lost")
    grade(marked)
    command = [sys.executable, "-m", "nbgrader", "export"]
    subprocess.run(command, cwd=marked / "class", check=True, capture_output=True)
    with open(marked / "class" / "grades.csv", encoding="utf-8") as file:
        scores = {row["student_id"]: row["score"] for row in csv.DictReader(file)}
    assert scores == {"ada": "3.0", "bob": "2.75", "cy": "0.0", "dan": "1.0"}
