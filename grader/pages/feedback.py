"""Writes the page that a learner gets back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from coursekit import i18n
from coursekit.card import html_card
from grader.pages.page import ROW_BYTES, STATEMENT_BYTES, PageBudget, render
from grader.pages.wording import (
    OUTCOMES,
    STATUSES,
    points_of,
    score_of,
    with_unit,
)
from grader.results import ExerciseResult, Outcome, Result, Status, late_text

LONG_CODE = 30  # lines; longer code is folded


def card(one: ExerciseResult, *, heading: bool = True) -> str:
    """Writes an exercise's card as HTML; all text in it is escaped."""
    worth = {"points": one.worth, "is_bonus": one.is_bonus}
    return html_card(one.verdict, heading=heading, **worth)


def feedback_page(result: Result, *, title: str, student: str) -> str:
    """Returns a learner's page for one lesson, in the submitted notebook's language.

    It is HTML that needs nothing else. While a person or the machine still has
    something to do, the page says so and shows what was received: no score, no outcome,
    no evidence.
    """
    with i18n.speaking(result.language):
        return _page(result, title, student)


def _page(result: Result, title: str, student: str) -> str:
    budget, is_error = PageBudget(), result.status is Status.STUDENT_ERROR
    describe = _graded if result.is_graded else _received
    limits = result.limits if result.is_graded or is_error else ()

    def lines(texts: Iterable[str]) -> list[str]:
        return [budget.said(text, 500) for text in texts]

    return render(
        "feedback.html.j2",
        language=result.language,
        title=budget.said(title, 200),
        student=budget.line(student, 100),
        wording=STATUSES[result.status],
        graded=result.is_graded,
        is_error=is_error,
        score=None if result.score is None else score_of(result),
        num_right=sum(e.outcome is Outcome.PASSED for e in result.exercises),
        reasons=lines(result.reasons) if is_error else [],
        late=lines([late_text(result)] if result.late else ()),
        notes=lines((*result.notes, *result.to_review)),
        limits=lines(limits),
        exercises=[describe(entry, budget) for entry in result.exercises],
        budget=budget,
    )


def _received(entry: ExerciseResult, budget: PageBudget) -> dict[str, Any]:
    """Describes an exercise by the learner's own code, and nothing else."""
    source = budget.text(entry.source, 20_000, max_lines=400)
    is_open = source.count("\n") < LONG_CODE
    name = budget.line(entry.exercise, 80)
    return {"name": name, "source": source, "is_open": is_open}


def _graded(entry: ExerciseResult, budget: PageBudget) -> dict[str, Any]:
    needs_no_work = entry.outcome in (Outcome.PASSED, Outcome.NOT_ATTEMPTED)
    facts = _received(entry, budget)
    # Where a person gave other points than the checks, there is nothing else to show.
    has_card = bool(entry.statements or not entry.decision)
    return facts | {
        "wording": OUTCOMES[entry.outcome],
        "points": points_of(entry.points, entry.max_points),
        "points_with_unit": with_unit(entry.points, entry.max_points),
        "decision": budget.said(entry.decision, 300),
        "comment": budget.text(entry.comment, 5000, max_lines=100),
        "card": Markup(card(_cut(entry, budget), heading=False)) if has_card else "",
        "is_open": facts["is_open"] and not needs_no_work,
    }


def _cut(entry: ExerciseResult, budget: PageBudget) -> ExerciseResult:
    """Cuts the texts of a result to what its page has room for."""

    def cut_rows(rows):
        return tuple(
            (budget.line(name, 40), budget.text(text, 1500, max_lines=20))
            for name, text in rows
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
        for one in entry.statements
        if budget.has_room(STATEMENT_BYTES)
    )
    wording, is_right = OUTCOMES[entry.outcome], entry.outcome is Outcome.PASSED
    message = "" if is_right else budget.line(entry.message or wording.fallback, 1000)
    return dataclasses.replace(
        entry,
        exercise=budget.line(entry.exercise, 80),
        message=message,
        statements=statements,
        details=cut_rows(entry.details),
    )
