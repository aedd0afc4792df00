"""Releases a lesson, takes answers out of a submission, sets them into a clean lesson.

The three are plain functions on notebooks; stripping solutions and hidden tests is
nbgrader's own work.
"""

from __future__ import annotations

import copy
import dataclasses
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.preprocessors import (
    ClearHiddenTests,
    ClearOutput,
    ClearSolutions,
    ComputeChecksums,
    LockCells,
)
from traitlets.config import Config

from grader import ROOT

sys.path.append(str(ROOT / "lessons"))
from outcomes import NOT_WRITTEN

STUB = f'raise NotImplementedError("{NOT_WRITTEN}")'
# Learners may play with every cell but the checks; grading restores what they changed.
RELEASE_CONFIG = {
    "ClearSolutions": {"code_stub": {"python": STUB}},
    "LockCells": {"lock_readonly_cells": False},
}


@dataclasses.dataclass(frozen=True)
class Answers:
    """What a learner wrote.

    Attributes:
        exercises: source of each exercise's cell, by exercise.
        extras: code cells the learner added: (id of the lesson's cell before, source).
    """

    exercises: dict[str, str]
    extras: tuple[tuple[str, str], ...] = ()


def release(notebook: NotebookNode) -> NotebookNode:
    """Makes what learners open: stubs for solutions, no hidden tests, no outputs."""
    notebook, resources = copy.deepcopy(notebook), {}
    config = Config(RELEASE_CONFIG)
    for step in (
        LockCells,
        ClearSolutions,
        ClearOutput,
        ClearHiddenTests,
        ComputeChecksums,
    ):
        notebook, resources = step(config=config).preprocess(notebook, resources)
    return notebook


def exercises(notebook: NotebookNode) -> dict[str, NotebookNode]:
    """Finds a lesson's exercise cells, by name and in order."""
    return {c.id: c for c in notebook.cells if marks(c).get("solution")}


def checks(notebook: NotebookNode) -> dict[str, NotebookNode]:
    """Finds a lesson's check cells, by the exercise that they check."""
    prefix = "check-"
    return {
        marks(c)["grade_id"].removeprefix(prefix): c
        for c in notebook.cells
        if marks(c).get("grade")
    }


def marks(cell: NotebookNode) -> dict:
    """Returns a cell's nbgrader metadata; front ends lose it, so it may be empty."""
    found = cell.get("metadata", {}).get("nbgrader", {})
    return found if isinstance(found, dict) else {}


def extract_answers(submitted: NotebookNode, lesson: NotebookNode) -> Answers:
    """Takes a learner's answers to `lesson` out of their notebook.

    An exercise's cell is known by its grade id, else by the comment in its first line,
    else by the function that it defines.
    """
    code = [c for c in submitted.cells if c.get("cell_type") == "code"]
    found: dict[str, str] = {}
    taken: dict[int, str] = {}  # every copy of an exercise: only the first one counts
    for name in exercises(lesson):
        for is_answer in (
            lambda c, name=name: marks(c).get("grade_id") == name,
            lambda c, name=name: c.source.lstrip().startswith(f"# exercise: {name}\n"),
            lambda c, name=name: re.search(rf"(?m)^def {name}\(", c.source),
        ):
            copies = [cell for cell in code if is_answer(cell)]
            taken |= {id(cell): name for cell in copies}
            for cell in copies[:1]:
                found.setdefault(name, cell.source)
    extras, anchor = [], ""
    known = [*lesson.cells, *release(lesson).cells]
    for cell in submitted.cells:
        ours = taken.get(id(cell)) or anchor_of(cell, known)
        if ours:
            anchor = ours
        elif cell.get("cell_type") == "code" and cell.source.strip():
            extras.append((anchor, cell.source))
    return Answers(found, tuple(extras))


def anchor_of(cell: NotebookNode, known: list[NotebookNode]) -> str:
    """Names the lesson's cell that a submitted cell is, or "" for a learner's own."""
    names = (marks(cell).get("grade_id"), cell.get("id"))
    return next((k.id for k in known if k.id in names or k.source == cell.source), "")


def answer(lesson: NotebookNode, answers: Answers) -> NotebookNode:
    """Sets answers into a clean lesson, whose checks then hold their hidden tests.

    An exercise without an answer gets its stub.
    """
    clean = copy.deepcopy(lesson)
    stubs = exercises(release(lesson))
    for name, cell in exercises(clean).items():
        cell.source = answers.exercises.get(name, stubs[name].source)
    cells = list(extra_cells(answers, ""))
    for cell in clean.cells:
        cells += [cell, *extra_cells(answers, cell.id)]
    clean.cells = cells
    return clean


def extra_cells(answers: Answers, anchor: str) -> Iterable[NotebookNode]:
    """Makes cells of what a learner added behind the lesson's cell `anchor`."""
    for position, (before, source) in enumerate(answers.extras):
        if before == anchor:
            yield NotebookNode(
                cell_type="code",
                id=f"extra-{position}",
                metadata={},
                execution_count=None,
                outputs=[],
                source=source,
            )


def lesson_paths(names: Iterable[str] = (), root: Path = ROOT) -> list[Path]:
    """Lists the lessons' sources in order, or those that `names` ask for.

    Raises:
        ValueError: a name that is no lesson.
    """
    paths = sorted((root / "solutions").glob("[0-9][0-9]_*.py"))
    chosen = []
    for name in names:
        wanted = Path(name).stem
        matching = [
            p for p in paths if p.stem == wanted or p.stem[:2] == wanted.zfill(2)
        ]
        if not matching:
            known = ", ".join(path.stem for path in paths)
            raise ValueError(f'There is no lesson "{name}". The lessons are: {known}.')
        chosen += matching
    return list(dict.fromkeys(chosen)) or paths
