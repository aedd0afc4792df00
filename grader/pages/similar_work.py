"""Finds answers that equal each other, or the published solution, but for names."""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Mapping

from grader.results import Result
from grader.submissions.definitions import UNREADABLE, parse

MIN_NODES = 60  # of a syntax tree: shorter answers are equal by chance
MIN_EQUAL = 2  # answers that two have in common
MAX_OTHERS = 5  # that are named for one student
PUBLISHED = "the published solution"


def similar_work(
    results: Mapping[str, Result], solutions: Mapping[str, str]
) -> dict[str, list[str]]:
    """Lists, by student, who has equal answers, and to which exercises.

    Answers are equal whose code is the same but for names, comments, docstrings, types
    and layout. It is no proof of anything: an exercise may have one obvious answer.
    """
    sources = [(PUBLISHED, *solution) for solution in solutions.items()]
    for student, result in results.items():
        sources += [(student, one.exercise, one.source) for one in result.exercises]
    same = defaultdict(list)
    for author, exercise, source in sources:
        if form := normal_form(source):
            same[exercise, form].append(author)
    common = defaultdict(lambda: defaultdict(list))
    for (exercise, _), authors in same.items():
        for author, other in itertools.permutations(authors, 2):
            common[author][other].append(exercise)
    found = {}
    for student in results:
        others = [one for one in common[student].items() if len(one[1]) >= MIN_EQUAL]
        others.sort(key=lambda one: (-len(one[1]), one[0]))
        texts = [f"{who}: {', '.join(names)}" for who, names in others[:MAX_OTHERS]]
        if len(others) > MAX_OTHERS:
            texts.append(f"and {len(others) - MAX_OTHERS} more")
        if texts:
            found[student] = texts
    return found


def normal_form(source: str) -> str:
    """Writes an answer without its names; "" for one that is short or unreadable."""
    try:
        tree = parse(source)
        if sum(1 for _ in ast.walk(tree)) < MIN_NODES:
            return ""
        return ast.dump(Renamed(tree).visit(tree))
    except UNREADABLE:
        return ""


class Renamed(ast.NodeTransformer):
    """Replaces the names that a syntax tree binds by numbers, in their order."""

    def __init__(self, tree: ast.Module):
        self.numbers: dict[str, str] = {}
        for node in ast.walk(tree):
            name = None
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                name = node.id
            elif isinstance(node, ast.FunctionDef):
                name = node.name
            elif isinstance(node, ast.arg):
                name = node.arg
            if name:
                self.numbers.setdefault(name, f"name {len(self.numbers)}")

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.numbers.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.numbers[node.arg])

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        """Renames the argument of a call, if the answer's own function takes it."""
        name = self.numbers.get(node.arg, node.arg) if node.arg else None
        return ast.keyword(name, self.visit(node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        return ast.Assign([node.target], node.value) if node.value else ast.Pass()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Renames a function, and drops its docstring and types."""
        node.name, node.returns = self.numbers[node.name], None
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
        return self.generic_visit(node)
