"""Reads a lesson's checks, `solutions/checks/NN_name.py`, without running them."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from grader.authoring.rules import SourceError, problem


@dataclasses.dataclass
class ExerciseCheck:
    """The check of one exercise: its line, what `@visible` says, its hidden cases."""

    line: int
    points: float
    essential: Sequence[str]
    others: Sequence[str] = ()
    bonus: bool = False
    hidden: str = ""

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
        SourceError: it is not Python, or breaks some of the `RULES`.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    functions: dict[str, dict[str, ast.FunctionDef]] = {"visible": {}, "hidden": {}}
    problems, checks = [], {}

    def add(node: ast.AST, rule: str, **values: object) -> None:
        problems.append(problem(path, node.lineno, rule, **values))

    for name, node, mark in marked(parse(path)):
        if name in functions[mark]:
            add(node, "one of each", mark=mark, name=name)
        functions[mark][name] = node
        for call in outside_blocks(node):
            add(call, "expectation")
    visible, hidden = functions.values()
    for name in hidden.keys() - visible.keys():
        add(hidden[name], "visible check", name=name)
    for name, node in visible.items():
        text = lines[lines_of(hidden[name])] if name in hidden else []
        try:
            checks[name] = read_check(node, "\n".join(text))
        except (TypeError, ValueError):  # unknown or missing; computed
            add(node, "arguments", name=name)
    if problems:
        raise SourceError(problems)
    return checks


def parse(path: Path) -> ast.Module:
    """Parses a file of Python.

    Raises:
        SourceError: it is not Python.
    """
    try:
        return ast.parse(path.read_text(encoding="utf-8"), path)
    except SyntaxError as error:
        line, text = error.lineno or 1, error.msg
        raise SourceError([problem(path, line, "syntax", text=text)]) from None


def read_check(node: ast.FunctionDef, hidden: str) -> ExerciseCheck:
    """Reads what `@visible` says of an exercise, besides its name."""
    said = node.decorator_list[0].keywords
    found = {one.arg: ast.literal_eval(one.value) for one in said}
    check = ExerciseCheck(node.lineno, **found, hidden=hidden)
    names = check.statements
    if str in (type(check.essential), type(check.others)) or len({*names}) < len(names):
        raise ValueError
    if not check.essential or check.points <= 0:
        raise ValueError
    return check


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
