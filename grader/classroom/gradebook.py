"""The only writer of nbgrader's gradebook."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import importlib.resources
import json
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

from nbgrader import utils
from nbgrader.api import (
    Base,
    Comment,
    Grade,
    Gradebook,
    InvalidEntry,
    MissingEntry,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
)
from nbgrader.preprocessors import SaveCells
from sqlalchemy import create_engine, inspect, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import contains_eager, joinedload, selectinload
from tornado.log import app_log
from tqdm import tqdm

from grader import FULL, CourseError
from grader.atomic_files import read_text, write
from grader.classroom.folder import Classroom, Publication, Submission
from grader.classroom.lateness import NOT_LATE, Late, Lateness
from grader.lessons.release import CHECK_PREFIX, checks, nbgrader_metadata, release
from grader.results import Outcome, Result, Status

say = tqdm.write  # above a bar, if there is one
PATIENCE_S, LOCK_TIMEOUT_S = 2, 60  # until a wait is said, and until it ends


@dataclasses.dataclass(frozen=True)
class ExerciseScore:
    """One exercise's scores in the gradebook; None where there is none."""

    auto: float | None = None
    manual: float | None = None
    extra: float = 0.0
    comment: str = ""
    is_for_earlier_file: bool = False

    @property
    def score(self) -> float | None:
        """The score that counts: an instructor's before ours."""
        chosen = self.auto if self.manual is None else self.manual
        return None if chosen is None else chosen + self.extra

    @property
    def by_hand(self) -> bool:
        return self.manual is not None or bool(self.extra)


@dataclasses.dataclass(frozen=True)
class Entry:
    """What the gradebook has on a submission."""

    scores: Mapping[str, ExerciseScore]  # by exercise
    late: Late = NOT_LATE
    extension_s: float | None = None

    @property
    def given(self) -> dict[str, dict[str, Any]]:
        """What a person gave, by exercise: what a `Publication` keeps of it."""
        return {
            name: dataclasses.asdict(one) | {"auto": None}
            for name, one in sorted(self.scores.items())
            if one.by_hand or one.comment
        }


@contextlib.contextmanager
def opened(classroom: Classroom) -> Iterator[Gradebook]:
    """Opens the gradebook, and commits at the end of the block."""
    with usable(classroom.db_url) as address:
        create_tables(address)
        with Gradebook(address, classroom.course_id) as book:
            yield book
            book.db.commit()


@contextlib.contextmanager
def usable(db_url: str) -> Iterator[str]:
    """Yields an address whose connections wait while another program writes.

    Says so if they have to.

    Raises:
        CourseError: the gradebook cannot be used, in one sentence.
    """
    shown = "The gradebook (db_url in nbgrader_config.py)"
    try:
        url = make_url(db_url)
        shown = url.render_as_string(hide_password=True)
        if url.get_backend_name() == "sqlite":
            if url.database and is_locked(url.database):
                say(f"{url.database} is in use by another program: waiting for it.")
            url = url.update_query_dict({"timeout": str(LOCK_TIMEOUT_S)})
        with mock.patch.object(app_log, "disabled", True):  # it is said below
            yield url.render_as_string(hide_password=False)
    except (SQLAlchemyError, InvalidEntry) as error:
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        reason = reason.removeprefix("(sqlite3.OperationalError) ")
        if reason == "database or disk is full":
            reason += f". {FULL}"
        if "database is locked" in reason:
            reason += (
                f" for {LOCK_TIMEOUT_S} seconds. Close the program that uses it (for "
                "example the formgrader, or a viewer of databases), and run the "
                "command again: what is finished is saved."
            )
        raise CourseError(f"{shown} cannot be used: {reason}") from None


def is_locked(path: str) -> bool:
    """Tells whether another program keeps the gradebook's file locked for a while."""
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=PATIENCE_S)) as file:
            file.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        return "locked" in str(error)  # SQLAlchemy says whatever else is wrong
    return False


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


