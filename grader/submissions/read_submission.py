"""Reads what a learner submitted for a lesson: finds the file, makes a clean notebook.

Whatever the file holds, the result is a notebook that is safe to pass on, or a reason
in plain words. Of a notebook only what grading needs is kept: each cell's type, text
and ids. Outputs, settings, people's names and pictures are dropped.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from coursekit.i18n import is_spoken
from grader.lessons.release import nbgrader_metadata
from grader.submissions.archives import (
    Archive,
    ListedFile,
    TooLarge,
    Unreadable,
    file_at,
    is_ignored,
)
from grader.submissions.clean_text import quoted
from grader.submissions.lms_names import fit

MAX_BYTES = 64 << 20  # of a notebook, or of an archive that holds one
MAX_CELLS = 2_000
MAX_CELL = 1_000_000  # characters
MAX_TEXT = 8_000_000  # characters of all cells
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# In a translated lesson's first cell; in a cell of the learner's own in Colab.
LANGUAGE = re.compile(r"COURSE_LANGUAGE\W{1,8}([a-z]{2,8})\b")
KEPT_MARKS = ("grade_id", "checksum")  # of nbgrader's, in a cell's metadata
SAVE = "Open the lesson in JupyterLab or Colab, save it, and submit that .ipynb file."
CLEAR = (
    "Clear its outputs (Kernel > Restart Kernel and Clear Outputs), save and submit "
    "again."
)
DELETE = "Delete the cells that are not needed."
CONFLICT = "This file holds the marks of a Git merge conflict. Resolve it."


@dataclasses.dataclass(frozen=True)
class SubmittedFile:
    """A submitted file as the grader understands it.

    Attributes:
        notebook: of format 4.5, and safe to pass on; None: there is nothing to grade.
        notes: repairs made, each one plain sentence.
        reasons: why there is nothing to grade, with the remedy.
        data: the exact bytes that were read.
    """

    notebook: NotebookNode | None
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    data: bytes = b""

    @property
    def digest(self) -> str:
        """The hash of all that a result depends on: the bytes, the notes, the reasons.

        The bytes alone are not enough: none are read of a file over the limit, and a
        note may contain a file's name.
        """
        said = json.dumps([self.notes, self.reasons]).encode()
        content = hashlib.sha256(self.data).digest()
        return hashlib.sha256(content + said).hexdigest()


class Refused(Exception):
    """Why there is nothing to grade, with the remedy."""


def read_submission(path: Path, lesson: str) -> SubmittedFile:
    """Reads a submission for `lesson`: a file, or a folder as nbgrader makes it.

    In a folder the notebook of the lesson's name counts, else the one whose name fits
    best, else the one in an archive.

    Raises:
        OSError: this machine cannot read it, which is not the learner's fault.
    """
    files = submitted_files(Path(path))
    chosen = choose(files, lesson)
    if chosen is None:
        names = names_of(files)
        found = f"There is no notebook, only {names}." if files else "There is no file."
        return SubmittedFile(None, reasons=(f"{found} {SAVE}",))
    where, data = quoted(chosen.name), b""
    try:
        data = chosen.read(MAX_BYTES)
        if chosen.is_archive:
            files = [*Archive(data, MAX_BYTES).files(chosen)]
            chosen = choose([file for file in files if file.is_notebook], lesson)
            if chosen is None:
                found = names_of(files) or "no file"
                reason = f"The archive {where} holds no notebook, but {found}. {SAVE}"
                return SubmittedFile(None, reasons=(reason,), data=data)
            where = quoted(chosen.full_name)
            data = chosen.read(MAX_BYTES)
    except Unreadable as problem:
        remedy = CLEAR if isinstance(problem, TooLarge) else SAVE
        reason = f"{where} {problem}. {remedy}"
        return SubmittedFile(None, reasons=(reason,), data=data)
    found = parse_submission(data)
    if chosen.full_name == f"{lesson}.ipynb" or found.notebook is None:
        return found
    note = f"{where} was graded, as there is no {lesson}.ipynb."
    others = [file for file in files if file.is_notebook and file is not chosen]
    if others:
        note += f" Left out: {names_of(others)}."
    return dataclasses.replace(found, notes=(note, *found.notes))


def submitted_files(path: Path) -> list[ListedFile]:
    """Lists the file at `path`, or what is in that folder and was put there."""
    if path.is_symlink() or not path.is_dir():
        return [file_at(path)]
    files = [file_at(one) for one in sorted(path.iterdir())]
    return [f for f in files if not (is_ignored(f.parts) or f.name.startswith("."))]


def choose(files: list[ListedFile], lesson: str) -> ListedFile | None:
    """Chooses the notebook, else the archive, else the file that is named so."""

    def rank(file: ListedFile) -> tuple:
        named = file.name == f"{lesson}.ipynb", fit(file.name, lesson)
        regular = not file.problem
        kind = file.is_notebook, file.is_archive, regular, not is_aside(file.parts)
        return *kind, *named, file.time, file.name

    best = max(files, key=rank, default=None)
    if best is None or best.is_notebook or best.is_archive or len(files) == 1:
        return best
    return best if fit(best.name, lesson) else None


def is_aside(path: Sequence[str]) -> bool:
    """Tells whether a notebook is where a repository has solutions or translations."""
    folders = path[:-1]
    return "solutions" in folders or "lessons" in folders[:-1]


def names_of(files: list[ListedFile]) -> str:
    return ", ".join(quoted(file.name, 40) for file in files[:5])


def parse_submission(data: bytes) -> SubmittedFile:
    """Makes a clean notebook of any bytes, or says why there is none; never raises."""
    notes: list[str] = []
    try:
        notebook = clean_notebook(read_json(decode(data, notes), notes), notes)
    except Refused as refusal:
        reason = str(refusal)
    except RecursionError:
        reason = f"This file is nested too deeply to be a notebook. {SAVE}"
    except Exception as error:  # whatever else untrusted bytes may lead to
        reason = f"This file cannot be read ({type(error).__name__}). {SAVE}"
    else:
        return SubmittedFile(notebook, tuple(notes), data=data)
    return SubmittedFile(None, reasons=(reason,), data=data)


def decode(data: bytes, notes: list[str]) -> str:
    """Returns the file's text, whatever its encoding."""
    encoding = json.detect_encoding(data)
    if encoding == "utf-8-sig":
        notes.append("The file began with a byte-order mark, which was left out.")
    elif encoding != "utf-8":
        notes.append(f"The file was saved as {encoding[:6].upper()}, not as UTF-8.")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        notes.append("Characters that could not be read were replaced by \ufffd.")
        text = data.decode(encoding, errors="replace")
    return text.strip("\0 \t\r\n\ufeff")


