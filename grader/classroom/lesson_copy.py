"""A lesson in a class's source/, and what an instructor changed in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from grader.atomic_files import read_text, write
from grader.authoring.release import checks, dumps, points_for, without_grading_facts


class LessonCopy:
    """A lesson's files in source/; grading/source/ has them as the course wrote them.

    Attributes:
        notebook, checks: the files that an instructor may change.
    """

    def __init__(self, folder: Path, name: str):
        self.notebook = folder / "source" / name / f"{name}.ipynb"
        self.checks = self.notebook.parent / "coursekit" / "checks" / f"{name}.py"
        self._written = folder / "grading" / "source" / name

    def written(self, path: Path) -> Path:
        """Names the copy of a file as the course wrote it."""
        return self._written / path.name

    def write(self, lesson: NotebookNode) -> None:
        text = dumps(without_grading_facts(lesson))
        for path, own in ((self.notebook, text), (self.checks, lesson.metadata.checks)):
            write(path, own)
            write(self.written(path), own)

    def restore(self) -> None:
        """Brings back a file that is missing."""
        for path in (self.notebook, self.checks):
            if not path.exists() and self.written(path).exists():
                write(path, read_text(self.written(path)))

    def changes(self) -> Iterator[str]:
        """Says in words what an instructor changed."""
        try:
            before = facts_of_cells(self.written(self.notebook))
            now = facts_of_cells(self.notebook)
        except Exception as error:  # whatever a damaged file leads to
            yield f"the notebook, or it cannot be read ({error})"
            return
        changed = [c for c in {**before, **now} if before.get(c) != now.get(c)]
        if changed:
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
            yield f"the cell {', '.join(changed[:3])}{more}"
        if read_text(self.checks) != read_text(self.written(self.checks)):
            yield "its checks"


def facts_of_cells(path: Path) -> dict[str, tuple[Any, ...]]:
    """Returns by id what counts as a change of a cell; its outputs do not."""
    notebook = nbformat.read(path, 4)
    points = {cell.id: points_for(cell) for cell in checks(notebook).values()}
    return {c.id: (c.cell_type, c.source, points.get(c.id)) for c in notebook.cells}
