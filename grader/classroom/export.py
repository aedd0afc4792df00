"""Writes grades as CSV, or fills them into a file that Canvas or Moodle exported.

Grading works on ids. Names are joined to them here, on pages and in the formgrader.
"""

from __future__ import annotations

import html
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from grader.classroom.folder import Classroom, Submission
from grader.classroom.publishing import about_lateness, results_of
from grader.classroom.returning import received_name
from grader.classroom.roster import (
    ON_ROSTER,
    Person,
    facts_of,
    is_of_canvas,
    match,
    moodle_numbers,
    people_in,
    read_people,
)
from grader.classroom.spreadsheet import Table, cell_text, read_table, text_cell
from grader.lessons.release import lesson_number, title
from grader.results import Result, Status, late_text
from grader.submissions.lms_names import owner_by

COLUMNS = "student name lesson status score max_score late note".split()
CANVAS_COLUMN = re.compile(r"(?P<title>.*\S) \((?P<number>\d+)\)")
CANVAS_IGNORES = re.compile(
    "Current (Score|Points|Grade)|Final (Score|Points|Grade)"
    "|Override (Score|Grade|Status)"
)
WORDS = re.compile(r"[^\W_]+")
MARKUP = re.compile(r"[<&](?=[A-Za-z/!?#])")
EXCUSED = "EX"  # what Canvas writes instead of a score


def export(
    folder: Path,
    to: Path | None = None,
    *,
    lesson: str = "",
    section: str = "",
    template: Path | None = None,
    assignments: Sequence[str] = (),
    bonus: str = "cap",
) -> int:
    """Writes the grades of one lesson or section, or all; people's scores included.

    With a `template`, Canvas's gradebook or Moodle's grading worksheet, it fills a copy
    of that file. `assignments` say which column of Canvas is a lesson's, such as
    "01=Homework 1 (12345)".

    Raises:
        ValueError: no such lesson; the template has no column for any lesson.
    """
    classroom = Classroom(folder)
    results = results_of(classroom, lesson, section)
    for one, final in results.items():
        if final and (line := about_lateness(one, classroom.publication(one), final)):
            print(line)  # since the last `grade`, which will show it to the learner
    if template:
        keep_bonus = bonus == "keep"
        return fill_template(classroom, template, results, assignments, to, keep_bonus)
    if assignments:
        raise ValueError("--assignment names a column of a --template.")
    grades = {one: final for one, final in results.items() if final}
    path = to or classroom.folder / "grading" / "grades.csv"
    people = read_people(classroom.roster)
    expected = {student for student in people if people[student].get(ON_ROSTER)}
    expected &= classroom.members(section) if section else expected
    lessons = sorted({one.lesson for one in results})
    submitted = {(one.lesson, one.student) for one in results}
    missing = sorted({*itertools.product(lessons, expected)} - submitted)
    write_csv(path, grades, classroom.names(), missing)
    print(f"wrote {path}: {len(grades)} grades")
    return print_missing(results)


def print_missing(results: Mapping[Submission, Result | None]) -> int:
    """Says which scores are not in an export; returns the exit status."""
    for submission, final in results.items():
        if final is None:
            print(f"not in it: {submission} is not graded yet (run `grade`)")
        elif final.score is None:
            print(f"without a score: {submission} ({final.status}: see `explain`)")
    return 1 if None in results.values() else 0


def write_csv(
    path: Path,
    grades: Mapping[Submission, Result],
    names: Mapping[str, str],
    missing: Iterable[tuple[str, str]] = (),
) -> None:
    """Writes one row per grade, and one per lesson and learner who submitted nothing.

    `names` are by id.
    """
    rows = []
    for one, final in sorted(grades.items()):
        row = one.student, names.get(one.student, ""), one.lesson, final.status
        row = *row, final.score, final.max_points, late_text(final), note_of(final)
        rows.append([*map(cell_text, row)])
    for lesson, student in missing:
        row = student, names.get(student, ""), lesson, "not submitted", *[""] * 4
        rows.append([*map(cell_text, row)])
    Table(COLUMNS, rows, has_bom=True).write(path)


