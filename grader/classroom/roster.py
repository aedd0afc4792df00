"""Reads rosters, and keeps the class's own: grading/people.csv, with names by id.

Grading works on ids; names are for exports, pages and the formgrader.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping, Set
from pathlib import Path

from grader.classroom.spreadsheet import Table, read_table, text_cell
from grader.submissions.clean_text import clean_line
from grader.submissions.lms_names import safe_id

COLUMNS = ["id", "name"]
ALIASES = "aliases.csv"  # beside people.csv: submitted,id
ON_ROSTER = "roster"  # the column that says "yes" for whom the last import had
MAX_NAME = 200
Row = dict[str, str]
SECTIONS = re.compile(r"[,;]\s*(?:and\s+)?|\s+and\s+")  # between two of a learner's
# The columns of people.csv that identify a learner, and what other files call them.
IDS = {
    "id": ("id",),
    "canvas_id": ("ID",),
    "moodle_id": ("Identifier",),
    "sis_login_id": ("SIS Login ID",),
    "sis_user_id": ("SIS User ID",),
    "username": ("Username",),
    "id_number": ("ID number",),
    "email": ("Email address", "Email"),
}
NAMES = {
    "name": ("Student", "Full name", "Name"),
    "last": ("LastName", "Last name", "Surname"),
    "first": ("FirstName", "First name"),
    "section": ("Section", "Groups", "Group"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Person:
    """A learner in a roster or a gradebook.

    Attributes:
        row: the line of the file, as it was read.
        facts: what people.csv keeps of it, by column.
    """

    row: list[str]
    facts: Row

    def __str__(self) -> str:
        return self.facts.get("name") or next(iter(self.ids.values()))

    @functools.cached_property
    def ids(self) -> Row:
        """The ids under which this learner's work may have arrived, by column."""
        ids = {column: self.facts[column] for column in IDS if column in self.facts}
        if numbers := moodle_numbers(self.facts):
            ids["moodle_id"] = numbers[0]
        for column, value in list(ids.items()):
            if "@" in value:
                ids[f"{column}, before @"] = value.partition("@")[0]
        ids["name"] = name = self.facts.get("name", "")
        last, _, first = name.partition(", ")
        ids["name, turned round"] = f"{first} {last}" if first else ""
        return {column: safe_id(value) for column, value in ids.items() if value}


def is_of_canvas(table: Table) -> bool:
    """Tells whether Canvas exported a table of learners, not Moodle."""
    return table.column("Student", "LastName") is not None


def people_in(table: Table, path: Path) -> list[Person]:
    """Reads the learners in a file of Canvas or Moodle, or with the columns id, name.

    Raises:
        ValueError: it is no such file.
    """
    of_canvas = is_of_canvas(table)
    unused = "id" if of_canvas else "canvas_id"  # both are called "id"
    places = {
        name: place
        for name, headings in (IDS | NAMES).items()
        if name != unused and (place := table.column(*headings)) is not None
    }
    if not places.keys() & IDS.keys():
        raise ValueError(
            f'{path} is no roster. It needs the columns "Student" and "ID" as Canvas '
            'exports them, "Identifier" or "Email address" as Moodle does (in English),'
            ' or "id" and "name".'
        )
    people = []
    for row in table.rows:
        facts = {n: clean_line(row[place], MAX_NAME) for n, place in places.items()}
        last, first = facts.pop("last", ""), facts.pop("first", "")
        if last or first:
            facts["name"] = ", ".join(filter(None, [last, first]))
        if "moodle_id" in facts:  # "Participant 12345"
            facts["moodle_id"] = re.search(r"\d*$", facts["moodle_id"])[0]
        is_test = of_canvas and facts.get("name") == "Student, Test"  # Canvas's own
        if any(facts.get(name) for name in IDS) and not is_test:
            people.append(Person(row, {n: fact for n, fact in facts.items() if fact}))
    return people


def ids_by_column(
    people: Iterable[Person], known: Set[str]
) -> dict[str, dict[str, Person]]:
    """Maps ids to people, by column; first the column with most of the known ids.

    An id that two people have in the same column, such as a name, is nobody's.
    """
    columns: dict[str, dict[str, Person]] = {}
    shared = set()
    for person in people:
        for column, number in person.ids.items():
            if columns.setdefault(column, {}).setdefault(number, person) is not person:
                shared.add((column, number))
    for column, number in shared:
        del columns[column][number]
    return dict(sorted(columns.items(), key=lambda item: -len(item[1].keys() & known)))


