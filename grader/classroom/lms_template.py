"""Fills grades into a file that Canvas or Moodle exported, and keeps the rest of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from grader.authoring.release import lesson_number, title
from grader.classroom.export import (
    Grade,
    capped,
    grades_of,
    moodle_comment,
    points_possible,
    print_missing,
)
from grader.classroom.folder import Classroom
from grader.classroom.roster import (
    Person,
    Row,
    match_with_roster,
    people_in,
    read_people,
)
from grader.classroom.spreadsheet import Table, cell_text, read_table

CANVAS_COLUMN = re.compile(r"(?P<title>.*\S) \((?P<number>\d+)\)")
WORDS = re.compile(r"[^\W_]+")
EXCUSED = "EX"  # what Canvas writes instead of a score


def export_into(
    template: Path,
    folder: Path,
    kind: str,
    to: Path | None = None,
    *,
    lesson: str = "",
    assignments: Sequence[str] = (),
    keep_bonus: bool = False,
) -> int:
    """Writes grades into a copy of Canvas's gradebook or of Moodle's grading worksheet.

    `assignments` say which column is a lesson's, such as "01=Homework 1 (12345)".

    Raises:
        ValueError: the template is no such file, or has no column for any lesson.
    """
    if kind not in ("canvas", "moodle"):
        raise ValueError("A template needs --format canvas or --format moodle.")
    classroom, table = Classroom(folder), read_table(template)
    grades, ungraded = grades_of(classroom, lesson)
    if not grades:
        raise ValueError("There are no grades yet: run `grade`.")
    path = to or classroom.folder / "grading" / f"grades-{kind}.csv"
    if kind == "canvas":
        columns = canvas_columns(table, classroom, assignments)
        possible = canvas_points(table, columns)
    else:
        name = moodle_lesson(template, classroom, {grade.lesson for grade in grades})
        columns = {name: required(table, template, "Grade")}
        possible = moodle_points(table, name)
        path = to or path.with_name(f"grades-moodle-{name}.csv")
    known = [grade for grade in grades if grade.lesson in columns]
    if not known:
        lesson = grades[0].lesson
        raise ValueError(
            f"No column of {template} was found for a graded lesson. To name it: "
            f'--assignment "{lesson}=TITLE (NUMBER)". {columns_with_numbers(table)}'
        )
    for name, points in points_possible(known).items():
        heading = f'"{table.columns[columns[name]]}"'
        print(f"{name} -> {heading}")
        if possible.setdefault(name, points) != points:
            print(f"    {heading} has {possible[name]:g} points possible, the lesson")
            print(f"    has {points:g}. The scores are not scaled.")
    if not keep_bonus:
        known = capped(known, possible)
    unknown = fill(table, template, known, columns, read_people(classroom.roster))
    print(f"wrote {table.write(path)}: {len(known) - len(unknown)} grades")
    for grade in unknown:
        print(f"not in {template.name}: {grade}")
    for name in sorted({grade.lesson for grade in grades} - columns.keys()):
        print(f"not in {template.name}: no column was found for {name}. To name it:")
        print(f'    --assignment "{name}=TITLE (NUMBER)"')
        unknown += [grade for grade in grades if grade.lesson == name]
    status = print_missing(grades, ungraded)
    return 1 if unknown else status


def fill(
    table: Table,
    template: Path,
    grades: Sequence[Grade],
    columns: Mapping[str, int],
    roster: Mapping[str, Row],
) -> list[Grade]:
    """Fills in the scores; returns the grades of those who are not in the table."""
    people = people_in(table, template)
    students = {grade.student for grade in grades}
    by_id = match_with_roster(people, students, roster)
    comments = table.column("Feedback comments")
    filled: set[tuple[Person, str]] = set()
    unknown = []
    for grade in grades:
        person = by_id.get(grade.student)
        if person is None:
            unknown.append(grade)
        elif grade.score is not None:
            place = columns[grade.lesson]
            filled.add((person, grade.lesson))
            if person.row[place].strip().upper() == EXCUSED:
                print(f"left as it was: {grade}, excused in {template.name}")
                continue
            person.row[place] = cell_text(grade.score)
            if comments is not None and grade.comment:
                person.row[comments] = moodle_comment(grade)
    for lesson in sorted({grade.lesson for grade in grades}):
        without = [str(one) for one in people if (one, lesson) not in filled]
        if without:
            print(f"left as they were, without a grade for {lesson}:")
            print(f"    {'; '.join(without)}")
    return unknown


def canvas_columns(
    table: Table, classroom: Classroom, assignments: Iterable[str]
) -> dict[str, int]:
    """Finds the column of each lesson in Canvas's gradebook."""
    headings = {
        place: found
        for place, heading in enumerate(table.columns)
        if (found := CANVAS_COLUMN.fullmatch(heading))
    }
    columns = {}
    for text in assignments:
        named, sign, heading = text.partition("=")
        lesson = classroom.lesson_named(named.strip())
        fitting = [
            place
            for place, found in headings.items()
            if heading.strip() in (found[0], found["title"], found["number"])
        ]
        if not sign or len(fitting) != 1:
            raise ValueError(
                f'--assignment "{text}" names no column. Write it like '
                f'"{lesson}=TITLE (NUMBER)". {columns_with_numbers(table)}'
            )
        columns[lesson] = fitting[0]
    for lesson in sorted(classroom.lessons.keys() - columns.keys()):
        fitting = [
            place
            for place, found in headings.items()
            if place not in columns.values()
            and is_about(found["title"], lesson, classroom)
        ]
        if len(fitting) > 1:
            found = " and ".join(f'"{table.columns[place]}"' for place in fitting)
            raise ValueError(
                f"Both {found} could be {lesson}. Say which: "
                f'--assignment "{lesson}={table.columns[fitting[0]]}"'
            )
        if fitting:
            columns[lesson] = fitting[0]
    return columns


