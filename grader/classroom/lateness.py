"""Finds out what was submitted late: due dates, extensions, times, penalties.

Due dates and penalties are nbgrader's own; extensions are in grading/extensions.csv.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import re
import sys
from pathlib import Path

from nbgrader.api import SubmittedNotebook
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import parse_utc

from grader.atomic_files import write
from grader.classroom.folder import Classroom, Submission
from grader.classroom.spreadsheet import Table, read_table

TIME = "timestamp.txt"  # nbgrader's file: when a submission was made
MARK = "late.txt"  # beside it: the LMS says that it was late, but not by how much
COLUMNS = ["student", "lesson", "until"]
CANVAS_LATE = re.compile(r"(?i)_LATE_\d+_\d+_[^/]*$")


def write_time(path: Path, name: str, *, is_canvas: bool) -> None:
    """Writes beside a collected file when it was submitted, as nbgrader does.

    `name` is its name in the download. The times in Canvas's archives are those of the
    download; instead, Canvas marks the names of late files.
    """
    for file in (TIME, MARK):
        path.with_name(file).unlink(missing_ok=True)
    if not is_canvas:
        write(path.with_name(TIME), time_of_change(path))
    elif CANVAS_LATE.search(name):
        write(path.with_name(MARK), "Canvas marked this file as late.\n")


def time_of_change(path: Path) -> str:
    """Writes a file's time as nbgrader writes it."""
    seconds = int(path.stat().st_mtime)
    time = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return time.strftime("%Y-%m-%d %H:%M:%S UTC\n")


class Lateness:
    """The rules for late work of a class; `extensions` say until when who may submit.

    Raises:
        ValueError: extensions.csv cannot be read.
    """

    def __init__(self, classroom: Classroom):
        self.classroom = classroom
        self.path = classroom.folder / "grading" / "extensions.csv"
        exists = self.path.exists()
        self.table = read_table(self.path) if exists else Table(COLUMNS, [])
        places = {name: self.table.column(name) for name in COLUMNS}
        if missing := [name for name in COLUMNS if places[name] is None]:
            raise ValueError(
                f"{self.path} has no column {', '.join(missing)}. Its first line must "
                f"be: {','.join(COLUMNS)}"
            )
        self.extensions: dict[tuple[str, str], datetime.datetime] = {}
        for number, row in enumerate(self.table.rows, 2):
            student, lesson, until = (row[place].strip() for place in places.values())
            try:
                place = student, classroom.lesson_named(lesson)
                self.extensions[place] = moment(until)
            except ValueError as error:
                where = f"{self.path}, line {number}"
                raise ValueError(f"{where}: {error}") from None

    def remove(self, student: str) -> None:
        """Removes a learner from the file of extensions."""
        if student in {name for name, _ in self.extensions}:
            place, rows = self.table.column("student"), self.table.rows
            self.table.rows = [row for row in rows if row[place].strip() != student]
            self.table.write(self.path, mode=0o644)

    @functools.cached_property
    def plugin(self) -> LateSubmissionPlugin:
        """The class's plug-in, which may be in a module in the course folder."""
        if str(self.classroom.folder) not in sys.path:
            sys.path.append(str(self.classroom.folder))
        step = AssignLatePenalties(config=self.classroom.settings)
        step.init_plugin()
        return step.plugin_inst

    def update(
        self, row: SubmittedNotebook, submission: Submission, *, is_newest: bool
    ) -> str:
        """Brings the gradebook's facts up to date; returns how late it is, in words.

        The time of the newest file is no time of an earlier one that counts instead.
        """
        submitted, due = row.assignment, row.assignment.assignment.duedate
        text, is_readable = small_text(submission.folder / TIME), True
        if is_newest:
            try:
                submitted.timestamp = moment(text) if text else None
            except ValueError:
                submitted.timestamp, is_readable = None, False
        until = self.extensions.get((submission.student, submission.lesson))
        if self.path.exists() or due is None:  # else those in the gradebook stay
            submitted.extension = until - due if until and due else None
        seconds = submitted.total_seconds_late
        marked = is_newest and (submission.folder / MARK).exists()
        row.late_submission_penalty = None
        if due and not is_readable:
            return f"at an unknown time, since {TIME} cannot be read"
        # The LMS's mark says nothing of an extension.
        is_extended = until is not None and (due is None or until > due)
        if not seconds and (not marked or is_extended):
            return ""
        score = sum(grade.score for grade in row.grades)
        penalty = self.plugin.late_submission_penalty(
            submission.student, score, seconds or 1
        )
        if penalty is not None:
            row.late_submission_penalty = min(max(penalty, 0.0), max(score, 0.0))
        return f"{in_words(seconds)} late" if seconds else "late, as the LMS says"


def small_text(path: Path) -> str:
    """Reads one of nbgrader's small files, which learners may have made themselves."""
    if path.is_symlink() or not path.is_file():
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(500).strip()


def moment(text: str) -> datetime.datetime:
    """Reads a time as nbgrader does, which takes it for UTC; a day means its end."""
    with contextlib.suppress(ValueError, OverflowError):
        if day := re.match(r"\d{4}-\d\d-\d\d", text):
            is_day = day[0] == text
            return parse_utc(f"{text} 23:59:59" if is_day else text)
    raise ValueError(f'"{text[:50]}" is no time. Write it like 2026-04-03 17:00 UTC.')


def in_words(seconds: float) -> str:
    """Writes a time roughly: "2 days", "5 hours", "1 minute"."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if number := int(seconds // size):
            return f"{number} {unit}{'s' * (number > 1)}"
    return "less than a minute"
