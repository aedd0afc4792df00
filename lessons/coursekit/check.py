"""The outcomes of a check, how a learner reads them, and the scorecard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .i18n import columns, padded, translated, wrapped
from .setup import Notice

NOT_WRITTEN = "not written yet"  # what the stub of a released exercise raises
WIDTH = 88
_results: dict[str, tuple[str, float]] = {}  # exercise: outcome in words, points
_standings: dict[str, dict[str, str]] = {}  # exercise: what became of its statements
_running: list[check] = []  # the check that runs now, if any


class NotPassed(Notice):
    """A check's answer other than "right"; the class is the outcome.

    Attributes:
        headline: the first sentence: what went wrong.
        rows: what was called, what was seen, what was expected, the likely cause.
    """

    outcome = "wrong"

    def __init__(self, headline: str, **rows: Any):
        self.headline = headline
        self.rows = {k: str(text) for k, text in rows.items() if text not in ("", None)}
        self.score_line = ""

    def __str__(self) -> str:
        outcome = translated(self.outcome).capitalize()
        lines = wrapped(f"{outcome}: {translated(self.headline)}", WIDTH)
        for name, text in self.rows.items():
            label = f"  {padded(translated(name), 10)}"
            lines += wrapped(label + translated(text), WIDTH, " " * 12)
        return "\n".join([*lines, *filter(None, [translated(self.score_line)])])


class Wrong(NotPassed):
    """The function ran and did not do what its contract says."""


class NotAttempted(NotPassed):
    """The exercise still holds its stub, or its cell has not been run."""

    outcome = "not attempted yet"


class Raised(NotPassed):
    """The learner's code raised where the contract asks for a result."""

    outcome = "your code raised"


class BrokenCheck(NotPassed):
    """The check itself failed: a fault of the course, never of the answer."""

    outcome = "the check could not run"


class check:
    """Runs a block of expectations as one exercise's check and keeps its outcome.

    Leaving the block without an exception says "Right"; any other way raises one of
    the `NotPassed` classes, which a notebook shows without a traceback.

    Attributes:
        statements: what the exercise's text states, in short, in its order.
        proving: those that the expectations after the last `statement` are about.
        held: those before, whose expectations were met.
    """

    def __init__(self, exercise: str, points: float, statements: Sequence[str] = ()):
        self.exercise = exercise
        self.points = points
        self.statements = tuple(statements)
        self.proving: tuple[str, ...] = ()
        self.held: set[str] = set()

    def __enter__(self) -> check:
        _results.pop(self.exercise, None)
        _running[:] = [self]
        return self

    def standing(self) -> dict[str, str]:
        """Lists which statements hold, which failed, and which were not reached."""
        failed = [name for name in self.statements if name in self.proving]
        held = [n for n in self.statements if n in self.held and n not in failed]
        rest = [name for name in self.statements if name not in (*held, *failed)]
        rows = {"holds": held, "fails": failed, "untested": rest}
        return {
            row: "; ".join(map(translated, names))
            for row, names in rows.items()
            if names
        }

    def __exit__(self, kind, error, trace) -> None:
        _running.clear()
        total = f"{self.points} point{'' if self.points == 1 else 's'}"
        if error is None:
            _results[self.exercise] = ("right", self.points)
            self.held, self.proving = {*self.statements}, ()
            _standings[self.exercise] = self.standing()
            well = f"{self.exercise} does what it should. {self.points} of {total}."
            print(translated(f"Right: {well}"))
            return
        if not isinstance(error, Exception):
            return  # an interrupt stays an interrupt
        if isinstance(error, NameError):
            error = NotAttempted(
                f"{error.name} is not defined.",
                likely="the cell that defines it was not run, or the name is misspelt.",
            )
        elif not isinstance(error, NotPassed):
            error = BrokenCheck(
                f"{type(error).__name__}: {error}",
                likely="a fault of the course, not of your answer: please report it.",
            )
        if isinstance(error, Wrong | Raised):
            error.rows |= self.standing()
        error.score_line = f"{self.exercise}: 0 of {total}."
        _results[self.exercise] = (error.outcome, 0)
        raise error from None


def statement(*names: str) -> None:
    """Says which statements of the exercise's text the next expectations prove."""
    for running in _running:
        running.held |= {*running.proving}
        running.proving = names


def scorecard(**points: float) -> None:
    """Prints each exercise's latest outcome and points.

    `points` gives the maxima: 0 where all points are a bonus.
    """
    width = max(map(columns, [*points, translated("total")]))
    for exercise, maximum in points.items():
        outcome, scored = _results.get(exercise, ("check not run yet", 0))
        worth = f"{scored} of {maximum}" if maximum else f"{scored} bonus"
        print_row(exercise, width, worth, outcome)
    total = sum(_results.get(exercise, ("", 0))[1] for exercise in points)
    print_row("total", width, f"{total} of {sum(points.values())}")


def print_row(name: str, width: int, worth: str, outcome="") -> None:
    """Prints a line of the scorecard."""
    words = f"{translated(worth)}  {translated(outcome)}"
    row = f"{padded(translated(name), width)}  {words}"
    print(row.rstrip())


def checklist(items: Mapping[str, str]) -> None:
    """Prints lines with a tick where their exercise's check has passed."""
    for text, exercise in items.items():
        passed = _results.get(exercise, ("", 0))[0] == "right"
        print(f"[{'x' if passed else ' '}] {text} ({exercise})")
