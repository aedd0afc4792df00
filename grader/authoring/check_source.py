"""Reads a lesson's checks, `solutions/checks/NN_name.py`, without running them."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import functools
import symtable
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from grader.authoring.rules import Problem, SourceError, problem
from grader.lessons import coursekit


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

    One whose `@visible` cannot be read has no statements.

    Raises:
        SourceError: the file is missing, or is not Python.
    """
    found = [*marked(parse(path))]
    lines = path.read_text(encoding="utf-8").splitlines()
    hidden = {
        name: "\n".join(lines[lines_of(node)])
        for name, node, mark in found
        if mark == "hidden"
    }
    return {
        name: read_check(node, hidden.get(name, ""))
        for name, node, mark in found
        if mark == "visible"
    }


def parse(path: Path) -> ast.Module:
    """Parses a file of Python.

    Raises:
        SourceError: it is missing, or is not Python.
    """
    try:
        text = path.read_text(encoding="utf-8")
        symtable.symtable(text, str(path), "exec")  # refuses more than the line below
        return ast.parse(text, path)
    except FileNotFoundError:
        raise SourceError([problem(path, 1, "file of checks")]) from None
    except SyntaxError as error:
        line, text = error.lineno or 1, error.msg
        raise SourceError([problem(path, line, "syntax", text=text)]) from None


def read_check(node: ast.FunctionDef, hidden: str) -> ExerciseCheck:
    """Reads what `@visible` says of an exercise, besides its name."""
    said = node.decorator_list[0].keywords
    try:
        found = {one.arg: ast.literal_eval(one.value) for one in said}
        check = ExerciseCheck(node.lineno, **found, hidden=hidden)
        names = check.statements
        is_text = str in (type(check.essential), type(check.others))
        if is_text or len({*names}) < len(names):
            raise ValueError
        if not check.essential or check.points <= 0:
            raise ValueError
        return check
    except (TypeError, ValueError):  # unknown or missing; computed
        return ExerciseCheck(node.lineno, 0, ())


def problems_of_checks(
    path: Path, checks: dict[str, ExerciseCheck]
) -> Iterator[Problem]:
    """Yields what breaks the rules that concern a module of checks alone."""
    tree = parse(path)
    functions: dict[tuple[str, str], ast.FunctionDef] = {}
    for name, node, mark in marked(tree):
        if (name, mark) in functions:
            yield problem(path, node.lineno, "one of each", mark=mark, name=name)
        if name not in checks:
            yield problem(path, node.lineno, "visible check", name=name)
        for call in outside_blocks(node):
            yield problem(path, call.lineno, "expectation")
        functions[name, mark] = node
    helpers = [node for node in tree.body if node not in functions.values()]
    for name, check in checks.items():
        own = [node for (of, _), node in functions.items() if of == name]
        if check.statements:
            yield from problems_of_statements(path, name, check, own, helpers)
        else:
            yield problem(path, check.line, "arguments", name=name)
    known = bound_names(path.read_text(encoding="utf-8"))
    known |= {*dir(builtins), "__name__", "__file__"}
    for node in ast.walk(tree):
        match node:
            case ast.Name(name) if name not in known:
                yield problem(path, node.lineno, "undefined name", name=name)
                known.add(name)  # once is enough
            case ast.Call(ast.Name("expect_like_solution"), args=[_, *_]):
                yield from problems_of_comparison(path, node)


def problems_of_statements(
    path: Path,
    name: str,
    check: ExerciseCheck,
    own: Sequence[ast.FunctionDef],
    helpers: Iterable[ast.stmt],
) -> Iterator[Problem]:
    """Yields blocks that try no statement, and statements that no block can try."""
    known = ", ".join(f'"{one}"' for one in check.statements)
    for call in (call for function in own for call in ast.walk(function)):
        for text in {*tried_statements(call)}.difference(check.statements):
            values = {"name": name, "statement": text, "known": known}
            yield problem(path, call.lineno, "known statement", **values)
    code = [*helpers, *(node for function in own for node in function.body)]
    nodes = [node for part in code for node in ast.walk(part)]
    said = {node.value for node in nodes if isinstance(node, ast.Constant)}
    for text in {*check.statements} - said:
        yield problem(path, check.line, "tried", name=name, statement=text)


def tried_statements(call: ast.AST) -> Iterator[str]:
    """Yields the statements that a call names as what it tries."""
    *_, options = facts_of_comparison()
    match call:
        case ast.Call(ast.Name("statement"), args=names):
            pass
        case ast.Call(ast.Name("Case"), keywords=given):
            names = [one.value for one in given if one.arg == "statements"]
        case ast.Call(ast.Name("expect_like_solution"), keywords=given):
            names = [one.value for one in given if one.arg not in options]
        case _:
            return
    names = [one for name in names for one in getattr(name, "values", [name])]
    for one in (one for name in names for one in getattr(name, "elts", [name])):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value


def shown_only(path: Path) -> Iterator[tuple[str, str]]:
    """Yields the essential statements that only the examples try: (exercise, name)."""
    tree = parse(path)
    functions = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
    hidden = {name: node for name, node, mark in marked(tree) if mark == "hidden"}
    constants = [one for one in tree.body if isinstance(one, ast.Assign)]
    for name, check in read_checks(path).items():
        called = [*constants, *([hidden[name]] if name in hidden else [])]
        said = set()
        for function in called:  # which grows
            for node in ast.walk(function):
                match node:
                    case ast.Constant(value):
                        said.add(value)
                    case ast.Name(other) if other in functions:
                        found = functions[other]
                        called += [found] if found not in called else []
        yield from ((name, one) for one in check.essential if one not in said)


def problems_of_comparison(path: Path, call: ast.Call) -> Iterator[Problem]:
    """Yields facts of which a comparison with the solution says nothing, or twice."""
    facts, optional, options = facts_of_comparison()
    given = {one.arg: one.value for one in call.keywords}
    try:
        free = ast.literal_eval(given.get("free", ast.Dict([], [])))
        free = {*" ".join(free or ()).split()}
    except (TypeError, ValueError):  # it is computed: a run will tell
        return
    if None in given:  # so are these
        return
    named = given.keys() - options
    compared = {"sent" if one == "put_in" else one for one in named}
    faults = {
        "known facts": (named | free) - {*facts} - optional,
        "open facts": {*facts} - compared - free,
        "facts twice": compared & free,
    }
    for rule, found in faults.items():
        if found:
            values = {"name": ast.unparse(call.args[0]), "known": ", ".join(facts)}
            values |= {"facts": ", ".join(sorted(found)), "fact": min(found)}
            yield problem(path, call.lineno, rule, **values)


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


def bound_names(source: str) -> set[str]:
    """Lists the names that some scope of a piece of code defines."""
    found, scopes = set(), [symtable.symtable(source, "", "exec")]
    while scopes:
        scope = scopes.pop()
        scopes += scope.get_children()
        found |= {
            name.get_name()
            for name in scope.get_symbols()
            if name.is_assigned() or name.is_imported() or name.is_parameter()
        }
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
