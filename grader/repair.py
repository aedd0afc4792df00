"""Makes a clean notebook of a stranger's JSON, or says in plain words why not.

Only what grading needs survives: each cell's type, text, id and nbgrader's marks. All
else is dropped: outputs, settings, people's names and pictures. Nothing here recurses.
"""

from __future__ import annotations

import collections
import math
import re
from typing import Any

import nbformat
from nbformat import NotebookNode

from grader.decoding import SAVE, Refused, read_json

MAX_CELLS = 2_000
MAX_SOURCE = 1_000_000  # characters of one cell
MAX_TEXT = 8_000_000  # characters of all cells
NEWEST, NEWEST_MAJOR = (4, 5), 5
MARKS = {
    "grade_id": str,
    "points": (int, float),
    "grade": bool,
    "locked": bool,
    "solution": bool,
    "task": bool,
    "schema_version": int,
    "cell_type": str,
    "checksum": str,
}
TYPES = {
    "code": "code",
    "markdown": "markdown",
    "raw": "raw",
    "heading": "markdown",  # of format 3
    "html": "markdown",
}
LACKS = "Cells that lacked a part that each cell has", "It was filled in."
NO_CELLS = "Entries that are no cells", "They were left out."
NO_TYPE = "Cells of an unknown type", "They were read as text."
SAME_ID = "Cells with the id of another one", "They got new ids."
TOO_LONG = f"Cells of more than {MAX_SOURCE:,} characters", "They were left out."
UNWRITABLE = "Cells with characters that no program may hold", "These were taken out."


def repair(data: bytes) -> tuple[NotebookNode, list[str]]:
    """Makes a valid notebook of format 4.5 and lists what had to be repaired.

    Raises:
        Refused: there is nothing to grade.
        RecursionError: the data is nested too deeply.
    """
    facts, notes = read_json(data)
    version = version_of(facts, notes)
    faults: collections.Counter = collections.Counter()
    cells = clean_cells(raw_cells(facts), version, faults)
    notes += [f"{what}: {count}. {done}" for (what, done), count in faults.items()]
    size = sum(len(cell.source) for cell in cells)
    if size > MAX_TEXT:
        problem = f"This notebook's cells hold {size:,} characters; the limit is"
        raise Refused(f"{problem} {MAX_TEXT:,}. Delete the cells that are not needed.")
    if not any(cell.source.strip() for cell in cells):
        raise Refused(f"This notebook has no cell with any text in it. {SAVE}")
    metadata = NotebookNode()
    node = NotebookNode(nbformat=4, nbformat_minor=5, metadata=metadata, cells=cells)
    return node, notes


def version_of(facts: dict, notes: list[str]) -> tuple[int, int]:
    """Reads which format a notebook has."""
    found = facts.get("nbformat"), facts.get("nbformat_minor", 0)
    if not all(type(number) is int and number >= 0 for number in found):
        notes.append("The notebook does not say which format it has; 4.5 was assumed.")
        return NEWEST
    named = f"{found[0]}.{found[1]}"
    if found[0] > NEWEST_MAJOR:
        raise Refused(f"The notebook's format is {named}; the newest is 4.5. {SAVE}")
    if found[0] < 4:
        notes.append(f"The notebook has the old format {named} and was converted.")
    if found > NEWEST:
        notes.append(f"The notebook's format is {named}; it was read as 4.5.")
    return found


def raw_cells(facts: dict) -> list:
    """Finds the cells, in formats up to 3 too."""
    cells, sheets = facts.get("cells"), facts.get("worksheets")
    if cells is None and isinstance(sheets, list):
        sheets = [sheet.get("cells") for sheet in sheets if isinstance(sheet, dict)]
        cells = [cell for s in sheets if isinstance(s, list) for cell in s]
    if not isinstance(cells, list):
        raise Refused(f"This file holds data, but no notebook: no cells. {SAVE}")
    if len(cells) > MAX_CELLS:
        problem = f"This notebook has {len(cells):,} cells; the limit is {MAX_CELLS:,}."
        raise Refused(f"{problem} Delete the ones that are not needed.")
    if not cells:
        raise Refused(f"This notebook has no cells. {SAVE}")
    return cells


def clean_cells(
    raw: list, version: tuple[int, int], faults: collections.Counter
) -> list[NotebookNode]:
    """Makes valid cells with ids of their own; counts what had to be repaired."""
    found = [cell for cell in raw if isinstance(cell, dict)]
    faults[NO_CELLS] += len(raw) - len(found)
    taken = {cell["id"] for cell in found if is_id(cell.get("id"))}
    used: set[str] = set()
    cells = []
    for place, cell in enumerate(found):
        name = cell.get("id")
        faults[LACKS] += lacks_parts(cell, version)
        faults[SAME_ID] += is_id(name) and name in used
        if not is_id(name) or name in used:
            name = f"cell-{place}"
            while name in taken:
                name += "-new"
        taken.add(name)
        used.add(name)
        cells.append(clean_cell(cell, name, faults))
    for fault in [fault for fault, count in faults.items() if not count]:
        del faults[fault]
    return cells


def is_id(name: Any) -> bool:
    """Tells whether a cell may have this id."""
    return isinstance(name, str) and bool(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name))


def lacks_parts(cell: dict, version: tuple[int, int]) -> bool:
    """Tells whether a cell lacks what its format asks for; only format 4 is known."""
    needed = {"cell_type", "metadata", "source"}
    if cell.get("cell_type") == "code":
        needed |= {"outputs", "execution_count"}
    if version >= (4, 5):
        needed.add("id")
    return version[0] >= 4 and not needed <= cell.keys()


def clean_cell(cell: dict, name: str, faults: collections.Counter) -> NotebookNode:
    """Makes a valid cell that holds nothing but what grading needs."""
    kind = cell.get("cell_type")
    kind = TYPES.get(kind) if isinstance(kind, str) else None
    if kind is None:
        faults[NO_TYPE] += 1
        kind = "code" if {"outputs", "input"} & cell.keys() else "raw"
    source = text_of(cell)
    if len(source) > MAX_SOURCE:
        faults[TOO_LONG] += 1
        source = ""
    writable = source.replace("\0", "").encode("utf-8", "replace").decode()
    faults[UNWRITABLE] += writable != source
    source = writable.replace("\r\n", "\n").replace("\r", "\n")
    parts = {"cell_type": kind, "id": name, "metadata": clean_metadata(cell)}
    if kind == "code":
        parts |= {"execution_count": None, "outputs": []}
    return nbformat.from_dict({**parts, "source": source})


def text_of(cell: dict) -> str:
    """Reads a cell's text: one string, or a list of strings; "input" in format 3."""
    source = cell.get("source", cell.get("input", ""))
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str):
        return ""
    level = cell.get("level")
    if cell.get("cell_type") == "heading" and type(level) is int and 1 <= level <= 6:
        return f"{'#' * level} {source}"
    return source


def clean_metadata(cell: dict) -> dict:
    """Keeps nbgrader's marks, where they are of the right type."""
    metadata = cell.get("metadata")
    marks = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    if not isinstance(marks, dict):
        return {}
    kept = {
        name: marks[name]
        for name, types in MARKS.items()
        if isinstance(marks.get(name), types) and is_small(marks[name])
    }
    return {"nbgrader": kept} if kept else {}


def is_small(value: str | float) -> bool:
    """Tells whether a mark is short and, where it is a number, one of the real ones."""
    if isinstance(value, str):
        return len(value) <= 200 and value.isprintable()
    return math.isfinite(value)