def note_of(final: Result) -> str:
    """Returns what a learner is told beside the score."""
    reasons = final.reasons if final.status is Status.STUDENT_ERROR else ()
    return "; ".join([*reasons, *final.notes, *final.decisions, *final.to_review])


def fill_template(
    classroom: Classroom,
    template: Path,
    results: Mapping[Submission, Result | None],
    assignments: Sequence[str],
    to: Path | None,
    keep_bonus: bool,
) -> int:
    """Writes a copy of an LMS's file with the scores; returns the exit status."""
    table = read_table(template)
    places = lines_of(people_in(table, template), table)
    lessons = sorted({one.lesson for one, final in results.items() if final})
    if not lessons:
        raise ValueError("There are no grades yet: run `grade`.")
    columns, limits = columns_in(template, table, classroom, lessons, assignments)
    grades = {one: g for one, g in results.items() if g and one.lesson in columns}
    if not grades:
        raise ValueError(
            f"No column of {template} was found for a graded lesson. To name it: "
            f'--assignment "{lessons[0]}=TITLE (NUMBER)". {columns_with_numbers(table)}'
        )
    for name in sorted({one.lesson for one in grades}):
        heading = f'"{table.columns[columns[name]]}"'
        print(f"{name} -> {heading}")
        points = max(g.max_points for one, g in grades.items() if one.lesson == name)
        limit = limits[name] = limits.get(name) or points
        if limit != points:
            print(f"    {heading} has {limit:g} points possible, the lesson")
            print(f"    has {points:g}. The scores are not scaled.")
    students = {one.student for one in grades}
    by_id = match(places, students, read_people(classroom.roster))
    twice = {one: found for one in by_id if len(found := places[by_id[one]]) > 1}
    once = {one: person for one, person in by_id.items() if one not in twice}
    fill(table, once, grades, columns, {} if keep_bonus else limits)
    for name in sorted({one.lesson for one in grades}):
        filled = {
            by_id.get(one.student)
            for one, final in grades.items()
            if one.lesson == name and final.score is not None
        }
        if without := [str(one) for one in places if one not in filled]:
            print(f"left as they were, without a grade for {name}:")
            print(f"    {'; '.join(without)}")
    unknown = [one for one in grades if one.student not in by_id]
    kind = "canvas" if is_of_canvas(table) else f"moodle-{lessons[0]}"
    path = table.write(to or classroom.folder / "grading" / f"grades-{kind}.csv")
    num_filled = sum(one.student in once for one in grades)
    print(f"wrote {path}: {num_filled} grades")
    for one, found in twice.items():
        lines = " and ".join(map(str, found))
        where = f"{template.name} {'twice' if len(found) == 2 else 'several times'}"
        print(f"{one} is in {where}, in lines {lines}: nothing was filled in there.")
        print("    Remove the line that is wrong, and export again.")
    for one in unknown:
        print(f"not in {template.name}: {one}")
    for name in lessons:
        if name not in columns:
            print(f"not in {template.name}: no column for {name}. To name it:")
            print(f'    --assignment "{name}=TITLE (NUMBER)"')
    status = print_missing(results)
    return 1 if unknown or twice or {*lessons} - columns.keys() else status


def lines_of(people: Iterable[Person], table: Table) -> dict[Person, list[int]]:
    """Lists the lines of each person, who may be in a file twice."""
    numbers = {id(row): number for number, row in enumerate(table.rows, 2)}
    by_fact: dict[tuple[str, str], Person] = {}
    found: dict[Person, list[int]] = {}
    for person in people:
        first = by_fact.setdefault(facts_of(person.facts)[0], person)
        found.setdefault(first, []).append(numbers[id(person.row)])
    return found


