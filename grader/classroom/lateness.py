"""Finds out what was submitted late: due dates, extensions, times, penalties.

Due dates and penalties are nbgrader's own; extensions are in grading/extensions.csv.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import re
import sys
import zoneinfo
from collections.abc import Iterable
from pathlib import Path

import dateutil.parser
from nbgrader.api import SubmittedNotebook
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import AssignLatePenalties
from traitlets import TraitError

from coursekit.i18n import plural
from grader.atomic_files import read_text, write
from grader.classroom.folder import CONFIG, Classroom, Submission
from grader.classroom.roster import read_people
from grader.classroom.spreadsheet import Table, read_table
from grader.submissions.clean_text import clean_line
from grader.submissions.lms_names import safe_id
from grader.submissions.versions import Version

TIME = "timestamp.txt"  # nbgrader's file: when a submission was made
MARK = "late.txt"  # beside it: the LMS says that it was late, but not by how much
COLUMNS = ["student", "lesson", "until"]
CANVAS_LATE = re.compile(r"(?i)_LATE_\d+_\d+_[^/]*$")
MARKED = "late"  # instead of a time: that of a file with this mark
# "2026-04-03", "2026-04-03 17:00" or "2026-04-03 17:00 Europe/Berlin"
MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(.*?)(?: ([A-Za-z][\w/+-]*))?")
DAY_S = 86400


@dataclasses.dataclass(frozen=True)
class Late:
    """How late a submission is.

    Attributes:
        words: such as "2 days late"; "" if it is not.
        due: until when it could have been submitted, extension included.
        penalty: the points that are taken off for that.
        in_time: an earlier file of the learner's that was not late.
    """

    words: str = ""
    due: str = ""
    penalty: float = 0.0
    in_time: str = ""


NOT_LATE = Late()


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
    return written_time(path.stat().st_mtime)


def written_time(seconds: float) -> str:
    time = datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)
    return time.strftime("%Y-%m-%d %H:%M:%S UTC\n")


def time_known(submission: Submission) -> str:
    """Returns what is known of a submission's time: its text, `MARKED`, or ""."""
    is_marked = (submission.folder / MARK).exists()
    return MARKED if is_marked else small_text(submission.folder / TIME)


def time_of_version(version: Version) -> str:
    """Returns the same of a file in a download."""
    if version.number:  # Canvas's, whose time is that of the download
        return MARKED if CANVAS_LATE.search(version.path) else ""
    return written_time(version.time).strip()


def remember_earlier(
    classroom: Classroom, submission: Submission, files: Iterable[tuple[str, str]]
) -> None:
    """Adds files that a newer one superseded to their list: their times and names."""
    path = classroom.earlier_path(submission)
    lines = read_text(path).splitlines()
    for time, name in files:
        line = f"{clean_line(time, 100)}\t{clean_line(name.rpartition('/')[2], 200)}"
        if not any(one.startswith(line) for one in lines):
            lines.append(line)
    write(path, "".join(f"{line}\n" for line in lines))


