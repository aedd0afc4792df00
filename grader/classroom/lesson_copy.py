"""A lesson in a class's source/, and what an instructor changed in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

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

    @property
    def exists(self) -> bool:
        return self.notebook.exists()

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

    def edit(self, change: Callable[[NotebookNode], None]) -> None:
        """Makes a change of the course's own, in the copy, too."""
        for path in (self.notebook, self.written(self.notebook)):
            if path.exists():
                notebook = nbformat.read(path, 4)
                change(notebook)
                write(path, dumps(notebook))

    def changes(self, course: NotebookNode) -> list[str]:
        """Lists in words what an instructor changed; `course` is the course's lesson.

        A lesson without a copy is compared with that one.
        """
        if not self.exists:
            return []
        copy = self.written(self.notebook)
        before = nbformat.read(copy, 4) if copy.exists() else course
        try:
            now = nbformat.read(self.notebook, 4)
        except Exception:  # whatever a damaged file leads to
            return ["the notebook, which cannot be read"]
        found = [*changed_cells(before, now, course)]
        known = read_text(self.written(self.checks)) or course.metadata.checks
        if self.checks.exists() and read_text(self.checks) != known:
            found.append("its checks")
        return found


def changed_cells(
    before: NotebookNode, now: NotebookNode, course: NotebookNode
) -> Iterator[str]:
    """Names exercises that are worth something else, and other cells that differ."""
    was, are, theirs = (
        {name: points_for(cell) for name, cell in checks(one).items()}
        for one in (before, now, course)
    )
    revalued = [name for name in are if are[name] != was.get(name)]
    for name in revalued:
        has = f"{theirs[name]:g}" if name in theirs else "none"
        yield f"exercise {name}'s points ({are[name]:g}, the course has {has})"
    revalued_ids = {checks(now)[name].id for name in revalued}
    old, new = (
        {c.id: (c.cell_type, c.source) for c in one.cells} for one in (before, now)
    )
    both = [one for one in {**old, **new} if one not in revalued_ids]
    changed = [one for one in both if old.get(one) != new.get(one)]
    if changed:
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        yield f"the cell {', '.join(changed[:3])}{more}"
