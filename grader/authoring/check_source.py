"""Reads a lesson's checks, `solutions/checks/NN_name.py`, without running them.

Takes the hidden cases out of them, and proves that each statement has an expectation
and each expectation a statement.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator
from pathlib import Path

from grader.authoring.source_error import SourceError

OPTIONS = {"points": 0, "essential": [], "others": [], "bonus": False}
# Arguments of `expect_like_solution` that name no statements.
NO_FACTS = ("free", "compiled", "scales", "one_by_one", None)


@dataclasses.dataclass(frozen=True)
class ExerciseCheck:
    """What a check module says of one exercise.

    Attributes:
        exercise: its name.
        points: what it is worth.
        bonus: whether these do not count in the lesson's maximum.
        essential, others: its statements.
        line: where its visible examples begin.
        hidden: the source of its hidden cases, or "".
    """

    exercise: str
    points: float
    bonus: bool
    essential: tuple[str, ...]
    others: tuple[str, ...]
    line: int
    hidden: str

    @property
    def statements(self) -> tuple[str, ...]:
        """All statements, the essential ones first."""
        return (*self.essential, *self.others)

    @property
    def maximum(self) -> float:
        """The points that count in the lesson's maximum."""
        return 0 if self.bonus else self.points


def checks_path(lesson: Path) -> Path:
    """Names the file that holds a lesson's checks."""
    return lesson.parent / "checks" / lesson.name


def read_text(path: Path) -> str:
    """Reads a check module.

    Raises:
        SourceError: it is missing, or no text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        remedy = "Write the checks of the lesson's exercises into it."
        raise SourceError(path, 1, "The file is missing.", remedy) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise SourceError(path, line, "Not UTF-8.", "Save it as UTF-8.") from None


def read_checks(path: Path) -> dict[str, ExerciseCheck]:
    """Reads the checks in a module, by exercise and in its order.

    Raises:
        SourceError: the module breaks one of the rules in CONTRIBUTING.md.
    """
    source = read_text(path)
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        line = error.lineno or 1
        raise SourceError(path, line, f"{error.msg}.", "Correct the syntax.") from None
    hidden: dict[str, ast.FunctionDef] = {}
    seen: set[tuple[str, str]] = set()
    for name, node, mark in marked(tree):
        if (name, mark) in seen:
            what = "check" if mark == "visible" else "function with hidden cases"
            problem = f'A second {what} of "{name}".'
            raise SourceError(path, node.lineno, problem, "Remove one of the two.")
        seen.add((name, mark))
        if mark == "hidden":
            hidden[name] = node
    found: dict[str, ExerciseCheck] = {}
    for name, node, mark in marked(tree):
        if mark == "hidden":
            continue
        values = options_of(path, node)
        cases = hidden.pop(name, None)
        found[name] = ExerciseCheck(
            name,
            values["points"],
            values["bonus"],
            tuple(values["essential"]),
            tuple(values["others"]),
            node.lineno,
            segment(source, cases) if cases else "",
        )
        check_proofs(path, found[name], [node, *filter(None, [cases])])
    for name, node in hidden.items():
        problem = f'Hidden cases of "{name}", which has no visible examples.'
        remedy = f'Add a function with @visible("{name}", ...).'
        raise SourceError(path, node.lineno, problem, remedy)
    return found


def marked(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef, str]]:
    """Yields the functions that hold checks: exercise, function, its mark."""
    for node in tree.body:
        for mark in getattr(node, "decorator_list", ()):
            match mark:
                case ast.Call(
                    func=ast.Name(id="visible" | "hidden" as kind),
                    args=[ast.Constant(value=str(name))],
                ):
                    yield name, node, kind


def options_of(path: Path, node: ast.FunctionDef) -> dict:
    """Reads what `@visible` says of an exercise."""
    [call] = (one for one in node.decorator_list if isinstance(one, ast.Call))
    values = dict(OPTIONS)
    for option in call.keywords:
        if option.arg not in OPTIONS:
            problem = f'Unknown option "{option.arg}".'
            remedy = f"Known are: {', '.join(OPTIONS)}."
            raise SourceError(path, option.lineno, problem, remedy)
        try:
            values[option.arg] = ast.literal_eval(option.value)
        except ValueError:
            problem = f"{option.arg} is computed."
            remedy = "Write it as plain values: it is read without running the file."
            raise SourceError(path, option.value.lineno, problem, remedy) from None
    points, bonus = values["points"], values["bonus"]
    if isinstance(points, bool) or not isinstance(points, int | float) or points <= 0:
        problem = f"points is {points!r}, not a positive number."
        raise SourceError(path, node.lineno, problem, "Write points=2.")
    if not isinstance(bonus, bool):
        remedy = "Write bonus=True, or leave it out."
        raise SourceError(path, node.lineno, f"bonus is {bonus!r}.", remedy)
    for option in ("essential", "others"):
        check_names(path, node, option, values[option])
    if not values["essential"]:
        problem = f"{node.name} has no essential statement."
        remedy = 'Name what must hold for any credit: essential=["..."].'
        raise SourceError(path, node.lineno, problem, remedy)
    names = [*values["essential"], *values["others"]]
    for name in names:
        if names.count(name) > 1:
            problem = f'{node.name} names "{name}" twice.'
            raise SourceError(path, node.lineno, problem, "Remove one of the two.")
    return values


def check_names(path: Path, node: ast.FunctionDef, option: str, names: object) -> None:
    """Checks that an option lists statements by their names."""
    is_list = isinstance(names, list | tuple)
    if not is_list or not all(isinstance(name, str) for name in names):
        problem = f"{option} is {names!r}, not a list of names."
        raise SourceError(path, node.lineno, problem, f'Write {option}=["..."].')


def check_proofs(path: Path, check: ExerciseCheck, functions: list) -> None:
    """Checks that statements and expectations belong together."""
    named: dict[str, int] = {}
    for function in functions:
        for call in calls(function):
            named |= dict.fromkeys(named_by(call), call.lineno)
        for call in outside(function):
            problem = "An expectation proves no statement."
            remedy = 'Put it into a block: with statement("..."):'
            raise SourceError(path, call.lineno, problem, remedy)
    words = {
        node.value
        for function in functions
        for part in function.body
        for node in ast.walk(part)
        if isinstance(node, ast.Constant)
    }
    for name in check.statements:
        if name not in words:  # a variable may hold a statement's name
            problem = f'Nothing proves "{name}" of {check.exercise}.'
            remedy = f'Add a block: with statement("{name}"):'
            raise SourceError(path, check.line, problem, remedy)
    for name, line in named.items():
        if name not in check.statements:
            problem = f'{check.exercise} has no statement "{name}".'
            remedy = "Name it in @visible, among essential or others."
            raise SourceError(path, line, problem, remedy)


def calls(node: ast.AST) -> Iterator[ast.Call]:
    """Yields the calls of plain names in a tree."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name):
            yield part


