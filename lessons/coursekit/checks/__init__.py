"""Runs a lesson's checks, which a module for each lesson holds.

A check module has two functions for an exercise: the visible examples, and the hidden
cases, which a release leaves out. A third one may show the learner's function at work.
What they use of the notebook they import from `coursekit.learner`.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import dataclasses
import inspect
import io
import linecache
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest import mock

from .. import learner, reference_checks
from ..outcomes import NotPassed, Run, Verdict, carry_out

_hidden: dict[str, Callable] = {}  # what cells have defined, by exercise
_solutions: list[str] = []  # sources, which cells of a class's notebook hold


@dataclasses.dataclass(frozen=True)
class Check:
    """One exercise's check.

    Attributes:
        exercise: the exercise's name.
        points: what it is worth.
        is_bonus: its points do not count in the lesson's maximum.
        essential: the statements that must hold for any credit; half of the points.
        others: the other statements, which share the other half.
        examples: runs the visible part.
    """

    exercise: str
    points: float
    is_bonus: bool
    essential: tuple[str, ...]
    others: tuple[str, ...]
    examples: Callable[[], None]


def visible(
    exercise: str,
    *,
    points: float,
    essential: Sequence[str],
    others: Sequence[str] = (),
    bonus: bool = False,
) -> Callable[[Callable], Callable]:
    """Marks the function that holds an exercise's visible examples; see `Check`."""

    def mark(examples: Callable) -> Callable:
        names = tuple(essential), tuple(others)
        examples.check = Check(exercise, points, bonus, *names, examples)
        return examples

    return mark


def demo(exercise: str) -> Callable[[Callable], Callable]:
    """Marks the function that shows a learner's answer at work.

    The notebook calls it when the exercise's check has passed; grading never does. It
    imports what it draws with itself, since a judge needs no Matplotlib.
    """

    def mark(show: Callable) -> Callable:
        show.demo_of = exercise
        return show

    return mark


def hidden(exercise: str) -> Callable[[Callable], Callable]:
    """Marks the function that holds an exercise's hidden cases.

    It uses the names of the lesson's check module, wherever it is defined: a class's
    notebook holds it in a cell.
    """

    def mark(cases: Callable) -> Callable:
        _hidden[exercise] = cases
        return cases

    return mark


def solution(source: str) -> None:
    """Keeps the source of a solution, with which hidden cases compare."""
    _solutions.append(source)


class CheckModule:
    """One lesson's checks.

    Args:
        source: the module's source, with or without hidden cases.
        name: how errors and `linecache` call it.
        observe: what its functions call by this name, if not `observe` itself.
    """

    def __init__(self, source: str, name: str, observe: Callable | None = None):
        self.source, self.name, self.observe = source, name, observe
        self.imported = learner.imported(source)
        self.namespace: dict[str, Any] = {"__name__": name, learner.IS_CHECKS: True}
        # Where Python looks for the source of functions.
        linecache.cache[name] = len(source), None, source.splitlines(True), name
        self.hidden = hidden_of(source, name, self.namespace)
        functions = [*filter(inspect.isfunction, self.namespace.values())]
        found = [one.check for one in functions if hasattr(one, "check")]
        self.checks = {one.exercise: one for one in found}
        demos = [one for one in functions if hasattr(one, "demo_of")]
        self.demos = {one.demo_of: one for one in demos}

    def add_hidden(self, source: str) -> None:
        """Adds the hidden cases that a cell of an instructor's notebook defines."""
        self.hidden |= hidden_of(source, "<hidden>", dict(self.namespace))

    def bind(self, meanings: Mapping[str, Any]) -> None:
        """Gives the names that the module imports of the notebook their meaning."""
        learner.bind(self.namespace, self.imported, meanings)
        if self.observe:
            self.namespace["observe"] = self.observe

    def compare_with(
        self, solved: dict[str, Any], notebook: Mapping[str, Any]
    ) -> CheckModule:
        """Lets hidden cases compare with solutions.

        Args:
            solved: the solutions, and what else their notebook defines.
            notebook: the names that a learner's notebook defines.
        """
        checks = CheckModule(self.source, f"{self.name}, of the solution")
        checks.bind(solved)
        learner.namespaces.append(solved)  # so that both are traced alike
        reference_checks.solutions = collections.ChainMap(checks.namespace, solved)
        meant = {name: notebook[name] for name in self.imported if name in notebook}
        reference_checks.learner = meant
        if self.observe:
            reference_checks.observers |= {"learner": self.observe}
        return checks

    def run(
        self,
        exercise: str,
        with_hidden: bool = True,
        on_failure: Callable[[NotPassed], None] = lambda problem: None,
        to_beat: float | None = None,
    ) -> Verdict:
        """Runs one check on what the names are bound to."""
        check = self.checks[exercise]
        names = check.essential, check.others
        if not learner.partial_credit:
            names = (*check.essential, *check.others), ()
        run = Run(exercise, *names, on_failure, to_beat)
        parts = {False: check.examples}
        if with_hidden:
            cases = self.hidden.get(exercise, lambda: None)  # examples may be all
            parts[True] = in_namespace(cases, self.namespace)
        return carry_out(run, parts)

    def text_of(self, exercise: str) -> str:
        """Returns the source of an exercise's visible examples, and of its demo."""
        functions = self.checks[exercise].examples, self.demos.get(exercise)
        names = {one.__name__ for one in functions if one}
        return "\n\n\n".join(
            ast.get_source_segment(self.source, node)
            for node in ast.parse(self.source).body
            if isinstance(node, ast.FunctionDef) and node.name in names
        )


def hidden_of(source: str, name: str, namespace: dict) -> dict[str, Callable]:
    """Runs a source; returns the hidden cases in it, and adds none to a notebook's."""
    kept = list(_solutions)
    with mock.patch.dict(_hidden, clear=True):
        exec(compile(source, name, "exec", dont_inherit=True), namespace)
        found = dict(_hidden)
    _solutions[:] = kept
    return found


def from_cells() -> dict[str, Callable]:
    """Returns the hidden cases that the notebook's own cells define."""
    return dict(_hidden)


def in_namespace(function: Callable, namespace: dict[str, Any]) -> Callable:
    """Makes the same function with other global names."""
    if function.__globals__ is namespace:
        return function
    return types.FunctionType(function.__code__, namespace, function.__name__)


def solutions(
    sources: Mapping[str, str], notebook: Mapping[str, Any], exercise: str = ""
) -> dict[str, Any]:
    """Runs solutions' sources, by exercise, beside what a notebook's cells define.

    Raises:
        NameError: the notebook does not define yet what the solution of `exercise`
            uses; other solutions are then left out.
    """
    namespace = {**notebook, "__name__": "__solution__"}
    for name, source in [*sources.items(), *((exercise, one) for one in _solutions)]:
        file = f"<solution of {name}>"
        linecache.cache[file] = len(source), None, source.splitlines(True), file
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(source, file, "exec"), namespace)
        except NameError:
            if name == exercise:
                raise
    return namespace
