"""Finds answers that equal each other, or the published solution, but for names."""

from __future__ import annotations

import ast
import collections
import functools
import hashlib
from collections.abc import Mapping

from grader.results import Result
from grader.submissions.definitions import MAX_SOURCE, UNREADABLE, parse

MIN_NODES = 60  # of a syntax tree: shorter answers are equal by chance
MIN_EQUAL = 2  # answers that two have in common
MAX_OTHERS = 5  # that are named for one student
PUBLISHED = "the published solution"


def similar_work(
    results: Mapping[str, Result], solved: Mapping[str, str]
) -> dict[str, list[str]]:
    """Lists, by student, who has equal answers, and to which exercises.

    Answers are equal whose code is the same but for names, comments, docstrings, types
    and layout. It is no proof of anything: an exercise may have one obvious answer.

    Args:
        results: one result per student.
        solved: the source of each exercise as solved.
    """
    groups: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for exercise, source in solved.items():
        groups[exercise, normal_form(source)].append(PUBLISHED)
    for student, result in results.items():
        for one in result.exercises:
            groups[one.exercise, normal_form(one.source)].append(student)
    common: dict[str, dict[str, list[str]]] = {student: {} for student in results}
    for (exercise, form), members in groups.items():
        for student in members if form and len(members) > 1 else ():
            for other in members:
                if other != student and student != PUBLISHED:
                    common[student].setdefault(other, []).append(exercise)
    found = {student: told(others) for student, others in common.items()}
    return {student: texts for student, texts in found.items() if texts}


def told(others: Mapping[str, list[str]]) -> list[str]:
    """Writes with whom one student has answers in common, the most first."""
    many = [(name, common) for name, common in others.items() if enough(common)]
    many.sort(key=lambda pair: (-len(pair[1]), pair[0]))
    texts = [f"{name}: {', '.join(common)}" for name, common in many[:MAX_OTHERS]]
    more = len(many) - MAX_OTHERS
    return [*texts, f"and {more} more"] if more > 0 else texts


def enough(common: list[str]) -> bool:
    """Tells whether so many equal answers are worth a look."""
    return len(common) >= MIN_EQUAL


@functools.lru_cache(2**14)
def normal_form(source: str) -> str:
    """Hashes what is left of an answer without its names; "" for a short answer."""
    try:
        tree = parse(source) if len(source) <= MAX_SOURCE else ast.Module([], [])
        if sum(1 for _ in ast.walk(tree)) < MIN_NODES:
            return ""
        plain = ast.dump(Renamed(tree).visit(tree))
    except UNREADABLE:
        return ""
    return hashlib.sha256(plain.encode()).hexdigest()


class Renamed(ast.NodeTransformer):
    """Gives the names that a syntax tree binds numbers, in their order."""

    def __init__(self, tree: ast.Module):
        self.numbers: dict[str, str] = {}
        for node in ast.walk(tree):
            for name in bound_by(node):
                self.numbers.setdefault(name, f"name {len(self.numbers)}")

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Renames a name."""
        return ast.Name(self.numbers.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        """Renames an argument and drops its type."""
        return ast.arg(self.numbers[node.arg])

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        """Renames the argument of a call, where it is the answer's own function's."""
        name = self.numbers.get(node.arg, node.arg) if node.arg else None
        return ast.keyword(name, self.visit(node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Drops the type of a variable."""
        self.generic_visit(node)
        return ast.Assign([node.target], node.value) if node.value else ast.Pass()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Renames a function, and drops its docstring and types."""
        node.name, node.returns = self.numbers[node.name], None
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
        return self.generic_visit(node)


def bound_by(node: ast.AST) -> list[str]:
    """Names what one node of a syntax tree binds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    return [node.arg] if isinstance(node, ast.arg) else []
