"""Makes a small class for tests of grading: a course folder and its submissions."""

import contextlib
import functools
import io
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import tiny
from nbformat import NotebookNode

from grader.classroom.course import make_course
from grader.containment.backend import backend
from grader.containment.limits import ContainmentError
from grader.lessons.release import exercises, release

RIGHT = {
    "double": "def double(x):\n    return x + x",
    "negate": "def negate(x):\n    return 0 - x",
}
WRONG = {"double": "def double(x):\n    return x", "negate": RIGHT["negate"]}


def make_class(
    folder: Path,
    *changes: tuple[str, str],
    checks: str = tiny.CHECKS,
    all_or_nothing: bool | None = None,
) -> NotebookNode:
    """Writes a course of one tiny lesson and its class folder; returns the lesson."""
    lesson = tiny.lesson(folder / "course", *changes, checks=checks)
    course = folder / "course"
    options = {"all_or_nothing": all_or_nothing, "timezone": "UTC"}
    make_course(folder / "class", root=course, **options)
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


class Lines(list[str]):
    """The lines that a command printed."""

    @property
    def text(self) -> str:
        return "\n".join(self)


def printed(command, *arguments, **options) -> tuple[int, Lines]:
    """Runs a command; returns its status and the lines that it printed."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        status = command(*arguments, **options)
    return status, Lines(output.getvalue().splitlines())


def answered(lesson: NotebookNode, **sources: str) -> NotebookNode:
    """Makes a submission with these answers, stubs for the others."""
    notebook = release(lesson)
    for name, source in sources.items():
        exercises(notebook)[name].source = source
    return notebook


def generate_assignment(course: Path, lesson: str) -> None:
    """Lets nbgrader release a lesson: its gradebook gets the hidden cases, too."""
    programs = os.path.dirname(sys.executable)  # nbgrader calls alembic by its name
    path = os.pathsep.join([programs, os.environ.get("PATH", "")])
    subprocess.run(
        [sys.executable, "-m", "nbgrader", "generate_assignment", lesson],
        cwd=course,
        env=os.environ | {"PATH": path},
        check=True,
        capture_output=True,
    )


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
