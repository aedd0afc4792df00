"""Writes grades for spreadsheets; names are added only in exports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from grader.classroom.folder import Classroom, Submission
from grader.classroom.publishing import results_of
from grader.classroom.spreadsheet import Table, cell_text
from grader.results import Result, Status, late_text

COLUMNS = "student name lesson status score max_score late note".split()


def export(folder: Path, to: Path | None = None, *, lesson: str = "") -> int:
    """Writes the grades of one lesson or all as CSV; instructors' scores included.

    Raises:
        ValueError: no such lesson.
    """
    classroom = Classroom(folder)
    results = results_of(classroom, lesson)
    grades = {one: final for one, final in results.items() if final}
    path = to or classroom.folder / "grading" / "grades.csv"
    write_csv(path, grades, classroom.names())
    print(f"wrote {path}: {len(grades)} grades")
    return print_missing(results)


def print_missing(results: Mapping[Submission, Result | None]) -> int:
    """Says which scores are not in an export; returns the exit status."""
    for submission, final in results.items():
        if final and final.score is None:
            print(f"without a score: {submission} ({final.status}: see `explain`)")
    ungraded = [submission for submission, final in results.items() if not final]
    for submission in ungraded:
        print(f"not in it: {submission} is not graded yet (run `grade`)")
    return 1 if ungraded else 0


def write_csv(
    path: Path, grades: Mapping[Submission, Result], names: Mapping[str, str]
) -> None:
    """Writes one row per grade; `names` are by id."""
    rows = []
    for one, final in sorted(grades.items()):
        row = one.student, names.get(one.student, ""), one.lesson, final.status
        row = *row, final.score, final.max_points, lateness_of(final), note_of(final)
        rows.append([*map(cell_text, row)])
    Table(COLUMNS, rows, has_bom=True).write(path)


def lateness_of(final: Result) -> str:
    return late_text(final) if final.late else ""


def note_of(final: Result) -> str:
    """Returns what a learner is told beside the score."""
    reasons = final.reasons if final.status is Status.STUDENT_ERROR else ()
    return "; ".join([*reasons, *final.notes, *final.decisions, *final.to_review])
