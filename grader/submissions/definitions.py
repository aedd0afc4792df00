"""Finds what a cell defines: its imports, functions and classes."""

from __future__ import annotations

import ast
import threading
from collections.abc import Collection

DEFINITIONS = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
MAX_SOURCE = 300_000  # characters, of all cells together: reading takes seconds

# In Python 3.11 two threads that parse at a time may fail (cpython issue 106905).
lock = threading.Lock()


def parse(source: str) -> ast.Module:
    with lock:
        return ast.parse(source)


def definitions(source: str) -> str:
    """Keeps a cell's imports, functions and classes: what other cells may call."""
    body = [node for node in parse(source).body if isinstance(node, DEFINITIONS)]
    return ast.unparse(ast.Module(body, []))


def added_definitions(source: str, original: str, taken: Collection[str]) -> str:
    """Keeps what a changed cell defines in addition to the original.

    Names that are `taken` keep their meaning. A cell that cannot be read adds nothing.
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
    kinds = ast.FunctionDef | ast.ClassDef
    return [node.name for node in parse(source).body if isinstance(node, kinds)]
