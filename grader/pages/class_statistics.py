"""Sums up a class's results for one lesson: counts, scores, failures, times."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping

from grader.results import (
    ExerciseResult,
    Outcome,
    Result,
    StatementResult,
    Status,
)
from grader.submissions.clean_text import clean_line
from lessons.coursekit.outcomes import FAILS, HOLDS

GRADED = (Status.GRADED, Status.GRADED_WITH_NOTE)
FAILURES = (
    Outcome.PARTLY,
    Outcome.FAILED,
    Outcome.RAISED,
    Outcome.TIMED_OUT,
    Outcome.BROKEN,
)
NUM_BINS = 10


@dataclasses.dataclass(frozen=True)
class Failure:
    """Messages that differ in their numbers alone: one of them, and how many."""

    outcome: Outcome
    example: str
    count: int


@dataclasses.dataclass(frozen=True)
class Statement:
    """One statement of an exercise: in how many answers it fails, of how many tried."""

    name: str
    is_essential: bool
    failed: int
    tried: int


@dataclasses.dataclass(frozen=True)
class Exercise:
    """One exercise in all graded submissions; the most frequent failures first.

    Statements are in the exercise's order.
    """

    name: str
    outcomes: Mapping[Outcome, int]
    failures: tuple[Failure, ...]
    statements: tuple[Statement, ...]


@dataclasses.dataclass(frozen=True)
class Scores:
    """All scores of a class; `bins` counts them by tenths of the full score."""

    count: int
    max_points: float
    mean: float
    median: float
    bins: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds of grading; `slowest` holds (student, seconds)."""

    total: float
    median: float
    slowest: tuple[tuple[str, float], ...]


def count_statuses(results: Iterable[Result]) -> dict[Status, int]:
    """Counts each of the five statuses, also those that nobody has."""
    counts = Counter(result.status for result in results)
    return {status: counts[status] for status in Status}


def sum_up_scores(results: Iterable[Result]) -> Scores | None:
    """Sums up the scores that exist; None where there is none."""
    results = list(results)
    scores = [result.score for result in results if result.score is not None]
    if not scores:
        return None
    full = max(result.max_points for result in results)
    bins = [0] * NUM_BINS
    for score in scores:
        # Rounding must not move a score of exactly 70 % into the bin below.
        tenth = int(NUM_BINS * score / full + 1e-9) if full > 0 else 0
        bins[min(max(tenth, 0), NUM_BINS - 1)] += 1
    mean, median = statistics.fmean(scores), statistics.median(scores)
    return Scores(len(scores), full, mean, median, tuple(bins))


def sum_up_exercises(results: Iterable[Result]) -> list[Exercise]:
    """Sums up each exercise of the graded submissions, in the lesson's order."""
    entries: dict[str, list[ExerciseResult]] = {}
    for result in results:
        for entry in result.exercises if result.status in GRADED else ():
            entries.setdefault(entry.exercise, []).append(entry)
    return [
        Exercise(
            name,
            Counter(one.outcome for one in same),
            group_failures(same),
            count_statements(same),
        )
        for name, same in entries.items()
    ]


def count_statements(entries: Iterable[ExerciseResult]) -> tuple[Statement, ...]:
    """Counts for each statement of an exercise how many answers fail it."""
    found: dict[str, list[StatementResult]] = {}
    for entry in entries:
        for one in entry.statements:
            found.setdefault(one.name, []).append(one)
    return tuple(
        Statement(
            name,
            same[0].is_essential,
            sum(one.standing == FAILS for one in same),
            sum(one.standing in (FAILS, HOLDS) for one in same),
        )
        for name, same in found.items()
    )


def group_failures(entries: Iterable[ExerciseResult]) -> tuple[Failure, ...]:
    """Groups the messages of failed exercises by what they say but for numbers."""
    groups: dict[tuple[Outcome, str], Counter[str]] = {}
    for entry in entries:
        if entry.outcome in FAILURES:
            message = clean_line(str(entry.message), 300) or str(entry.outcome)
            key = entry.outcome, re.sub(r"\d[\d.,]*", "0", message)
            groups.setdefault(key, Counter())[message] += 1
    failures = [
        Failure(outcome, min(same, key=lambda text: (-same[text], text)), same.total())
        for (outcome, _), same in groups.items()
    ]
    return tuple(sorted(failures, key=lambda f: (-f.count, f.example, f.outcome)))


def sum_up_times(seconds: Mapping[str, float], num_slowest: int = 3) -> Times | None:
    """Sums up the seconds that grading took; None where nothing was measured."""
    if not seconds:
        return None
    slowest = sorted(seconds.items(), key=lambda item: (-item[1], item[0]))
    total, median = sum(seconds.values()), statistics.median(seconds.values())
    return Times(total, median, tuple(slowest[:num_slowest]))
