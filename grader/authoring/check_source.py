"""Reads a lesson's checks, `solutions/checks/NN_name.py`, without running them."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from grader.authoring.rules import SourceError


@dataclasses.dataclass
class ExerciseCheck:
    """The check of one exercise: its line, its hidden cases, what `@visible` says."""

    line: int
    hidden: str
    points: float
    essential: Sequence[str]
    others: Sequence[str] = ()
    bonus: bool = False

    @property
    def statements(self) -> list[str]:
        return [*self.essential, *self.others]

    @property
    def maximum(self) -> float:
        """The points that count in the lesson's maximum."""
        return 0 if self.bonus else self.points


def checks_path(lesson: Path) -> Path:
    return lesson.parent / "checks" / lesson.name


def read_checks(path: Path) -> dict[str, ExerciseCheck]:
    """Reads the checks in a module: by exercise, in the module's order.

    Raises:
        SourceError: the module breaks one of the `RULES`.
    """
    if not path.exists():
        raise SourceError(path, 1, "file of checks")
    source = path.read_text(encoding="utf-8")
    functions: dict[str, dict[str, ast.FunctionDef]] = {"visible": {}, "hidden": {}}
    for name, node, mark in marked(ast.parse(source, path)):
        if name in functions[mark]:
            raise SourceError(path, node.lineno, "one of each", mark=mark, name=name)
        functions[mark][name] = node
        for call in outside_blocks(node):
            raise SourceError(path, call.lineno, "expectation")
    found = {}
    for name, node in functions["visible"].items():
        cases = functions["hidden"].pop(name, None)
        hidden = source.splitlines()[lines_of(cases)] if cases else []
        try:
            said = node.decorator_list[0].keywords
            arguments = {one.arg: ast.literal_eval(one.value) for one in said}
            found[name] = ExerciseCheck(node.lineno, "\n".join(hidden), **arguments)
        except (TypeError, ValueError):  # unknown or missing; computed
            raise SourceError(path, node.lineno, "arguments", name=name) from None
    for name, node in functions["hidden"].items():
        raise SourceError(path, node.lineno, "visible check", name=name)
    return found


def marked(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef, str]]:
    """Yields the functions that hold checks: the exercise, the function, its mark."""
    for node in tree.body:
        for mark in getattr(node, "decorator_list", ()):
            match mark:
                case ast.Call(
                    func=ast.Name(id="visible" | "hidden" as kind),
                    args=[ast.Constant(value=str(name))],
                ):
                    yield name, node, kind


def outside_blocks(node: ast.AST) -> Iterator[ast.Call]:
    """Yields the expectations of a function that are in no block of a statement."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef():  # blocks may call it
                continue
            case ast.With(items=[ast.withitem(ast.Call(ast.Name("statement")))]):
                continue
            case ast.Call(ast.Name("expect_like_solution")):  # it names statements
                continue
            case ast.Call(ast.Name(name)) if name.startswith("expect"):
                yield child
        yield from outside_blocks(child)


def visible_source(source: str) -> str:
    """Cuts the hidden cases, and the blank lines above them, out of a check module."""
    lines = source.splitlines(keepends=True)
    for _, node, mark in reversed([*marked(ast.parse(source))]):
        if mark == "hidden":
            place = lines_of(node)
            above = "".join(lines[: place.start]).rstrip().count("\n") + 1
            del lines[above : place.stop]
    return "".join(lines)


def lines_of(node: ast.FunctionDef) -> slice:
    """Returns where a function with a decorator is among the lines of its module."""
    return slice(node.decorator_list[0].lineno - 1, node.end_lineno)
