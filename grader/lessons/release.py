"""Releases a lesson by nbgrader's own steps, and reads lessons and their cells."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.preprocessors import (
    ClearHiddenTests,
    ClearOutput,
    ClearSolutions,
    ComputeChecksums,
    LockCells,
)
from traitlets.config import Config

from coursekit.outcomes import NOT_WRITTEN
from grader import ROOT

CHECK_PREFIX = "check-"  # before an exercise's name: the grade id of its check
HIDDEN = re.compile(r"(?s)### BEGIN HIDDEN TESTS\n(.*?)### END HIDDEN TESTS")
GRADING_FACTS = ("checks", "seed")  # in a lesson's metadata, and in no file
COURSE = "course"  # in a cell's metadata: facts that nbgrader does not know
STUB = f'raise NotImplementedError("{NOT_WRITTEN}")'
STEPS = LockCells, ClearSolutions, ClearOutput, ClearHiddenTests, ComputeChecksums
# Learners may play with every cell but the checks; grading restores what they changed.
RELEASE_CONFIG = {
    "ClearSolutions": {"code_stub": {"python": STUB}},
    "LockCells": {"lock_readonly_cells": False},
}


def release(notebook: NotebookNode) -> NotebookNode:
    """Makes what learners open: stubs for solutions, no hidden tests, no outputs."""
    notebook, config = without_grading_facts(notebook), Config(RELEASE_CONFIG)
    for step in STEPS:
        notebook, _ = step(config=config).preprocess(notebook, {})
    return notebook


def without_hidden(notebook: NotebookNode) -> NotebookNode:
    """Copies a lesson without its hidden cases; its solutions stay."""
    return ClearHiddenTests().preprocess(without_grading_facts(notebook), {})[0]


def with_checks(notebook: NotebookNode, source: str) -> NotebookNode:
    """Adds to a lesson the source of its visible checks, for those who grade."""
    notebook.metadata["checks"] = source
    return notebook


def without_grading_facts(notebook: NotebookNode) -> NotebookNode:
    """Copies a lesson without what only those who grade it add to it."""
    notebook = copy.deepcopy(notebook)
    for name in GRADING_FACTS:
        notebook.metadata.pop(name, None)
    return notebook


def hidden_source(cell: NotebookNode) -> str:
    """Returns the hidden cases in a check's cell, or ""."""
    found = HIDDEN.search(cell.source)
    return found[1] if found else ""


def exercises(notebook: NotebookNode) -> dict[str, NotebookNode]:
    """Finds a lesson's exercise cells, by name and in order."""
    return {c.id: c for c in notebook.cells if nbgrader_metadata(c).get("solution")}


def checks(notebook: NotebookNode) -> dict[str, NotebookNode]:
    """Finds a lesson's check cells, by the exercise that they check."""
    return {
        nbgrader_metadata(c)["grade_id"].removeprefix(CHECK_PREFIX): c
        for c in notebook.cells
        if nbgrader_metadata(c).get("grade")
    }


def with_check_of(lesson: NotebookNode, exercise: str) -> NotebookNode:
    """Copies a lesson without the checks of all other exercises."""
    others = {cell.id for name, cell in checks(lesson).items() if name != exercise}
    cells = [cell for cell in lesson.cells if cell.id not in others]
    return NotebookNode(lesson | {"cells": cells})


def points_for(check: NotebookNode) -> float:
    """Returns the points that a passed check gives, a bonus included."""
    bonus = check.metadata.get(COURSE, {}).get("bonus", 0)
    return bonus or nbgrader_metadata(check)["points"]


def lesson_paths(
    names: Iterable[str] = (), root: Path = ROOT, private: Iterable[Path] = ()
) -> list[Path]:
    """Lists the lessons' sources in order, or those that `names` ask for.

    A lesson in one of the `private` folders replaces that of its name in `root`.

    Raises:
        ValueError: a name that is no lesson.
    """
    folders = (one / "solutions" for one in (root, *private))
    found = [path for one in folders for path in one.glob("[0-9][0-9]_*.py")]
    by_name = {path.stem: path for path in found}
    paths = [by_name[name] for name in sorted(by_name)]
    chosen = []
    for name in names:
        matching = [path for path in paths if names_lesson(Path(name).stem, path.stem)]
        if not matching:
            known = ", ".join(path.stem for path in paths)
            apart = " Write several with spaces: 01 02." if "," in name else ""
            raise ValueError(
                f'There is no lesson "{name}". The lessons are: {known}.{apart}'
            )
        chosen += matching
    return list(dict.fromkeys(chosen)) or paths


def lesson_number(name: str) -> int | None:
    """Reads a lesson's number from its name: 1 of `01_pmap_spmd`; None without one."""
    found = re.match(r"\d+(?=_)", name)
    return int(found[0]) if found else None


def names_lesson(text: str, name: str) -> bool:
    """Tells whether `1`, `01` or `01_pmap_spmd` means the lesson `name`."""
    is_number = text.isascii() and text.isdigit()
    return text == name or (is_number and int(text) == lesson_number(name))


def title(lesson: NotebookNode, name: str) -> str:
    """Returns a lesson's title: its first heading; its name where it has none."""
    lines = (line for cell in lesson.cells for line in cell.source.splitlines())
    return next((line[2:] for line in lines if line.startswith("# ")), name)


def nbgrader_metadata(cell: NotebookNode) -> dict:
    """Returns a cell's nbgrader metadata; front ends lose it, so it may be empty."""
    metadata = cell.get("metadata", {})
    found = metadata.get("nbgrader", {}) if isinstance(metadata, dict) else {}
    return found if isinstance(found, dict) else {}


def dumps(notebook: NotebookNode) -> str:
    """Writes a notebook as text, the same bytes for the same content."""
    return nbformat.writes(notebook) + "\n"
