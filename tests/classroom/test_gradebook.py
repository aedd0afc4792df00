"""The gradebook waits for other programs, and says in a sentence what is wrong."""

import contextlib
import sqlite3

import pytest
from classes import RIGHT, make_class
from pretended import NAME, grade, gradebook_of, pretended, submit

from grader import CourseError
from grader.classroom import gradebook

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