def read_json(text: str, notes: list[str]) -> dict:
    """Reads a notebook of format 4, or of an earlier one as such."""
    if not text.startswith(("{", "[")):
        raise Refused(f"{what_is(text[:10_000])} {SAVE}")
    try:
        facts = json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        raise Refused(damage(error)) from None
    if not isinstance(facts, dict):
        raise Refused(f"This is a list of data, not a notebook. {SAVE}")
    if facts.get("nbformat", 4) != 4:
        try:
            facts = of_format_3(facts)
        except (KeyError, TypeError, AttributeError):
            raise Refused(f"This notebook's format is unknown. {SAVE}") from None
        notes.append("The notebook was converted to format 4.")
    return facts


def of_format_3(facts: dict) -> dict:
    """Keeps the cells of format 3 as format 4 has them; nbformat keeps all, slowly."""
    cells = [cell for sheet in facts["worksheets"] for cell in sheet["cells"]]
    for cell in cells:
        if cell["cell_type"] == "code":
            cell["source"] = cell.get("input", "")
        elif cell["cell_type"] == "heading":
            marks = "#" * min(cell.get("level", 1), 6)
            cell |= {"cell_type": "markdown", "source": [marks, " ", *cell["source"]]}
    return {"cells": cells}


def what_is(beginning: str) -> str:
    """Says what a text that is not JSON is instead."""
    if not beginning:
        return "The file is empty."
    if beginning.startswith("<<<<<<<"):
        return CONFLICT
    if beginning.startswith("<"):
        return (
            "This is a web page, not a notebook: a log-in page, perhaps, or the page "
            "that shows the notebook."
        )
    if beginning.startswith("PK"):
        return "This is an archive (.zip) or an office document, not a notebook."
    if "\0" in beginning or "\ufffd" in beginning:
        return "This is a binary file, not a notebook."
    if re.search(r"(?m)^(?:import|from|def|class|#|@|%)[^\w\n]*\w", beginning):
        return "This is a Python script, not a notebook."
    return "This is plain text, not a notebook."


