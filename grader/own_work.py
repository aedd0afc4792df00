"""Grades the notebooks that a learner has worked on in lessons/."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from tqdm import tqdm

from grader import ROOT
from grader.autograde import autograde
from grader.build import read, released_path
from grader.notebooks import lesson_paths
from grader.results import Result


def check_own(names: Iterable[str] = (), root: Path = ROOT) -> Iterator[Result]:
    """Grades lessons/*.ipynb one by one, by the road that a class's work takes.

    Raises:
        ValueError: an unknown lesson, or a file that is missing or no notebook.
    """
    for source in lesson_paths(names, root):
        submitted = read_submission(released_path(source))
        lesson = read(source, root)
        code = sum(cell.cell_type == "code" for cell in lesson.cells)
        with tqdm(total=code, desc=source.stem, unit="cell", disable=None) as bar:
            yield autograde(submitted, lesson, source.stem, on_cell=bar.update)


def read_submission(path: Path) -> NotebookNode:
    """Reads a learner's notebook.

    Raises:
        ValueError: the file is missing or holds no notebook.
    """
    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        remedy = f"Get it back: git checkout -- lessons/{path.name}"
        raise ValueError(f"{path} is missing. {remedy}") from None
    except Exception as error:  # nbformat raises many kinds for damaged files
        problem = f"{path} is not a notebook ({type(error).__name__})."
        raise ValueError(f"{problem} Save it again from JupyterLab.") from None


def table(result: Result, width: int = 100) -> str:
    """Writes a result as a table: exercise, outcome, points, what went wrong."""
    rows = [
        (r.exercise, str(r.outcome), f"{r.points:g} of {r.max_points:g}", r.message)
        for r in result.exercises
    ]
    total = f"{result.points:g} of {result.max_points:g}"
    rows = [("exercise", "outcome", "points", ""), *rows, ("total", "", total, "")]
    sizes = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [result.lesson]
    for row in rows:
        start = "  ".join(
            text.ljust(size) for text, size in zip(row, sizes, strict=False)
        )
        room = max(20, width - len(start) - 2)
        message = textwrap.shorten(row[3], room, placeholder=" ...")
        lines.append(f"{start}  {message}".rstrip())
    return "\n".join(lines) + "\n"
