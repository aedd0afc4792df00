"""Holds what grading finds out: plain frozen facts, their sums, and their JSON."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping
from typing import Any

from coursekit.i18n import plural
from coursekit.outcomes import BROKEN, StatementResult, Verdict


class Outcome(enum.StrEnum):
    """How one exercise ended, in the words of coursekit/outcomes.py."""

    PASSED = "right"
    PARTLY = "partly right"
    FAILED = "wrong"
    NOT_ATTEMPTED = "not attempted yet"
    RAISED = "your code raised"
    TIMED_OUT = "took too long"
    BROKEN = "the check could not run"


class Status(enum.StrEnum):
    """How the grading of one submission ended; there is no sixth status."""

    GRADED = "GRADED"  # every check ran
    GRADED_WITH_NOTE = "GRADED_WITH_NOTE"  # the same, and notes say what was unusual
    STUDENT_ERROR = "STUDENT_ERROR"  # there is nothing to grade: score 0, and a reason
    NEEDS_REVIEW = "NEEDS_REVIEW"  # not to be trusted: no score until a person decides
    INFRA_ERROR = "INFRA_ERROR"  # our fault: no score

    @property
    def is_graded(self) -> bool:
        return self in (Status.GRADED, Status.GRADED_WITH_NOTE)


@dataclasses.dataclass(frozen=True)
class ExerciseResult:
    """One exercise's outcome.

    Attributes:
        max_points: points that count in the lesson's maximum; 0 for a bonus exercise.
        worth: points that can be earned, a bonus included.
        share: the part of these that was earned, 0 to 1.
        statements: how each of its statements stands; none where nothing was checked.
        message: the first sentence of what went wrong, or "".
        details: (name, text) rows: what was called, seen, expected, likely.
        source: the learner's own code for it.
        decision: what a person decided about its points, or "".
        comment: a person's comment, or "".
    """

    exercise: str
    outcome: Outcome
    points: float
    max_points: float
    worth: float = 0.0
    share: float = 0.0
    statements: tuple[StatementResult, ...] = ()
    message: str = ""
    details: tuple[tuple[str, str], ...] = ()
    source: str = ""
    decision: str = ""
    comment: str = ""

    @property
    def is_bonus(self) -> bool:
        return not self.max_points

    @property
    def has_broken_check(self) -> bool:
        """Tells whether its check failed by itself, so that a person should decide."""
        broken = (one.standing == BROKEN for one in self.statements)
        return self.outcome is Outcome.BROKEN or any(broken)

    @property
    def verdict(self) -> Verdict:
        """The result as the notebook's own check gives it, for its card."""
        return Verdict(
            exercise=self.exercise,
            outcome=str(self.outcome),
            share=self.share,
            statements=self.statements,
            headline=self.message,
            rows=self.details,
        )


@dataclasses.dataclass(frozen=True)
class Result:
    """The result of grading one submission.

    Attributes:
        exercises: one entry per exercise, in the lesson's order.
        notes: repairs, missing packages, signs of tampering, in plain words.
        reasons: why it is STUDENT_ERROR, NEEDS_REVIEW or INFRA_ERROR, with the remedy.
        limits: the limits that the learner's process ran into.
        language: that of the submitted notebook, for the learner's page.
        late: how late it was submitted, such as "2 days late"; "" if it was not.
        due: until when it could have been, in the class's time zone; "" if unknown.
        penalty: the points that are taken off for that.
        to_review: why a person should look at it again, although it has a score.

    The last four, and a person's decisions, come from the gradebook: the stored
    result of grading has none of them.
    """

    lesson: str
    exercises: tuple[ExerciseResult, ...]
    status: Status = Status.GRADED
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    language: str = "en"
    late: str = ""
    due: str = ""
    penalty: float = 0.0
    to_review: tuple[str, ...] = ()

    @property
    def points(self) -> float:
        """Sum of the points earned, to two digits."""
        return round(sum(exercise.points for exercise in self.exercises), 2)

    @property
    def bonus(self) -> float:
        """The points among these that were earned in bonus exercises."""
        return round(sum(one.points for one in self.exercises if one.is_bonus), 2)

    @property
    def max_points(self) -> float:
        return sum(exercise.max_points for exercise in self.exercises)

    @property
    def is_graded(self) -> bool:
        return self.status.is_graded

    @property
    def score(self) -> float | None:
        """The points that count: none while a person has to decide."""
        undecided = (Status.NEEDS_REVIEW, Status.INFRA_ERROR)
        if self.status in undecided:
            return None
        return round(self.points - self.penalty, 2) + 0.0  # which makes 0 of -0

    @property
    def decisions(self) -> tuple[str, ...]:
        """What a person decided and commented, by exercise."""
        found = []
        for one in self.exercises:
            comment = f"Comment: {one.comment}" if one.comment else ""
            if text := " ".join(filter(None, (one.decision, comment))):
                found.append(f"{one.exercise}: {text}")
        return tuple(found)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the gradebook adds to the result, in whole sentences."""
        lines = late_text(self), *self.decisions, *self.to_review
        return tuple(filter(None, lines))


def late_text(result: Result) -> str:
    """Says how late a result's work is, and what that costs; "" if it is not late."""
    if not result.late:
        return ""
    said = f"This was submitted {result.late}."
    if result.penalty and result.score is not None:
        said = (
            f"This was submitted {result.late}: a penalty of {result.penalty:g} "
            f"point{plural(result.penalty)} is deducted from the {result.points:g} "
            f"earned, which leaves {result.score:g}."
        )
    due = f"It was due on {result.due}."
    return f"{said} {due}" if result.due else said


def to_json(result: Result) -> str:
    """Writes a result as JSON, the same bytes for the same result."""
    return json.dumps(dataclasses.asdict(result), sort_keys=True)


def from_json(text: str) -> Result:
    """Reads what `to_json` wrote; ValueError, KeyError, TypeError: it is damaged."""
    return result_of(json.loads(text))


def result_of(facts: Any) -> Result:
    facts = with_tuples(facts)
    exercises = []
    for one in facts["exercises"]:
        outcome = Outcome(one["outcome"])
        statements = tuple(map(read_statement, one["statements"]))
        read = {"outcome": outcome, "statements": statements}
        exercises.append(ExerciseResult(**one | read))
    read = {"exercises": tuple(exercises), "status": Status(facts["status"])}
    return Result(**facts | read)


def read_statement(facts: Mapping[str, Any]) -> StatementResult:
    return StatementResult(**with_tuples(facts))


def with_tuples(value: Any) -> Any:
    """Turns JSON's lists into tuples."""
    if isinstance(value, dict):
        return {name: with_tuples(inner) for name, inner in value.items()}
    return tuple(map(with_tuples, value)) if isinstance(value, list) else value


@dataclasses.dataclass(frozen=True)
class Record:
    """A result as the store keeps it.

    Attributes:
        key: hash of all `hashes`; the same key stands for the same result.
        hashes: SHA-256 of submission, lesson (also by check), seed, grader (with
            limits) and packages.
        seconds: how long grading took; not part of the key or of an export.
    """

    key: str
    hashes: Mapping[str, str]
    result: Result
    seconds: float = 0.0
