"""Makes a clean notebook of untrusted JSON, or says in plain words why not.

Only what grading needs is kept: each cell's type, text, id and nbgrader's metadata. All
else is dropped: outputs, settings, people's names and pictures. Nothing here recurses.
"""

from __future__ import annotations

import collections
import json
import math
import re
from typing import Any

import nbformat
from nbformat import NotebookNode

# Bytes that Python needs for each of these characters, where they stand in JSON.
COSTS = {b"[": 70, b"{": 70, b":": 180, b",": 40}
MAX_COST = 300 << 20
SAVE = "Open the lesson in JupyterLab or Colab, save it, and hand in that .ipynb file."
CLEAR = (
    "Clear its outputs (Kernel > Restart Kernel and Clear Outputs), save and hand in "
    "again."
)
CONFLICT = f"This file holds the marks of a Git merge conflict. Resolve it. {SAVE}"
BEGINNINGS = {
    b"%PDF": "a PDF file",
    b"PK": "an archive (.zip) or an office document",
    b"\x1f\x8b": "a compressed file (.gz)",
    b"7z\xbc\xaf": "an archive (.7z)",
    b"Rar!": "an archive (.rar)",
    b"\xd0\xcf\x11\xe0": "an office document",
    b"{\\rtf": "a word processor's document",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    b"\x89HDF": "an HDF5 checkpoint",
    b"\x93NUMPY": "a NumPy file",
    b"version https://git-lfs": "a Git LFS pointer",
} | {b"\x80" + bytes([protocol]): "a pickle" for protocol in range(2, 6)}
MAX_CELLS = 2_000
MAX_SOURCE = 1_000_000  # characters of one cell
MAX_TEXT = 8_000_000  # characters of all cells
NEWEST, NEWEST_MAJOR = (4, 5), 5
METADATA = {
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


class Refused(Exception):
    """Why there is nothing to grade, with the remedy."""


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
    """Keeps nbgrader's metadata, where it is of the right type."""
    metadata = cell.get("metadata")
    found = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    if not isinstance(found, dict):
        return {}
    kept = {
        name: found[name]
        for name, types in METADATA.items()
        if isinstance(found.get(name), types) and is_small(found[name])
    }
    return {"nbgrader": kept} if kept else {}


def is_small(value: str | float) -> bool:
    """Tells whether a mark is short and, where it is a number, one of the real ones."""
    if isinstance(value, str):
        return len(value) <= 200 and value.isprintable()
    return math.isfinite(value)


def read_json(data: bytes) -> tuple[dict, list[str]]:
    """Reads a JSON object and lists what had to be repaired for that.

    Raises:
        Refused: this is no JSON object, or one that needs too much memory.
        RecursionError: it is nested too deeply.
    """
    text, notes = decode(data)
    start = re.match(r"\s*", text).end()
    if text[start : start + 1] not in ("{", "["):
        raise Refused(f"{what_is(text[start : start + 10_000])} {SAVE}")
    if sum(cost * data.count(char) for char, cost in COSTS.items()) > MAX_COST:
        raise Refused(f"This notebook holds too much data. {CLEAR}")
    constants: list[str] = []
    decoder = json.JSONDecoder(
        strict=False,
        parse_float=lambda digits: float(digits) if len(digits) < 40 else 0.0,
        parse_int=lambda digits: int(digits) if len(digits) < 20 else 0,
        parse_constant=constants.append,
    )
    try:
        facts, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise Refused(damage(error)) from None
    if not isinstance(facts, dict):
        raise Refused(f"This is a list of data, not a notebook. {SAVE}")
    if constants:
        notes.append("The file held NaN or Infinity, which a notebook cannot hold.")
    if re.compile(r"[^\s\0]").search(text, end):
        notes.append("What stood behind the notebook's end was left out.")
    return facts, notes


def decode(data: bytes) -> tuple[str, list[str]]:
    """Reads the bytes as text, whatever their encoding."""
    if not data.strip(b"\0 \t\r\n\xef\xbb\xbf\xff\xfe"):
        raise Refused(f"The file is empty. {SAVE}")
    for beginning, kind in BEGINNINGS.items():
        if data.startswith(beginning):
            raise Refused(f"This is {kind}, not a notebook. {SAVE}")
    notes = []
    encoding = json.detect_encoding(data)
    if encoding == "utf-8-sig":
        notes.append("The file began with a byte-order mark, which was left out.")
    elif encoding != "utf-8":
        notes.append(f"The file was saved as {encoding[:6].upper()}, not as UTF-8.")
    try:
        return data.decode(encoding), notes
    except UnicodeDecodeError:
        if not encoding.startswith("utf-8"):
            raise Refused(f"The file is damaged: it is no text. {SAVE}") from None
        notes.append("Characters that could not be read were replaced by \ufffd.")
        return data.decode(encoding, errors="replace"), notes


def what_is(beginning: str) -> str:
    """Says what a text that is no JSON is instead."""
    if beginning.startswith("<<<<<<<"):
        return "This file holds the marks of a Git merge conflict."
    if beginning.startswith("<"):
        return (
            "This is a web page, not a notebook: a log-in page, perhaps, or the page "
            "that shows the notebook."
        )
    if sum(not c.isprintable() and not c.isspace() for c in beginning) > 5:
        return "This is a binary file, not a notebook."
    if re.search(r"(?m)^(?:import|from|def|class|#|@|%)[^\w\n]*\w", beginning):
        return "This is a Python script, not a notebook."
    return "This is plain text, not a notebook."


def damage(error: json.JSONDecodeError) -> str:
    """Says where a notebook's file is damaged."""
    marked = "<<<<<<< " in error.doc
    if marked and re.search(r"(?m)^[ \t]*<<<<<<< ", error.doc):
        return CONFLICT
    left = error.doc[error.pos :].strip("\0 \t\r\n")
    if not left or error.msg.startswith("Unterminated string"):
        again = "Upload it once more, or save it again."
        return f"The file breaks off in line {error.lineno}. {again}"
    return f"The file is damaged in line {error.lineno}: this is no notebook. {SAVE}"