def add_lessons(classroom: Classroom) -> None:
    """Adds new lessons to the gradebook, as `nbgrader generate_assignment` does.

    A lesson that gained or lost an exercise is added anew, and filled in again.
    """
    changed, rebuilt = [], []
    # Due dates are kept in a file, too, in case the gradebook is lost.
    kept = classroom.folder / "grading" / "due-dates.json"
    dates = json.loads(read_text(kept) or "{}")
    with opened(classroom) as book:
        for name, lesson in classroom.lessons.items():
            try:
                book.find_assignment(name)
            except MissingEntry:
                book.add_assignment(name, duedate=dates.get(name))
            metadata = map(nbgrader_metadata, checks(lesson).values())
            points = {entry["grade_id"]: float(entry["points"]) for entry in metadata}
            try:
                known = book.find_notebook(name, name)
            except MissingEntry:
                changed.append(name)
                continue
            before = {cell.name: cell.max_score for cell in known.grade_cells}
            has_others = {cell.name for cell in known.source_cells} != {
                cell.metadata.nbgrader.grade_id
                for cell in lesson.cells
                if utils.is_solution(cell) or utils.is_locked(cell)
            }
            if before != points or has_others:
                changed.append(name)
            if has_others and known.submissions:
                rebuilt.append(name)
        now = {
            entry.name: str(entry.duedate)
            for entry in book.assignments
            if entry.duedate
        }
    if now != dates:
        write(kept, json.dumps(now) + "\n")
    for name in changed:
        refilled = remove_lesson(classroom, name) if name in rebuilt else {}
        names = {"notebook": name, "assignment": name}
        with usable(classroom.db_url) as address:
            lesson = release(classroom.lessons[name])
            names["db_url"] = address
            SaveCells().preprocess(lesson, {"nbgrader": names})
        for submission, published in refilled.items():
            if record := classroom.store.get(published.key):
                save(classroom, submission, record.result, lost=published)
        if refilled:
            say(
                f"{name} has gained or lost exercises: its {len(refilled)} graded "
                "submissions keep the scores of the others. `grade` grades them again."
            )


def remove_lesson(classroom: Classroom, name: str) -> dict[Submission, Publication]:
    """Removes a lesson and its submissions from the gradebook, but not its due date.

    What a person gave is saved before, and returned.
    """
    kept = {
        submission: classroom.publication(submission)
        for submission in classroom.submissions(name)
    }
    for submission, entry in entries(classroom, kept).items():
        facts = {"given": entry.given, "extension_s": entry.extension_s}
        kept[submission] = dataclasses.replace(kept[submission], shown="", **facts)
        classroom.write_publication(submission, kept[submission])
    with opened(classroom) as book:
        due = book.find_assignment(name).duedate
        book.remove_assignment(name)
        book.add_assignment(name, duedate=due)
    return kept


def due_dates(classroom: Classroom) -> dict[str, datetime.datetime | None]:
    """Reads until when assignments are to be submitted, in UTC; None is no date."""
    with opened(classroom) as book:
        dates = {assignment.name: assignment.duedate for assignment in book.assignments}
    return dict(sorted(dates.items()))


def save(
    classroom: Classroom,
    submission: Submission,
    result: Result,
    *,
    is_new_file: bool = False,
    lost: Publication | None = None,
) -> None:
    """Writes one result: the automatic scores, and a person's only where `lost`.

    Without a score (NEEDS_REVIEW) the scores stay open until a person gives them. Those
    that a person gave for an earlier file are kept, and marked to be looked at again,
    as nbgrader itself does. Those that the gradebook has `lost` are written again.
    """
    with opened(classroom) as book:
        book.update_or_create_student(submission.student)
        with book.db.no_autoflush:
            row = book.update_or_create_submission(result.lesson, submission.student)
        if lost and lost.extension_s is not None:
            row.extension = datetime.timedelta(seconds=lost.extension_s)
        needs_review = result.status is Status.NEEDS_REVIEW
        place = (result.lesson, result.lesson, submission.student)
        for graded in result.exercises:
            try:
                grade = book.find_grade(CHECK_PREFIX + graded.exercise, *place)
            except MissingEntry:  # the lesson has lost this exercise since
                continue
            name = graded.exercise
            given = ExerciseScore(**lost.given.get(name, {})) if lost else None
            if given:
                grade.manual_score = given.manual
                grade.extra_credit = given.extra or None
                grade.needs_manual_grade = given.is_for_earlier_file
            by_hand = grade.manual_score is not None or bool(grade.extra_credit)
            is_for_earlier = by_hand and (is_new_file or grade.needs_manual_grade)
            is_open = needs_review and grade.manual_score is None
            grade.auto_score = None if needs_review else graded.points
            grade.needs_manual_grade = is_open or is_for_earlier
            is_untouched = graded.outcome is Outcome.NOT_ATTEMPTED
            with contextlib.suppress(MissingEntry):
                comment = book.find_comment(graded.exercise, *place)
                said = "No response." if is_untouched else graded.message
                comment.auto_comment = said
                if given and given.comment:
                    comment.manual_comment = given.comment


