"""Explains a grade: by what, when, and what each check observed."""

from __future__ import annotations

import datetime
from pathlib import Path

from grader.classroom.folder import Classroom
from grader.classroom.publishing import final_result_of
from grader.pages.terminal import plain_card, summary, table


def explain(folder: Path, student: str, lesson: str) -> int:
    """Prints why a learner has this grade, statement by statement.

    Raises:
        ValueError: there is no such submission, or it is not graded yet.
    """
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
        facts = [entry.get(name) for name in ("status", "score", "key")]
        shown = "  ".join(str(one)[:20] for one in facts if one is not None)
        at = classroom.time_text(datetime.datetime.fromisoformat(entry["at"]))
        print(f"  {at}  {entry['event']:<9}{shown}".rstrip())
    return 0
