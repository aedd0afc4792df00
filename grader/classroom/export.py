"""Writes grades for spreadsheets, Canvas and Moodle; only here are names added."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from grader.atomic_files import write_file
from grader.classroom.folder import Classroom, Submission
from grader.classroom.publishing import final_result_of
from grader.results import Status, late_text
from grader.submissions.clean_text import clean_text

CSV_COLUMNS = ("student", "name", "lesson", "status", "score", "max_score", "note")
# Canvas takes the first five by their place; of the ids, one that it knows is enough.
CANVAS_COLUMNS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
# Moodle finds columns by these names; a worksheet needs all but name and comments.
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
        score: the points, or None where there are none yet.
        max_score: points that can be earned.
        note: a comment for the student.
        late: how late the work was, in words.
    """

    student: str
    lesson: str
    status: Status
    score: float | None
    max_score: float
    note: str = ""
    late: str = ""


def export(folder: Path, kind: str = "csv", to: Path | None = None) -> int:
    """Writes all grades as CSV, or for Canvas or Moodle; instructors' scores included.

    Raises:
        ValueError: an unknown format.
    """
    if kind not in WRITERS:
        raise ValueError(f'No format "{kind}": choose {", ".join(WRITERS)}.')
    classroom = Classroom(folder)
    name = "grades.csv" if kind == "csv" else f"grades-{kind}.csv"
    grades, ungraded = [], []
    for submission in classroom.submissions():
        if classroom.published(submission):
            grades.append(grade_of(classroom, submission))
        else:
            ungraded.append(submission)
    path = to or classroom.folder / "grading" / name
    for written in WRITERS[kind](path, grades, classroom.names()):
        print(f"wrote {written}: {len(grades)} grades")
    for grade in grades:
        if grade.score is None:
            who = f"{grade.student} {grade.lesson}"
            print(f"without a score: {who} ({grade.status}: see `explain`)")
    for submission in ungraded:
        print(f"not in it: {submission} is not graded yet (run `grade`)")
    return 1 if ungraded else 0


def grade_of(classroom: Classroom, submission: Submission) -> Grade:
    """Makes a grade of the result that counts, a person's scores included."""
    final = final_result_of(classroom, submission)
    reasons = final.reasons if final.status is Status.STUDENT_ERROR else ()
    return Grade(
        student=submission.student,
        lesson=submission.lesson,
        status=final.status,
        score=final.score,
        max_score=final.max_points,
        note="; ".join([*reasons, *final.notes, *final.decisions, *final.to_review]),
        late=late_text(final) if final.late else "",
    )


def write_csv(
    path: Path, grades: Iterable[Grade], names: Mapping[str, str]
) -> list[Path]:
    """Writes one row per grade; `names` maps ids to names."""
    rows = [
        (
            g.student,
            names.get(g.student),
            g.lesson,
            g.status,
            g.score,
            g.max_score,
            g.note,
        )
        for g in in_order(grades)
    ]
    return [write_rows(path, [CSV_COLUMNS, *rows])]


def write_canvas(
    path: Path, grades: Iterable[Grade], names: Mapping[str, str]
) -> list[Path]:
    """Writes a file for Canvas: Grades, Import; a row per student, a column per lesson.

    The student's id stands for both "SIS User ID" and "SIS Login ID", so it has to be
    one of them. "ID" is Canvas's own number, which we do not know.
    """
    possible: dict[str, float] = {}
    scores: dict[str, dict[str, float | None]] = {}
    for g in in_order(grades):
        possible[g.lesson] = max(possible.get(g.lesson, 0), g.max_score)
        scores.setdefault(g.student, {})[g.lesson] = g.score
    rows = [
        (names.get(student), "", student, student, "", *map(own.get, possible))
        for student, own in sorted(scores.items())
    ]
    header = (*CANVAS_COLUMNS, *possible)
    # Canvas itself writes the four spaces.
    points = ("    Points Possible", *[""] * 4, *possible.values())
    return [write_rows(path, [header, points, *rows])]


def write_moodle(
    path: Path, grades: Iterable[Grade], names: Mapping[str, str]
) -> list[Path]:
    """Writes a file for Moodle per lesson; returns their paths.

    Ids such as "Participant 12345" make it a grading worksheet of an assignment. All
    others serve Moodle's Grades, Import, CSV file, where "Identifier" is mapped to ID
    number, user name or e-mail address. With several lessons the file of each has the
    lesson's name behind that of `path`: grades-01_pmap_spmd.csv.
    """
    by_lesson: dict[str, list[Sequence]] = {}
    for g in in_order(grades):
        # Moodle takes the comment for HTML, and no date for a grade never changed.
        note = MARKUP.sub(lambda sign: html.escape(sign[0]), text_cell(g.note))
        row = (g.student, names.get(g.student), g.score, g.max_score, "", note)
        by_lesson.setdefault(g.lesson, []).append(row)
    written = []
    for lesson, rows in (by_lesson or {"": []}).items():
        name = f"{path.stem}-{lesson}{path.suffix}"
        target = path.with_name(name) if len(by_lesson) > 1 else path
        written.append(write_rows(target, [MOODLE_COLUMNS, *rows]))
    return written


WRITERS = {"csv": write_csv, "canvas": write_canvas, "moodle": write_moodle}


def in_order(grades: Iterable[Grade]) -> list[Grade]:
    return sorted(grades, key=lambda grade: (grade.lesson, grade.student))


def write_rows(path: Path, rows: Iterable[Sequence[str | float | None]]) -> Path:
    """Replaces a file by a CSV file in one step, or leaves it as it was."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(map(cell_text, row) for row in rows)
    write_file(path, text.getvalue().encode(), mode=0o600)
    return path


def cell_text(value: str | float | None) -> str:
    """Writes a number without noise, such as 2.5; nothing for None, which is no 0."""
    if isinstance(value, str):
        return text_cell(value)
    return "" if value is None else f"{value:.10g}"


def text_cell(text: str) -> str:
    """Makes a cell of one line that no spreadsheet takes for a formula."""
    cleaned = FORMULA.sub("'", clean_text(text, MAX_CELL))
    return re.sub(r"[\t\n]+", " ", cleaned)
