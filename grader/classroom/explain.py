"""Explains a grade: by what, when, and what each check saw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from grader.authoring.release import names_lesson
from grader.classroom import gradebook
from grader.classroom.folder import Classroom
from grader.classroom.publishing import decided, published_key
from grader.pages.cards import plain_card
from grader.pages.terminal import summary, table
from grader.results import Status

Say = Callable[[str], None]


def explain(folder: Path, student: str, lesson: str, *, say: Say = print) -> int:
    """Says why a learner has this grade: by what, when, what each check saw.

    Raises:
        ValueError: no such submission, or not graded yet.
    """
    classroom = Classroom(folder)
    found = [
        s
        for s in classroom.submissions()
        if s.student == student and names_lesson(lesson, s.lesson)
    ]
    if not found:
        raise ValueError(
            f'"{student}" handed in nothing for "{lesson}" in {classroom.folder}.'
        )
    [submission] = found
    record = classroom.store.get(published_key(classroom, submission))
    if record is None:
        raise ValueError(f"{submission} is not graded yet: run `grade`.")
    counts = decided(classroom, submission, record.result)
    say(f"{submission}: {summary(counts)}")
    for name, lines in (
        ("note", record.result.notes),
        ("reason", record.result.reasons),
        ("limit", record.result.limits),
    ):
        for line in lines:
            say(f"{name}: {line}")
    say("\n" + table(counts).rstrip())
    for one in record.result.exercises:
        say("\n" + plain_card(one))
    scores = gradebook.scores_of(
        classroom.db_url, classroom.course_id, submission.lesson, submission.student
    )
    for exercise, one in scores.items():
        if one.manual is not None or one.extra:
            given = "none" if one.manual is None else f"{one.manual:g}"
            extra = f", extra credit {one.extra:g}" if one.extra else ""
            say(f"by a person: {exercise}: {given}{extra}")
    say(f"\nresult {record.key}")
    for name, value in sorted(record.hashes.items()):
        say(f"  {name:<11}{value}")
    for entry in classroom.store.history(student, submission.lesson):
        what = entry.get("status", "")
        if what not in (Status.NEEDS_REVIEW, Status.INFRA_ERROR):
            what = f"{what} {entry.get('points', '')}".strip()
        key = entry.get("key", "")[:12]
        say(f"  {entry['at']}  {entry['event']:<9}{what}  {key}".rstrip())
    return 0
