"""Finds what is to be translated: the prose of a text cell, the messages in code.

Where a message has values in it, `{1}`, `{2}`, ... stand for them, in the order of the
English text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

SEPARATORS = re.compile(r"(?s)(```.*?```|\n\s*\n|</?details>|</?summary>)")
ITEMS = re.compile(r"(?m)^(?=\s*(?:[-*]|\d+\.) )")
MARK = re.compile(r"(?s)(\s*(?:#+ |[-*] |\d+\. |> )?)(.*?)(\s*)")  # text between
TABLE_RULE = re.compile(r"[|\s:-]*")


def rewritten(source: str, change: Callable[[str], str]) -> str:
    """Applies `change` to each paragraph, heading, list item and row of a text."""
    parts = SEPARATORS.split(source)
    for number, part in enumerate(parts):
        if SEPARATORS.fullmatch(part) or not re.search("[A-Za-z]{2}", part):
            continue
        if part.lstrip().startswith("[!["):
            continue  # the badge
        is_table = part.lstrip().startswith("|")
        units = part.splitlines(keepends=True) if is_table else ITEMS.split(part)
        parts[number] = "".join(unit_rewritten(unit, change) for unit in units)
    return "".join(parts)


def unit_rewritten(unit: str, change: Callable[[str], str]) -> str:
    """Applies `change` to a text whose line ends do not count, behind its mark."""
    if TABLE_RULE.fullmatch(unit):
        return unit
    before, text, after = MARK.fullmatch(unit).groups()
    plain = " ".join(text.split())
    changed = change(plain)
    return unit if changed == plain else before + changed + after


def messages(source: str) -> list[str]:
    """Finds the texts in Python code that a learner may read, in their order."""
    tree = ast.parse(source)
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(node.value)  # a docstring
        if isinstance(node, ast.JoinedStr):
            skipped |= set(node.values)
            skipped |= {getattr(value, "format_spec", None) for value in node.values}
    strings = [
        (node.lineno, node.col_offset, template(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr) and node not in skipped
    ]
    return [text for _, _, text in sorted(strings) if is_prose(text)]


def template(node: ast.AST) -> str:
    """Writes a string of the code with its values numbered, or "" for other nodes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return ""
    text, values = "", 0
    for part in node.values:
        values += isinstance(part, ast.FormattedValue)
        is_text = isinstance(part, ast.Constant)
        text += part.value if is_text else f"{{{values}}}"
    return text


# Patterns, flags, imports, HTML, calls and style sheets.
CODE = re.compile(r"[\\|\n]|\(\?|^--|^import |^<|^\w+\(|[a-z]:[^;]+;[a-z]")


def is_prose(text: str) -> bool:
    """Tells messages from names, patterns and code."""
    words = re.sub(r"\{\d+\}", " ", text)
    return bool(
        " " in text.strip()
        and re.search("[A-Za-z]{3,}", words)
        and not CODE.search(text)
    )
