"""Shows an exercise's result as the card that its learner knows from the notebook."""

from __future__ import annotations

from collections.abc import Iterator

from grader.results import ExerciseResult, Outcome, Result
from lessons.coursekit.card import html_card, text_card
from lessons.coursekit.outcomes import Verdict


def verdict_of(one: ExerciseResult) -> Verdict:
    """Returns a result as the notebook's own check gives it."""
    return Verdict(
        exercise=one.exercise,
        outcome=str(one.outcome),
        share=one.share,
        statements=one.statements,
        headline=one.message,
        rows=one.details,
    )


def card(one: ExerciseResult, *, heading: bool = True) -> str:
    """Writes the card as HTML; all text in it is escaped."""
    shown = {"points": one.worth, "is_bonus": not one.max_points}
    return html_card(verdict_of(one), heading=heading, **shown)


def plain_card(one: ExerciseResult) -> str:
    """Writes the card as plain text."""
    shown = {"points": one.worth, "is_bonus": not one.max_points}
    return text_card(verdict_of(one), **shown)


def cards_of_failures(result: Result) -> Iterator[str]:
    """Writes the cards of what was tried and is not right, as plain text."""
    for one in result.exercises:
        if one.outcome not in (Outcome.PASSED, Outcome.NOT_ATTEMPTED):
            yield plain_card(one)
