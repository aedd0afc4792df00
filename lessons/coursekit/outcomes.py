"""What a check finds out: the standing of each statement, and the points for it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .context import current_context
from .learner import NotDefined

NOT_WRITTEN = "not written yet"  # what the stub of a released exercise raises
RIGHT, PARTLY = "right", "partly right"
ON_EXAMPLES = "right on the examples"  # hidden cases were not at hand
HOLDS, FAILS, UNTRIED, LATER = "holds", "fails", "untried", "later"
BROKEN = "broken"  # its check failed by itself
ESSENTIAL_SHARE = 0.5  # of an exercise's points


class NotPassed(Exception):
    """What an expectation raises; the class is the outcome.

    Attributes:
        outcome, standing: of the exercise, and of the statement, in words.
        headline: the first sentence: what went wrong.
        rows: what was called, what was seen, what was expected, the likely cause.
        seen: the observation that it is about, if any.
        layouts: where the parts of an array are: its shape, then (device, part) pairs
            as they are and as they should be; a part is a (start, stop) pair per axis.
    """

    outcome, standing = "wrong", FAILS

    def __init__(self, headline: str, *, seen_in: Any = None, layouts=None, **rows):
        super().__init__(headline)
        self.headline, self.seen = headline, seen_in
        self.layouts = layouts and (
            tuple(layouts[0]),
            *(tuple(sorted(parts.items())) for parts in layouts[1:]),
        )
        self.rows = {k: str(text) for k, text in rows.items() if text not in ("", None)}


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

    outcome, standing = "the check could not run", BROKEN

    @classmethod
    def by(cls, error: Exception) -> BrokenCheck:
        return cls(
            f"{type(error).__name__}: {error}",
            likely="a fault of the course, not of your answer: please report it.",
        )


class Decided(Exception):
    """Ends a check early: what is left of it cannot change what it is run for."""


@dataclasses.dataclass(frozen=True)
class StatementResult:
    """What a check found out about one statement.

    Attributes:
        name: the statement, in short.
        is_essential: it must hold for any credit.
        share: the part of the exercise's points that it is worth by itself.
        standing: "holds", "fails", "untried", "later": when the work is graded, or
            "broken": its check failed by itself, so that a person looks at it.
        headline: what went wrong, or why it was not tried.
        rows: (name, text): what was called, seen, expected, the likely cause.
        layouts: see `NotPassed`.
    """

    name: str
    is_essential: bool
    share: float
    standing: str
    headline: str = ""
    rows: tuple[tuple[str, str], ...] = ()
    layouts: tuple | None = None


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a check found out about one exercise.

    Attributes:
        exercise: its name.
        outcome: in words: "right", "partly right", "wrong", "not attempted yet", ...
        share: the part of the points that was earned, 0 to 1.
        statements: in the order of the exercise's table.
        headline, rows: what went wrong first, or why there are no statements.
    """

    exercise: str
    outcome: str
    share: float
    statements: tuple[StatementResult, ...] = ()
    headline: str = ""
    rows: tuple[tuple[str, str], ...] = ()


def share_of_each(num_others: int) -> float:
    """Returns what each statement that is not essential is worth, of all points."""
    return (1 - ESSENTIAL_SHARE) / max(1, num_others)


