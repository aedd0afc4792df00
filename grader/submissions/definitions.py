"""Reads cells: what one defines, and what one holds beyond the lesson's own."""

from __future__ import annotations

import ast
import re
import threading

DEFINITIONS = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
MAX_SOURCE = 300_000  # characters, of all cells together: reading takes seconds

# In Python 3.11 two threads that parse at a time may fail (cpython issue 106905).
lock = threading.Lock()
MAGIC = re.compile(r"(?m)^([ \t]*)((?:\w[\w, ]*=[ \t]*)?[%!].*|\?.*|[\w.%]+\?{1,2})$")
# Calls with which the lesson's own cells check and set up.
COURSE_CALLS = {"check", "scorecard", "setup.with_devices"}


def parse(source: str) -> ast.Module:
    with lock:
        return ast.parse(source)


def parse_cell(source: str) -> ast.Module:
    """Parses a cell; a line of IPython's own syntax becomes a text."""
    try:
        return parse(source)
    except SyntaxError:
        return parse(MAGIC.sub(lambda line: line[1] + repr(line[2]), source))


def definitions(source: str) -> str:
    """Keeps a cell's imports, functions and classes: what other cells may call.

    Nobody calls one named `_`: below `@needs(...)` it is what a cell does.
    """
    body = [
        node
        for node in parse_cell(source).body
        if isinstance(node, DEFINITIONS) and getattr(node, "name", "") != "_"
    ]
    return ast.unparse(ast.Module(body, []))


def is_only_definitions(source: str) -> bool:
    """Tells whether a cell does nothing but define what it names itself.

    A text on a line of its own, such as a docstring, does nothing either.
    """
    return all(
        (isinstance(node, DEFINITIONS) and "*" not in meanings_of(node))
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in parse(source).body  # not IPython's own syntax, which does things
    )


def meanings(source: str) -> dict[str, str]:
    """Maps the names that a cell's definitions bind to what they stand for."""
    found: dict[str, str] = {}
    for node in parse_cell(source).body:
        found |= meanings_of(node)
    return found


def meanings_of(node: ast.stmt) -> dict[str, str]:
    """Maps the names that a definition binds to what they stand for."""
    match node:
        case ast.ImportFrom():
            return {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        case ast.Import():
            firsts = {a.name.split(".")[0] for a in node.names if not a.asname}
            own = {a.asname: a.name for a in node.names if a.asname}
            return own | {name: name for name in firsts}
        case ast.FunctionDef() | ast.ClassDef():
            return {node.name: ast.unparse(node)}
    return {}


def additions(source: str, original: str) -> str:
    """Keeps the statements of a changed cell that the lesson's own does not hold.

    A cell that cannot be read, and one that a cell magic runs, is kept whole.
    """
    if len(source) > MAX_SOURCE or source.lstrip().startswith("%%"):
        return source
    lines = source.split("\n")
    kept = set[int]()
    try:
        own = {ast.dump(node) for node in parse_cell(original).body}
        for node in parse_cell(source).body:
            if ast.dump(node) not in own and not is_course_call(node):
                decorators = getattr(node, "decorator_list", ())
                first = min(one.lineno for one in (node, *decorators))
                kept.update(range(first - 1, node.end_lineno))
    except UNREADABLE:
        return source
    return "\n".join(lines[number] for number in sorted(kept))


def is_course_call(node: ast.stmt) -> bool:
    """Tells whether a statement does nothing but call one of `COURSE_CALLS`."""
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return is_call and ast.unparse(node.value.func) in COURSE_CALLS


def defined(source: str) -> list[str]:
    kinds = ast.FunctionDef | ast.ClassDef
    return [node.name for node in parse(source).body if isinstance(node, kinds)]
