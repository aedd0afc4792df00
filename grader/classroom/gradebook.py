"""The only writer of nbgrader's gradebook."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.resources
from collections.abc import Iterator

from nbformat import NotebookNode
from nbgrader.api import Base, Gradebook, MissingEntry
from nbgrader.preprocessors import SaveCells
from sqlalchemy import create_engine, inspect, make_url, text
from sqlalchemy.exc import SQLAlchemyError

from grader import CourseError
from grader.authoring.release import CHECK_PREFIX, release
from grader.results import Outcome, Result, Status


class GradebookError(CourseError):
    """nbgrader's gradebook cannot be read or written."""


@dataclasses.dataclass(frozen=True)
class ExerciseScore:
    """One exercise's scores in the gradebook; None where there is none."""

    auto: float | None
    manual: float | None
    maximum: float
    extra: float = 0.0

    @property
    def score(self) -> float | None:
        """The score that counts: an instructor's before ours."""
        chosen = self.auto if self.manual is None else self.manual
        return None if chosen is None else chosen + self.extra


def shown(db_url: str) -> str:
    """Writes a database's address without its password."""
    try:
        return make_url(db_url).render_as_string(hide_password=True)
    except SQLAlchemyError:
        return "The gradebook (db_url in nbgrader_config.py)"


@functools.cache  # once a process
def create_tables(db_url: str) -> None:
    """Creates the tables of a new gradebook, marked with the newest version.

    nbgrader would start the program `alembic`, which is not on every PATH, for that.
    """
    engine = create_engine(db_url)
    if not inspect(engine).get_table_names():
        from alembic.script import ScriptDirectory  # for a new gradebook alone

        scripts = importlib.resources.files("nbgrader") / "alembic"
        newest = ScriptDirectory(str(scripts)).get_current_head()
        with engine.begin() as connection:
            Base.metadata.create_all(connection)
            create = "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"
            connection.execute(text(create))
            insert = f"INSERT INTO alembic_version VALUES ('{newest}')"
            connection.execute(text(insert))
    engine.dispose()


@contextlib.contextmanager
def opened(db_url: str, course_id: str) -> Iterator[Gradebook]:
    """Opens the gradebook, and commits at the end of the block.

    Raises:
        GradebookError: the database does not answer, or refuses.
    """
    try:
        create_tables(db_url)
        with Gradebook(db_url, course_id) as book:
            yield book
            book.db.commit()
    except SQLAlchemyError as error:
        raise GradebookError(f"{shown(db_url)} cannot be used: {error}") from None


def ensure_lesson(db_url: str, course_id: str, name: str, lesson: NotebookNode) -> None:
    """Enters a lesson's cells, as `nbgrader generate_assignment` does.

    Raises:
        GradebookError: the lesson's cells changed after work on it was graded.
    """
    with opened(db_url, course_id) as book:
        try:
            known = book.find_notebook(name, name)
            cells = {cell.name: cell.max_score for cell in known.grade_cells}
        except MissingEntry:
            cells = {}
        book.update_or_create_assignment(name)
    wanted = {
        cell.metadata.nbgrader["grade_id"]: float(cell.metadata.nbgrader["points"])
        for cell in lesson.cells
        if cell.metadata.get("nbgrader", {}).get("grade")
    }
    if cells == wanted:
        return
    names = {"notebook": name, "assignment": name, "db_url": db_url}
    try:
        SaveCells().preprocess(release(lesson), {"nbgrader": names})
    except RuntimeError as error:
        raise GradebookError(f"{error}. Give the changed lesson a new name.") from None


def save(db_url: str, course_id: str, student: str, result: Result) -> None:
    """Writes one result: the automatic scores, never an instructor's.

    Without a score (NEEDS_REVIEW) the scores stay open until an instructor gives them.
    """
    with opened(db_url, course_id) as book:
        book.update_or_create_student(student)
        with book.db.no_autoflush:
            book.update_or_create_submission(result.lesson, student)
        held = result.status is Status.NEEDS_REVIEW
        for exercise in result.exercises:
            place = (result.lesson, result.lesson, student)
            grade = book.find_grade(CHECK_PREFIX + exercise.exercise, *place)
            grade.auto_score = None if held else exercise.points
            grade.needs_manual_grade = held and grade.manual_score is None
            untouched = exercise.outcome is Outcome.NOT_ATTEMPTED
            with contextlib.suppress(MissingEntry):
                comment = book.find_comment(exercise.exercise, *place)
                comment.auto_comment = "No response." if untouched else exercise.message


def scores_of(
    db_url: str, course_id: str, lesson: str, student: str
) -> dict[str, ExerciseScore]:
    """Reads a learner's scores, by exercise; empty where there are none."""
    with opened(db_url, course_id) as book:
        try:
            notebook = book.find_submission_notebook(lesson, lesson, student)
        except MissingEntry:
            return {}
        return {
            grade.cell.name.removeprefix(CHECK_PREFIX): ExerciseScore(
                grade.auto_score,
                grade.manual_score,
                grade.cell.max_score,
                grade.extra_credit or 0.0,
            )
            for grade in notebook.grades
        }


def remove_student(db_url: str, course_id: str, student: str) -> None:
    """Removes a learner with all scores."""
    with opened(db_url, course_id) as book, contextlib.suppress(MissingEntry):
        book.remove_student(student)
