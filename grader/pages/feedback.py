"""Writes the page that a learner gets back."""

from __future__ import annotations

import dataclasses
from typing import Any

from markupsafe import Markup

from grader.pages.cards import card
from grader.pages.class_statistics import GRADED
from grader.pages.page import ROW_BYTES, STATEMENT_BYTES, PageBudget, render
from grader.pages.wording import OUTCOMES, STATUSES, worth
from grader.results import ExerciseResult, Outcome, Result, Status

MAX_EXERCISES, MAX_STATEMENTS, MAX_ROWS, MAX_LISTED, MAX_PICTURES = 100, 20, 12, 20, 8
LONG_CODE = 30  # lines; longer code is folded


def feedback_page(result: Result, *, title: str, student: str) -> str:
    """Returns a learner's page for one lesson: HTML that needs nothing else.

    Where a person or the machine still has to do its part, the page says so and shows
    what was received: no score, no outcome, no evidence.
    """
    budget = PageBudget()
    graded, is_error = result.status in GRADED, result.status is Status.STUDENT_ERROR
    wording = STATUSES[result.status]
    exercises = result.exercises[:MAX_EXERCISES]
    describe = _exercise if graded else _received
    return render(
        "feedback.html.j2",
        title=budget.line(title, 200),
        student=budget.line(student, 100),
        headline=wording.headline,
        explanation=wording.explanation,
        graded=graded,
        is_error=is_error,
        score=_score(result),
        num_right=sum(e.outcome is Outcome.PASSED for e in result.exercises),
        reasons=budget.lines(result.reasons, MAX_LISTED) if is_error else [],
        notes=budget.lines(result.notes, MAX_LISTED),
        limits=budget.lines(result.limits, MAX_LISTED) if graded or is_error else [],
        exercises=[describe(entry, budget) for entry in exercises],
        num_more=len(result.exercises) - len(exercises),
        budget=budget,
    )


def _score(result: Result) -> str | None:
    """Writes the score: "2.5 of 3 points", or None where there is none."""
    if result.score is None:
        return None
    if not result.max_points:
        return f"{result.score:g} points"
    return worth(result.score, result.max_points) + _unit(result.max_points)


def _unit(max_points: float) -> str:
    return " point" if max_points == 1 else " points"


def _received(entry: ExerciseResult, budget: PageBudget) -> dict[str, Any]:
    """Describes an exercise by the learner's own code, and nothing else."""
    source = budget.text(entry.source, 20_000, max_lines=400)
    num_lines = source.count("\n") + 1 if source else 0
    return {
        "name": budget.line(entry.exercise, 80),
        "source": source,
        "num_lines": num_lines,
        "folded": num_lines > LONG_CODE,
    }


def _exercise(entry: ExerciseResult, budget: PageBudget) -> dict[str, Any]:
    """Describes a graded exercise."""
    wording = OUTCOMES[entry.outcome]
    passed = entry.outcome is Outcome.PASSED
    facts = _received(entry, budget)
    pictures = [budget.picture(text) for text in entry.pictures[:MAX_PICTURES]]
    budget.dropped += len(entry.pictures[MAX_PICTURES:])
    return facts | {
        "outcome": wording.name,
        "tone": wording.tone,
        "points": worth(entry.points, entry.max_points),
        "unit": _unit(entry.max_points),
        "card": Markup(card(_cut(entry, budget), heading=False)),
        "folded": facts["folded"] or passed or entry.outcome is Outcome.NOT_ATTEMPTED,
        "pictures": [picture for picture in pictures if picture],
    }


def _cut(entry: ExerciseResult, budget: PageBudget) -> ExerciseResult:
    """Cuts the texts of a result to what its page has room for."""

    def cut_rows(rows):
        return tuple(
            (budget.line(name, 40), budget.text(text, 1500, max_lines=20))
            for name, text in rows[:MAX_ROWS]
            if budget.has_room(ROW_BYTES)
        )

    statements = tuple(
        dataclasses.replace(
            one,
            name=budget.line(one.name, 100),
            headline=budget.line(one.headline, 1000),
            rows=cut_rows(one.rows),
            layouts=budget.layouts(one.layouts),
        )
        for one in entry.statements[:MAX_STATEMENTS]
        if budget.has_room(STATEMENT_BYTES)
    )
    passed = entry.outcome is Outcome.PASSED
    message = entry.message or OUTCOMES[entry.outcome].fallback
    return dataclasses.replace(
        entry,
        exercise=budget.line(entry.exercise, 80),
        message="" if passed else budget.line(message, 1000),
        statements=statements,
        details=cut_rows(entry.details),
    )
