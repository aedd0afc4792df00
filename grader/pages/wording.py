"""Says outcomes, statuses and points in words, for learners and for instructors."""

from __future__ import annotations

from typing import NamedTuple

from grader.results import Outcome, Status


class OutcomeWording(NamedTuple):
    """How pages show an exercise's outcome."""

    name: str  # for the learner
    tone: str  # the color: "right", "wrong", "open" or "fault"
    fallback: str  # the message where the check gave none
    column: str  # the heading in the instructor's table


class StatusWording(NamedTuple):
    """How pages show a submission's status."""

    headline: str  # what a learner reads first
    explanation: str  # whether the learner has to do something
    meaning: str  # for the instructor


OUTCOMES = {
    Outcome.PASSED: OutcomeWording("Right", "right", "", "right"),
    Outcome.PARTLY: OutcomeWording(
        "Partly right", "open", "Some of its statements do not hold.", "partly right"
    ),
    Outcome.FAILED: OutcomeWording(
        "Wrong", "wrong", "It does not do what the exercise asks for.", "wrong"
    ),
    Outcome.RAISED: OutcomeWording(
        "Your code raised an error", "wrong", "It ended in an error.", "raised an error"
    ),
    Outcome.TIMED_OUT: OutcomeWording(
        "Took too long", "wrong", "It was stopped at the time limit.", "too long"
    ),
    Outcome.NOT_ATTEMPTED: OutcomeWording(
        "Not attempted yet", "open", "It still holds its stub.", "not tried"
    ),
    Outcome.BROKEN: OutcomeWording(
        "The check could not run",
        "fault",
        "It ended without a verdict.",
        "check broken",
    ),
}
STATUSES = {
    Status.GRADED: StatusWording(
        "Graded", "Every exercise was looked at.", "every check ran"
    ),
    Status.GRADED_WITH_NOTE: StatusWording(
        "Graded, with a note",
        "Every exercise was looked at.",
        "the same, with a note",
    ),
    Status.STUDENT_ERROR: StatusWording(
        "Nothing to grade yet",
        "What you submitted contains no work that can be graded. This is why, and what "
        "to do:",
        "nothing to grade; counts as 0",
    ),
    Status.NEEDS_REVIEW: StatusWording(
        "A person will look at it",
        "Your work has arrived. It gets its score from a person, which takes a little "
        "longer. There is nothing for you to do until then.",
        "no score until you decide",
    ),
    Status.INFRA_ERROR: StatusWording(
        "Not graded yet: our fault",
        "Something failed on our side, not in your work. Your work is safe and will be "
        "graded. There is nothing for you to do.",
        "our fault; no score",
    ),
}


def points_of(points: float, max_points: float) -> str:
    """Writes how many points were earned, of how many; without a maximum, a bonus."""
    return f"{points:g} of {max_points:g}" if max_points else f"{points:g} bonus"
