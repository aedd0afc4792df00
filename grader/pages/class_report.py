"""Writes the page that an instructor reads about a class's work for one lesson."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grader.pages.class_statistics import (
    GRADED,
    NUM_BINS,
    Exercise,
    Scores,
    Times,
    count_statuses,
    sum_up_exercises,
    sum_up_scores,
    sum_up_times,
)
from grader.pages.page import PageBudget, render
from grader.pages.similar_work import similar_work
from grader.pages.wording import OUTCOMES, STATUSES
from grader.results import Outcome, Result, Status

MAX_EXERCISES, MAX_FAILURES, MAX_LEARNERS, MAX_REASONS = 100, 5, 300, 5


def class_report(
    lesson: str,
    results: Mapping[str, Result],
    *,
    title: str,
    seconds: Mapping[str, float],
    solved: Mapping[str, str],
) -> str:
    """Returns an instructor's page on a class's work for one lesson.

    Args:
        lesson: the lesson's name.
        results: one result per student; the keys are ids, never names.
        title: the lesson's title.
        seconds: what the grading of each took.
        solved: the source of each exercise as solved.
    """
    budget = PageBudget(text_bytes=1_000_000)
    results = dict(sorted(results.items()))
    counts = count_statuses(results.values())
    scores = sum_up_scores(results.values())
    times = sum_up_times({s: t for s, t in sorted(seconds.items()) if s in results})

    def listed(status: Status | None, field: str) -> tuple[list, int]:
        return _listed(results, status, field, budget)

    return render(
        "class_report.html.j2",
        title=budget.line(title, 200),
        lesson=budget.line(lesson, 100),
        statuses=[
            (_words(s), STATUSES[s].meaning, count) for s, count in counts.items()
        ],
        num_submissions=len(results),
        num_graded=sum(counts[status] for status in GRADED),
        review=listed(Status.NEEDS_REVIEW, "reasons"),
        infra=listed(Status.INFRA_ERROR, "reasons"),
        nothing=listed(Status.STUDENT_ERROR, "reasons"),
        limits=listed(None, "limits"),
        notes=listed(None, "notes"),
        similar=_rows([*similar_work(results, solved).items()], budget),
        scores=scores,
        bins=_bins(scores) if scores else [],
        columns=[wording.column for wording in OUTCOMES.values()],
        exercises=[
            _counted(exercise, budget)
            for exercise in sum_up_exercises(results.values())[:MAX_EXERCISES]
        ],
        times=_times(times, budget) if times else None,
        budget=budget,
    )


def _words(status: Status) -> str:
    """Writes a status for people: "Graded with note"."""
    return status.value.replace("_", " ").capitalize()


def _listed(
    results: Mapping[str, Result], status: Status | None, field: str, budget: PageBudget
) -> tuple[list[tuple[str, list[str]]], int]:
    """Lists who has a status, or any text in a field, with that text."""
    found = [
        (student, getattr(result, field))
        for student, result in results.items()
        if (getattr(result, field) if status is None else result.status is status)
    ]
    return _rows(found, budget)


def _rows(
    found: list[tuple[str, Sequence[str]]], budget: PageBudget
) -> tuple[list[tuple[str, list[str]]], int]:
    """Writes a row for each student, and how many are left out."""
    rows = [
        (budget.line(student, 100), budget.lines(texts, MAX_REASONS))
        for student, texts in found[:MAX_LEARNERS]
    ]
    return rows, len(found) - len(rows)


def _counted(exercise: Exercise, budget: PageBudget) -> dict[str, Any]:
    """Describes an exercise by its outcomes in the class."""
    num_all, num_right = exercise.outcomes.total(), exercise.outcomes[Outcome.PASSED]
    return {
        "name": budget.line(exercise.name, 80),
        "counts": [exercise.outcomes[outcome] for outcome in OUTCOMES],
        "share": round(100 * num_right / num_all),
        "statements": [
            (budget.line(one.name, 80), one.is_essential, one.failed, one.tried)
            for one in exercise.statements
            if one.failed
        ],
        "failures": [
            (
                failure.count,
                OUTCOMES[failure.outcome].column,
                budget.line(failure.example, 300),
            )
            for failure in exercise.failures[:MAX_FAILURES]
        ],
        "num_more": len(exercise.failures[MAX_FAILURES:]),
        "num_in_more": sum(f.count for f in exercise.failures[MAX_FAILURES:]),
    }


def _bins(scores: Scores) -> list[tuple[str, int, int]]:
    """Describes the bars, best scores first: label, count, width."""
    step, most = 100 // NUM_BINS, max(scores.bins)
    labels = [f"{step * k} to {step * (k + 1) - 1} %" for k in range(NUM_BINS - 1)]
    labels.append(f"{100 - step} to 100 %")
    rows = zip(labels, scores.bins, strict=True)
    return [(label, count, round(100 * count / most)) for label, count in rows][::-1]


def _times(times: Times, budget: PageBudget) -> dict[str, Any]:
    """Describes the time that grading took."""
    return {
        "total": _duration(times.total),
        "median": _duration(times.median),
        "slowest": [(budget.line(s, 100), _duration(t)) for s, t in times.slowest],
    }


def _duration(seconds: float) -> str:
    """Writes seconds for people: 12.3 s, 4 min 10 s, 2 h 3 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {round(seconds) % 60} s"
    return f"{minutes // 60} h {minutes % 60} min"
