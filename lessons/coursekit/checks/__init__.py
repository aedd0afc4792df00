"""Runs a lesson's checks, which a module for each lesson holds.

A check module has two functions for an exercise: the visible examples, and the hidden
cases, which a release leaves out. What they use of the notebook they import from
`coursekit.learner`.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import dataclasses
import inspect
import io
import linecache
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

from .. import learner
from ..context import Context, current_context, within
from ..outcomes import NotPassed, Run, Verdict, carry_out

IN_CELLS = "a cell"  # of a class's notebook, which holds a solution


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


def hidden(exercise: str) -> Callable[[Callable], Callable]:
    """Marks the function that holds an exercise's hidden cases.

    It uses the names of the lesson's check module, wherever it is defined: a class's
    notebook holds it in a cell.
    """

    def mark(cases: Callable) -> Callable:
        current_context().hidden[exercise] = cases
        return cases

    return mark


def solution(source: str) -> None:
    """Keeps the source of a solution, with which hidden cases compare."""
    current_context().solution_cells.append(source)


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
        self.solutions: Solutions | None = None
        # Where Python looks for the source of functions.
        linecache.cache[name] = len(source), None, source.splitlines(True), name
        self.hidden = hidden_of(source, name, self.namespace)
        functions = [*filter(inspect.isfunction, self.namespace.values())]
        found = [one.check for one in functions if hasattr(one, "check")]
        self.checks = {one.exercise: one for one in found}

    def add_hidden(self, source: str) -> None:
        """Adds the hidden cases that a cell of an instructor's notebook defines."""
        self.hidden |= hidden_of(source, "<hidden>", dict(self.namespace))

    def bind(self, meanings: Mapping[str, Any]) -> None:
        """Gives the names that the module imports of the notebook their meaning."""
        learner.bind(self.namespace, self.imported, meanings)
        if self.observe:
            self.namespace["observe"] = self.observe

    def solved(
        self, sources: Mapping[str, str], notebook: Mapping[str, Any], exercise: str
    ) -> dict[str, Any]:
        """Returns what `Solutions` of a notebook define: those of before, if they hold.

        Raises:
            NameError: see `Solutions.of`.
        """
        if not (self.solutions and self.solutions.hold_for(sources, notebook)):
            self.solutions = Solutions(sources, notebook)
        return self.solutions.of(exercise)

    def compare_with(self, solved: dict[str, Any], notebook: Mapping[str, Any]) -> None:
        """Lets hidden cases compare with solutions.

        What the same solutions do is not found out again.

        Args:
            solved: the solutions, and what else their notebook defines.
            notebook: the names that a learner's notebook defines.
        """
        context = current_context()
        meant = {name: notebook[name] for name in self.imported if name in notebook}
        context.functions, context.observe_learner = meant, self.observe
        if context.solved is not solved:
            checks = CheckModule(self.source, f"{self.name}, of the solution")
            checks.bind(solved)
            context.solutions = collections.ChainMap(checks.namespace, solved)
            context.solved, context.known = solved, {}
            context.namespaces.append(solved)  # so that both are traced alike

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
        if not current_context().partial_credit:
            names = (*check.essential, *check.others), ()
        run = Run(exercise, *names, on_failure, to_beat)
        parts = {False: check.examples}
        if with_hidden:
            cases = self.hidden.get(exercise, lambda: None)  # examples may be all
            parts[True] = in_namespace(cases, self.namespace)
        with temporary_files_removed():
            return carry_out(run, parts)

    def text_of(self, exercise: str) -> str:
        """Returns the source of an exercise's visible examples."""
        name = self.checks[exercise].examples.__name__
        found = (
            ast.get_source_segment(self.source, node)
            for node in ast.parse(self.source).body
            if getattr(node, "name", "") == name
        )
        return next(found)


@contextlib.contextmanager
def temporary_files_removed() -> Iterator[None]:
    """Puts what is made by `tempfile` into a folder, which is removed at the end.

    A check of checkpoints makes dozens of folders.
    """
    # Threads of a checkpoint manager may still write.
    how = {"prefix": "check-", "ignore_cleanup_errors": True}
    with tempfile.TemporaryDirectory(**how) as folder:
        with mock.patch.object(tempfile, "tempdir", folder):
            yield


def hidden_of(source: str, name: str, namespace: dict) -> dict[str, Callable]:
    """Runs a source; returns the hidden cases in it, and adds none to a notebook's."""
    with within(Context()) as apart:
        exec(compile(source, name, "exec", dont_inherit=True), namespace)
    return apart.hidden


def names_in(value: Any, namespace: Mapping[str, Any]) -> Iterator[str]:
    """Yields the names that a function or class of a namespace uses."""
    if isinstance(value, type):
        for member in vars(value).values():
            if not isinstance(member, type):  # it may be the class itself
                yield from names_in(member, namespace)
    elif isinstance(value, types.CodeType):
        yield from value.co_names
        for constant in value.co_consts:
            yield from names_in(constant, namespace)
    elif callable(value):
        function = inspect.unwrap(value)
        if getattr(function, "__globals__", None) is namespace:
            yield from names_in(function.__code__, namespace)


def in_namespace(function: Callable, namespace: dict[str, Any]) -> Callable:
    """Makes the same function with other global names."""
    if function.__globals__ is namespace:
        return function
    return types.FunctionType(function.__code__, namespace, function.__name__)


class Solutions:
    """A lesson's solutions, run beside what its notebook's cells define.

    Args:
        sources: their sources, by exercise; a class's notebook holds others in cells.
        notebook: the names that the notebook defines.
    """

    def __init__(self, sources: Mapping[str, str], notebook: Mapping[str, Any]):
        cells = [(IN_CELLS, source) for source in current_context().solution_cells]
        self.sources, self.notebook = [*sources.items(), *cells], dict(notebook)
        self.namespace = {**notebook, "__name__": "__solution__"}
        self.missing: dict[str, NameError] = {}  # names that a solution needs
        for name, source in self.sources:
            file = f"<solution of {name}>"
            linecache.cache[file] = len(source), None, source.splitlines(True), file
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(compile(source, file, "exec"), self.namespace)
            except NameError as error:
                self.missing[name] = error

    def hold_for(self, sources: Mapping[str, str], notebook: Mapping[str, Any]) -> bool:
        """Tells whether these sources would do the same beside a notebook as it is now.

        An answer, which a solution replaces, matters where the lesson's functions call
        it. IPython's own names begin with an underscore.
        """
        cells = [(IN_CELLS, source) for source in current_context().solution_cells]
        if self.missing or self.sources != [*sources.items(), *cells]:
            return False
        solved = {n for n, v in self.namespace.items() if self.notebook.get(n) is not v}
        was, now = (
            {n: v for n, v in one.items() if n[:1] != "_"}
            for one in (self.notebook, notebook)
        )
        changed = {n for n in was | now if was.get(n, self) is not now.get(n, self)}
        own = [value for name, value in now.items() if name not in solved]
        called = {name for value in own for name in names_in(value, notebook)}
        return changed <= solved - called

    def of(self, exercise: str) -> dict[str, Any]:
        """Returns what the solutions and the notebook define.

        Raises:
            NameError: the notebook does not define yet what the solution of `exercise`
                uses; other solutions are then left out.
        """
        for name in {exercise, IN_CELLS} & {*self.missing}:
            raise self.missing[name]
        return self.namespace