def entries(
    classroom: Classroom, publications: Mapping[Submission, Publication]
) -> dict[Submission, Entry]:
    """Reads what the gradebook has on submissions; brings penalties up to date first.

    A submission of which it has no score is not among them.

    Raises:
        ValueError: an extension cannot be read.
    """
    wanted = {
        (submission.lesson, submission.student): submission
        for submission in publications
    }
    rules, known = Lateness(classroom), {}
    students = {student for _, student in wanted}
    with opened(classroom) as book:
        rows = (
            book.db.query(SubmittedNotebook)
            .join(SubmittedNotebook.assignment)
            .options(
                contains_eager(SubmittedNotebook.assignment).joinedload(
                    SubmittedAssignment.assignment
                ),
                joinedload(SubmittedNotebook.notebook),
                selectinload(SubmittedNotebook.grades).joinedload(Grade.cell),
                selectinload(SubmittedNotebook.comments).joinedload(Comment.cell),
            )
        )
        if len(students) == 1:
            rows = rows.filter(SubmittedAssignment.student_id == students.pop())
        for row in rows:
            lesson = row.assignment.assignment.name
            submission = wanted.get((lesson, row.assignment.student_id))
            if submission and row.notebook.name == lesson and is_saved(row):
                is_newest = not publications[submission].unreadable
                late = rules.update(row, submission, is_newest=is_newest)
                extension = row.assignment.extension
                seconds = extension.total_seconds() if extension else None
                known[submission] = Entry(scores_in(row), late, seconds)
    return known


def is_saved(row: SubmittedNotebook) -> bool:
    """Tells whether a result was written; nbgrader makes the row before that."""
    return not row.grades or any(
        grade.needs_manual_grade or not grade.auto_score is grade.manual_score is None
        for grade in row.grades
    )


def scores_in(row: SubmittedNotebook) -> dict[str, ExerciseScore]:
    comments = {note.cell.name: note.manual_comment for note in row.comments}
    scores = {}
    for grade in row.grades:
        name = grade.cell.name.removeprefix(CHECK_PREFIX)
        score = ExerciseScore(
            auto=grade.auto_score,
            manual=grade.manual_score,
            extra=grade.extra_credit or 0.0,
            comment=comments.get(name) or "",
        )
        is_given = score.by_hand and score.score is not None
        is_earlier = grade.needs_manual_grade and is_given
        scores[name] = dataclasses.replace(score, is_for_earlier_file=is_earlier)
    return scores


def remove_student(classroom: Classroom, student: str) -> None:
    with opened(classroom) as book, contextlib.suppress(MissingEntry):
        book.remove_student(student)


def add_students(classroom: Classroom) -> None:
    """Adds learners, and the names in people.csv, which the formgrader shows.

    Its "Lovelace, Ada" and "Ada Lovelace" have the same last name. Where no name is
    known, the id is shown in its place.
    """
    names = classroom.names()
    submitted = {submission.student for submission in classroom.submissions()}
    with opened(classroom) as book:
        known = {student.id: student for student in book.students}
        for learner in sorted({*names, *submitted}):
            if not (student := known.get(learner)):
                book.db.add(student := Student(id=learner))
            if learner in names or student.last_name is None:
                name = names.get(learner, learner)
                last, comma, first = name.partition(", ")
                if not comma:
                    first, _, last = name.rpartition(" ")
                student.first_name, student.last_name = first[:128], last[:128]
