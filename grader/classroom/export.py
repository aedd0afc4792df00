"""Writes grades for spreadsheets; names are added only in exports."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from grader.classroom.folder import Classroom, Submission
from grader.classroom.publishing import results_of
from grader.classroom.spreadsheet import Table, cell_text
from grader.results import Result, Status, late_text

COLUMNS = "student name lesson status score max_score late note".split()


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

    def __str__(self) -> str:
        return f"{self.student} {self.lesson}"


def export(folder: Path, to: Path | None = None, *, lesson: str = "") -> int:
    """Writes the grades of one lesson or all as CSV; instructors' scores included.

    Raises:
        ValueError: no such lesson.
    """
    classroom = Classroom(folder)
    grades, ungraded = grades_of(classroom, lesson)
    path = to or classroom.folder / "grading" / "grades.csv"
    write_csv(path, grades, classroom.names())
    print(f"wrote {path}: {len(grades)} grades")
    return print_missing(grades, ungraded)


def grades_of(
    classroom: Classroom, lesson: str = ""
) -> tuple[list[Grade], list[Submission]]:
    """Reads the grades, of one lesson or of all, and lists what is not graded yet."""
    found = results_of(classroom, lesson)
    grades = [grade_of(one, final) for one, final in found.items() if final]
    return grades, [one for one, final in found.items() if final is None]


def print_missing(grades: Iterable[Grade], ungraded: Sequence[Submission]) -> int:
    """Says which scores are not in an export; returns the exit status."""
    for grade in grades:
        if grade.score is None:
            print(f"without a score: {grade} ({grade.status}: see `explain`)")
    for submission in ungraded:
        print(f"not in it: {submission} is not graded yet (run `grade`)")
    return 1 if ungraded else 0


def grade_of(submission: Submission, final: Result) -> Grade:
    """Makes a grade of the result that counts, a person's scores included."""
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


def write_csv(path: Path, grades: Iterable[Grade], names: Mapping[str, str]) -> None:
    """Writes one row per grade; `names` are by id."""
    rows = []
    for one in sorted(grades, key=lambda grade: (grade.lesson, grade.student)):
        facts = dataclasses.asdict(one) | {"name": names.get(one.student, "")}
        rows.append([cell_text(facts[column]) for column in COLUMNS])
    Table(COLUMNS, rows, has_bom=True).write(path)
