"""Makes a small class for tests of grading: a course folder and its submissions."""

import functools
from pathlib import Path

import nbformat
import tiny
from nbformat import NotebookNode

from grader.authoring.notebook import exercises, release
from grader.classroom.course import make_course
from grader.containment.backend import backend
from grader.containment.limits import ContainmentError

RIGHT = {
    "double": "def double(x):\n    return x + x",
    "negate": "def negate(x):\n    return 0 - x",
}
WRONG = {"double": "def double(x):\n    return x", "negate": RIGHT["negate"]}


def make_class(folder: Path, *changes: tuple[str, str]) -> NotebookNode:
    """Writes a course of one tiny lesson and its class folder; returns the lesson."""
    lesson = tiny.lesson(folder / "course", *changes)
    make_course(folder / "class", root=folder / "course")
    return lesson


def hand_in(folder: Path, student: str, content: NotebookNode | bytes) -> Path:
    """Puts a file into the class's folder, as nbgrader collects it."""
    place = folder / "class" / "submitted" / student / tiny.NAME
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{tiny.NAME}.ipynb"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        nbformat.write(content, path)
    return path


def answered(lesson: NotebookNode, **sources: str) -> NotebookNode:
    """Makes a submission with these answers, stubs for the others."""
    notebook = release(lesson)
    for name, source in sources.items():
        exercises(notebook)[name].source = source
    return notebook


@functools.cache
def is_trusted() -> bool:
    """Tells whether code has to run trusted, since nothing here contains it.

    Contained code starts sooner: in a fork of a process that has imported JAX.
    """
    try:
        backend()
    except ContainmentError:
        return True
    return False
