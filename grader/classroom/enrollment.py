"""Imports rosters, and lists who has not submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from grader.classroom import gradebook
from grader.classroom.folder import Classroom
from grader.classroom.roster import (
    IDS,
    ON_ROSTER,
    Person,
    Row,
    ids_by_column,
    match,
    on_roster,
    people_in,
    read_people,
    read_rows,
    write_rows,
)
from grader.classroom.spreadsheet import read_table


def roster(folder: Path, files: Sequence[Path] = ()) -> int:
    """Takes over the rosters in `files`, then lists who has not submitted.

    Raises:
        ValueError: a file is no roster, or two learners have the same id.
    """
    classroom = Classroom(folder)
    if files:
        with classroom.store.writing():
            import_roster(classroom, files)
    list_missing(classroom)
    return 0


def import_roster(classroom: Classroom, files: Sequence[Path]) -> None:
    """Makes these files the roster; what people.csv has besides stays in it."""
    submitted = {one.student for one in classroom.submissions()}
    people = people_with_ids(files, submitted)
    table, rows = read_rows(classroom.roster)
    before = {student for student, row in rows.items() if row.get(ON_ROSTER)}
    known_as = {
        (name, row[name]): student
        for student, row in rows.items()
        for name in IDS
        if row.get(name)
    }
    for row in rows.values():
        row[ON_ROSTER] = ""
    renamed = set()
    for student, person in people.items():
        # Who was imported under one id and submitted under another is still one person.
        former = {known_as.get((name, person.facts.get(name))) for name in IDS}
        for old in former & rows.keys() - people.keys() - submitted:
            rows.setdefault(student, rows.pop(old))
            renamed.add(old)
        facts = {"name": "", **rows.get(student, {}), **person.facts}
        rows[student] = facts | {"id": student, ON_ROSTER: "yes"}
    write_rows(classroom.roster, table, rows)
    for old in renamed:
        gradebook.remove_student(classroom, old)
    gradebook.add_students(classroom)
    print(f"{len(people)} learners are on the roster: {classroom.roster}")
    for student in sorted(before - people.keys() - renamed):
        print(f"no longer on it: {shown(student, rows)}")


def people_with_ids(files: Sequence[Path], submitted: set[str]) -> dict[str, Person]:
    """Reads the learners by the id under which they submitted, or probably will."""
    found = {}
    for file in files:
        for person in people_in(read_table(file), file):
            facts = tuple(person.facts.get(name) for name in (*IDS, "name"))
            found.setdefault(facts, person)  # who is in two sections is there twice
    people = [*found.values()]
    by_id = match(people, submitted)
    columns = [
        name
        for name in ids_by_column(people, submitted)
        if not name.startswith("name")  # two learners may have the same
    ]
    matched = {*by_id.values()}
    for person in people:
        if person not in matched:
            student = next(person.ids[name] for name in columns if name in person.ids)
            if student in by_id:
                both = f"{by_id[student]} and {person}"
                raise ValueError(
                    f'Two learners have the id "{student}": {both}. '
                    "Correct one of them in the file, and import it again."
                )
            by_id[student] = person
    return by_id


def list_missing(classroom: Classroom) -> None:
    """Prints who has not submitted, by lesson, and who submitted but is unknown."""
    people = read_people(classroom.roster)
    expected = on_roster(people)
    if not expected:
        command = f"python -m grader roster {classroom.folder} FILE.csv"
        print(f"There is no roster yet. Import one: {command}")
    submissions = classroom.submissions()
    for lesson in classroom.lessons:
        students = {one.student for one in submissions if one.lesson == lesson}
        missing = [student for student in expected if student not in students]
        num_submitted = len(expected) - len(missing)
        print(f"{lesson}: {num_submitted} of {len(expected)} submitted")
        names = [shown(student, people) for student in missing]
        for name in sorted(names) if students else ():
            print(f"    not submitted: {name}")
    unknown: dict[str, list[str]] = {}
    for one in submissions:
        if expected and one.student not in expected:
            unknown.setdefault(one.student, []).append(one.lesson)
    for student, lessons in unknown.items():
        print(f"not on the roster: {shown(student, people)}, {', '.join(lessons)}")


def shown(student: str, people: Mapping[str, Row]) -> str:
    name = people.get(student, {}).get("name")
    return f"{name} ({student})" if name else student
