"""The only writer of nbgrader's gradebook."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.resources
from collections.abc import Iterator

from nbgrader.api import Base, Gradebook, MissingEntry, Student
from nbgrader.preprocessors import SaveCells
from sqlalchemy import create_engine, inspect, make_url
from sqlalchemy.exc import SQLAlchemyError

from grader import CourseError
from grader.authoring.release import CHECK_PREFIX, checks, nbgrader_metadata, release
from grader.classroom.folder import Classroom, Submission
from grader.results import Outcome, Result, Status


class GradebookError(CourseError):
    """nbgrader's gradebook cannot be read or written."""


@dataclasses.dataclass(frozen=True)
class ExerciseScore:
    """One exercise's scores in the gradebook; None where there is none."""

    auto: float | None
    manual: float | None
    extra: float = 0.0

    @property
    def score(self) -> float | None:
        """The score that counts: an instructor's before ours."""
        chosen = self.auto if self.manual is None else self.manual
        return None if chosen is None else chosen + self.extra

    @property
    def by_hand(self) -> bool:
        return self.manual is not None or bool(self.extra)


@contextlib.contextmanager
def opened(classroom: Classroom) -> Iterator[Gradebook]:
    """Opens the gradebook, and commits at the end of the block."""
    try:
        create_tables(classroom.db_url)
        with Gradebook(classroom.db_url, classroom.course_id) as book:
            yield book
            book.db.commit()
    except SQLAlchemyError as error:
        address = without_password(classroom.db_url)
        raise GradebookError(f"{address} cannot be used: {error}") from None


@functools.cache  # once a process
def create_tables(db_url: str) -> None:
    """Creates the tables of a new gradebook, marked with the newest version.

    nbgrader starts a program for that, `alembic`: 2 s, and it has to be on the PATH.
    """
    engine = create_engine(db_url)
    if not inspect(engine).get_table_names():
        from alembic.runtime.migration import MigrationContext
        from alembic.script import ScriptDirectory

        scripts = importlib.resources.files("nbgrader") / "alembic"
        with engine.begin() as connection:
            Base.metadata.create_all(connection)
            context = MigrationContext.configure(connection)
            context.stamp(ScriptDirectory(str(scripts)), "head")
    engine.dispose()


def without_password(db_url: str) -> str:
    try:
        return make_url(db_url).render_as_string(hide_password=True)
    except SQLAlchemyError:
        return "The gradebook (db_url in nbgrader_config.py)"


def add_lessons(classroom: Classroom) -> None:
    """Adds new lessons to the gradebook, as `nbgrader generate_assignment` does."""
    changed = []
    with opened(classroom) as book:
        for name, lesson in classroom.lessons.items():
            book.update_or_create_assignment(name)
            try:
                known = book.find_notebook(name, name).grade_cells
            except MissingEntry:
                known = []
            metadata = map(nbgrader_metadata, checks(lesson).values())
            points = {one["grade_id"]: float(one["points"]) for one in metadata}
            if {cell.name: cell.max_score for cell in known} != points:
                changed.append(name)
    for name in changed:
        names = {"notebook": name, "assignment": name, "db_url": classroom.db_url}
        try:
            lesson = release(classroom.lessons[name])
            SaveCells().preprocess(lesson, {"nbgrader": names})
        except RuntimeError as error:
            remedy = "Give the changed lesson a new name."
            raise GradebookError(f"{error}. {remedy}") from None


def save(classroom: Classroom, student: str, result: Result) -> None:
    """Writes one result: the automatic scores, never an instructor's.

    Without a score (NEEDS_REVIEW) the scores stay open until an instructor gives them.
    """
    with opened(classroom) as book:
        book.update_or_create_student(student)
        with book.db.no_autoflush:
            book.update_or_create_submission(result.lesson, student)
        needs_review = result.status is Status.NEEDS_REVIEW
        place = (result.lesson, result.lesson, student)
        for one in result.exercises:
            grade = book.find_grade(CHECK_PREFIX + one.exercise, *place)
            grade.auto_score = None if needs_review else one.points
            grade.needs_manual_grade = needs_review and grade.manual_score is None
            is_untouched = one.outcome is Outcome.NOT_ATTEMPTED
            with contextlib.suppress(MissingEntry):
                comment = book.find_comment(one.exercise, *place)
                comment.auto_comment = "No response." if is_untouched else one.message


def scores_of(classroom: Classroom, submission: Submission) -> dict[str, ExerciseScore]:
    """Reads a submission's scores by exercise; empty where there are none."""
    lesson = submission.lesson
    with opened(classroom) as book:
        try:
            found = book.find_submission_notebook(lesson, lesson, submission.student)
        except MissingEntry:
            return {}
        return {
            grade.cell.name.removeprefix(CHECK_PREFIX): ExerciseScore(
                grade.auto_score, grade.manual_score, grade.extra_credit or 0.0
            )
            for grade in found.grades
        }


def remove_student(classroom: Classroom, student: str) -> None:
    with opened(classroom) as book, contextlib.suppress(MissingEntry):
        book.remove_student(student)


def add_students(classroom: Classroom) -> None:
    """Adds learners, and the names in people.csv, which the formgrader shows.

    Its "Lovelace, Ada" and "Ada Lovelace" have the same last name. Where no name is
    known, the id is shown in its place.
    """
    names = classroom.names()
    submitted = {one.student for one in classroom.submissions()}
    with opened(classroom) as book:
        known = {student.id: student for student in book.students}
        for one in sorted({*names, *submitted}):
            if not (student := known.get(one)):
                book.db.add(student := Student(id=one))
            if one in names or student.last_name is None:
                name = names.get(one, one)
                last, comma, first = name.partition(", ")
                if not comma:
                    first, _, last = name.rpartition(" ")
                student.first_name, student.last_name = first[:128], last[:128]