def by_name(people: Iterable[Person]) -> dict[str, Person]:
    """Maps names, as written and turned round, to those who alone have them."""
    ids = ids_by_column(people, set())
    return ids.get("name, turned round", {}) | ids.get("name", {})


def ids_before(
    people: Iterable[Person], roster: Mapping[str, Row]
) -> dict[Person, str]:
    """Finds the ids that people.csv has for these people.

    A name that only one learner has decides, unless another fact contradicts it; then
    an e-mail address, a login or a number.
    """
    people = [*people]
    before = {Person([], row): student for student, row in roster.items()}
    named = by_name(before)
    pairs = [
        (person, before[named[name]])
        for name, person in by_name(people).items()
        if name in named and not contradict(person.facts, named[name].facts)
    ]
    by_fact = {fact: who for who, row in roster.items() for fact in facts_of(row)}
    facts = ((person, fact) for person in people for fact in facts_of(person.facts))
    pairs += [(person, by_fact[fact]) for person, fact in facts if fact in by_fact]
    ids: dict[Person, str] = {}
    for person, student in pairs:
        if person not in ids and student not in ids.values():
            ids[person] = student
    return ids


def contradict(one: Row, other: Row) -> bool:
    """Tells whether two rows differ in what identifies a learner.

    Moodle's numbers do not: a learner has several.
    """
    both = [name for name in IDS if one.get(name) and other.get(name)]
    return any(one[name] != other[name] for name in both if name != "moodle_id")


def match(
    people: Iterable[Person], known: Set[str], roster: Mapping[str, Row]
) -> dict[str, Person]:
    """Finds the person behind each known id; no two ids have the same person.

    What people.csv says decides: there an id may stand beside an e-mail address or a
    login that the people have.
    """
    people = [*people]
    by_fact = {fact: person for person in people for fact in facts_of(person.facts)}
    persons: dict[str, Person] = {}
    for student in sorted(known & roster.keys()):
        facts = (by_fact.get(fact) for fact in facts_of(roster[student]))
        person = next(filter(None, facts), None)
        if person and person not in persons.values():
            persons[student] = person
    for ids in ids_by_column(people, known).values():
        taken = {*persons.values()}
        for student_id in known & ids.keys() - persons.keys():
            if ids[student_id] not in taken:
                persons[student_id] = ids[student_id]
    return persons


def facts_of(row: Row) -> list[tuple[str, str]]:
    """Lists what identifies a learner, as (column, value)."""
    single = [(name, row[name]) for name in IDS if row.get(name)]
    return [*single, *(("moodle_id", number) for number in moodle_numbers(row))]


def moodle_numbers(row: Row) -> list[str]:
    """Lists Moodle's numbers of a learner, who has another one in each assignment."""
    return row.get("moodle_id", "").split()


def read_aliases(path: Path) -> dict[str, str]:
    """Maps Moodle's numbers, and what is in aliases.csv, to the ids in people.csv.

    A line `hw-{id},{id}` of aliases.csv stands for one of each learner's.
    """
    people = read_people(path)
    aliases = {
        number: student
        for student, row in people.items()
        for number in moodle_numbers(row)
        if number != student
    }
    table = path.with_name(ALIASES)
    for submitted, student, *_ in read_table(table).rows if table.exists() else ():
        for person in people if "{id}" in submitted else [student]:
            aliases[safe_id(submitted.replace("{id}", person))] = student.replace(
                "{id}", person
            )
    return aliases


def strangers(known: Set[str], students: Set[str]) -> tuple[list[str], str]:
    """Lists learners who are unknown and may be others who are known, and says so.

    They may be, if they are most of these students, or have a known id in theirs.
    Without known ids nobody is a stranger.
    """
    unknown = sorted(students - known) if known else []
    aliases = {student: alias_of(student, known) for student in unknown}
    are_most = 2 * len(unknown) > len(students)
    unlisted = [student for student in unknown if are_most or aliases[student]]
    shown = ", ".join(unlisted[:5]) + ", …" * (len(unlisted) > 5)
    example = next(filter(None, aliases.values()), f"{', '.join(unlisted[:1])},ID")
    return unlisted, (
        f"{len(unlisted)} of {len(students)} learners are not on the roster: {shown}. "
        "Import the roster that has them (for Moodle, this assignment's grading "
        f"worksheet), or say in grading/{ALIASES}, below its first line submitted,id, "
        f'who they are: "{example}".'
    )


