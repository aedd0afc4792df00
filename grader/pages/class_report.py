"""Writes the page that an instructor reads about a class's work for one lesson."""

from __future__ import annotations

import itertools
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grader.pages.page import PageBudget, render
from grader.pages.similar_work import similar_work
from grader.pages.wording import OUTCOMES, STATUSES
from grader.results import ExerciseResult, Outcome, Result, Status, late_text
from grader.submissions.clean_text import clean_line
from lessons.coursekit.outcomes import FAILS, HOLDS

MAX_FAILURES, MAX_LEARNERS, MAX_REASONS = 5, 300, 5


def class_report(
    lesson: str,
    results: Mapping[str, Result],
    *,
    title: str,
    solutions: Mapping[str, str],
) -> str:
    """Returns an instructor's page on a class's work for one lesson.

    The keys of `results` are students' ids, never names; `solutions` holds the source
    of each exercise as solved.
    """
    budget = PageBudget(text_bytes=1_000_000)
    results = dict(sorted(results.items()))
    graded = [result for result in results.values() if result.is_graded]
    counts = Counter(result.status for result in results.values())
    answers = defaultdict(list)  # by exercise, in the lesson's order
    for one in itertools.chain.from_iterable(result.exercises for result in graded):
        answers[one.exercise].append(one)

    def people(texts: Mapping[str, Sequence[str]]) -> tuple[list, int]:
        """Makes a row for each student, and counts those left out."""
        rows = [
            (budget.line(student, 100), budget.lines(own[:MAX_REASONS]))
            for student, own in itertools.islice(texts.items(), MAX_LEARNERS)
        ]
        return rows, len(texts) - len(rows)

    def reasons(status: Status) -> tuple[list, int]:
        return people({s: r.reasons for s, r in results.items() if r.status is status})

    return render(
        "class_report.html.j2",
        title=budget.line(title, 200),
        lesson=budget.line(lesson, 100),
        statuses=[
            (s.replace("_", " ").capitalize(), STATUSES[s].meaning, counts[s])
            for s in Status
        ],
        num_submissions=len(results),
        num_graded=len(graded),
        review=reasons(Status.NEEDS_REVIEW),
        to_review=people({s: r.to_review for s, r in results.items() if r.to_review}),
        decided=people({s: r.decisions for s, r in results.items() if r.decisions}),
        late=people({s: [late_text(r)] for s, r in results.items() if r.late}),
        infra=reasons(Status.INFRA_ERROR),
        nothing=reasons(Status.STUDENT_ERROR),
        limits=people({s: r.limits for s, r in results.items() if r.limits}),
        notes=people({s: r.notes for s, r in results.items() if r.notes}),
        similar=people(similar_work(results, solutions)),
        scores=_scores(results.values()),
        columns=[wording.column for wording in OUTCOMES.values()],
        exercises=[_exercise(name, same, budget) for name, same in answers.items()],
        budget=budget,
    )


def _scores(results: Iterable[Result]) -> dict[str, Any] | None:
    """Describes the scores that exist, and how many are in each tenth of the points."""
    scored = [result for result in results if result.score is not None]
    if not scored:
        return None
    scores = [result.score for result in scored]
    full = max(result.max_points for result in scored)
    # Rounding must not move a score of exactly 70 % into the tenth below.
    tenths = Counter(
        min(max(int(10 * score / full + 1e-9), 0), 9) if full else 0 for score in scores
    )
    return {
        "count": len(scores),
        "max_points": full,
        "mean": statistics.fmean(scores),
        "median": statistics.median(scores),
        "bins": [
            (
                f"{10 * k} to {10 * k + 9 if k < 9 else 100} %",
                tenths[k],
                round(100 * tenths[k] / max(tenths.values())),
            )
            for k in reversed(range(10))
        ],
    }


def _exercise(
    name: str, answers: Sequence[ExerciseResult], budget: PageBudget
) -> dict[str, Any]:
    """Counts outcomes, statements that fail, and messages; the most frequent first."""
    outcomes = Counter(one.outcome for one in answers)
    statements = [statement for one in answers for statement in one.statements]
    fails = Counter(one.name for one in statements if one.standing == FAILS)
    tried = Counter(one.name for one in statements if one.standing in (FAILS, HOLDS))
    is_essential = {one.name: one.is_essential for one in statements}
    # Messages that differ in their numbers alone are counted together.
    messages: dict[tuple[Outcome, str], Counter[str]] = defaultdict(Counter)
    for one in answers:
        if one.outcome not in (Outcome.PASSED, Outcome.NOT_ATTEMPTED):
            message = clean_line(one.message, 300) or str(one.outcome)
            kind = one.outcome, re.sub(r"\d[\d.,]*", "0", message)
            messages[kind][message] += 1
    failures = sorted(messages.items(), key=lambda item: -item[1].total())
    rarer = failures[MAX_FAILURES:]
    return {
        "name": budget.line(name, 80),
        "counts": [outcomes[outcome] for outcome in OUTCOMES],
        "share": round(100 * outcomes[Outcome.PASSED] / len(answers)),
        "statements": [
            (budget.line(statement, 80), essential, fails[statement], tried[statement])
            for statement, essential in is_essential.items()
            if fails[statement]
        ],
        "failures": [
            (
                same.total(),
                OUTCOMES[outcome].column,
                budget.line(same.most_common(1)[0][0], 300),
            )
            for (outcome, _), same in failures[:MAX_FAILURES]
        ],
        "num_more": len(rarer),
        "num_in_more": sum(same.total() for _, same in rarer),
    }
