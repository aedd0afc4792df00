"""Writes results as lines, tables and cards for a terminal."""

from __future__ import annotations

import collections
import textwrap
from collections.abc import Iterable, Iterator

from coursekit.card import text_card, total
from coursekit.i18n import translated
from coursekit.outcomes import BROKEN
from grader.pages.wording import points_of
from grader.results import ExerciseResult, Outcome, Result, Status


def table(result: Result, width: int = 100) -> str:
    """Writes a result as a table: exercise, outcome, points, what went wrong."""
    rows = [("exercise", "outcome", "points", "")]
    for one in result.exercises:
        points = points_of(one.points, one.max_points)
        rows.append((one.exercise, str(one.outcome), points, translated(one.message)))
    points = total(result.points, result.bonus, result.max_points)
    rows.append(("total", "", points, ""))
    sizes = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [result.lesson]
    for *cells, message in rows:
        start = "  ".join(map(str.ljust, cells, sizes))
        room = max(20, width - len(start) - 2)
        short = textwrap.shorten(message, room, placeholder=" ...")
        lines.append(f"{start}  {short}".rstrip())
    return "\n".join(lines) + "\n"


def plain_card(one: ExerciseResult) -> str:
    """Writes an exercise's card, as its learner knows it from the notebook."""
    return text_card(one.verdict, points=one.worth, is_bonus=one.is_bonus)


def cards_of_failures(result: Result) -> list[str]:
    """Writes the cards of what was tried and is not right."""
    skipped = (Outcome.PASSED, Outcome.NOT_ATTEMPTED)
    return [plain_card(one) for one in result.exercises if one.outcome not in skipped]


def summary(result: Result) -> str:
    if result.score is None:
        return f"{result.status:<16}  no score"
    score = total(result.score, result.bonus, result.max_points)
    return f"{result.status:<16}  {score}"


def differences(old: Result, new: Result) -> list[str]:
    lines = []
    if old.status != new.status:
        lines.append(f"status {old.status} -> {new.status}")
    before = {one.exercise: one for one in old.exercises}
    for one in new.exercises:
        was = before.get(one.exercise)
        if was is None or facts_of(was) != facts_of(one):
            text = f"{was.outcome}, {was.points:g}" if was else "not there"
            why = "; ".join(dict.fromkeys(faults_of(one)))
            now = f"{one.outcome}, {one.points:g}{f' ({why})' * bool(why)}"
            lines.append(f"{one.exercise}: {text} -> {now}")
    return lines


def facts_of(one: ExerciseResult) -> tuple[float, Outcome, bool]:
    return one.points, one.outcome, one.has_broken_check


def faults_of(one: ExerciseResult) -> Iterator[str]:
    """Yields why an exercise's check failed by itself."""
    if one.outcome is Outcome.BROKEN:
        yield one.message
    for statement in one.statements:
        if statement.standing == BROKEN:
            yield statement.headline


def print_statuses(results: Iterable[Result], num_submissions: int) -> int:
    """Prints how many submissions have each status; returns the exit status."""
    counts = collections.Counter(result.status for result in results)
    print("\n" + "\n".join(f"{status:<16}  {counts[status]:>5}" for status in Status))
    print(f"{'total':<16}  {counts.total():>5}")
    num_lost = num_submissions - counts.total()
    if num_lost:
        print(f"{num_lost} of {num_submissions} submissions have no status.")
    if counts[Status.NEEDS_REVIEW]:
        print("A person must decide about NEEDS_REVIEW: see `explain`, enter scores in")
        print("the formgrader (jupyter lab, menu Nbgrader) under Manual Grading.")
    if counts[Status.INFRA_ERROR]:
        print("INFRA_ERROR is a fault of this machine: fix it and run `grade` again.")
    return 1 if num_lost or counts[Status.INFRA_ERROR] else 0
