"""Takes in what a learner handed in: finds the file, reads it, makes a clean notebook.

Whatever lies on the disk, the answer is a notebook that is safe to hand on, or a reason
in plain words.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from nbformat import NotebookNode

from grader.authoring.release import exercises, lesson_number
from grader.submissions.answers import is_other_lesson
from grader.submissions.lms_names import fit, shown
from grader.submissions.repair import CLEAR, SAVE, Refused, repair
from grader.submissions.safe_reading import (
    Budget,
    Entry,
    TooLarge,
    Unreadable,
    entries,
    is_ignored,
    read_file,
)

MAX_BYTES = 64 << 20
MAX_UNPACKED = 2 * MAX_BYTES
NBGRADER_FILES = {"timestamp.txt"}
TITLE = re.compile(r"(?m)^#\s+Lesson\s+(\d{1,3})\b")
MARKER = re.compile(r"(?m)^# exercise: (\w{1,60})$")


@dataclasses.dataclass(frozen=True)
class SubmittedFile:
    """A submitted file as the grader understands it.

    Attributes:
        notebook: of format 4.5, and safe to hand on; None: there is nothing to grade.
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
        """Hashes all that a result depends on: the bytes, the notes, the reasons.

        The bytes alone would not do: of a file over the limit there are none, and a
        note may tell a file's name.
        """
        said = json.dumps([self.notes, self.reasons]).encode()
        content = hashlib.sha256(self.data).digest()
        return hashlib.sha256(content + said).hexdigest()


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A file that may be the notebook: its name, its place in the order, a reader."""

    name: str
    time: float
    is_file: bool
    read: Callable[[], bytes]

    def rank(self, lesson: str) -> tuple:
        """Orders candidates: the highest one is the notebook."""
        exact = self.name == f"{lesson}.ipynb"
        return (self.is_file, exact, fit(self.name, lesson), self.time)


def read_submission(folder_or_file: Path, name: str) -> SubmittedFile:
    """Reads what was handed in for the lesson `name`: a file, or nbgrader's folder.

    In a folder the notebook of the lesson's name counts, else the one that fits best,
    else the one in an archive.

    Raises:
        OSError: this machine cannot read it, which is not the learner's fault.
    """
    path = Path(folder_or_file)
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            candidates = list(candidates_in(path))
        else:
            candidates = [candidate_at(path)]
    except FileNotFoundError:
        candidates = []
    notebooks, chosen = choose(candidates, name)
    if chosen is None:
        return nothing_in(candidates)
    try:
        data = chosen.read()
    except Unreadable as problem:
        return SubmittedFile(None, reasons=(unreadable(shown(chosen.name), problem),))
    if chosen.name.lower().endswith(".zip"):
        return unpacked(chosen.name, data, name)
    notes = renamed(chosen.name, notebooks, name)
    found = parse_submission(data)
    return dataclasses.replace(found, notes=notes + found.notes)


def candidates_in(folder: Path) -> Iterable[Candidate]:
    """Lists what lies in a folder, without what learners do not put there."""
    for entry in sorted(os.listdir(folder)):
        if not (
            is_ignored([entry]) or entry.startswith(".") or entry in NBGRADER_FILES
        ):
            yield candidate_at(folder / entry)


def candidate_at(path: Path) -> Candidate:
    """Describes the file at `path`, which is not opened yet."""
    facts = os.lstat(path)
    is_file = stat.S_ISREG(facts.st_mode)
    return Candidate(
        path.name, facts.st_mtime, is_file, lambda: read_file(path, MAX_BYTES)
    )


def choose(
    candidates: list[Candidate], name: str
) -> tuple[list[Candidate], Candidate | None]:
    """Returns the notebooks among the candidates and the candidate that counts."""
    ordered = sorted(candidates, key=lambda c: (c.rank(name), c.name))
    notebooks = [c for c in ordered if Path(c.name).suffix.lower() == ".ipynb"]
    archives = [c for c in ordered if Path(c.name).suffix.lower() == ".zip"]
    others = [c for c in ordered if fit(c.name, name)]
    if not others and len(ordered) == 1:
        others = ordered
    for kind in (notebooks, archives, others):
        if kind:
            return notebooks, kind[-1]
    return notebooks, None


def nothing_in(candidates: list[Candidate]) -> SubmittedFile:
    """Says that no notebook was handed in, and what was."""
    found = ", ".join(shown(c.name, 40) for c in candidates[:5])
    text = f"There is no notebook, only {found}." if found else "No file was handed in."
    return SubmittedFile(None, reasons=(f"{text} {SAVE}",))


def unreadable(where: str, problem: Unreadable) -> str:
    """Says why a file could not be read, and what to do."""
    remedy = CLEAR if isinstance(problem, TooLarge) else f"Hand in a file. {SAVE}"
    return f"{where} {problem}. {remedy}"


def renamed(chosen: str, notebooks: list[Candidate], name: str) -> tuple[str, ...]:
    """Notes that a file of another name was graded."""
    if chosen == f"{name}.ipynb":
        return ()
    note = f"{shown(chosen)} was graded, as there is no {name}.ipynb."
    others = [shown(c.name, 40) for c in notebooks if c.name != chosen][:5]
    left = f" Left out: {', '.join(others)}." if others else ""
    return (note + left,)


def unpacked(archive: str, data: bytes, name: str) -> SubmittedFile:
    """Takes the notebook out of an archive that was handed in instead of it."""
    budget, where = Budget(MAX_UNPACKED), shown(archive)
    try:
        candidates = [candidate_of(entry, budget) for entry in entries(data)]
        notebooks, chosen = choose(candidates, name)
        if not notebooks:
            names = ", ".join(shown(c.name, 40) for c in candidates[:5]) or "no file"
            reason = f"The archive {where} holds no notebook, but {names}. {SAVE}"
            return SubmittedFile(None, reasons=(reason,), data=data)
        where = f"{shown(chosen.name)} in {where}"
        inner = parse_submission(chosen.read())
    except Unreadable as problem:
        return SubmittedFile(None, reasons=(unreadable(where, problem),), data=data)
    note = f"{where} was graded: the notebook was taken out of the archive."
    return dataclasses.replace(inner, data=data, notes=(note, *inner.notes))


def candidate_of(entry: Entry, budget: Budget) -> Candidate:
    """Describes a file in an archive, which is not unpacked yet."""
    return Candidate(
        entry.parts[-1],
        entry.time,
        not entry.problem,
        lambda: entry.read(MAX_BYTES, budget),
    )


def parse_submission(data: bytes) -> SubmittedFile:
    """Makes a clean notebook of any bytes, or says why there is none; never raises."""
    try:
        notebook, notes = repair(data)
    except Refused as reason:
        return SubmittedFile(None, reasons=(str(reason),), data=data)
    except RecursionError:
        reason = f"This file is nested too deeply to be a notebook. {SAVE}"
        return SubmittedFile(None, reasons=(reason,), data=data)
    except Exception as error:  # whatever else untrusted bytes may lead to
        reason = f"This file cannot be read ({type(error).__name__}). {SAVE}"
        return SubmittedFile(None, reasons=(reason,), data=data)
    return SubmittedFile(notebook, tuple(notes), data=data)


def why_other_lesson(submitted: NotebookNode, lesson: NotebookNode, name: str) -> str:
    """Says that a notebook holds none of a lesson's exercises, or "".

    Where its title or its exercises tell which lesson it is instead, that is named.
    """
    if not is_other_lesson(submitted, lesson):
        return ""
    text = f"This is not lesson {name}: none of its exercises are in it."
    sources = [cell.source[:10_000] for cell in submitted.cells]
    titles = [found[1] for source in sources if (found := TITLE.search(source))]
    marked = {m: None for source in sources for m in MARKER.findall(source)}
    if titles and int(titles[0]) != lesson_number(name):
        text += f" Its title says that it is lesson {int(titles[0])}."
    elif marked:
        text += f" It holds {', '.join(list(marked)[:3])}."
    wanted = ", ".join(list(exercises(lesson))[:3])
    return f"{text} Hand in the notebook that holds {wanted}."
