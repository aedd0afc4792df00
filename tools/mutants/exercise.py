"""Reads an exercise's solution, and what its visible check shows of its cases."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import product, takewhile

from trees import FUNCTIONS, called, is_constant, names, parameters


class Exercise:
    """An exercise's solution, and what its visible check shows of its cases.

    Args:
        name: of the exercise.
        cell: its solved cell.
        shown: the visible examples of its check.
        lesson: the lesson's other cells, and the functions of its checks.
    """

    def __init__(self, name: str, cell: str, shown: str, lesson: str):
        self.name = name
        self.tree = ast.parse(cell)
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                child.parent = node
        self.functions = [n for n in self.tree.body if isinstance(n, ast.FunctionDef)]
        marks = (
            number
            for number, line in enumerate(cell.split("\n"), 1)
            if re.match(r"\s*### (BEGIN|END) SOLUTION", line)
        )
        self.regions = [range(*pair) for pair in zip(marks, marks, strict=True)]
        examples = ast.parse(shown)
        self.literals = literals_of(examples, self.functions, ast.parse(lesson))
        self.mentions = mentions_of(examples)

    def nodes(self) -> Iterator[ast.AST]:
        """Yields the cell's functions and the nodes of their solutions."""
        for node in ast.walk(self.tree):
            line = getattr(node, "lineno", 0)
            if node in self.functions or any(line in r for r in self.regions):
                yield node

    def is_called_on_arrays(self, node: ast.AST) -> bool:
        """Tells whether a node is a function that is called outside any mapping."""
        return node in self.functions and "axis_name" not in parameters(node)

    def owner(self, node: ast.AST, name: str) -> ast.AST | None:
        """Finds the function around `node` that has a parameter `name`."""
        while node is not self.tree:
            node = node.parent
            if isinstance(node, FUNCTIONS) and name in parameters(node):
                return node
        return None


def literals_of(shown, functions, lesson) -> dict[str, list[ast.expr]]:
    """Collects what a visible check gives as arguments, by parameter.

    That is constants, functions of the lesson, and what these make of constants. A
    check may reach the exercise through a function of the lesson: there, too, a
    parameter of the same name gets what the check gives.
    """
    own = {f.name: parameters(f) for f in functions}
    defined = {n.name: n for n in lesson.body if isinstance(n, ast.FunctionDef)}
    known = {name: parameters(f) for name, f in defined.items()} | own
    trees = [shown]
    for tree in trees:  # grows: a function of the lesson may call another one
        used = (defined[n.id] for n in names(tree) if n.id in defined)
        trees += [f for f in dict.fromkeys(used) if f not in trees]
    found: dict[str, list[ast.expr]] = {}
    for tree in trees:
        values = values_by_name(tree)
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
        for call in sorted(calls, key=lambda n: (n.lineno, n.col_offset)):
            arguments = [call.func, *call.args]
            if called(call) == "observe":
                arguments = call.args
            elif getattr(call.func, "id", "") not in own:
                continue
            given = takewhile(lambda a: not isinstance(a, ast.Starred), arguments)
            name = getattr(next(given), "id", "")
            for parameter, value in zip(known.get(name, ()), given, strict=False):
                rows = found.setdefault(parameter, [])
                for one in values.get(getattr(value, "id", ""), [value]):
                    is_new = ast.unparse(one) not in map(ast.unparse, rows)
                    if is_new and is_fixed(one, known):
                        rows.append(one)
    return found


def is_fixed(node: ast.expr, functions) -> bool:
    """Tells whether a value is the same in every call of a check."""
    if isinstance(node, ast.Call):
        return all(is_fixed(n, functions) for n in (node.func, *node.args))
    return is_constant(node) or getattr(node, "id", "") in functions


def values_by_name(tree) -> dict[str, list[ast.expr]]:
    """Lists the values that each name in a check stands for, loops included."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        pairs = []
        if isinstance(node, ast.For | ast.comprehension):
            pairs = [(node.target, row) for row in getattr(node.iter, "elts", ())]
        elif isinstance(node, ast.Assign):
            pairs = [(node.targets[0], node.value)]
        for target, value in pairs:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                several = zip(target.elts, value.elts, strict=False)
            else:
                several = [(target, value)]
            for one, its in several:
                if isinstance(one, ast.Name):
                    found.setdefault(one.id, []).append(its)
    return found


def mentions_of(tree) -> list[str]:
    """Lists what errors must mention in visible examples, as one text each."""
    values, found = values_by_name(tree), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) == "expect_error":
            lists = [k.value for k in node.keywords if k.arg == "mentions"]
            for one in (*lists, *node.args[2:3]):
                parts = getattr(one, "elts", ())
                rows = [values.get(getattr(part, "id", ""), [part]) for part in parts]
                for row in product(*rows):
                    if row and all(map(is_constant, row)):
                        texts = (str(ast.literal_eval(part)) for part in row)
                        found.append(" and ".join(texts))
    return list(dict.fromkeys(found))
