"""Reads the package that notebooks import, and copies it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from coursekit.setup import is_lessons_checks
from grader import ROOT

SETUP_CELL = "solutions/setup_cell.py"  # of a course


def course_of(root: Path) -> Path:
    """Returns the course whose package and set-up cell the lessons in `root` use.

    A folder of private lessons has none of its own: it uses ours.
    """
    return root if (root / SETUP_CELL).exists() else ROOT


def folder(root: Path = ROOT) -> Path:
    return root / "lessons" / "coursekit"


def read(root: Path = ROOT) -> dict[str, str]:
    """Reads the package's modules, by their path in it: `draw/array.py`."""
    return {
        path.relative_to(folder(root)).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder(root).rglob("*.py"))
    }


def read_common(root: Path = ROOT) -> dict[str, str]:
    """Reads the package's modules without those that hold the checks of a lesson."""
    return {n: text for n, text in read(root).items() if not is_lessons_checks(n)}


def names_for_notebooks(modules: Mapping[str, str]) -> set[str]:
    """Lists what `coursekit.notebook` offers, without importing it."""
    text = modules["notebook.py"] + modules["draw/__init__.py"]
    lists = re.findall(r"(?ms)^__all__ \+?= \[(.*?)\]", text)
    return {*re.findall(r'"(\w+)"', "".join(lists))}


def copy(target: Path, root: Path = ROOT, more: Mapping[str, str] | None = None):
    """Copies the package into a folder: with `more`, without the lessons' checks."""
    for name, text in (read_common(root) | (more or {})).items():
        path = target / "coursekit" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