def named_by(call: ast.Call) -> Iterator[str]:
    """Yields the statements that a call names by constants."""
    named = []
    if call.func.id == "statement":
        named = call.args
    elif call.func.id == "Case":
        named = [k.value for k in call.keywords if k.arg == "statements"]
    elif call.func.id == "expect_like_solution":
        named = [k.value for k in call.keywords if k.arg not in NO_FACTS]
    for node in named:
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def outside(node: ast.AST) -> Iterator[ast.Call]:
    """Yields the expectations in a function that stand in no block of a statement."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(child, ast.With) and any(
            one.func.id == "statement" for one in calls(ast.Module(child.items, []))
        ):
            continue
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name):
            name = child.func.id
            if name.startswith("expect") and name != "expect_like_solution":
                yield child
        yield from outside(child)


def visible_source(source: str) -> str:
    """Takes the hidden cases out of a check module."""
    lines, cut = source.splitlines(keepends=True), set()
    for _, node, mark in marked(ast.parse(source)):
        if mark == "hidden":
            first = first_line(node)
            cut |= {*range(first, node.end_lineno + 1)}
            while first > 1 and not lines[first - 2].strip():
                first -= 1  # the blank lines before it
                cut.add(first)
    return "".join(line for number, line in enumerate(lines, 1) if number not in cut)


def segment(source: str, node: ast.FunctionDef) -> str:
    """Returns a function's source, with its decorators."""
    return "\n".join(source.splitlines()[first_line(node) - 1 : node.end_lineno])


def first_line(node: ast.FunctionDef) -> int:
    """Returns the number of a function's first line, that of a decorator."""
    return min(node.lineno, *(one.lineno for one in node.decorator_list))
