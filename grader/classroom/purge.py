"""Removes everything that is kept about learners."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from grader.classroom import gradebook
from grader.classroom.folder import Classroom
from grader.classroom.publishing import marker, published_key
from grader.classroom.roster import remove_name

Say = Callable[[str], None]


def purge(
    folder: Path,
    students: Sequence[str],
    *,
    now: str,
    apply: bool = False,
    say: Say = print,
) -> int:
    """Removes everything that is kept about learners, or lists what it would remove.

    The log keeps its lines, which hold ids and hashes and nothing else of a person.

    Raises:
        ValueError: a learner of whom nothing is kept.
    """
    classroom = Classroom(folder)
    with classroom.store.writing():
        submissions = classroom.submissions()
        known = {s.student for s in submissions} | set(classroom.names())
        for student in students:
            if student not in known:
                raise ValueError(f'Nothing is kept about "{student}".')
            own = [s for s in submissions if s.student == student]
            others = [s for s in submissions if s.student != student]
            keys = {published_key(classroom, s) for s in own} - {""}
            # Two learners who handed in the same bytes share a result.
            keys -= {published_key(classroom, s) for s in others}
            places = [
                *(marker(classroom, s) for s in own),
                *(classroom.store.path(key) for key in sorted(keys)),
                *learner_folders(classroom, student),
                *pages_with(classroom, student),
            ]
            verb = "removed" if apply else "would remove"
            for path in places:
                say(f"{verb} {path}")
                if apply:
                    remove(path)
            say(f"{verb} scores and name of {student}")
            if apply:
                gradebook.remove_student(classroom.db_url, classroom.course_id, student)
                remove_name(classroom.roster, student)
                classroom.store.record("purged", now, student=student)
    say("The log grading/audit.jsonl keeps ids; downloads and backups are yours.")
    if not apply:
        say("Nothing was removed. To do it: the same command with --apply.")
    return 0


def learner_folders(classroom: Classroom, student: str) -> list[Path]:
    """Lists a learner's folders in the class."""
    kinds = ("submitted", "autograded", "feedback")
    folders = (classroom.path(kind, student, ".").parent / student for kind in kinds)
    return [path for path in folders if path.exists()]


def pages_with(classroom: Classroom, student: str) -> list[Path]:
    """Lists class reports and exports that name a learner.

    The next `grade` and `export` write them anew.
    """
    folder = classroom.folder / "grading"
    pages = [*folder.glob("report/*.html"), *folder.glob("grades*.csv")]
    return sorted(page for page in pages if student in page.read_text(encoding="utf-8"))


def remove(path: Path) -> None:
    """Removes a file or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
