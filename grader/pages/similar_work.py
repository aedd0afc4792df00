"""Finds groups of learners whose answers are equal, but for names."""

from __future__ import annotations

import ast
import hashlib
import itertools
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from grader.submissions.definitions import UNREADABLE, parse

MIN_NODES = 60  # of a syntax tree: shorter answers are equal by chance
MIN_EQUAL = 2  # answers that a group has in common
PUBLISHED = "the published solution"


class Group(NamedTuple):
    """Learners whose answers to these exercises are equal, but for names."""

    authors: tuple[str, ...]
    exercises: tuple[str, ...]


class Answers:
    """The answers of a class, kept as hashes.

    Two are equal if their code is the same but for names, comments, docstrings, layout
    and types of arguments. It is no proof: an exercise may have one obvious answer.
    """

    def __init__(self, solutions: Mapping[str, str]):
        self.forms: dict[str, dict[str, bytes]] = {}  # by author, by exercise
        self.add(PUBLISHED, solutions)

    def add(self, author: str, sources: Mapping[str, str]) -> None:
        self.forms[author] = {
            exercise: hashlib.sha256(form.encode()).digest()
            for exercise, source in sources.items()
            if (form := normal_form(source))
        }

    def groups(self) -> list[Group]:
        """Lists who has two or more equal answers; the most equal answers come first.

        Each author is put under each pair of answers, so that the time grows with the
        class and not with its square.
        """
        same = defaultdict(list)
        for author, forms in self.forms.items():
            for pair in itertools.combinations(forms.items(), MIN_EQUAL):
                same[pair].append(author)
        common: dict[tuple[str, ...], set[str]] = defaultdict(set)
        for pair, authors in same.items():
            if len(authors) > 1:
                common[tuple(sorted(authors))] |= {exercise for exercise, _ in pair}
        found = []
        for authors, names in common.items():
            in_order = [name for name in self.forms[authors[0]] if name in names]
            found.append(Group(authors, tuple(in_order)))
        return sorted(found, key=lambda one: (-len(one.exercises), one.authors))


def normal_form(source: str) -> str:
    """Writes an answer without its names; "" for one that is short or unreadable."""
    try:
        tree = parse(source)
        nodes = [*ast.walk(tree)]
        if len(nodes) < MIN_NODES:
            return ""
        numbers: dict[str, str] = {}  # of the names that the answer binds
        for node in nodes:
            match node:
                case (
                    ast.Name(name, ast.Store()) | ast.FunctionDef(name) | ast.arg(name)
                ):
                    numbers.setdefault(name, f"name {len(numbers)}")
        for node in nodes:
            if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
                node.body = node.body[1:]
            for types in {"annotation", "returns"} & {*node._fields}:
                setattr(node, types, None)
            for field in {"id", "name", "arg"} & {*node._fields}:
                name = getattr(node, field)
                setattr(node, field, numbers.get(name, name))
        return ast.dump(tree)
    except UNREADABLE:
        return ""
