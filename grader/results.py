"""What grading finds out: plain frozen facts, no behaviour beyond sums and JSON."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping
from typing import Any

from lessons.coursekit.outcomes import StatementResult


class Outcome(enum.StrEnum):
    """What became of one exercise, in the words of coursekit/outcomes.py."""

    PASSED = "right"
    PARTLY = "partly right"
    FAILED = "wrong"
    NOT_ATTEMPTED = "not attempted yet"
    RAISED = "your code raised"
    TIMED_OUT = "took too long"
    BROKEN = "the check could not run"


class Status(enum.StrEnum):
    """What became of one submission; there is no sixth way."""

    GRADED = "GRADED"  # every check ran
    GRADED_WITH_NOTE = "GRADED_WITH_NOTE"  # the same, after a repair that a note names
    STUDENT_ERROR = "STUDENT_ERROR"  # there is nothing to grade: score 0, and a reason
    NEEDS_REVIEW = "NEEDS_REVIEW"  # not to be trusted: no score until a person decides
    INFRA_ERROR = "INFRA_ERROR"  # our fault: no score


@dataclasses.dataclass(frozen=True)
class ExerciseResult:
    """One exercise's outcome.

    Attributes:
        exercise: its name.
        outcome: what became of it.
        points: points reached.
        max_points: points that count in the lesson's maximum; 0 of a bonus exercise.
        worth: points to be had, a bonus included.
        share: the part of these that was reached, 0 to 1.
        statements: how each of its statements stands; none where nothing was checked.
        message: the first sentence of what went wrong, or "".
        details: (name, text) rows: what was called, seen, expected, likely.
        source: the learner's own code for it.
        pictures: what that code drew: PNG files in base64, encoded anew by us.
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
    pictures: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Result:
    """What became of one submission.

    Attributes:
        lesson: the lesson's name.
        exercises: one entry per exercise, in the lesson's order.
        status: one of five.
        notes: repairs made before grading, in plain words.
        reasons: why it is STUDENT_ERROR, NEEDS_REVIEW or INFRA_ERROR, with the remedy.
        limits: the limits that the learner's process ran into.
    """

    lesson: str
    exercises: tuple[ExerciseResult, ...]
    status: Status = Status.GRADED
    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    @property
    def points(self) -> float:
        """Sum of the points reached, to two digits."""
        return round(sum(exercise.points for exercise in self.exercises), 2)

    @property
    def max_points(self) -> float:
        """Sum of the points to be had."""
        return sum(exercise.max_points for exercise in self.exercises)

    @property
    def score(self) -> float | None:
        """The points that count: none while a person has to decide."""
        undecided = (Status.NEEDS_REVIEW, Status.INFRA_ERROR)
        return None if self.status in undecided else self.points


def to_json(result: Result) -> str:
    """Writes a result as JSON, the same bytes for the same result."""
    return json.dumps(dataclasses.asdict(result), sort_keys=True, ensure_ascii=True)


def from_json(text: str) -> Result:
    """Reads what `to_json` wrote.

    Raises:
        ValueError: the text is damaged.
    """
    try:
        facts = json.loads(text)
        exercises = tuple(
            ExerciseResult(
                **entry
                | {
                    "outcome": Outcome(entry["outcome"]),
                    "statements": tuple(
                        map(read_statement, entry.get("statements", ()))
                    ),
                    "details": tuple(map(tuple, entry["details"])),
                    "pictures": tuple(entry["pictures"]),
                }
            )
            for entry in facts.pop("exercises")
        )
        status = Status(facts.pop("status"))
        lists = {key: tuple(facts.pop(key)) for key in ("notes", "reasons", "limits")}
        return Result(exercises=exercises, status=status, **lists, **facts)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"This is no result of the grader: {error!r}.") from None


def read_statement(facts: Mapping[str, Any]) -> StatementResult:
    """Reads how a statement stands from plain JSON."""
    return StatementResult(**{name: frozen(value) for name, value in facts.items()})


def frozen(value: Any) -> Any:
    """Turns JSON's lists into tuples."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value


@dataclasses.dataclass(frozen=True)
class Record:
    """A result and what it is of.

    Attributes:
        key: hash of all `hashes`; the same key stands for the same result.
        hashes: SHA-256 of submission, lesson, seed, grader (with limits) and packages.
        result: what became of the submission.
        seconds: how long grading took; no part of the key or of an export.
        used: what the learner's processes took, where it was counted: "cpu_s", seconds,
            and "peak_mib", memory; likewise.
    """

    key: str
    hashes: Mapping[str, str]
    result: Result
    seconds: float = 0.0
    used: Mapping[str, float] = dataclasses.field(default_factory=dict)
