"""What a lesson's notebook calls: checks, observations, pictures, the scorecard."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax

from . import materials
from .card import Score, html_card, text_card, total
from .checks import CheckModule
from .context import Context, current_context
from .draw import *  # noqa: F403
from .draw import __all__ as _pictures
from .i18n import columns, padded, translated
from .notice import Notice
from .observation import Observation
from .observe import observe
from .outcomes import BrokenCheck, NotAttempted, NotPassed, Verdict
from .tracing import collectives

__all__ = [
    "check",
    "checklist",
    "collectives",
    "example",
    "needs",
    "observe",
    "prediction",
    "scorecard",
]
__all__ += _pictures
MOST_DEVICES = 8  # that hidden cases use


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
    context = current_context()
    try:
        module, at_hand = check_module(context)
    except FileNotFoundError:
        text = "The checks are not found: run the set-up cell first."
        return shown(failed(exercise, BrokenCheck, text))
    if exercise not in module.checks:
        names = ", ".join(module.checks)
        text = f"There is no check of this name. There are: {names}."
        return shown(failed(exercise, BrokenCheck, text))
    if show:
        print(module.text_of(exercise))
    context.namespaces = [notebook := namespace()]
    module.hidden |= context.hidden
    module.bind(notebook)
    sources = materials.solutions_of(context.lesson)
    has_hidden = at_hand or exercise in context.hidden
    has_hidden = has_hidden and jax.device_count() >= MOST_DEVICES
    context.calls, context.failed = [], []
    context.results.pop(exercise, None)  # an interrupted check leaves no outcome
    verdict = verdict_of(module, exercise, sources, has_hidden)
    context.results[exercise] = verdict
    found, solution = module.checks[exercise], ""
    if verdict.share == 1:
        solution = sources.get(exercise, "")
    points = found.points if points is None else points
    return shown(verdict, points, found.is_bonus, solution)


def check_module(context: Context) -> tuple[CheckModule, bool]:
    """Returns the lesson's checks, and whether hidden cases are in them.

    They are run again only if their source has changed.

    Raises:
        FileNotFoundError: there is no such lesson.
    """
    source, at_hand = materials.checks_of(context.lesson)
    if context.module is None or context.module.source != source:
        name = f"<checks of {context.lesson}>"
        context.module = CheckModule(source, name, recorded)
    return context.module, at_hand


def verdict_of(
    module: CheckModule, exercise: str, sources: Mapping[str, str], has_hidden: bool
) -> Verdict:
    """Runs a check, with hidden cases where there are solutions to compare with."""
    notebook = namespace()
    try:
        if exercise not in notebook:
            raise NameError(name=exercise)
        if has_hidden:
            solved = module.solved(sources, notebook, exercise)
            module.compare_with(solved, notebook)
    except NameError as error:  # a solution is defined by what a cell above defines
        headline = f"{error.name} is not defined: its cell was not run."
        return failed(exercise, NotAttempted, headline)
    except Exception as error:
        return failed(exercise, BrokenCheck, f"{type(error).__name__}: {error}")
    with progress(exercise, has_hidden):
        return module.run(exercise, has_hidden, remember)


def needs(*exercises: str) -> Callable[[Callable[[], None]], None]:
    """Runs the function below it, at once, with what a learner wrote for exercises.

    It runs only if their last checks found that all essential statements hold. If not,
    it says which of them are missing, so that a notebook runs from top to bottom.
    """
    results = current_context().results
    missing = [one for one in exercises if one not in results or not results[one].share]

    def run(cell: Callable[[], None]) -> None:
        if missing:
            names = ", ".join(missing)
            print(translated(f"This cell runs your own code. First solve: {names}."))
        else:
            cell()

    return run


def failed(exercise: str, kind: type[NotPassed], headline: str) -> Verdict:
    return Verdict(exercise, kind.outcome, 0.0, headline=headline)


def shown(
    verdict: Verdict, points: float = 0, is_bonus: bool = False, solution: str = ""
) -> Score:
    """Shows a verdict: in a terminal as text, in a notebook as the cell's value."""
    worth = {"points": points, "is_bonus": is_bonus}
    if not in_notebook():
        print(text_card(verdict, **worth))
    score = 0 if is_bonus else round(points * verdict.share, 2)
    return Score(score, html_card(verdict, solution=solution, **worth))


def recorded(function: Any, *arguments: Any, **options: Any) -> Observation:
    """Observes a call, and remembers it for `example`."""
    context = current_context()
    if context.on_call:
        context.on_call(len(context.calls) + 1)
    seen = observe(function, *arguments, **options)
    call = Example(arguments)
    call.function, call.options = function, options
    context.calls.append((seen, call))
    return seen


