"""Decides which cells of a lesson run where: what they define, what they touch."""

from __future__ import annotations

import ast
import dataclasses

from nbformat import NotebookNode

from grader.authoring.release import exercises, nbgrader_metadata, release
from grader.submissions.definitions import (
    DEFINITIONS,
    MAX_SOURCE,
    UNREADABLE,
    defined,
    definitions,
    parse,
)

REACHING = {"delattr", "eval", "exec", "globals", "setattr", "vars"}


@dataclasses.dataclass(frozen=True)
class Step:
    """One cell to run: `lean` is what of it other cells need."""

    name: str
    kind: str  # "setup", "lesson", "exercise" or "extra"
    source: str
    lean: str


def steps(clean: NotebookNode) -> list[Step]:
    """Lists the cells to run: all but checks and scorecard."""
    found = []
    for cell in clean.cells:
        if cell.cell_type != "code" or nbgrader_metadata(cell).get("grade"):
            continue
        if nbgrader_metadata(cell).get("solution"):
            found.append(Step(cell.id, "exercise", cell.source, cell.source))
        elif cell.id.startswith("extra-"):
            found.append(Step(cell.id, "extra", cell.source, cell.source))
        elif cell.id == "setup":
            found.append(Step(cell.id, "setup", cell.source, cell.source))
        elif not is_special(cell):
            lean = definitions(cell.source)
            found.append(Step(cell.id, "lesson", cell.source, lean))
    return found


def only_defined(source: str) -> str:
    """Keeps what a learner's cell defines; nothing where it cannot be read."""
    try:
        return definitions(source) if len(source) <= MAX_SOURCE else ""
    except UNREADABLE:
        return ""


def stubs(clean: NotebookNode, lesson: NotebookNode) -> set[str]:
    """Names the exercises that nobody has worked on; what need not run is not run."""
    released = {name: cell.source for name, cell in exercises(release(lesson)).items()}
    return {
        name
        for name, cell in exercises(clean).items()
        if cell.source.strip() == released[name].strip()
    }


def defs(source: str) -> list[str]:
    """Names what a cell defines; none where it does not parse."""
    try:
        return defined(source) if len(source) <= MAX_SOURCE else []
    except UNREADABLE:
        return []


def is_plain(source: str, taken: set[str]) -> bool:
    """Tells whether a cell only defines functions that touch nothing of others.

    `taken` are the names that other cells define. Methods that change what they belong
    to, as in `items.append(1)`, are not seen.
    """
    try:
        body = parse(source).body if len(source) <= MAX_SOURCE else None
    except UNREADABLE:
        body = None
    if body is None:
        return False
    nodes = [node for statement in body for node in ast.walk(statement)]
    made = {node.arg for node in nodes if isinstance(node, ast.arg)}
    made |= {n.id for n in nodes if isinstance(n, ast.Name) and is_changed(n)}
    if any(redefines(statement, taken) for statement in body):
        return False
    return not any(reaches_out(node, made) for node in nodes)


def redefines(statement: ast.stmt, taken: set[str]) -> bool:
    """Tells whether a statement defines a name of others, or more than a definition."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        aliases = statement.names
        return any((a.asname or a.name).split(".")[0] in (*taken, "*") for a in aliases)
    is_text = isinstance(statement, ast.Expr) and isinstance(
        statement.value, ast.Constant
    )
    is_definition = isinstance(statement, DEFINITIONS) or is_text
    return not is_definition or getattr(statement, "name", None) in taken


def reaches_out(node: ast.AST, made: set[str]) -> bool:
    """Tells whether a node changes what lives outside; `made` are the cell's names."""
    if isinstance(node, ast.Subscript) and is_changed(node):
        while isinstance(node, ast.Subscript):
            node = node.value
        return not (isinstance(node, ast.Name) and node.id in made)
    is_outer = isinstance(node, ast.Name) and node.id in REACHING
    is_field = isinstance(node, ast.Attribute) and is_changed(node)
    return isinstance(node, ast.Global) or is_outer or is_field


def is_changed(node: ast.expr) -> bool:
    """Tells whether an expression is set or deleted."""
    return not isinstance(node.ctx, ast.Load)


def is_special(cell: NotebookNode) -> bool:
    """Tells set-up, exercise, check and scorecard from a lesson's other cells."""
    return cell.id in ("setup", "scorecard") or any(
        nbgrader_metadata(cell).get(mark) for mark in ("solution", "grade")
    )
