"""Writes grades for spreadsheets, Canvas and Moodle; names are joined here alone."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from grader.atomic_files import write_file
from grader.classroom import gradebook
from grader.classroom.folder import Classroom, Submission
from grader.classroom.publishing import records
from grader.results import Record, Status
from grader.submissions.clean_text import clean_text

CSV_COLUMNS = ("student", "name", "lesson", "status", "score", "max_score", "note")
# Canvas takes the first five by their place; of the ids, one that it knows is enough.
CANVAS_COLUMNS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
# Moodle finds columns by these names; a worksheet lacks none but name and comments.
MOODLE_COLUMNS = (
    "Identifier",
    "Full name",
    "Grade",
    "Maximum grade",
    "Last modified (grade)",
    "Feedback comments",
)
MAX_CELL = 2000
# Spreadsheets take these for the start of a formula, in full width too. Where the
# semicolon separates cells, they also do so in the middle of one of ours.
SIGNS = r"=+\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212"
FORMULA = re.compile(rf"^(?=[\t\r\n])|(?:^|(?<=;))(?=\s*[{SIGNS}])")
MARKUP = re.compile(r"[<&](?=[A-Za-z/!?#])")


@dataclasses.dataclass(frozen=True)
class Grade:
    """One student's grade for one lesson.

    Attributes:
        student: the id under which the work was graded, never a name.
        lesson: the lesson's name.
        status: one of five.
        score: the points, or None where there are none yet.
        max_score: points to be had.
        note: what to tell the student.
    """

    student: str
    lesson: str
    status: Status
    score: float | None
    max_score: float
    note: str = ""


Say = Callable[[str], None]


def export(
    folder: Path, kind: str = "csv", to: Path | None = None, *, say: Say = print
) -> int:
    """Writes all grades as CSV, or for Canvas or Moodle; instructors' scores included.

    Raises:
        ValueError: an unknown format.
    """
    if kind not in FORMATS:
        raise ValueError(f'No format "{kind}": choose {", ".join(FORMATS)}.')
    classroom = Classroom(folder)
    name = "grades.csv" if kind == "csv" else f"grades-{kind}.csv"
    path = to or classroom.folder / "grading" / name
    open_ones = []
    grades = []
    for submission, record in records(classroom):
        if record is None:
            open_ones.append(submission)
        else:
            grades.append(grade_of(classroom, submission, record))
    written = FORMATS[kind](path, grades, classroom.names())
    for place in written or [path]:
        say(f"wrote {place}: {len(grades)} grades")
    for grade in grades:
        if grade.score is None:
            who = f"{grade.student} {grade.lesson}"
            say(f"without a score: {who} ({grade.status}: see `explain`)")
    for submission in open_ones:
        say(f"not in it: {submission} is not graded yet (run `grade`)")
    return 1 if open_ones else 0


def grade_of(classroom: Classroom, submission: Submission, record: Record) -> Grade:
    """Joins the result and the scores that instructors gave, which count first."""
    result = record.result
    entered = gradebook.scores_of(
        classroom.db_url, classroom.course_id, submission.lesson, submission.student
    )
    scores = [one.score for one in entered.values()]
    decided = scores and None not in scores
    by_hand = any(one.manual is not None or one.extra for one in entered.values())
    score = sum(scores) if decided else result.score
    note = "; ".join([*result.notes, *(["scored by a person"] if by_hand else [])])
    if result.status is Status.STUDENT_ERROR:
        note = "; ".join([*result.reasons, note]).strip("; ")
    return Grade(
        student=submission.student,
        lesson=submission.lesson,
        status=result.status,
        score=score,
        max_score=result.max_points,
        note=note,
    )


def write_csv(path: Path, grades: Iterable[Grade], names: Mapping[str, str]) -> None:
    """Writes one row per grade; `names` maps ids to names.

    Raises:
        ValueError: a student has two grades for one lesson.
    """
    rows = [
        (
            text_cell(grade.student),
            text_cell(names.get(grade.student, "")),
            text_cell(grade.lesson),
            grade.status.value,
            number_cell(grade.score),
            number_cell(grade.max_score),
            text_cell(grade.note),
        )
        for grade in _in_order(grades)
    ]
    _write(path, [CSV_COLUMNS, *rows])


def write_canvas(path: Path, grades: Iterable[Grade], names: Mapping[str, str]) -> None:
    """Writes a file for Canvas: Grades, Import; a row per student, a column per lesson.

    The student's id stands for both "SIS User ID" and "SIS Login ID", so it has to be
    one of them. "ID" is Canvas's own number, which we do not know.

    Raises:
        ValueError: a student has two grades for one lesson.
    """
    ordered = _in_order(grades)
    lessons: dict[str, float] = {}
    for grade in ordered:
        known = lessons.get(grade.lesson, 0)
        lessons[grade.lesson] = max(known, grade.max_score)
    scores = {(grade.student, grade.lesson): grade.score for grade in ordered}
    header = [*CANVAS_COLUMNS, *map(text_cell, lessons)]
    # Canvas itself writes the four spaces.
    possible = ["    Points Possible", *[""] * 4, *map(number_cell, lessons.values())]
    rows = [
        [
            text_cell(names.get(student, "")),
            "",
            text_cell(student),
            text_cell(student),
            "",
            *(number_cell(scores.get((student, lesson))) for lesson in lessons),
        ]
        for student in sorted({grade.student for grade in ordered})
    ]
    _write(path, [header, possible, *rows])


def write_moodle(
    path: Path, grades: Iterable[Grade], names: Mapping[str, str]
) -> list[Path]:
    """Writes a file for Moodle per lesson; returns their paths.

    Ids such as "Participant 12345" make it a grading worksheet of an assignment. All
    others serve Moodle's Grades, Import, CSV file, where "Identifier" is mapped to ID
    number, user name or e-mail address. With several lessons the file of each has the
    lesson's name behind that of `path`: grades-01_pmap_spmd.csv.

    Raises:
        ValueError: a student has two grades for one lesson.
    """
    by_lesson: dict[str, list[Grade]] = {}
    for grade in _in_order(grades):
        by_lesson.setdefault(grade.lesson, []).append(grade)
    if len(by_lesson) < 2:
        targets = {lesson: path for lesson in by_lesson or [""]}
    else:
        targets = {
            k: path.with_name(f"{path.stem}-{k}{path.suffix}") for k in by_lesson
        }
    for lesson, target in targets.items():
        rows = [_moodle_row(grade, names) for grade in by_lesson.get(lesson, [])]
        _write(target, [MOODLE_COLUMNS, *rows])
    return list(targets.values())


def text_cell(text: str) -> str:
    """Makes a cell of one line that no spreadsheet takes for a formula."""
    cleaned = FORMULA.sub("'", clean_text(text, MAX_CELL))
    return re.sub(r"[\t\n]+", " ", cleaned)


def number_cell(number: float | None) -> str:
    """Writes a number without noise, such as 2.5; nothing for None, which is no 0."""
    return "" if number is None else f"{number:.10g}"


def _moodle_row(grade: Grade, names: Mapping[str, str]) -> Sequence[str]:
    """Writes a student's row; Moodle takes the comment for HTML, no date for never."""
    return (
        text_cell(grade.student),
        text_cell(names.get(grade.student, "")),
        number_cell(grade.score),
        number_cell(grade.max_score),
        "",
        MARKUP.sub(lambda sign: html.escape(sign[0]), text_cell(grade.note)),
    )


def _in_order(grades: Iterable[Grade]) -> list[Grade]:
    """Sorts grades by lesson and student."""
    ordered = sorted(grades, key=lambda grade: (grade.lesson, grade.student))
    keys = [(grade.lesson, grade.student) for grade in ordered]
    for (lesson, student), following in itertools.pairwise(keys):
        if (lesson, student) == following:
            raise ValueError(f"{student!r} has two grades for {lesson}. Keep one.")
    return ordered


def _write(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Replaces a file by a CSV file at once, or leaves it as it was."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    write_file(path, text.getvalue().encode(), mode=0o600)


FORMATS = {"csv": write_csv, "canvas": write_canvas, "moodle": write_moodle}
