"""Finds what a cell defines: its imports, functions and classes."""

from __future__ import annotations

import ast
import threading
from collections.abc import Collection

DEFINITIONS = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
MAX_SOURCE = 300_000  # characters, of all cells together: reading takes seconds

# Python 3.11 counts the depth of all trees that are being made in one place: where two
# threads make one at a time, parsing fails now and then (cpython issue 106905).
lock = threading.Lock()


def parse(source: str) -> ast.Module:
    """Parses a text as `ast.parse` does, one at a time."""
    with lock:
        return ast.parse(source)


def definitions(source: str) -> str:
    """Keeps a cell's imports, functions and classes: what other cells may call."""
    body = [node for node in parse(source).body if isinstance(node, DEFINITIONS)]
    return ast.unparse(ast.Module(body, []))


def added_definitions(source: str, original: str, taken: Collection[str]) -> str:
    """Keeps what a changed cell defines beside what the original does.

    Names that are `taken` by other cells stay theirs. A cell that cannot be read adds
    nothing.
    """
    try:
        body = parse(source).body if len(source) <= MAX_SOURCE else []
    except UNREADABLE:
        return ""
    known = {ast.dump(node) for node in parse(original).body}
    added = [
        node
        for node in body
        if isinstance(node, DEFINITIONS)
        and ast.dump(node) not in known
        and getattr(node, "name", None) not in taken
    ]
    return ast.unparse(ast.Module(added, []))


def defined(source: str) -> list[str]:
    """Names the functions and classes that a cell defines."""
    kinds = ast.FunctionDef | ast.ClassDef
    return [node.name for node in parse(source).body if isinstance(node, kinds)]
