"""Writes results as lines and tables for a terminal."""

from __future__ import annotations

import collections
import textwrap
from collections.abc import Callable, Iterable

from grader.pages.wording import worth
from grader.results import Result, Status
from lessons.coursekit.i18n import translated


def table(result: Result, width: int = 100) -> str:
    """Writes a result as a table: exercise, outcome, points, what went wrong."""
    rows = [
        (
            r.exercise,
            str(r.outcome),
            worth(r.points, r.max_points),
            translated(r.message),
        )
        for r in result.exercises
    ]
    total = f"{result.points:g} of {result.max_points:g}"
    rows = [("exercise", "outcome", "points", ""), *rows, ("total", "", total, "")]
    sizes = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [result.lesson]
    for row in rows:
        start = "  ".join(
            text.ljust(size) for text, size in zip(row, sizes, strict=False)
        )
        columns = max(20, width - len(start) - 2)
        message = textwrap.shorten(row[3], columns, placeholder=" ...")
        lines.append(f"{start}  {message}".rstrip())
    return "\n".join(lines) + "\n"


def summary(result: Result) -> str:
    """Writes status and score in a few words."""
    if result.score is None:
        return f"{result.status:<16}  no score"
    return f"{result.status:<16}  {result.score:g} of {result.max_points:g}"


def differences(old: Result, new: Result) -> list[str]:
    """Lists what another grading changes."""
    lines = []
    if old.status != new.status:
        lines.append(f"status {old.status} -> {new.status}")
    before = {one.exercise: one for one in old.exercises}
    for one in new.exercises:
        was = before.get(one.exercise)
        if was is None or (was.points, was.outcome) != (one.points, one.outcome):
            text = f"{was.outcome}, {was.points:g}" if was else "not there"
            lines.append(f"{one.exercise}: {text} -> {one.outcome}, {one.points:g}")
    return lines


def closing(results: Iterable[Result], number: int, say: Callable[[str], None]) -> int:
    """Says how often each of the five statuses came; returns the exit status."""
    counts = collections.Counter(result.status for result in results)
    say("\n" + "\n".join(f"{status:<16}  {counts[status]:>5}" for status in Status))
    say(f"{'total':<16}  {counts.total():>5}")
    if counts.total() != number:
        say(f"Of {number} submissions {number - counts.total()} have no status.")
    if counts[Status.NEEDS_REVIEW]:
        say("A person must decide about NEEDS_REVIEW: see `explain`, enter scores in")
        say("the formgrader (jupyter lab, menu Nbgrader) under Manual Grading.")
    if counts[Status.INFRA_ERROR]:
        say("INFRA_ERROR is a fault of this machine: mend it and run `grade` again.")
    broken = counts.total() != number or counts[Status.INFRA_ERROR]
    return 1 if broken else 0
