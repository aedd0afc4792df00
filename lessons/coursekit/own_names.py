"""Check cells read the course's names from the package, whatever a learner defines.

A learner may call a function of theirs `check` or `observe`: in the notebook it takes
the place of what the set-up cell brought.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

PACKAGE = f"{__package__}.notebook"
# What the course calls, with which arguments, and whether any is named.
FORMS = {
    "check": ([ast.Constant], True),
    "scorecard": ([], True),
    "checklist": ([ast.Dict], False),
}


def register() -> None:
    """Lets IPython, where this process runs in it, transform the course's own cells."""
    shell = "IPython" in sys.modules and sys.modules["IPython"].get_ipython()
    if shell and not any(isinstance(one, OwnNames) for one in shell.ast_transformers):
        shell.ast_transformers.append(OwnNames())


class OwnNames:
    """Transforms cells for IPython."""

    def visit(self, tree: ast.AST) -> ast.AST:
        """Transforms one cell; one that it cannot transform stays as it is."""
        try:
            return transform(tree)
        except Exception:  # else IPython warns and never asks again
            return tree


def transform(tree: ast.AST) -> ast.AST:
    """Makes a cell of the course's own read its names from the package.

    Such a cell begins with a check, a scorecard or a checklist; others stay the same.
    """
    if not is_own(tree):
        return tree
    from .notebook import __all__ as names  # only now: it starts JAX

    return Reading({*names} - {*assigned(tree)}).visit(tree)


def is_own(tree: ast.AST) -> bool:
    """Tells the course's cells that use its names from a learner's, by their form."""
    match getattr(tree, "body", None):
        case [ast.With(items=[ast.withitem(context_expr=ast.Call() as call)]), *_]:
            names = {"check"}
        case [ast.Expr(value=ast.Call() as call)]:
            names = {"scorecard", "checklist"}
        case _:
            return False
    match call:
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            shape = [type(one) for one in args], bool(keywords)
            return name in names and shape == FORMS[name]
    return False


def assigned(tree: ast.AST) -> Iterator[str]:
    """Yields the names that a cell gives a meaning of its own, anywhere in it."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.alias(asname=str(name)) | ast.alias(name=name):
                yield name


class Reading(ast.NodeTransformer):
    """Turns `name` into the package's `name`, where the cell reads it."""

    def __init__(self, names: set[str]):
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replaces one name, on its line."""
        if node.id not in self.names or not isinstance(node.ctx, ast.Load):
            return node
        # No name of the notebook's stands for the package: learners may take any.
        source = f"__import__({PACKAGE!r}, fromlist=[{node.id!r}]).{node.id}"
        read = ast.parse(source, mode="eval").body
        for part in ast.walk(read):
            ast.copy_location(part, node)
        return read
