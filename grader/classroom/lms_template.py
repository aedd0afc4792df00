"""Fills grades into a file that Canvas or Moodle exported, and keeps the rest of it."""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from grader.authoring.release import lesson_number, title
from grader.classroom.export import Grade, grades_of, print_missing
from grader.classroom.folder import Classroom
from grader.classroom.roster import (
    Person,
    Row,
    match,
    people_in,
    read_people,
)
from grader.classroom.spreadsheet import Table, cell_text, read_table, text_cell

CANVAS_COLUMN = re.compile(r"(?P<title>.*\S) \((?P<number>\d+)\)")
WORDS = re.compile(r"[^\W_]+")
MARKUP = re.compile(r"[<&](?=[A-Za-z/!?#])")
EXCUSED = "EX"  # what Canvas writes instead of a score


def export_into(
    template: Path,
    folder: Path,
    to: Path | None = None,
    *,
    lesson: str = "",
    assignments: Sequence[str] = (),
    keep_bonus: bool = False,
) -> int:
    """Writes grades into a copy of Canvas's gradebook or of Moodle's grading worksheet.

    `assignments` say which column of Canvas is a lesson's: "01=Homework 1 (12345)".

    Raises:
        ValueError: the template is no such file, or has no column for any lesson.
    """
    classroom, table = Classroom(folder), read_table(template)
    people = people_in(table, template)
    grades, ungraded = grades_of(classroom, lesson)
    if not grades:
        raise ValueError("There are no grades yet: run `grade`.")
    lessons = sorted({grade.lesson for grade in grades})
    if table.column("Identifier") is None:
        name = "grades-canvas.csv"
        columns = canvas_columns(table, classroom, assignments)
        limit_of = columns
        limit_rows = [row for row in table.rows if "Points Possible" in row[0]]
    else:
        if len(lessons) > 1:
            raise ValueError(f"Which lesson is {template} about? Add --lesson 01.")
        name = f"grades-moodle-{lessons[0]}.csv"
        columns = {lessons[0]: required(table, template, "Grade")}
        limit_of = {lessons[0]: required(table, template, "Maximum grade")}
        limit_rows = table.rows[:1]
    known = [grade for grade in grades if grade.lesson in columns]
    if not known:
        raise ValueError(
            f"No column of {template} was found for a graded lesson. To name it: "
            f'--assignment "{lessons[0]}=TITLE (NUMBER)". {columns_with_numbers(table)}'
        )
    possible = points_possible(known)
    for one, points in possible.items():
        heading = f'"{table.columns[columns[one]]}"'
        print(f"{one} -> {heading}")
        for row in limit_rows:
            limit = number_in(row[limit_of[one]]) or points
            if limit != points:
                print(f"    {heading} has {limit:g} points possible, the lesson")
                print(f"    has {points:g}. The scores are not scaled.")
            possible[one] = limit
    if not keep_bonus:
        known = capped(known, possible)
    unknown = fill(
        table, template, people, known, columns, read_people(classroom.roster)
    )
    path = table.write(to or classroom.folder / "grading" / name)
    print(f"wrote {path}: {len(known) - len(unknown)} grades")
    for grade in unknown:
        print(f"not in {template.name}: {grade}")
    for name in lessons:
        if name not in columns:
            print(
                f"not in {template.name}: no column was found for {name}. To name it:"
            )
            print(f'    --assignment "{name}=TITLE (NUMBER)"')
    status = print_missing(grades, ungraded)
    return 1 if unknown or len(known) < len(grades) else status


def fill(
    table: Table,
    template: Path,
    people: Sequence[Person],
    grades: Sequence[Grade],
    columns: Mapping[str, int],
    roster: Mapping[str, Row],
) -> list[Grade]:
    """Fills in the scores; returns the grades of those who are not in the table."""
    by_id = match(people, {grade.student for grade in grades}, roster)
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
            if comments is not None and (grade.late or grade.note):
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
    """Finds the column of each lesson in Canvas's gradebook: named, or by its title."""
    named = {}
    for text in assignments:
        lesson, _, heading = text.partition("=")
        named[classroom.lesson_named(lesson.strip())] = heading.strip()
    columns: dict[str, int] = {}
    for lesson in sorted(classroom.lessons, key=lambda one: one not in named):
        fitting = []
        for place, heading in enumerate(table.columns):
            found = CANVAS_COLUMN.fullmatch(heading)
            if not found or place in columns.values():
                continue
            if lesson in named:
                fits = named[lesson] in (found[0], found["title"], found["number"])
            else:
                fits = is_about(found["title"], lesson, classroom)
            fitting += [place] * fits
        if len(fitting) > 1 or (lesson in named and not fitting):
            found = " and ".join(f'"{table.columns[place]}"' for place in fitting)
            raise ValueError(
                f"{found or 'No column'} fits {lesson}. Name one: "
                f'--assignment "{lesson}=TITLE (NUMBER)". {columns_with_numbers(table)}'
            )
        if fitting:
            columns[lesson] = fitting[0]
    return columns


def columns_with_numbers(table: Table) -> str:
    found = [f'"{one}"' for one in table.columns if CANVAS_COLUMN.fullmatch(one)]
    return f"The file's assignments: {', '.join(found) or 'none'}."


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


def points_possible(grades: Iterable[Grade]) -> dict[str, float]:
    """Returns each lesson's points, without those of bonus exercises."""
    possible: dict[str, float] = {}
    for grade in grades:
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


def moodle_comment(grade: Grade) -> str:
    """Writes the comment so that Moodle, which takes it for HTML, shows it as text."""
    comment = text_cell("; ".join(filter(None, [grade.late, grade.note])))
    return MARKUP.sub(lambda sign: html.escape(sign[0]), comment)


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
            f'{template} is no grading worksheet: it has no column "{name}".'
        )
    return place
