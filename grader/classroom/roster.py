"""Keeps the class's roster: learners' names by id, for exports and pages only."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from grader.atomic_files import write
from grader.submissions.clean_text import clean_line

COLUMNS = ["id", "name"]
MAX_NAME = 200
Row = dict[str, str]


def read_names(path: Path) -> dict[str, str]:
    """Maps learners' ids to the names in the file; a missing file has none."""
    _, rows = read_rows(path)
    return {student: row["name"] for student, row in rows.items() if row["name"]}


def add_names(path: Path, names: Mapping[str, str]) -> None:
    """Adds names by id to the file; names and further columns in it stay."""
    columns, rows = read_rows(path)
    for student, name in names.items():
        row = rows.setdefault(student, {"id": student, "name": ""})
        row["name"] = row["name"] or clean_line(name, MAX_NAME)
    if names:
        write_rows(path, columns, rows)


def remove_name(path: Path, student: str) -> None:
    columns, rows = read_rows(path)
    if rows.pop(student, None):
        write_rows(path, columns, rows)


def write_rows(path: Path, columns: list[str], rows: Mapping[str, Row]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows[student] for student in sorted(rows))
    write(path, text.getvalue())


def read_rows(path: Path) -> tuple[list[str], dict[str, Row]]:
    """Reads the columns' names, and the rows by id.

    Raises:
        ValueError: the file is damaged.
    """
    if not path.exists():
        return COLUMNS, {}
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8. Save it again as CSV UTF-8.") from None
    columns = list(reader.fieldnames or COLUMNS)
    if not set(COLUMNS) <= set(columns):
        raise ValueError(f'{path} needs the columns "id" and "name" in its first line.')
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            problem = f"{path}, line {number}, has another number of columns."
            raise ValueError(f"{problem} Mend that line.")
    return columns, {row["id"]: row for row in rows}