def fill(
    table: Table,
    people: Mapping[str, Person],
    grades: Mapping[Submission, Result],
    columns: Mapping[str, int],
    limits: Mapping[str, float],
) -> None:
    """Fills in the scores of these people, by id, up to the limits of the lessons."""
    comments = table.column("Feedback comments")
    changeable = table.column("Grade can be changed")
    for submission, final in grades.items():
        student, lesson, score = submission.student, submission.lesson, final.score
        if student not in people or score is None:
            continue
        row, place = people[student].row, columns[lesson]
        if row[place].strip().upper() == EXCUSED:
            print(f"left as it was: {submission}, excused in the file")
            continue
        limit = limits.get(lesson, score)
        if changeable is not None and row[changeable].strip().casefold() == "no":
            if number_in(row[place]) != min(score, limit):
                print(f"left as it was: {submission}, whose grade Moodle has locked")
            continue
        if score > limit:
            more = f"the {limit:g} points possible; --bonus keep keeps all"
            print(f"{submission}: {score:g} capped at {more}")
        row[place] = table.number(min(score, limit))
        if comments is not None and (comment := moodle_comment(final)):
            row[comments] = comment


def columns_in(
    template: Path,
    table: Table,
    classroom: Classroom,
    lessons: Sequence[str],
    assignments: Iterable[str],
) -> tuple[dict[str, int], dict[str, float | None]]:
    """Finds each lesson's column, and the points possible in the LMS."""
    if is_of_canvas(table):
        columns = canvas_columns(table, classroom, assignments)
        rows = [row for row in table.rows if "Points Possible" in row[0]]
        refuse_ignored(table, rows, columns)
        return columns, {
            lesson: number_in(row[place])
            for row in rows
            for lesson, place in columns.items()
        }
    if len(lessons) > 1:
        raise ValueError(f"Which lesson is {template} about? Add --lesson 01.")
    refuse_other_lesson(template, table, classroom, lessons[0])
    columns = dict.fromkeys(lessons, required(table, template, "Grade"))
    place = table.column("Maximum grade")
    if place is None:
        if table.column("Scale") is not None:
            raise ValueError(
                f"{template} is of an assignment that is graded by a scale, not by "
                "points. Change that in its settings, and download the file again."
            )
        return columns, {}
    limits = (number_in(row[place]) for row in table.rows)  # all the same
    return columns, dict.fromkeys(lessons, next(limits, None))


def refuse_other_lesson(
    template: Path, table: Table, classroom: Classroom, lesson: str
) -> None:
    """Refuses Moodle's worksheet of another lesson, by the numbers of what came in."""
    people = people_in(table, template)
    numbers = {number for one in people for number in moodle_numbers(one.facts)}
    found: dict[str, list[str]] = {}
    for one in classroom.submissions():
        parts = received_name(classroom, one)
        paths = ("/".join(parts[start:]) for start in range(len(parts)))
        owner = next(filter(None, (owner_by("Moodle", path) for path in paths)), None)
        if owner and owner.student in numbers:
            found.setdefault(one.lesson, []).append(owner.student)
    other = max(found, key=lambda name: len(found[name]), default=lesson)
    if len(found.get(other, ())) > len(found.get(lesson, ())):
        raise ValueError(
            f"{template} is the worksheet of {other}, not of {lesson}: Participant "
            f"{found[other][0]} submitted {other} under that number. Download the "
            f"worksheet of the assignment for {lesson}, or say --lesson {other}."
        )


def refuse_ignored(
    table: Table, points_possible: Iterable[Sequence[str]], columns: Mapping[str, int]
) -> None:
    """Refuses a column that an import into Canvas ignores without a word.

    Source: lib/gradebook_importer.rb of canvas-lms.
    """
    for lesson, place in columns.items():
        heading = table.columns[place]
        why = ""
        if found := CANVAS_IGNORES.search(heading):
            why = f'its title contains "{found[0]}"'
        elif any(re.search(r"read\s+only", row[place]) for row in points_possible):
            why = "it is read only there"
        if why:
            raise ValueError(
                f'An import into Canvas ignores the column "{heading}" of {lesson}, '
                f"since {why}. Rename or unlock the assignment, and export the "
                "gradebook again."
            )


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


def moodle_comment(final: Result) -> str:
    """Writes the comment so that Moodle, which takes it for HTML, shows it as text."""
    comment = "; ".join(filter(None, [late_text(final), note_of(final)]))
    return MARKUP.sub(lambda sign: html.escape(sign[0]), text_cell(comment))


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
