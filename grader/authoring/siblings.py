"""Makes siblings of exercises, which published solutions do not solve.

A sibling is the same exercise with something changed: another loss, another axis,
another layout. `solutions/siblings/NN_name.toml` lists them by exercise, each as texts
that replace others, in the lesson and in its checks alike.
"""

from __future__ import annotations

import random
import re
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from nbformat import NotebookNode

from grader.atomic_files import read_text, write
from grader.authoring.build import read
from grader.authoring.check_source import checks_path
from grader.authoring.rules import BuildError
from grader.lessons import coursekit

CELL = re.compile(r"(?m)^(?=# %%)")
PAYOFF = re.compile(r"(?m)^@needs\(")  # a cell that runs what a learner wrote


def siblings_of(source: Path) -> dict[str, dict[str, Sequence[tuple[str, str]]]]:
    """Reads what the siblings of a lesson's exercises replace, by exercise and name."""
    tables = tomllib.loads(read_text(table_path(source)))
    return {
        exercise: {one["name"]: one["replace"] for one in found}
        for exercise, found in tables.items()
    }


def table_path(source: Path) -> Path:
    return source.parent / "siblings" / f"{source.stem}.toml"


def draw(source: Path, seed: str) -> dict[str, str]:
    """Draws a sibling of each of a lesson's exercises that have any: their names."""
    return {
        exercise: random.Random(f"{seed.strip()} {source.stem} {exercise}").choice(
            [*names]
        )
        for exercise, names in siblings_of(source).items()
    }


def read_with(source: Path, root: Path, chosen: Mapping[str, str]) -> NotebookNode:
    """Makes the notebook of a lesson, not executed, with the siblings `chosen`.

    Raises:
        BuildError: there is no such sibling, or a text that it replaces is gone.
    """
    if not chosen:
        return read(source, root)
    known = siblings_of(source)
    cells = CELL.split(source.read_text(encoding="utf-8"))
    functions = checks_path(source).read_text(encoding="utf-8").split("\n\n\n")
    for exercise, name in chosen.items():
        if name not in known.get(exercise, {}):
            raise BuildError(
                f'{table_path(source)} has no sibling "{name}" of {exercise}. Bring '
                "it back, or remove its line from grading/siblings.json of the class."
            )
        cells = [
            cell
            for cell in cells
            if not (PAYOFF.search(cell) and is_about(cell, exercise))
        ]
        for old, new in known[exercise][name]:
            before = cells, functions
            cells = replaced(cells, exercise, old, new)
            functions = replaced(functions, exercise, old, new)
            if (cells, functions) == before:
                raise BuildError(
                    f'{table_path(source)}: nothing about {exercise} says "{old}", '
                    f'which its sibling "{name}" replaces. Write what it says now.'
                )
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "solutions" / source.name
        write(own, "".join(cells))
        write(checks_path(own), "\n\n\n".join(functions))
        if (root / coursekit.SETUP_CELL).exists():  # a course of its own
            for name in (coursekit.SETUP_CELL, "pyproject.toml"):
                write(Path(folder, name), read_text(root / name))
            (Path(folder) / "lessons").symlink_to(root / "lessons")
        return read(own, root)


def replaced(parts: Iterable[str], exercise: str, old: str, new: str) -> list[str]:
    """Replaces a text, wherever its lines break, in the parts about an exercise."""
    pattern = re.compile(r"\s+(?:# )?".join(map(re.escape, old.split())))
    return [
        pattern.sub(lambda _: new, part) if is_about(part, exercise) else part
        for part in parts
    ]


def is_about(part: str, exercise: str) -> bool:
    return re.search(rf"\b{exercise}\b", part) is not None
