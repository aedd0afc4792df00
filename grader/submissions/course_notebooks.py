"""Knows the course's notebooks: which lesson another one is of, and if it is ours."""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Mapping
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader import ROOT
from grader.lessons.release import exercises, release, title
from grader.submissions.answers import assigns, code_of, defines, marked_exercise

FIRST_WORDS = re.compile(r"(?m)^(?:(?:async[ \t]+)?def[ \t]+)?(\w+)")
Cells = dict[str, set[str]]  # the code of an exercise's cells, by the exercise


class CourseNotebooks:
    """The solved lessons of a class, by name.

    Those of the repository are known as ours too, in every language.
    """

    def __init__(self, lessons: Mapping[str, NotebookNode]):
        self.lessons = lessons
        self.exercises = {name: [*exercises(n)] for name, n in lessons.items()}
        self.versions = functools.cache(self.read_versions)
        self.ours = functools.cache(
            lambda lesson: [self.exercise_cells(one) for one in self.versions(lesson)]
        )

    def exercise_cells(self, notebook: NotebookNode) -> Cells:
        """Finds the cells of exercises of any lesson."""
        names = {name for each in self.exercises.values() for name in each}
        found: Cells = collections.defaultdict(set)
        for cell in notebook.cells:
            marked = marked_exercise(cell, names)
            likely = {marked, *FIRST_WORDS.findall(cell.source)}
            for name in names & likely:
                if name == marked or defines(cell, name) or assigns(cell, name):
                    found[name].add(code_of(cell.source))
        return found

    def lesson_of(self, notebook: NotebookNode, cells: Cells) -> str:
        """Names the lesson of most of a notebook's cells, else of its title, or ""."""
        count = {
            lesson: len({*cells} & {*names}) for lesson, names in self.exercises.items()
        }
        best = [one for one in count if count[one] == max(count.values(), default=0)]
        if len(best) == 1 and count[best[0]]:
            return best[0]
        heading = title(notebook, "")
        titles = {one: [title(n, "") for n in self.versions(one)] for one in best}
        titled = [one for one in best if heading and heading in titles[one]]
        return titled[0] if len(titled) == 1 else ""

    def has_any(self, cells: Cells, lesson: str) -> bool:
        return not cells.keys().isdisjoint(self.exercises.get(lesson, ()))

    def is_ours(self, cells: Cells, lesson: str) -> bool:
        """Tells whether all cells of a lesson's exercises are as we released or solved.

        Cells without any work of a learner's are so, too.
        """
        own = {n: cells[n] for n in self.exercises.get(lesson, ()) if n in cells}
        return bool(own) and any(
            all(code <= ours.get(name, set()) for name, code in own.items())
            for ours in self.ours(lesson)
        )

    def read_versions(self, lesson: str) -> list[NotebookNode]:
        """Lists a lesson as it is solved and released, here and in the repository."""
        solved, file = self.lessons[lesson], f"{lesson}.ipynb"
        paths = [ROOT / "solutions" / file, ROOT / "lessons" / file]
        paths += sorted((ROOT / "lessons").glob(f"*/{file}"))
        known = [read(path) for path in paths if path.is_file()]
        return [release(solved), solved, *known]


def read(path: Path) -> NotebookNode:
    """Reads a notebook that the course wrote, and which is valid therefore."""
    return nbformat.v4.reads(path.read_text(encoding="utf-8"))
