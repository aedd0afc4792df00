"""Finds what a cell defines: its imports, functions and classes."""

from __future__ import annotations

import ast
import threading

DEFINITIONS = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef

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


def defined(source: str) -> list[str]:
    """Names the functions and classes that a cell defines."""
    kinds = ast.FunctionDef | ast.ClassDef
    return [node.name for node in parse(source).body if isinstance(node, kinds)]
