"""What is known of a lesson while its notebook or its judge runs: one object."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any


@dataclasses.dataclass(eq=False)
class Context:
    """What is known of one lesson.

    Attributes:
        lesson: its name, which the set-up cell says.
        partial_credit: whether an exercise gives a part of its points for some of its
            statements; else all of them must hold.
        language: one that counts more than the environment's, or "".
        seed: of the generated cases.
        namespaces: of the notebook, and of the solutions that it is compared with.
        functions: what the learner's names mean.
        solved: what the solutions' cells define; see `CheckModule.compare_with`.
        solutions: the same, below the check module's own functions on solutions.
        known: what the solutions do in each case.
        observe_learner, observe_solution, count_devices: what a judge calls in place of
            this package's own.
        module: the lesson's `CheckModule`, once it has been read.
        run: the check that runs now, if any.
        hidden: hidden cases that cells have defined, by exercise.
        solution_cells: sources of solutions, which cells of a class's notebook hold.
        results: each exercise's latest verdict.
        predictions: by what they are about: the factor by which a guess was off, 1 for
            a right one.
        calls: each observation of the last check, with its `Example`.
        failed: the examples that the last check shows as failed.
        on_call: is told how many calls the check has made.
    """

    lesson: str = ""
    partial_credit: bool = True
    language: str = ""
    seed: int = 0
    namespaces: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    functions: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    solved: Mapping[str, Any] | None = None
    solutions: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    known: dict[tuple, Any] = dataclasses.field(default_factory=dict)
    observe_learner: Callable[..., Any] | None = None
    observe_solution: Callable[..., Any] | None = None
    count_devices: Callable[[dict], int | str] | None = None
    module: Any = None
    run: Any = None
    hidden: dict[str, Callable] = dataclasses.field(default_factory=dict)
    solution_cells: list[str] = dataclasses.field(default_factory=list)
    results: dict[str, Any] = dataclasses.field(default_factory=dict)
    predictions: dict[str, float] = dataclasses.field(default_factory=dict)
    calls: list[tuple] = dataclasses.field(default_factory=list)
    failed: list[tuple] = dataclasses.field(default_factory=list)
    on_call: Callable[[int], None] | None = None


# Cells and check modules call plain functions, `check("double")` and `observe(double)`,
# so a process has one context at a time: its notebook's, unless `within` says another.
_contexts = [Context()]


def current_context() -> Context:
    return _contexts[-1]


@contextlib.contextmanager
def within(context: Context) -> Iterator[Context]:
    """Makes another context the current one."""
    _contexts.append(context)
    try:
        yield context
    finally:
        _contexts.pop()