def is_cut_word(error: json.JSONDecodeError, left: int) -> bool:
    """Tells whether a text ends within an escape, or a word such as `null`."""
    return left < 6 and error.msg.startswith(("Invalid", "Expecting value"))


def damage(error: json.JSONDecodeError) -> str:
    """Says where a notebook's file is damaged, and what to do."""
    if re.search(r"(?m)^[ \t]*<<<<<<< ", error.doc):
        return f"{CONFLICT} {SAVE}"
    left = len(error.doc.rstrip()) - error.pos
    if left <= 0 or error.msg.startswith("Unterminated") or is_cut_word(error, left):
        again = "Upload it once more, or save it again."
        return f"The file breaks off in line {error.lineno}. {again}"
    return f"The file is damaged in line {error.lineno}: this is no notebook. {SAVE}"


def clean_notebook(facts: dict, notes: list[str]) -> NotebookNode:
    """Makes a valid notebook of format 4.5; adds to `notes` what was repaired."""
    raw = facts.get("cells")
    if not isinstance(raw, list):
        raise Refused(f"This file holds data, but no notebook: no cells. {SAVE}")
    if len(raw) > MAX_CELLS:
        problem = f"This notebook has {len(raw):,} cells; the limit is {MAX_CELLS:,}."
        raise Refused(f"{problem} {DELETE}")
    cells = [cell for cell in map(clean_cell, raw) if cell is not None]
    if len(cells) < len(raw):
        notes.append(
            f"Cells that hold no text, or more than {MAX_CELL:,} characters: "
            f"{len(raw) - len(cells)}. They were left out."
        )
    size = sum(len(cell.source) for cell in cells)
    if size > MAX_TEXT:
        raise Refused(
            f"This notebook's cells hold {size:,} characters; "
            f"the limit is {MAX_TEXT:,}. {DELETE}"
        )
    if not any(cell.source.strip() for cell in cells):
        raise Refused(f"This notebook has no cell with any text in it. {SAVE}")
    number = give_ids(cells, missing_is_wrong=facts.get("nbformat_minor") == 5)
    if number:
        notes.append(f"Cells without a unique id: {number}. They got new ids.")
    metadata = NotebookNode()
    return NotebookNode(nbformat=4, nbformat_minor=5, metadata=metadata, cells=cells)


def clean_cell(cell: object) -> NotebookNode | None:
    """Makes a cell that holds only what grading needs; None: it cannot be read."""
    if not isinstance(cell, dict):
        return None
    kind, source, name = (cell.get(key) for key in ("cell_type", "source", "id"))
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if kind not in ("code", "markdown", "raw") or not isinstance(source, str):
        return None
    if len(source) > MAX_CELL:
        return None
    source = source.replace("\0", "").encode("utf-8", "replace").decode()
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    found = nbgrader_metadata(cell)
    marks = {k: found[k] for k in KEPT_MARKS if isinstance(found.get(k), str)}
    metadata = {"nbgrader": marks} if marks else {}
    clean = {"cell_type": kind, "id": name, "metadata": metadata, "source": source}
    if kind == "code":
        clean |= {"execution_count": None, "outputs": []}
    return nbformat.from_dict(clean)


def give_ids(cells: list[NotebookNode], *, missing_is_wrong: bool) -> int:
    """Gives an id to each cell without a valid one; returns how many were wrong."""
    number, used = 0, set()
    for place, cell in enumerate(cells):
        is_valid = isinstance(cell.id, str) and ID.fullmatch(cell.id)
        if not is_valid or cell.id in used:
            number += bool(is_valid) or missing_is_wrong
            cell.id = f"unnamed-{place}"
        used.add(cell.id)
    return number


def language_of(notebook: NotebookNode) -> str:
    """Returns the language of a lesson's notebook: "en", unless it names another."""
    named = (name for cell in notebook.cells for name in LANGUAGE.findall(cell.source))
    return next(filter(is_spoken, named), "en")
