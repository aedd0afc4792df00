"""What a lesson's notebook calls: checks, observations, pictures, the scorecard."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

import jax

from . import learner, materials
from .card import Score, html_card, text_card
from .checks import CheckModule, from_cells, solutions
from .draw import *  # noqa: F403
from .draw import __all__ as _pictures
from .environment import COMPILE_FAST
from .i18n import columns, padded, translated
from .notice import Notice
from .observation import Observation
from .observe import observe
from .outcomes import BrokenCheck, NotAttempted, NotPassed, Verdict
from .tracing import collectives

__all__ = ["check", "checklist", "collectives", "example", "observe", "scorecard"]
__all__ += _pictures
MOST_DEVICES = 8  # that hidden cases use
_results: dict[str, Verdict] = {}
_calls: list[tuple[Observation, Example]] = []  # what the running check observes
_failed: list[Example] = []  # the calls that the last check shows as failed


class NoExample(Notice):
    """The last check showed no failed call of this number."""


class Example(tuple):
    """The arguments of a call that a check made: `observe(f, *example(1))`.

    Attributes:
        function: what was called: the exercise's function, or one of the check's own.
        options: how it was observed.
    """

    function: Any
    options: dict[str, Any]


def check(exercise: str, *, points: float | None = None, show: bool = False) -> Score:
    """Checks the learner's function of this name and shows what holds.

    Where the course's solutions are at hand, as in a clone or in Colab, the hidden
    cases are tried too: then "right" is what grading says. Nothing is raised but an
    interrupt.

    Args:
        exercise: the function's name.
        points: what it is worth, if not what the lesson says.
        show: print the source of the visible examples, too.
    """
    try:
        source, at_hand = materials.checks_of(learner.lesson)
    except FileNotFoundError:
        return refused(exercise, "The checks are not found: run the set-up cell first.")
    module = CheckModule(source, f"<checks of {learner.lesson}>", recorded)
    if exercise not in module.checks:
        names = ", ".join(module.checks)
        text = f"There is no check of this name. There are: {names}."
        return refused(exercise, text)
    if show:
        print(module.text_of(exercise))
    found, notebook = module.checks[exercise], namespace()
    points = found.points if points is None else points
    learner.namespaces[:] = [notebook]
    module.hidden |= from_cells()
    module.bind(notebook)
    sources = materials.solutions_of(learner.lesson)
    can_compare = at_hand or exercise in from_cells()
    can_compare = can_compare and jax.device_count() >= MOST_DEVICES
    del _calls[:], _failed[:]
    _results.pop(exercise, None)  # an interrupted check leaves no outcome
    verdict = not_defined(exercise, exercise)
    if exercise in notebook:
        verdict = verdict_of(module, exercise, sources, can_compare)
    _results[exercise] = verdict
    shown = {"points": points, "is_bonus": found.is_bonus}
    if not in_notebook():
        print(text_card(verdict, **shown))
    ours = sources.get(exercise, "") if verdict.share == 1 else ""
    worth = 0 if found.is_bonus else round(points * verdict.share, 2)
    return Score(worth, html_card(verdict, solution=ours, **shown))


def verdict_of(
    module: CheckModule, exercise: str, sources: Mapping[str, str], can_compare: bool
) -> Verdict:
    """Runs a check, with hidden cases where there are solutions to compare with."""
    notebook = namespace()
    try:
        if can_compare:
            module.compare_with(solutions(sources, notebook, exercise), notebook)
    except NameError as error:  # a solution is defined by what a cell above defines
        return not_defined(exercise, error.name)
    except Exception as error:
        headline = f"{type(error).__name__}: {error}"
        return Verdict(exercise, BrokenCheck.outcome, 0.0, headline=headline)
    with progress(exercise, can_compare), compiled_fast():
        return module.run(exercise, can_compare, remember)


@contextlib.contextmanager
def compiled_fast() -> Iterator[None]:
    """Lets XLA optimize less on a CPU: small programs run once, as in the grader.

    Processes that a check starts do the same, so that they compute the same bits.
    """
    option = COMPILE_FAST.lower()
    before = jax.config.values[option]
    with mock.patch.dict(os.environ):
        if jax.default_backend() == "cpu":
            jax.config.update(option, True)
            os.environ[COMPILE_FAST] = "1"
        try:
            yield
        finally:
            jax.config.update(option, before)


def not_defined(exercise: str, name: str) -> Verdict:
    """Says that a check lacks a name of the notebook."""
    headline = f"{name} is not defined: its cell was not run."
    return Verdict(exercise, NotAttempted.outcome, 0.0, headline=headline)


def refused(exercise: str, headline: str) -> Score:
    """Shows why there is no check to run."""
    verdict = Verdict(exercise, BrokenCheck.outcome, 0.0, headline=headline)
    if not in_notebook():
        print(text_card(verdict, points=0))
    return Score(0, html_card(verdict, points=0))


def recorded(function: Any, *arguments: Any, **options: Any) -> Observation:
    """Observes a call, and remembers it for `example`."""
    _advance()
    seen = observe(function, *arguments, **options)
    call = Example(arguments)
    call.function, call.options = function, options
    _calls.append((seen, call))
    return seen


def remember(problem: NotPassed) -> None:
    """Adds the line that repeats a failed call to what a learner is told."""
    call = next((one for seen, one in _calls if seen is problem.seen), None)
    if call is None:
        return
    numbers = [n for n, one in enumerate(_failed, 1) if one is call]
    if not numbers:  # arrays cannot be compared by `in`
        _failed.append(call)
    number = numbers[0] if numbers else len(_failed)
    name = getattr(call.function, "__name__", "")
    if namespace().get(name) is not call.function:
        name = f"example({number}).function"
    how = "".join(f", {key}={value!r}" for key, value in call.options.items() if value)
    problem.rows["again"] = f"observe({name}, *example({number}){how})"


def example(number: int) -> Example:
    """Returns the arguments of a call that the last check showed as failed.

    Raises:
        NoExample: it showed no such call.
    """
    if not 1 <= number <= len(_failed):
        count = len(_failed)
        raise NoExample(
            f"There is no example {number}: the last check showed {count} failed calls."
        )
    return _failed[number - 1]


def namespace() -> dict[str, Any]:
    """Returns the names that the notebook's cells define."""
    shell = shell_of_ipython()
    return shell.user_ns if shell else vars(sys.modules["__main__"])


