"""Notes code that looks like an attack on the checking, or like honest debugging.

The points stay: checks run elsewhere, and an attack earns nothing. A sign is a note.
It is found in imports and dotted names; one that is hidden better is not noted.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from grader.submissions.definitions import (
    MAX_SOURCE,
    UNREADABLE,
    meanings_of,
    parse_cell,
)

# The course's own modules; what draws pictures may be changed.
COURSE = re.compile(
    r"(sys\.modules\.)?(coursekit(?!\.draw\b|\.notebook\.draw_)|grader)\b"
)
INNER = re.compile(
    r"gc\.get_(objects|referrers)|inspect\.(currentframe|stack)"
    r"|sys\.(_getframe|_current_frames)|(sys|threading)\.set(profile|trace)"
)
MAX_PATH = 200  # characters: a chain of attributes may have thousands
KERNEL = re.compile(  # what IPython and its kernel run cells with
    r"ast_transformers|display_pub|do_execute|input_transformer\w+|run_cell(_async)?"
    r"|set_custom_exc|shell_handlers|showtraceback"
)


def signs(sources: Collection[str]) -> tuple[str, ...]:
    """Lists, in plain words, the signs of tampering in `sources`."""
    if (size := sum(map(len, sources))) > MAX_SOURCE:
        return (
            f"The {size} characters of code are too many to be searched for signs of "
            "tampering.",
        )
    names: dict[str, str] = {}  # what imports bind, in this cell or an earlier one
    found: dict[str, None] = {}
    for source in sources:
        try:
            nodes = [*ast.walk(parse_cell(source))]
            for node in nodes:
                if isinstance(node, ast.Import | ast.ImportFrom):
                    names |= meanings_of(node)
            paths: dict[ast.AST, str] = {}
            for node in reversed(nodes):  # first what is inside others
                paths[node] = dotted(node, names, paths)[:MAX_PATH]
            for node in nodes:
                found |= dict.fromkeys(suspicions(node, paths))
        except UNREADABLE:  # then it cannot run either
            continue
    return tuple(found)


def dotted(
    node: ast.AST, names: Mapping[str, str], paths: Mapping[ast.AST, str]
) -> str:
    """Writes `sys.modules["a"].b` as sys.modules.a.b, a name of no import as ?.

    `paths` has those of the nodes in it.
    """
    match node:
        case ast.Name(id=name):
            return names.get(name, "?")
        case ast.Attribute(value=value, attr=key):
            return f"{paths[value]}.{key}"
        case ast.Subscript(value=value, slice=ast.Constant(value=key)):
            return f"{paths[value]}.{key}"
    return "?"


def suspicions(node: ast.AST, paths: Mapping[ast.AST, str]) -> Iterator[str]:
    """Says what one node does that no exercise needs."""
    path = paths[node]
    is_set = isinstance(node, ast.Attribute | ast.Subscript)
    is_set = is_set and not isinstance(node.ctx, ast.Load)
    match node:
        case ast.Import() | ast.ImportFrom():
            modules = {name.split(".")[0] for name in meanings_of(node).values()}
            for module in sorted(modules & {"ctypes", "grader"}):
                yield f"The code uses {module}, which no exercise needs."
        case ast.Call(
            func=ast.Name(id="setattr" | "delattr"),
            args=[module, ast.Constant(value=key), *_],
        ):
            path, is_set = f"{paths[module]}.{key}", True
        case ast.Attribute(attr=name) if KERNEL.fullmatch(name):
            yield f"The code changes how cells are run ({name})."
    if INNER.fullmatch(path):
        yield f"The code uses {path}, which looks into other code's frames."
    if is_set and "." in path and (COURSE.match(path) or path[:9] == "builtins."):
        yield f"The code replaces {path}."