def columns_with_numbers(table: Table) -> str:
    found = [f'"{one}"' for one in table.columns if CANVAS_COLUMN.fullmatch(one)]
    return f"The file's assignments: {', '.join(found) or 'none'}."


def moodle_lesson(template: Path, classroom: Classroom, graded: Collection[str]) -> str:
    """Finds which lesson a worksheet is about: Grades-COURSE-TITLE-NUMBER.csv."""
    fitting = [one for one in graded if is_about(template.stem, one, classroom)]
    chosen = fitting or [*graded]
    if len(chosen) != 1:
        raise ValueError(f"Which lesson is {template.name} about? Add --lesson 01.")
    return chosen[0]


def is_about(text: str, lesson: str, classroom: Classroom) -> bool:
    """Tells whether a text has a lesson's name or title, or "Lesson 1", or begins "01".

    A number alone could be anything: "1-minute paper".
    """
    words, name, heading = (
        f" {' '.join(WORDS.findall(one.casefold()))} "
        for one in (text, lesson, title(classroom.lessons[lesson], lesson))
    )
    number = lesson_number(lesson)
    return (
        name in words
        or heading in words
        or bool(re.search(rf" lesson 0*{number} |^ 0+{number} ", words))
    )


def canvas_points(table: Table, columns: Mapping[str, int]) -> dict[str, float]:
    """Reads Canvas's "Points Possible" of each lesson's column."""
    rows = [row for row in table.rows if "Points Possible" in row[0]]
    return {
        lesson: points
        for lesson, place in columns.items()
        for row in rows
        if (points := number_in(row[place]))
    }


def moodle_points(table: Table, lesson: str) -> dict[str, float]:
    place = table.column("Maximum grade")
    found = [number_in(row[place]) for row in table.rows] if place is not None else []
    return {lesson: found[0]} if found and found[0] is not None else {}


def number_in(cell: str) -> float | None:
    """Reads a number with a decimal point or comma; None where there is none."""
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return None


def required(table: Table, template: Path, name: str) -> int:
    place = table.column(name)
    if place is None:
        raise ValueError(
            f'{template} is no grading worksheet: it has no column "{name}". Set '
            "Moodle's language to English before you download it."
        )
    return place
