"""Removes everything that is kept about learners."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from grader.classroom import gradebook
from grader.classroom.folder import Classroom, Submission
from grader.classroom.lateness import Lateness
from grader.classroom.roster import remove_name


def purge(folder: Path, students: Sequence[str], *, apply: bool = False) -> int:
    """Removes everything that is kept about learners, or lists what it would remove.

    The log keeps its lines, which hold ids and hashes and nothing else about a person.

    Raises:
        ValueError: nothing is kept about a learner.
    """
    classroom = Classroom(folder)
    verb = "removed" if apply else "would remove"
    with classroom.store.writing():
        names = classroom.names()
        for student in map(classroom.student_named, students):
            classroom.refuse_unknown(student)
            if apply:  # while the roster still knows who the learner is
                Lateness(classroom).remove(student)
            for path in paths_of(classroom, student):
                print(f"{verb} {path}")
                if apply:
                    remove(path)
            name = names.get(student, "")
            print(f"{verb} scores and name of {student}{f' ({name})' * bool(name)}")
            if apply:
                gradebook.remove_student(classroom, student)
                remove_name(classroom.roster, student)
                classroom.store.add_to_log("purged", student=student)
    print("The log grading/audit.jsonl keeps ids; downloads and backups are yours.")
    if not apply:
        print("Nothing was removed. To do it: the same command with --apply.")
    return 0


def paths_of(classroom: Classroom, student: str) -> list[Path]:
    """Lists the files and folders that hold a learner's data.

    All class reports, exports and archives of feedback are among them: the next
    `grade`, `export` and `return` write them anew.
    """
    paths, keys, others_keys = [], set(), {""}
    for one in classroom.submissions():
        if one.student == student:
            paths.append(classroom.published_path(one))
            paths.append(classroom.received_path(one))
            paths.append(classroom.earlier_path(one))
            keys |= keys_of(classroom, one)
        else:
            others_keys |= keys_of(classroom, one)
    # Two learners who submitted the same bytes share a result.
    paths += map(classroom.store.path, sorted(keys - others_keys))
    for kind in ("submitted", "autograded", "feedback"):
        paths.append(classroom.path(kind, student, "."))
    grading = classroom.folder / "grading"
    for written in ("report/*.html", "grades*.csv", "feedback*.zip"):
        paths += sorted(grading.glob(written))
    return [path for path in paths if path.exists()]


def keys_of(classroom: Classroom, submission: Submission) -> set[str]:
    """Lists the results of a learner's files for a lesson."""
    now = classroom.publication(submission)
    return {now.key, now.better, now.unreadable}


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
