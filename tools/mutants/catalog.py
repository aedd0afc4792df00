"""Lists a lesson's mutants, a sample of them, and those that are right."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

from exercise import Exercise
from rules import Mutant, mutants_of

from grader.authoring.check_source import marked
from grader.authoring.lesson import read_lesson
from grader.lessons.release import checks, exercises

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
SLOW = ("launch_env", "fit")  # their checks start Python processes


def right_by_contract() -> dict[tuple[str, str, str], str]:
    """Reads which mutants are right, and why."""
    entries = tomllib.loads(EQUIVALENT.read_text()).get("equivalent", [])
    return {key(entry): entry["why"] for entry in entries}


def key(entry: dict) -> tuple[str, str, str]:
    """Identifies a mutant; its line number would change with each edit."""
    return entry["exercise"], entry["rule"], entry["change"]


def read_mutants(path: Path, only: str | None = None) -> list[Mutant]:
    """Makes the mutants of a lesson's exercises, or of one."""
    notebook = read_lesson(path, repository="")
    solved, checked = exercises(notebook), checks(notebook)
    known = {cell.id for cell in (*solved.values(), *checked.values())}
    shown, helpers = visible_parts(notebook.metadata["checks"])
    lesson = [
        cell.source
        for cell in notebook.cells
        if cell.cell_type == "code" and cell.id not in known | {"setup", "scorecard"}
    ]
    lesson = "\n".join([*lesson, helpers])
    return [
        mutant
        for name, cell in solved.items()
        if name == only or (only is None and name not in SLOW)
        for mutant in mutants_of(Exercise(name, cell.source, shown[name], lesson))
    ]


def visible_parts(source: str) -> tuple[dict[str, str], str]:
    """Splits a check module: its visible examples by exercise, and its functions."""
    tree = ast.parse(source)
    examples = {name: node for name, node, mark in marked(tree) if mark == "visible"}
    helpers = [node for node in tree.body if node not in examples.values()]
    shown = {name: ast.unparse(node) for name, node in examples.items()}
    return shown, "\n".join(map(ast.unparse, helpers))


def sampled(made: dict[Path, list], count: int | None) -> dict[Path, list[Mutant]]:
    """Chooses `count` mutants, evenly spread, or all."""
    every = [mutant for mutants in made.values() for mutant in mutants]
    count = min(count or len(every), len(every))
    places = ((2 * k + 1) * len(every) // (2 * count) for k in range(count))
    chosen = {every[place] for place in places}
    return {path: [m for m in ms if m in chosen] for path, ms in made.items()}
