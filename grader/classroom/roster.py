"""Keeps the class's roster: learners' names by id, for exports and pages only."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from grader.atomic_files import write_file

COLUMNS = ["id", "name"]
MAX_NAME = 200


def read_names(path: Path) -> dict[str, str]:
    """Maps learners' ids to the names in the file; a missing file has none.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read.
    """
    _, rows = read_rows(path)
    return {student: row["name"] for student, row in rows.items() if row.get("name")}


def add_names(path: Path, names: Mapping[str, str]) -> None:
    """Adds names by id to the file; one that is there already stays.

    Further columns, of an instructor's own, stay too.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read or written.
    """
    columns, rows = read_rows(path)
    for student, name in names.items():
        row = rows.setdefault(student, {"id": student})
        row["name"] = row.get("name") or clean_name(name)
    if names:
        write_rows(path, columns, rows)


def remove_name(path: Path, student: str) -> None:
    """Removes a learner from the file.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read or written.
    """
    columns, rows = read_rows(path)
    if rows.pop(student, None):
        write_rows(path, columns, rows)


def write_rows(
    path: Path, columns: list[str], rows: Mapping[str, Mapping[str, str]]
) -> None:
    """Writes the file in one step."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows[student] for student in sorted(rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, text.getvalue().encode())


def read_rows(path: Path) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Reads the columns' names, and the rows by id.

    Raises:
        ValueError: the file is damaged.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return list(COLUMNS), {}
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8. Save it again as CSV UTF-8.") from None
    reader = csv.DictReader(io.StringIO(text, newline=""))
    columns = list(reader.fieldnames or COLUMNS)
    if not set(COLUMNS) <= set(columns):
        raise ValueError(f'{path} needs the columns "id" and "name" in its first line.')
    rows = {}
    for row in reader:
        if None in row or None in row.values():
            problem = f"{path}, line {reader.line_num}, has another number of columns."
            raise ValueError(f"{problem} Mend that line.")
        rows[row["id"]] = row
    return columns, rows


def clean_name(name: str) -> str:
    """Keeps a name's letters: no control characters, one line, a bounded length."""
    kept = (c if unicodedata.category(c)[0] != "C" else " " for c in name)
    return " ".join("".join(kept).split())[:MAX_NAME]