def remember(problem: NotPassed) -> None:
    """Adds the line that repeats a failed call to what a learner is shown."""
    calls, failed = current_context().calls, current_context().failed
    call = next((one for seen, one in calls if seen is problem.seen), None)
    if call is None:
        return
    numbers = [n for n, one in enumerate(failed, 1) if one is call]
    if not numbers:  # arrays cannot be compared by `in`
        failed.append(call)
    number = numbers[0] if numbers else len(failed)
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
    failed = current_context().failed
    if not 1 <= number <= len(failed):
        count = len(failed)
        raise NoExample(
            f"There is no example {number}: the last check showed {count} failed calls."
        )
    return failed[number - 1]


def namespace() -> dict[str, Any]:
    shell = shell_of_ipython()
    return shell.user_ns if shell else vars(sys.modules["__main__"])


def shell_of_ipython() -> Any:
    """Returns IPython's shell where this process runs in it, else None."""
    return "IPython" in sys.modules and sys.modules["IPython"].get_ipython()


def in_notebook() -> bool:
    """Tells whether results are shown as HTML: in a kernel, not in a terminal."""
    return hasattr(shell_of_ipython() or None, "kernel")


@contextlib.contextmanager
def progress(exercise: str, is_long: bool) -> Iterator[None]:
    """Shows a line that counts the calls of a check, where somebody watches.

    A front end that lets a cell ask for input has somebody in front of it.
    """
    kernel = getattr(shell_of_ipython() or None, "kernel", None)
    if not (is_long and getattr(kernel, "_allow_stdin", False)):
        yield
        return
    from IPython.display import HTML, display

    handle, context = display(HTML(""), display_id=True), current_context()

    def count(calls: int) -> None:
        line = translated(f"{exercise}: call {calls} of the check ...")
        handle.update(HTML(f"<small>{line}</small>"))

    context.on_call = count
    try:
        yield
    finally:
        context.on_call = None
        handle.update(HTML(""))


def prediction(what: str, value: float | str, guess: float | str | None) -> None:
    """Compares a guess with what a cell has found, and keeps it for the scorecard.

    Args:
        what: what was to be predicted, in a few words.
        value: what it is: a number, or one of several words.
        guess: what the learner wrote before running the cell; None says nothing.
    """
    if guess is None:
        return
    # A shape may be written as a tuple or as its text, with spaces or without.
    guessed, found = ("".join(str(one).split()) for one in (guess, value))
    factor = 1.0 if guessed == found else math.inf
    if isinstance(value, float | int) and isinstance(guess, float | int):
        low, high = sorted([float(guess), float(value)])
        factor = high / low if low > 0 else 1.0 if low == high else math.inf
    is_right = factor < 1.05  # what a rounded guess may be off by
    current_context().predictions[what] = 1.0 if is_right else factor
    said = f"{what}: you predicted {guess}, and it is {value}."
    if is_right:
        said = f"{what}: {value}, as you predicted."
    print(translated(said))


def predictions_so_far(factors: Sequence[float]) -> str:
    """Says how often a learner's predictions were right, and how far off the others."""
    off = sorted(factor for factor in factors if factor > 1)
    num_right, count = len(factors) - len(off), len(factors)
    if not off or math.isinf(off[len(off) // 2]):
        return translated(f"Predictions: {num_right} of {count} right.")
    median = f"{off[len(off) // 2]:.2g}"
    return translated(
        f"Predictions: {num_right} of {count} right, the others off by a factor of "
        f"{median} (the median)."
    )


def scorecard() -> None:
    """Prints each exercise's latest outcome and points, and how predictions went."""
    context = current_context()
    checks = check_module(context)[0].checks
    tried = [one for name, one in checks.items() if name in context.results]
    most = {"tried so far": tried} if 0 < len(tried) < len(checks) else {}
    most |= {"total": [*checks.values()]}
    width = max(map(columns, [*checks, *map(translated, most)]))
    points = bonus = 0.0
    for exercise, found in checks.items():
        verdict = context.results.get(exercise)
        outcome = verdict.outcome if verdict else "check not run yet"
        scored = round(found.points * verdict.share, 2) if verdict else 0
        points += scored
        bonus += scored * found.is_bonus
        worth = f"{scored:g} of {found.points:g}"
        if found.is_bonus:
            worth = f"{scored:g} bonus points"
        print(f"{padded(exercise, width)}  {translated(worth)}  {translated(outcome)}")
    for what, exercises in most.items():
        own = sum(one.points for one in exercises if not one.is_bonus)
        print(f"{padded(translated(what), width)}  {total(points, bonus, own)}")
    if context.predictions:
        print(predictions_so_far([*context.predictions.values()]))


def checklist(items: Mapping[str, str]) -> None:
    """Prints lines with a tick where their exercise's check has passed."""
    for text, exercise in items.items():
        results = current_context().results
        passed = exercise in results and results[exercise].share == 1
        print(f"[{'x' if passed else ' '}] {text} ({exercise})")
