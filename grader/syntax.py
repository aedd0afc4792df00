"""Parses Python for workers side by side."""

from __future__ import annotations

import ast
import threading

# Python 3.11 counts the depth of all trees that are being made in one place: where two
# threads make one at a time, parsing fails now and then (cpython issue 106905).
lock = threading.Lock()


def parse(source: str) -> ast.Module:
    """Parses a text as `ast.parse` does, one at a time."""
    with lock:
        return ast.parse(source)
