"""Reads a lesson's checks, `solutions/checks/NN_name.py`, without running them."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path

from grader.authoring import coursekit
from grader.authoring.rules import Problem, SourceError, problem


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


class CheckSource:
    """A module of checks, as its source says.

    Attributes:
        named: the exercises that have a function with `@visible`.
        checks: those of them whose `@visible` can be read, in the module's order.
        problems: what breaks the rules that concern the module alone.

    Raises:
        SourceError: there is no such file, or it is not Python.
    """

    def __init__(self, path: Path):
        if not path.exists():
            raise SourceError([problem(path, 1, "file of checks")])
        self.path, self.source = path, path.read_text(encoding="utf-8")
        self.tree = parse(path)
        functions: dict[str, dict[str, ast.FunctionDef]] = {"visible": {}, "hidden": {}}
        self.problems: list[Problem] = []
        for name, node, mark in marked(self.tree):
            if name in functions[mark]:
                self.add(node, "one of each", mark=mark, name=name)
            functions[mark].setdefault(name, node)
            for call in outside_blocks(node):
                self.add(call, "expectation")
        self.named, hidden = functions["visible"], functions["hidden"]
        self.checks: dict[str, ExerciseCheck] = {}
        for name, node in self.named.items():
            try:
                found = read_arguments(node)
            except (TypeError, ValueError):  # unknown or missing; computed
                self.add(node, "arguments", name=name)
                continue
            cases = hidden.get(name)
            text = self.source.splitlines()[lines_of(cases)] if cases else []
            self.checks[name] = ExerciseCheck(node.lineno, "\n".join(text), **found)
            self.check_statements(name, [node, cases])
        for name, node in hidden.items():
            if name not in self.named:
                self.add(node, "visible check", name=name)
        self.check_names()
        self.check_comparisons()

    def add(self, node: ast.AST, rule: str, **values: object) -> None:
        self.problems.append(problem(self.path, node.lineno, rule, **values))

    def check_statements(self, name: str, own: list[ast.AST | None]) -> None:
        """Finds statements that no block can try, and blocks that try no statement."""
        stated = self.checks[name].statements
        known = ", ".join(f'"{one}"' for one in stated)
        for node in filter(None, own):
            for text, where in tried_statements(node):
                if text not in stated:
                    rule = "known statement"
                    self.add(where, rule, name=name, statement=text, known=known)
        others = {node for other, node, _ in marked(self.tree) if other != name}
        rest = [node for node in self.tree.body if node not in others]
        marks = {id(one) for node in filter(None, own) for one in node.decorator_list}
        said = {one for node in rest for one in texts_in(node, marks)}
        for text in [one for one in stated if one not in said]:
            self.add(own[0], "tried", name=name, statement=text)

    def check_names(self) -> None:
        """Finds names that nothing in the module defines."""
        known = {*bound_names(self.tree), *dir(builtins), "__name__", "__file__"}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and not {node.id, "*"} & known:
                self.add(node, "undefined name", name=node.id)
                known.add(node.id)  # once is enough

    def check_comparisons(self) -> None:
        """Finds facts about which a comparison with the solution says nothing."""
        facts, optional, options = facts_of_comparison()
        for call in ast.walk(self.tree):
            match call:
                case ast.Call(ast.Name("expect_like_solution"), args=[function, *_]):
                    given = {one.arg: one.value for one in call.keywords}
                    try:
                        free = ast.literal_eval(given.get("free", ast.Dict([], [])))
                    except ValueError:  # it is computed: a run will tell
                        continue
                    if None in given or not isinstance(free, dict):
                        continue
                    free = {one for names in free for one in names.split()}
                    compared = given.keys() - options
                    name = ast.unparse(function)
                    if unknown := sorted((compared | free) - {*facts} - optional):
                        values = {"facts": ", ".join(unknown)}
                        values |= {"known": ", ".join(facts)}
                        self.add(call, "known facts", name=name, **values)
                    self.compare_facts(call, name, facts, compared, free)

    def compare_facts(
        self, call: ast.Call, name: str, facts: list[str], compared: set, free: set
    ) -> None:
        compared = {"sent" if one == "put_in" else one for one in compared}
        if open_facts := [one for one in facts if one not in compared | free]:
            values = {"facts": ", ".join(open_facts), "fact": open_facts[0]}
            self.add(call, "open facts", name=name, **values)
        if twice := sorted(compared & free):
            self.add(call, "facts twice", name=name, facts=", ".join(twice))


def checks_path(lesson: Path) -> Path:
    return lesson.parent / "checks" / lesson.name


def read_checks(path: Path) -> dict[str, ExerciseCheck]:
    """Reads the checks in a module: by exercise, in the module's order.

    Raises:
        SourceError: the module breaks some of the `RULES`.
    """
    found = CheckSource(path)
    if found.problems:
        raise SourceError(found.problems)
    return found.checks


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


def read_arguments(node: ast.FunctionDef) -> dict:
    """Reads what `@visible` says of an exercise, besides its name."""
    said = node.decorator_list[0].keywords
    found = {one.arg: ast.literal_eval(one.value) for one in said}
    check = ExerciseCheck(node.lineno, "", **found)
    names = check.statements
    if any(not isinstance(name, str) for name in names) or len({*names}) < len(names):
        raise ValueError
    if isinstance(check.essential, str) or isinstance(check.others, str):
        raise ValueError
    if not check.essential or check.points <= 0:
        raise ValueError
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


def tried_statements(node: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Yields the statements that a function names as what it tries, and where."""
    *_, options = facts_of_comparison()
    for call in ast.walk(node):
        match call:
            case ast.Call(ast.Name("statement"), args=names):
                pass
            case ast.Call(ast.Name("Case")):
                names = [k.value for k in call.keywords if k.arg == "statements"]
            case ast.Call(ast.Name("expect_like_solution")):
                names = [k.value for k in call.keywords if k.arg not in options]
            case _:
                continue
        for name in names:
            for one in getattr(name, "elts", [name]):
                if isinstance(one, ast.Constant) and isinstance(one.value, str):
                    yield one.value, call


