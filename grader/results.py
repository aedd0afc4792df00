"""What grading finds out: plain frozen facts, no behaviour beyond sums."""

from __future__ import annotations

import dataclasses
import enum


class Outcome(enum.StrEnum):
    """What became of one exercise."""

    PASSED = "right"
    FAILED = "wrong"
    NOT_ATTEMPTED = "not attempted yet"
    RAISED = "your code raised"
    TIMED_OUT = "took too long"
    BROKEN = "the check could not run"


@dataclasses.dataclass(frozen=True)
class ExerciseResult:
    """One exercise's outcome; `message` is the first sentence of what went wrong."""

    exercise: str
    outcome: Outcome
    points: float
    max_points: float
    message: str = ""


@dataclasses.dataclass(frozen=True)
class Result:
    """One submission's outcomes, in the lesson's order."""

    lesson: str
    exercises: tuple[ExerciseResult, ...]

    @property
    def points(self) -> float:
        """Sum of the points reached."""
        return sum(exercise.points for exercise in self.exercises)

    @property
    def max_points(self) -> float:
        """Sum of the points to be had."""
        return sum(exercise.max_points for exercise in self.exercises)
