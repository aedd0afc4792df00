"""Finds a lesson's checks and, where the course is at hand, its solutions."""

from __future__ import annotations

import importlib.resources
import re
from importlib.resources.abc import Traversable

MARKS = re.compile(r"(?m)^[ \t]*### (BEGIN|END) SOLUTION\n")
EXERCISE = re.compile(r'(?ms)^# %% exercise="(\w+)".*?\n(.*?)(?=^# %%|\Z)')


def solutions_folder() -> Traversable | None:
    """Finds the folder of the lessons' sources: beside lessons/, or in this package.

    Colab has the course as a zip file. In a class's release there is no such folder.
    """
    package = importlib.resources.files(__package__)
    folders = [package / "solutions", package.parent.parent / "solutions"]
    return next((one for one in folders if (one / "checks").is_dir()), None)


def checks_of(lesson: str) -> tuple[str, bool]:
    """Returns the source of a lesson's checks, and whether hidden cases are in it.

    Raises:
        FileNotFoundError: there is no such lesson.
    """
    folder = solutions_folder()
    path = folder and folder / "checks" / f"{lesson}.py"
    if path and path.is_file():
        return path.read_text(encoding="utf-8"), True
    path = importlib.resources.files(__package__) / "checks" / f"{lesson}.py"
    return path.read_text(encoding="utf-8"), False


def solutions_of(lesson: str) -> dict[str, str]:
    """Returns the sources of a lesson's solved exercises, where they are at hand."""
    folder = solutions_folder()
    path = folder and folder / f"{lesson}.py"
    if not path or not path.is_file():
        return {}
    text = MARKS.sub("", path.read_text(encoding="utf-8"))
    return dict(EXERCISE.findall(text))