def alias_of(student: str, known: Set[str]) -> str:
    """Returns "hw-{id},{id}" for hw-s01, if s01 is known; "" if no id is in it."""
    parts = re.split(r"([._@-]+)", student)
    for size in range(len(parts) - 1, 0, -1):
        for start in range(0, len(parts) - size + 1, 2):
            if (part := "".join(parts[start : start + size])) in known:
                return f"{student.replace(part, '{id}', 1)},{{id}}"
    return ""


def ids_known(path: Path, submitted: Set[str]) -> tuple[dict[str, str], set[str]]:
    """Maps what learners may have submitted under to their ids, and lists these ids.

    `submitted` are ids under which somebody already has; there are no ids to expect
    without a roster.
    """
    people = read_people(path).items()
    on_roster = {student: row for student, row in people if row.get(ON_ROSTER)}
    people = {Person([], row): student for student, row in on_roster.items()}
    known_as = {
        one: people[person]
        for ids in ids_by_column(people, set()).values()
        for one, person in ids.items()
        if one not in submitted and one not in on_roster
    }
    known_as |= read_aliases(path)
    known = {*submitted, *on_roster, *known_as.values()} if on_roster else set()
    return known_as, known


def read_people(path: Path) -> dict[str, Row]:
    """Reads people.csv by id; a missing file has nobody."""
    return read_rows(path)[1]


def read_names(path: Path) -> dict[str, str]:
    """Maps learners' ids to the names in the file."""
    people = read_people(path).items()
    return {student: row["name"] for student, row in people if row["name"]}


def read_sections(path: Path) -> dict[str, set[str]]:
    """Maps sections to the ids of those who are in them; one may be in several.

    Canvas writes "Monday and Friday" then, Moodle "Monday, Friday".
    """
    sections: dict[str, set[str]] = {}
    for student, row in read_people(path).items():
        for section in SECTIONS.split(row.get("section", "")):
            if section.strip():
                sections.setdefault(section.strip(), set()).add(student)
    return dict(sorted(sections.items()))


def find_student(path: Path, text: str) -> str:
    """Returns the id of the only learner whose line of people.csv has this text.

    A text that fits none, or several, comes back as it is; a section is nobody's.
    """
    students = []
    for student, row in read_people(path).items():
        facts = {**row, "section": "", ON_ROSTER: ""}
        known = [*facts.values(), *moodle_numbers(row)]
        if text and text.casefold() in map(str.casefold, known):
            students.append(student)
    return students[0] if len(students) == 1 else text


def add_names(path: Path, names: Mapping[str, str]) -> None:
    """Adds names by id to the file; names and further columns in it stay."""
    table, rows = read_rows(path)
    for student, name in names.items():
        row = rows.setdefault(student, {"id": student, "name": ""})
        row["name"] = row["name"] or clean_line(name, MAX_NAME)
    if names:
        write_rows(path, table, rows)


def remove_name(path: Path, student: str) -> None:
    """Removes a learner, and their aliases."""
    table, rows = read_rows(path)
    if rows.pop(student, None):
        write_rows(path, table, rows)
    if (aliases := path.with_name(ALIASES)).exists():
        table = read_table(aliases)
        table.rows = [row for row in table.rows if row[1:2] != [student]]
        table.write(aliases)


def write_rows(path: Path, table: Table, rows: Mapping[str, Row]) -> None:
    names = [name for row in rows.values() for name in row]
    table.columns = list(dict.fromkeys([*table.columns, *names]))
    table.rows = [
        [text_cell(rows[student].get(name, "")) for name in table.columns]
        for student in sorted(rows)
    ]
    table.write(path, mode=0o644)


def read_rows(path: Path) -> tuple[Table, dict[str, Row]]:
    """Reads people.csv, and its rows by id.

    Raises:
        ValueError: the file is damaged.
    """
    if not path.exists():
        return Table(COLUMNS, [], line_end="\n", has_bom=True), {}
    table = read_table(path)
    if not set(COLUMNS) <= set(table.columns):
        raise ValueError(f'{path} needs the columns "id" and "name" in its first line.')
    for number, row in enumerate(table.rows, 2):
        if len(row) > len(table.columns):
            problem = f"{path}, line {number}, has another number of columns."
            raise ValueError(f"{problem} Mend that line.")
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return table, {row["id"]: row for row in rows}
