"""Explains a grade: by what, when, and what each check observed."""

from __future__ import annotations

from pathlib import Path

from grader.authoring.release import names_lesson
from grader.classroom import gradebook
from grader.classroom.folder import Classroom
from grader.classroom.publishing import with_given_points
from grader.pages.terminal import plain_card, summary, table
from grader.results import Status


def explain(folder: Path, student: str, lesson: str) -> int:
    """Prints it; ValueError: no such submission, or not graded yet."""
    classroom = Classroom(folder)
    for submission in classroom.submissions():
        if submission.student == student and names_lesson(lesson, submission.lesson):
            break
    else:
        raise ValueError(
            f'"{student}" submitted nothing for "{lesson}" in {classroom.folder}.'
        )
    record = classroom.published(submission)
    if record is None:
        raise ValueError(f"{submission} is not graded yet: run `grade`.")
    final = with_given_points(classroom, submission, record.result)
    print(f"{submission}: {summary(final)}")
    for name in ("note", "reason", "limit"):
        for line in getattr(record.result, f"{name}s"):
            print(f"{name}: {line}")
    print("\n" + table(final).rstrip())
    for one in record.result.exercises:
        print("\n" + plain_card(one))
    for exercise, one in gradebook.scores_of(classroom, submission).items():
        if one.by_hand:
            given = "none" if one.manual is None else f"{one.manual:g}"
            extra = f", extra credit {one.extra:g}" if one.extra else ""
            print(f"by a person: {exercise}: {given}{extra}")
    print(f"\nresult {record.key}")
    for name, value in sorted(record.hashes.items()):
        print(f"  {name:<11}{value}")
    for entry in classroom.store.log_entries(student=student, lesson=submission.lesson):
        status, points = entry.get("status", ""), entry.get("points", "")
        if status in (Status.NEEDS_REVIEW, Status.INFRA_ERROR):
            points = ""
        facts = f"{status} {points}".strip(), entry.get("key", "")[:12]
        print(f"  {entry['at']}  {entry['event']:<9}{'  '.join(facts)}".rstrip())
    return 0
