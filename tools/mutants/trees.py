"""Reads and writes the syntax trees of solutions and checks."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

FUNCTIONS = ast.FunctionDef | ast.Lambda


def called(node: ast.AST) -> str:
    """Returns the last part of the called function's name, or ""."""
    function = getattr(node, "func", None)
    return getattr(function, "attr", getattr(function, "id", ""))


def names(tree: ast.AST) -> Iterator[ast.Name]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Name))


def parameters(function: FUNCTIONS) -> list[str]:
    return [argument.arg for argument in function.args.args]


def is_constant(node: ast.AST) -> bool:
    """Tells whether a node is a literal: a number, a text, or a container of these."""
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def is_integer(node: ast.AST) -> bool:
    """Tells whether a node is an integer literal without a sign."""
    return isinstance(node, ast.Constant) and type(node.value) is int


def code(text: str, **parts: ast.AST) -> ast.expr:
    """Parses an expression in which the names in capitals stand for nodes."""

    class Fill(ast.NodeTransformer):
        def visit_Name(self, node):
            return parts.get(node.id, node)

    return Fill().visit(ast.parse(text, mode="eval").body)


def changed(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def renamed(call: ast.Call, name: str) -> ast.Call:
    """Copies a call with another last part of the function's name."""
    field = "attr" if isinstance(call.func, ast.Attribute) else "id"
    return changed(call, func=changed(call.func, **{field: name}))


def redirected(call: ast.Call, function: str, *first: ast.expr) -> ast.Call:
    """Copies a call with another function, and arguments before its own."""
    return changed(call, func=code(function), args=[*first, *call.args])


def without(items: list, place: int) -> list:
    return [item for number, item in enumerate(items) if number != place]


def decorated(function: ast.FunctionDef, text: str) -> ast.FunctionDef:
    """Copies a function with one more decorator, on top."""
    return changed(function, decorator_list=[code(text), *function.decorator_list])


def filled(function: ast.FunctionDef, name: str, value: ast.expr) -> ast.FunctionDef:
    """Copies a function with `value` where it reads its own parameter `name`."""

    class Fill(ast.NodeTransformer):
        def visit_Name(self, node):
            reads = node.id == name and isinstance(node.ctx, ast.Load)
            return value if reads else node

        def visit_inner(self, node):
            return node if name in parameters(node) else self.generic_visit(node)

        visit_FunctionDef = visit_Lambda = visit_inner

    return Fill().generic_visit(copy.deepcopy(function))


def text_with(tree: ast.AST, node: ast.AST, new: ast.AST) -> str:
    """Writes out `tree` with `new` in the place of `node`."""
    for field, value in ast.iter_fields(node.parent):
        is_list = isinstance(value, list)
        if value is node or (is_list and any(item is node for item in value)):
            filled = [new if v is node else v for v in value] if is_list else new
            setattr(node.parent, field, filled)
            try:
                return ast.unparse(tree)
            finally:
                setattr(node.parent, field, value)
    raise ValueError(f"{ast.dump(node)} is not where its parent is")