class Run:
    """One run of a check: collects what its expectations say of each statement.

    Args:
        exercise: the exercise's name.
        essential: the statements that must hold for any credit.
        others: the other statements.
        on_failure: may add rows to a failure, such as the line that reproduces it.
        to_beat: the share of the points that another run has earned; this one ends as
            soon as it can earn no more.
    """

    def __init__(
        self,
        exercise: str,
        essential: Sequence[str],
        others: Sequence[str],
        on_failure: Callable[[NotPassed], None] = lambda problem: None,
        to_beat: float | None = None,
    ):
        self.to_beat = to_beat
        self.exercise, self.essential = exercise, essential
        self.names = (*essential, *others)
        self.other_share = share_of_each(len(others))
        self.on_failure = on_failure
        self.failures: dict[str, NotPassed] = {}
        self.raised: list[Any] = []  # the calls that did
        self.tried: set[str] = set()
        self.untried: set[str] = set()  # since something before them has failed
        self.is_hidden = False  # whether the hidden cases have begun

    def fail(self, names: Sequence[str], problem: NotPassed) -> None:
        """Notes that statements do not hold; the first reason of each is kept."""
        same = [known.headline for known in self.failures.values()]
        is_known = isinstance(problem, Raised) and problem.headline in same
        if is_known and any(problem.seen is call for call in self.raised):
            # That call is lost already, whatever statement was tried on it first.
            names = [name for name in names if name not in self.tried]
        if isinstance(problem, Raised) and problem.seen is not None:
            self.raised.append(problem.seen)
        if is_known and not self.is_first_essential(names):
            self.skip(names)  # nothing new: the call that it needs raised
        else:
            self.on_failure(problem)
            for name in names:
                self.failures.setdefault(name, problem)

    def skip(self, names: Sequence[str]) -> None:
        """Notes that statements cannot be tried after what has failed."""
        self.untried.update(name for name in names if name not in self.failures)

    def stumble(self, names: Sequence[str], error: Exception) -> None:
        """Notes statements on which the check's own code failed.

        They are skipped after a failure, unless one is essential and no essential one
        has failed yet. Otherwise the check is broken, and a person looks at it.
        """
        if self.failures and not self.is_first_essential(names):
            self.skip(names)
        else:
            self.fail(names, BrokenCheck.by(error))

    def is_first_essential(self, names: Sequence[str]) -> bool:
        """Tells whether an essential statement is among these, and none has failed."""
        return bool({*names} & {*self.essential}) and not self.has_failed

    @property
    def has_failed(self) -> bool:
        """Tells whether an essential statement has failed, so that no points are left.

        One that could not be tried counts as failed.
        """
        return any(self.is_decided([name]) for name in self.essential)

    @property
    def can_end(self) -> bool:
        """Tells whether hidden cases, or all of a run that has a share `to_beat`, end.

        The visible examples of any other run are all tried: its card shows them.
        """
        if self.to_beat is None:
            return self.is_hidden and self.has_failed
        lost = sum(self.is_decided([name]) for name in self.names)
        return self.has_failed or 1 - lost * self.other_share <= self.to_beat

    def is_decided(self, names: Sequence[str]) -> bool:
        """Tells whether nothing more can be found out about all of these statements."""
        return all(name in self.failures or name in self.untried for name in names)

    def verdict(self, with_hidden: bool) -> Verdict:
        """Sums up. Without hidden cases, what was not tried is tried later.

        The essential statements are worth half of the points; each of the others an
        equal share of the rest, which is nothing without the essential ones. What is
        tried later is not taken away now.
        """
        statements = tuple(self.results())
        lost = [
            result for result in statements if result.standing not in (HOLDS, LATER)
        ]
        share, outcome = 1 - sum(result.share for result in lost), PARTLY
        if any(result.is_essential for result in lost):
            share, outcome = 0.0, self.first_of(self.essential).outcome
        elif not lost:
            outcome = RIGHT if with_hidden else ON_EXAMPLES
        said = ()
        if problem := self.first_of(()):
            said = problem.headline, tuple(problem.rows.items())
        return Verdict(self.exercise, outcome, share, statements, *said)

    def first_of(self, names: Sequence[str]) -> NotPassed | None:
        """Returns the first failure of statements, or else of any."""
        own = [self.failures[name] for name in names if name in self.failures]
        return next(iter([*own, *self.failures.values()]), None)

    def results(self) -> Iterator[StatementResult]:
        """Yields what was found out about each statement; a failure is shown once."""
        shown: list[NotPassed] = []
        for name in self.names:
            share = 0 if name in self.essential else self.other_share
            about = name, name in self.essential, share
            problem = self.failures.get(name)
            if problem is None:
                yield StatementResult(*about, *self.standing_of(name))
            elif problem in shown:
                yield StatementResult(*about, problem.standing, "see above")
            else:
                shown.append(problem)
                evidence = tuple(problem.rows.items()), problem.layouts
                what = problem.standing, problem.headline
                yield StatementResult(*about, *what, *evidence)

    def standing_of(self, name: str) -> tuple[str, ...]:
        """Returns where a statement stands that has not failed, and why."""
        if name in self.untried:
            return UNTRIED, "needs a right result first"
        if name in self.tried:
            return (HOLDS,)
        if self.has_failed or self.can_end:
            return UNTRIED, "tried once the essential ones hold"
        return (LATER,)


@contextlib.contextmanager
def statement(*names: str) -> Iterator[None]:
    """Says which statements the expectations in a `with` block are about.

    Example: `with statement("twice"): expect_close(observe(double, x), 2 * x)`

    One that is not met ends the block, and the check goes on behind it. All of the
    names fail with it.

    Raises:
        ValueError: the exercise states nothing of that name.
    """
    run = current() or Run("", names, ())
    for name in names:
        if name not in run.names:
            raise ValueError(f'{run.exercise} does not state "{name}"')
    try:
        yield
    except (NotAttempted, BrokenCheck, NotDefined):
        raise
    except NotPassed as problem:
        if not current():
            raise  # outside a check, as in a test, nothing keeps it
        run.fail(names, problem)
    except Exception as error:
        if not current():
            raise
        run.stumble(names, error)
    else:
        run.tried.update(names)
    if run.can_end:
        raise Decided


def current() -> Run | None:
    """Returns the check that runs now, if any."""
    return current_context().run


def carry_out(run: Run, parts: Mapping[bool, Callable[[], None]]) -> Verdict:
    """Runs a check's parts, the visible one (False) and the hidden one (True).

    Hidden cases are tried only while points are left. Nothing that an answer does is
    raised, but an interrupt.
    """
    context = current_context()
    before, context.run = context.run, run
    try:
        for run.is_hidden, part in parts.items():
            if not run.can_end:
                carry_out_part(run, part)
    except NotPassed as problem:
        rows = tuple(problem.rows.items())
        shown = {"headline": problem.headline, "rows": rows}
        return Verdict(run.exercise, problem.outcome, 0.0, **shown)
    finally:
        context.run = before
    return run.verdict(with_hidden=True in parts)


def carry_out_part(run: Run, part: Callable[[], None]) -> None:
    """Runs one part; what stops it after an essential failure leaves the rest untried.

    Raises:
        NotAttempted: there is nothing to check.
        BrokenCheck: the check stopped although nothing essential had failed.
    """
    try:
        part()
    except Decided:
        return
    except (NotAttempted, BrokenCheck):
        raise
    except NotDefined as error:
        raise NotAttempted(
            f"{error.name} is not defined.",
            likely="the cell that defines it was not run, or the name is misspelt.",
        ) from error
    except NotPassed as problem:  # of no statement in particular
        rest = [name for name in run.names if name not in run.tried]
        run.fail(rest or run.names, problem)
    except Exception as error:
        if not run.has_failed:
            raise BrokenCheck.by(error) from error
        run.skip([name for name in run.names if name not in run.tried])
