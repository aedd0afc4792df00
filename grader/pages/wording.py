"""Says outcomes, statuses and points in words, for learners and for instructors."""

from __future__ import annotations

from typing import NamedTuple

from coursekit.card import in_parts, total
from grader.pages.page import say
from grader.results import Outcome, Result, Status


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


def _(text: str) -> str:
    """Marks what learners read, so that it is translated; pages translate it."""
    return text


OUTCOMES = {
    Outcome.PASSED: OutcomeWording(_("Right"), "right", "", "right"),
    Outcome.PARTLY: OutcomeWording(
        _("Partly right"),
        "open",
        _("Some of its statements do not hold."),
        "partly right",
    ),
    Outcome.FAILED: OutcomeWording(
        _("Wrong"), "wrong", _("It does not do what the exercise asks for."), "wrong"
    ),
    Outcome.RAISED: OutcomeWording(
        _("Your code raised an error"),
        "wrong",
        _("It ended in an error."),
        "raised an error",
    ),
    Outcome.TIMED_OUT: OutcomeWording(
        _("Took too long"), "wrong", _("It was stopped at the time limit."), "too long"
    ),
    Outcome.NOT_ATTEMPTED: OutcomeWording(
        _("Not attempted yet"), "open", _("It still holds its stub."), "not tried"
    ),
    Outcome.BROKEN: OutcomeWording(
        _("The check could not run"),
        "fault",
        _("It ended without a verdict."),
        "check broken",
    ),
}
STATUSES = {
    Status.GRADED: StatusWording(
        _("Graded"), _("Every exercise was looked at."), "every check ran"
    ),
    Status.GRADED_WITH_NOTE: StatusWording(
        _("Graded, with a note"),
        _("Every exercise was looked at."),
        "the same, with a note",
    ),
    Status.STUDENT_ERROR: StatusWording(
        _("Nothing to grade yet"),
        _(
            "What you submitted contains no work that can be graded. This is why, and "
            "what to do:"
        ),
        "nothing to grade; counts as 0",
    ),
    Status.NEEDS_REVIEW: StatusWording(
        _("A person will look at it"),
        _(
            "Your work has arrived. It gets its score from a person, which takes a "
            "little longer. There is nothing for you to do until then."
        ),
        "no score until you decide",
    ),
    Status.INFRA_ERROR: StatusWording(
        _("Not graded yet: our fault"),
        _(
            "Something failed on our side, not in your work. Your work is safe and "
            "will be graded. There is nothing for you to do."
        ),
        "our fault; no score",
    ),
}


def with_name(student: str, name: str) -> str:
    """Shows a learner to an instructor: "Lovelace, Ada (101)", or only the id."""
    return f"{name} ({student})" if name else student


def points_of(points: float, max_points: float) -> str:
    """Writes how many points were earned, of how many; without a maximum, a bonus."""
    if not max_points:
        return say("{1} bonus", f"{points:g}")
    return say("{1} of {2}", f"{points:g}", f"{max_points:g}")


def score_of(result: Result) -> str:
    """Writes a score: "2.5 of 3 points", or "3 of 3 and 2 bonus points"."""
    if not result.max_points:
        return say("{1} points", f"{result.score:g}")
    parts = result.score, result.bonus, result.max_points
    own, beyond = in_parts(*parts)
    return total(*parts) if beyond else with_unit(own, result.max_points)


def with_unit(points: float, max_points: float) -> str:
    """Writes the same with the word "points"."""
    got, most = f"{points:g}", f"{max_points:g}"
    if not max_points:
        return say("{1} bonus points", got)
    if max_points == 1:
        return say("{1} of {2} point", got, most)
    return say("{1} of {2} points", got, most)
