"""Names the kind of each of a lesson's cells, and what of it other cells need.

The module `trial` decides which of them run.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
from collections.abc import Sequence

from nbformat import NotebookNode

from grader.lessons.release import exercises, nbgrader_metadata, release
from grader.submissions.definitions import (
    MAX_SOURCE,
    UNREADABLE,
    definitions,
    is_only_definitions,
    meanings,
)

ADDED = ("extra", "change")  # kinds of code that learners add


@dataclasses.dataclass(frozen=True)
class Step:
    """One cell to run."""

    name: str
    kind: str  # "setup", "lesson", "exercise", or one of `ADDED`
    source: str

    @functools.cached_property
    def lean(self) -> str:
        """What it defines; nothing where it cannot be read."""
        try:
            return definitions(self.source) if len(self.source) <= MAX_SOURCE else ""
        except UNREADABLE:
            return ""

    @functools.cached_property
    def is_lean(self) -> bool:
        """Tells whether it does nothing but define what it names itself."""
        try:
            return len(self.source) <= MAX_SOURCE and is_only_definitions(self.source)
        except UNREADABLE:
            return False


def steps(notebook: NotebookNode) -> list[Step]:
    """Lists the cells to run: all but checks and scorecard."""
    return [
        Step(cell.id, kind, cell.source)
        for cell in notebook.cells
        if (kind := kind_of(cell))
    ]


def kind_of(cell: NotebookNode) -> str:
    """Names the kind of a cell that runs; "" of any other."""
    marks = nbgrader_metadata(cell)
    if cell.cell_type != "code" or marks.get("grade") or cell.id == "scorecard":
        return ""
    if marks.get("solution"):
        return "exercise"
    if cell.id == "setup":
        return "setup"
    return next((kind for kind in ADDED if cell.id.startswith(f"{kind}-")), "lesson")


def are_independent(own: Sequence[Step]) -> bool:
    """Tells whether a failed exercise can only be the fault of its own cell.

    It is so if answers only define, and each name has one meaning in all of the cells.
    """
    known = dict.fromkeys(dir(builtins), "builtin")
    for step in own:
        if step.kind in ("setup", "lesson"):  # they run before the others
            known |= meanings(step.lean)
    for step in own:
        if step.kind in ADDED or (step.kind == "exercise" and not step.is_lean):
            return False
        named = meanings(step.source) if step.kind == "exercise" else {}
        if any(known.setdefault(name, text) != text for name, text in named.items()):
            return False
    return True


def stubs(clean: NotebookNode, lesson: NotebookNode) -> set[str]:
    """Names the exercises that nobody has worked on; what need not run is not run."""
    released = {name: cell.source for name, cell in exercises(release(lesson)).items()}
    return {
        name
        for name, cell in exercises(clean).items()
        if cell.source.strip() == released[name].strip()
    }
