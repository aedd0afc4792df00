"""Names what in a submission a person should look at: code that attacks the checking.

It does not change any points. It is found in imports and dotted names; an attack that
is hidden better earns nothing either.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from grader.submissions.definitions import MAX_SOURCE, UNREADABLE, parse

# The course's own modules; what draws pictures may be changed.
COURSE = re.compile(
    r"(sys\.modules\.)?(coursekit(?!\.draw\b|\.notebook\.draw_)|grader)\b"
)
INNER = re.compile(
    r"gc\.get_(objects|referrers)|inspect\.(currentframe|stack)"
    r"|sys\.(_getframe|_current_frames)|(sys|threading)\.set(profile|trace)"
)
KERNEL = re.compile(  # what IPython and its kernel run cells with
    r"ast_transformers|display_pub|do_execute|input_transformer\w+|run_cell(_async)?"
    r"|set_custom_exc|shell_handlers|showtraceback"
)
MAGIC = re.compile(r"(?m)^([ \t]*)(?:\w[\w, ]*=[ \t]*)?[%!].*$")


def evidence(sources: Collection[str]) -> tuple[str, ...]:
    """Lists, in plain words, what in `sources` attacks the checking."""
    if (size := sum(map(len, sources))) > MAX_SOURCE:
        return (f"It holds {size} characters of code, too many to be read.",)
    names: dict[str, str] = {}  # what imports bind, in this cell or an earlier one
    found: dict[str, None] = {}
    for source in sources:
        try:
            nodes = [*ast.walk(parse(MAGIC.sub(r"\1pass", source)))]
            for node in nodes:
                if isinstance(node, ast.Import | ast.ImportFrom):
                    names |= bound(node)
            for node in nodes:
                found |= dict.fromkeys(suspicions(node, names))
        except UNREADABLE:  # then it cannot run either
            continue
    return tuple(found)


def bound(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """Maps the names that an import binds to what they stand for."""
    if isinstance(node, ast.ImportFrom):
        return {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    firsts = {a.name.split(".")[0] for a in node.names if not a.asname}
    return {a.asname: a.name for a in node.names if a.asname} | {n: n for n in firsts}


def dotted(node: ast.AST, names: Mapping[str, str]) -> str:
    """Writes `sys.modules["a"].b` as sys.modules.a.b, a name of no import as ?."""
    match node:
        case ast.Name(id=name):
            return names.get(name, "?")
        case ast.Attribute(value=value, attr=key):
            return f"{dotted(value, names)}.{key}"
        case ast.Subscript(value=value, slice=ast.Constant(value=key)):
            return f"{dotted(value, names)}.{key}"
    return "?"


def suspicions(node: ast.AST, names: Mapping[str, str]) -> Iterator[str]:
    """Says what one node does that no exercise needs."""
    path = dotted(node, names)
    is_set = isinstance(node, ast.Attribute | ast.Subscript)
    is_set = is_set and not isinstance(node.ctx, ast.Load)
    match node:
        case ast.Import() | ast.ImportFrom():
            modules = {name.split(".")[0] for name in bound(node).values()}
            for module in sorted(modules & {"ctypes", "grader"}):
                yield f"It uses {module}, which no exercise needs."
        case ast.Call(
            func=ast.Name(id="setattr" | "delattr"),
            args=[module, ast.Constant(value=key), *_],
        ):
            path, is_set = f"{dotted(module, names)}.{key}", True
        case ast.Attribute(attr=name) if KERNEL.fullmatch(name):
            yield f"It changes how cells are run ({name})."
    if INNER.fullmatch(path):
        yield f"It uses {path}, which looks into other code's frames."
    if is_set and "." in path and (COURSE.match(path) or path[:9] == "builtins."):
        yield f"It replaces {path}."