class Lateness:
    """The rules for late work; `extensions` hold until when a learner may submit.

    Raises:
        ValueError: extensions.csv cannot be read, or names nobody; the setting of a
            penalty is wrong.
    """

    def __init__(self, classroom: Classroom):
        self.classroom, zone = classroom, classroom.zone
        self.path = classroom.folder / "grading" / "extensions.csv"
        exists = self.path.exists()
        self.table = read_table(self.path) if exists else Table(COLUMNS, [])
        places = {name: self.table.column(name) for name in COLUMNS}
        if missing := [name for name in COLUMNS if places[name] is None]:
            raise ValueError(
                f"{self.path} has no column {', '.join(missing)}. Its first line must "
                f"be: {','.join(COLUMNS)}"
            )
        self.plugin = self.find_plugin()
        self.extensions: dict[tuple[str, str], datetime.datetime] = {}
        for number, row in enumerate(self.table.rows, 2):
            student, lesson, until = (row[place].strip() for place in places.values())
            try:
                place = self.student_named(student), classroom.lesson_named(lesson)
                self.extensions[place] = moment(until, zone)
            except ValueError as error:
                where = f"{self.path}, line {number}"
                raise ValueError(f"{where}: {error}") from None

    def student_named(self, text: str) -> str:
        """Returns the id of a learner, who may have submitted nothing yet.

        Raises:
            ValueError: it is a name or an address, and of nobody or of several.
        """
        student = self.classroom.student_named(text)
        is_name = "@" in text or safe_id(text) != text
        known = self.classroom.students() | read_people(self.classroom.roster).keys()
        if is_name and student not in known:
            raise ValueError(
                f'"{text[:50]}" is nobody in {self.classroom.roster}, or several '
                "people. Write the learner's id, or import a roster that has this "
                "address or name."
            )
        return student

    def remove(self, student: str) -> None:
        """Removes a learner from the file of extensions."""
        if student in {name for name, _ in self.extensions}:
            place, named = self.table.column("student"), self.classroom.student_named
            rows = self.table.rows
            self.table.rows = [r for r in rows if named(r[place].strip()) != student]
            self.table.write(self.path, mode=0o644)

    def find_plugin(self) -> LateSubmissionPlugin:
        """Makes the class's plug-in, which may be in a module in the course folder."""
        if str(self.classroom.folder) not in sys.path:
            sys.path.append(str(self.classroom.folder))
        try:
            step = AssignLatePenalties(config=self.classroom.settings)
            step.init_plugin()
        except TraitError as error:
            raise ValueError(f"{self.classroom.folder / CONFIG}: {error}") from None
        return step.plugin_inst

    def update(
        self, row: SubmittedNotebook, submission: Submission, *, is_newest: bool
    ) -> Late:
        """Brings the gradebook's facts up to date; returns how late it is.

        If an earlier file counts, the time of the newest file is not used.
        """
        submitted, due = row.assignment, row.assignment.assignment.duedate
        text, is_readable = small_text(submission.folder / TIME), True
        if is_newest:
            try:
                zone = self.classroom.zone
                submitted.timestamp = moment(text, zone) if text else None
            except ValueError:
                submitted.timestamp, is_readable = None, False
        until = self.extensions.get((submission.student, submission.lesson))
        if self.path.exists() or due is None:  # else those in the gradebook stay
            submitted.extension = until - due if until and due else None
        seconds = submitted.total_seconds_late
        marked = is_newest and (submission.folder / MARK).exists()
        row.late_submission_penalty = None
        if due and not is_readable:
            return Late(f"at an unknown time, since {TIME} cannot be read")
        # The LMS's mark says nothing of an extension.
        is_extended = until is not None and (due is None or until > due)
        if not seconds and (not marked or is_extended):
            return NOT_LATE
        ends = due + (submitted.extension or datetime.timedelta()) if due else None
        if seconds:
            seconds = seconds_late(ends, submitted.timestamp, self.classroom.zone)
        score = round(sum(grade.score for grade in row.grades), 2)
        penalty = self.plugin.late_submission_penalty(
            submission.student, score, seconds or 1
        )
        if penalty is not None:
            penalty = min(max(penalty, 0.0), max(score, 0.0))
            row.late_submission_penalty = penalty
        return Late(
            words=f"{in_words(seconds)} late" if seconds else "late, as the LMS says",
            due=self.classroom.time_text(ends) if ends else "",
            penalty=penalty or 0.0,
            in_time=self.earlier_in_time(submission, ends),
        )

    def earlier_in_time(
        self, submission: Submission, ends: datetime.datetime | None
    ) -> str:
        """Describes the newest of the files before this one that was not late."""
        found = []
        for line in read_text(self.classroom.earlier_path(submission)).splitlines():
            time, _, name = line.partition("\t")
            with contextlib.suppress(ValueError):  # `MARKED`, for instance
                when = moment(time, self.classroom.zone) if time else None
                if when is None or (ends and when <= ends):
                    shown = self.classroom.time_text(when) if when else ""
                    found.append((shown, name))
        if not found:
            return ""
        return ", ".join(filter(None, max(found))) or "without a time"


def small_text(path: Path) -> str:
    """Reads one of nbgrader's small files, which learners may have made themselves."""
    if path.is_symlink() or not path.is_file():
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(500).strip()


def moment(text: str, zone: datetime.tzinfo = datetime.UTC) -> datetime.datetime:
    """Reads a time, in `zone` unless it names another; a day means its end.

    Returns it in UTC and without a zone, as nbgrader keeps it.
    """
    # A zone that does not exist raises a KeyError, an OSError or a ValueError.
    with contextlib.suppress(ValueError, OverflowError, KeyError, OSError):
        if found := MOMENT.fullmatch(text):
            day, clock, name = found.groups()
            time = dateutil.parser.parse(day + (clock or " 23:59:59"))
            time = time.replace(tzinfo=time.tzinfo or zone)
            if name and name != time.tzname():  # CEST, say, is where the class is
                time = time.replace(tzinfo=zoneinfo.ZoneInfo(name))
            return time.astimezone(datetime.UTC).replace(tzinfo=None)
    raise ValueError(
        f'"{text[:50]}" is no time. Write it like 2026-04-03 17:00, or '
        "2026-04-03 17:00 Europe/Berlin."
    )


def seconds_late(
    due: datetime.datetime, time: datetime.datetime, zone: datetime.tzinfo
) -> float:
    """Counts from one time in UTC to another; from noon to noon it is a day.

    So it is when the clocks change in between, after 23 or 25 hours.
    """
    elapsed = (time - due).total_seconds()
    here, there = (
        one.replace(tzinfo=datetime.UTC).astimezone(zone).replace(tzinfo=None)
        for one in (due, time)
    )
    by_clock = (there - here).total_seconds()
    return by_clock if max(elapsed, by_clock) >= DAY_S else elapsed


def in_words(seconds: float) -> str:
    """Writes a time roughly: "2 days", "5 hours", "1 minute"."""
    for unit, size in (("day", DAY_S), ("hour", 3600), ("minute", 60)):
        if number := int(seconds // size):
            return f"{number} {unit}{plural(number)}"
    return "less than a minute"