def shell_of_ipython() -> Any:
    """Returns IPython's shell where this process runs in it, else None."""
    return "IPython" in sys.modules and sys.modules["IPython"].get_ipython()


def in_notebook() -> bool:
    """Tells whether results are shown as HTML: in a kernel, not in a terminal."""
    return hasattr(shell_of_ipython() or None, "kernel")


_advance = lambda: None  # noqa: E731


@contextlib.contextmanager
def progress(exercise: str, shows: bool):
    """Shows a line that counts the calls while a check runs, where somebody watches.

    A front end that lets a cell ask for input has somebody in front of it.
    """
    global _advance
    kernel = getattr(shell_of_ipython() or None, "kernel", None)
    if not (shows and getattr(kernel, "_allow_stdin", False)):
        yield
        return
    from IPython.display import HTML, display

    handle, count = display(HTML(""), display_id=True), 0

    def advance() -> None:
        nonlocal count
        count += 1
        line = translated(f"{exercise}: call {count} of the check ...")
        handle.update(HTML(f"<small>{line}</small>"))

    _advance = advance
    try:
        yield
    finally:
        _advance = lambda: None  # noqa: E731
        handle.update(HTML(""))


def scorecard() -> None:
    """Prints each exercise's latest outcome and points."""
    source, _ = materials.checks_of(learner.lesson)
    checks = CheckModule(source, f"<checks of {learner.lesson}>").checks
    width = max(map(columns, [*checks, translated("total")]))
    total = 0.0
    for exercise, found in checks.items():
        verdict = _results.get(exercise)
        outcome = verdict.outcome if verdict else "check not run yet"
        scored = round(found.points * verdict.share, 2) if verdict else 0
        total += scored
        worth = f"{scored:g} of {found.points:g}"
        if found.is_bonus:
            worth = f"{scored:g} bonus points"
        print(f"{padded(exercise, width)}  {translated(worth)}  {translated(outcome)}")
    most = sum(one.points for one in checks.values() if not one.is_bonus)
    score = translated(f"{round(total, 2):g} of {most:g}")
    print(f"{padded(translated('total'), width)}  {score}")


def checklist(items: Mapping[str, str]) -> None:
    """Prints lines with a tick where their exercise's check has passed."""
    for text, exercise in items.items():
        passed = exercise in _results and _results[exercise].share == 1
        print(f"[{'x' if passed else ' '}] {text} ({exercise})")
