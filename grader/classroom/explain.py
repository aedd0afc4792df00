"""Explains a grade: by what, when, and what each check observed."""

from __future__ import annotations

from pathlib import Path

from grader.classroom.folder import Classroom
from grader.classroom.publishing import final_result_of
from grader.pages.terminal import plain_card, summary, table
from grader.results import Status


def explain(folder: Path, student: str, lesson: str) -> int:
    """Prints why; ValueError: no such submission, or not graded yet."""
    classroom = Classroom(folder)
    [submission] = classroom.submissions(lesson, [student])
    record = classroom.published(submission)
    if record is None:
        raise ValueError(f"{submission} is not graded yet: run `grade`.")
    final = final_result_of(classroom, submission)
    name = classroom.names().get(submission.student, "")
    print(f"{submission}{f' ({name})' * bool(name)}: {summary(final)}")
    for name in ("note", "reason", "limit"):
        for line in getattr(record.result, f"{name}s"):
            print(f"{name}: {line}")
    print("\n" + table(final).rstrip())
    for one in record.result.exercises:
        print("\n" + plain_card(one))
    for line in final.remarks:
        print(f"\n{line}")
    print(f"\nresult {record.key}")
    for name, value in sorted(record.hashes.items()):
        print(f"  {name:<11}{value}")
    place = {"student": submission.student, "lesson": submission.lesson}
    for entry in classroom.store.log_entries(**place):
        status, points = entry.get("status", ""), entry.get("points", "")
        if status in (Status.NEEDS_REVIEW, Status.INFRA_ERROR):
            points = ""
        facts = f"{status} {points}".strip(), entry.get("key", "")[:12]
        print(f"  {entry['at']}  {entry['event']:<9}{'  '.join(facts)}".rstrip())
    return 0
