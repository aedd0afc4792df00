"""Writes grades for spreadsheets, Canvas and Moodle; only here are names added."""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from grader.classroom.folder import Classroom, Submission
from grader.classroom.publishing import results_of
from grader.classroom.roster import Row, moodle_numbers, read_people
from grader.classroom.spreadsheet import table_of, text_cell
from grader.results import Result, Status, late_text

CSV_COLUMNS = "student name lesson status score max_score late note".split()
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

    def __str__(self) -> str:
        return f"{self.student} {self.lesson}"

    @property
    def comment(self) -> str:
        """What the student reads in the LMS."""
        return "; ".join(filter(None, [self.late, self.note]))


def export(
    folder: Path,
    kind: str = "csv",
    to: Path | None = None,
    *,
    lesson: str = "",
    keep_bonus: bool = False,
) -> int:
    """Writes grades as CSV, or for Canvas or Moodle; instructors' scores included.

    Raises:
        ValueError: an unknown format, or no such lesson.
    """
    if kind not in WRITERS:
        raise ValueError(f'No format "{kind}": choose {", ".join(WRITERS)}.')
    classroom = Classroom(folder)
    name = "grades.csv" if kind == "csv" else f"grades-{kind}.csv"
    grades, ungraded = grades_of(classroom, lesson)
    if kind != "csv" and not keep_bonus:
        grades = capped(grades, points_possible(grades))
    path = to or classroom.folder / "grading" / name
    for written in WRITERS[kind](path, grades, read_people(classroom.roster)):
        print(f"wrote {written}: {len(grades)} grades")
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


def points_possible(grades: Iterable[Grade]) -> dict[str, float]:
    """Returns each lesson's points, without those of bonus exercises."""
    possible: dict[str, float] = {}
    for grade in in_order(grades):
        possible[grade.lesson] = max(possible.get(grade.lesson, 0), grade.max_score)
    return possible


def capped(grades: Iterable[Grade], possible: Mapping[str, float]) -> list[Grade]:
    """Caps scores at the points possible, and says whose."""
    cut: dict[str, list[str]] = {}
    kept = []
    for grade in grades:
        limit = possible[grade.lesson]
        if grade.score is not None and grade.score > limit:
            whose = f"{grade.student} ({grade.score:g})"
            cut.setdefault(grade.lesson, []).append(whose)
            grade = dataclasses.replace(grade, score=limit)
        kept.append(grade)
    for lesson, whose in cut.items():
        limit = f"the {possible[lesson]:g} points possible"
        print(f"{lesson}: capped at {limit}: {', '.join(whose)}")
    if cut:
        print("To keep the points above that, add: --bonus keep")
    return kept


def write_csv(
    path: Path, grades: Iterable[Grade], people: Mapping[str, Row]
) -> list[Path]:
    """Writes one row per grade, for spreadsheets; `people` maps ids to facts."""
    rows = []
    for g in in_order(grades):
        facts = dataclasses.asdict(g) | {"name": name_of(g.student, people)}
        rows.append([facts[column] for column in CSV_COLUMNS])
    return [table_of(CSV_COLUMNS, rows, has_bom=True).write(path)]


def write_canvas(
    path: Path, grades: Iterable[Grade], people: Mapping[str, Row]
) -> list[Path]:
    """Writes a file for Canvas: Grades, Import; a row per student, a column per lesson.

    Where the roster has none of Canvas's ids, the student's id stands for both "SIS
    User ID" and "SIS Login ID", so it has to be one of them.
    """
    grades = in_order(grades)
    possible = points_possible(grades)
    scores: dict[str, dict[str, float | None]] = {}
    for g in grades:
        scores.setdefault(g.student, {})[g.lesson] = g.score
    rows = []
    for student, own in sorted(scores.items()):
        person = people.get(student, {})
        ids = [person.get(n) for n in ("canvas_id", "sis_user_id", "sis_login_id")]
        ids = ids if any(ids) else [None, student, student]
        first = (name_of(student, people), *ids, person.get("section"))
        rows.append((*first, *map(own.get, possible)))
    # Canvas itself writes the four spaces.
    points = ("    Points Possible", *[""] * 4, *possible.values())
    header = (*CANVAS_COLUMNS, *map(text_cell, possible))
    return [table_of(header, [points, *rows], has_bom=False).write(path)]


def write_moodle(
    path: Path, grades: Iterable[Grade], people: Mapping[str, Row]
) -> list[Path]:
    """Writes a file for Moodle per lesson; returns their paths.

    Ids such as "Participant 12345" make it a grading worksheet of an assignment. All
    others serve Moodle's Grades, Import, CSV file, where "Identifier" is mapped to ID
    number, user name or e-mail address. With several lessons the file of each has the
    lesson's name behind that of `path`: grades-01_pmap_spmd.csv.
    """
    by_lesson: dict[str, list[Sequence]] = {}
    for g in in_order(grades):
        person = people.get(g.student, {})
        names = [person.get(name) for name in ("id_number", "username", "email")]
        student = next(filter(None, names), g.student)
        if len(numbers := moodle_numbers(person)) == 1:
            student = f"Participant {numbers[0]}"
        # Moodle wants no date for a grade that was never changed.
        row = (student, name_of(g.student, people), g.score, g.max_score, "")
        by_lesson.setdefault(g.lesson, []).append((*row, moodle_comment(g)))
    written = []
    for lesson, rows in (by_lesson or {"": []}).items():
        name = f"{path.stem}-{lesson}{path.suffix}"
        target = path.with_name(name) if len(by_lesson) > 1 else path
        table = table_of(MOODLE_COLUMNS, rows, has_bom=False)
        written.append(table.write(target))
    return written


WRITERS = {"csv": write_csv, "canvas": write_canvas, "moodle": write_moodle}


def moodle_comment(grade: Grade) -> str:
    """Writes the comment so that Moodle, which takes it for HTML, shows it as text."""
    comment = text_cell(grade.comment)
    return MARKUP.sub(lambda sign: html.escape(sign[0]), comment)


def name_of(student: str, people: Mapping[str, Row]) -> str:
    return people.get(student, {}).get("name", "")


def in_order(grades: Iterable[Grade]) -> list[Grade]:
    return sorted(grades, key=lambda grade: (grade.lesson, grade.student))
