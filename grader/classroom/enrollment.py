"""Imports rosters, and lists who has not submitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from grader.classroom import gradebook
from grader.classroom.folder import Classroom
from grader.classroom.roster import (
    ON_ROSTER,
    Person,
    Row,
    facts_of,
    ids_before,
    ids_by_column,
    is_of_canvas,
    match,
    moodle_numbers,
    people_in,
    read_aliases,
    read_people,
    read_rows,
    write_rows,
)
from grader.classroom.spreadsheet import read_table
from grader.pages.wording import with_name


def roster(folder: Path, files: Sequence[Path] = (), *, replace: bool = False) -> int:
    """Takes over the rosters in `files`, then lists who has not submitted.

    Raises:
        ValueError: a file is no roster, or two learners have the same id; most of the
            class is not in the files, and they are not to `replace` its roster.
    """
    classroom = Classroom(folder)
    if files:
        with classroom.store.writing():
            import_roster(classroom, files, replace)
    list_missing(classroom)
    return 0


def import_roster(classroom: Classroom, files: Sequence[Path], replace: bool) -> None:
    """Makes these files the roster; what people.csv has besides stays in it."""
    table, rows = read_rows(classroom.roster)
    submitted = {one.student for one in classroom.submissions()}
    people = people_by_id(files, submitted, rows)
    before = {student for student, row in rows.items() if row.get(ON_ROSTER)}
    known_as = {fact: who for who, row in rows.items() for fact in facts_of(row)}
    renamed: dict[str, str] = {}
    for row in rows.values():
        row[ON_ROSTER] = ""
    for student, person in people.items():
        former = filter(None, map(known_as.get, facts_of(person.facts)))
        if (old := next(former, None)) in rows.keys() - people.keys():
            rows.setdefault(student, rows.pop(old))
            renamed[old] = student
        row = {"name": "", **rows.get(student, {})}
        numbers = dict.fromkeys([*moodle_numbers(row), *moodle_numbers(person.facts)])
        row |= person.facts | {"id": student, ON_ROSTER: "yes"}
        rows[student] = row | ({"moodle_id": " ".join(numbers)} if numbers else {})
    gone = sorted(before - people.keys() - renamed.keys())
    if 2 * len(gone) > len(before) and not replace:
        raise ValueError(
            f"{len(gone)} of {len(before)} learners on the roster are not in "
            f"{', '.join(map(str, files))}: {', '.join(gone[:5])}. If each section has "
            "a file of its own, name all of them in one command; if these learners "
            "have left the class, add --replace. Nothing was changed."
        )
    write_rows(classroom.roster, table, rows)
    for old in renamed:
        gradebook.remove_student(classroom, old)
    gradebook.add_students(classroom)
    print(f"{classroom.roster}: {len(people)} learners are on the roster")
    asked = {one.facts.get("id", student): student for student, one in people.items()}
    for old, student in (renamed | asked).items():
        if old != student:
            print(f'"{old}" is filed under another id: {student}')
    for student in gone:
        print(f"no longer on it: {shown(student, rows)}")


def people_by_id(
    files: Sequence[Path], submitted: set[str], rows: Mapping[str, Row]
) -> dict[str, Person]:
    """Reads the learners by the id under which they submitted, or probably will."""
    people: list[Person] = []
    by_fact: dict[tuple, Person] = {}
    for file in files:
        table = read_table(file)
        if not (found := people_in(table, file)):
            raise ValueError(f"{file} lists no learner. Nothing was changed.")
        read = {id(one.row) for one in found}
        for number, row in enumerate(table.rows, 2):
            if any(row) and id(row) not in read and not is_of_canvas(table):
                text = ", ".join(filter(None, row))
                print(f"{file}, line {number}, has no id and was left out: {text}")
        for one in found:
            # Who is in two sections, or two worksheets of Moodle's, is there twice.
            facts = [(one.facts.get("name"), *fact) for fact in facts_of(one.facts)]
            known = next(filter(None, map(by_fact.get, facts)), one)
            if known is one:
                people.append(one)
            elif numbers := [*moodle_numbers(known.facts), *moodle_numbers(one.facts)]:
                known.facts["moodle_id"] = " ".join(dict.fromkeys(numbers))
            by_fact |= dict.fromkeys(facts, known)
    columns = {
        name: ids.keys()
        for name, ids in ids_by_column(people, submitted).items()
        if not name.startswith("name")  # two learners may have the same
    }
    num_new = max(len(ids & submitted) for ids in columns.values())
    keeps_ids = len(rows.keys() & submitted) >= num_new
    before = ids_before(people, rows) if keeps_ids else {}
    id_of = {who: one for one, who in match(people, submitted, rows).items()}
    found: dict[str, Person] = {}
    for one in people:
        likely = next(one.ids[name] for name in columns if name in one.ids)
        if "id" not in one.facts:
            likely = before.get(one, likely)
        student = id_of.get(one, likely)
        if student in found:
            raise ValueError(
                f'Two learners have the id "{student}": {found[student]} and {one}. '
                "Correct one of them in the file, and import it again."
            )
        found[student] = one
    return found


def list_missing(classroom: Classroom) -> None:
    """Prints who has not submitted, by lesson, and who submitted but is unknown."""
    people = read_people(classroom.roster)
    on_roster = [student for student, row in people.items() if row.get(ON_ROSTER)]
    expected = sorted(on_roster or people)  # who takes part
    if not expected:
        command = f"python -m grader roster {classroom.folder} FILE.csv"
        print(f"There is no roster yet. Import one: {command}")
    aliases = read_aliases(classroom.roster)
    submissions = [
        dataclasses.replace(one, student=aliases.get(one.student, one.student))
        for one in classroom.submissions()
    ]
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
    return with_name(student, people.get(student, {}).get("name", ""))