def texts_in(node: ast.AST, skipped: set[int]) -> Iterator[str]:
    """Yields the strings in a piece of code, without those in `skipped` nodes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        if id(child) not in skipped:
            yield from texts_in(child, skipped)


def bound_names(tree: ast.AST) -> set[str]:
    """Lists the names that some scope of a piece of code defines; "*" is any."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(name, ast.Store() | ast.Del()) | ast.arg(name):
                found.add(name)
            case ast.FunctionDef(name) | ast.ClassDef(name):
                found.add(name)
            case ast.alias(name, None):
                found.add(name.partition(".")[0])
            case ast.alias(asname=name) | ast.ExceptHandler(name=name):
                found.add(name)
            case ast.MatchAs(name=name) | ast.MatchStar(name=name):
                found.add(name)
    return found - {None}


@functools.cache
def facts_of_comparison() -> tuple[list[str], set[str], set[str]]:
    """Lists what `expect_like_solution` compares: always, if wished; its other options.

    All is read from its module, since to import that is to start JAX.
    """
    facts, optional, options = ["value", "error"], set(), set()
    for node in parse(coursekit.folder() / "reference_checks.py").body:
        match node:
            case ast.FunctionDef("expect_like_solution", ast.arguments(kwonlyargs=own)):
                options = {one.arg for one in own}
            case ast.Assign([ast.Name("COMPARE")], ast.Dict(keys)):
                facts += [key.value for key in keys]
            case ast.Assign([ast.Name("OPTIONAL")], ast.Set() as names):
                optional = ast.literal_eval(names)
    return [fact for fact in facts if fact not in optional], optional, options


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
