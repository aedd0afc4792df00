"""What a class's records say: why a grade, all grades as a file, and forgetting."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from grader.authoring.notebook import names_lesson
from grader.classroom import gradebook
from grader.classroom.exports import Grade, write_canvas, write_csv, write_moodle
from grader.classroom.folder import Classroom, Submission
from grader.classroom.publishing import decided, marker, published_key, records
from grader.classroom.roster import remove_name
from grader.pages.terminal import summary, table
from grader.results import Record, Status

FORMATS = {"csv": write_csv, "canvas": write_canvas, "moodle": write_moodle}
ROOM = 40  # characters of a message; the table cuts longer ones
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
        if len(one.message) > ROOM:
            say(f"  {one.exercise}  message: {one.message}")
        for row, text in one.details:
            say(f"  {one.exercise}  {row}: {text}")
    marks = marks_of(classroom, submission)
    for exercise, mark in marks.items():
        if mark.manual is not None or mark.extra:
            given = "none" if mark.manual is None else f"{mark.manual:g}"
            extra = f", extra credit {mark.extra:g}" if mark.extra else ""
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


def export(
    folder: Path, kind: str = "csv", to: Path | None = None, *, say: Say = print
) -> int:
    """Writes all grades as CSV, or for Canvas or Moodle; marks by people included.

    Raises:
        ValueError: an unknown format.
    """
    if kind not in FORMATS:
        raise ValueError(f'No format "{kind}": choose {", ".join(FORMATS)}.')
    classroom = Classroom(folder)
    name = "grades.csv" if kind == "csv" else f"grades-{kind}.csv"
    path = to or classroom.folder / "grading" / name
    open_ones = []
    grades = []
    for submission, record in records(classroom):
        if record is None:
            open_ones.append(submission)
        else:
            grades.append(grade_of(classroom, submission, record))
    written = FORMATS[kind](path, grades, classroom.names())
    for place in written or [path]:
        say(f"wrote {place}: {len(grades)} grades")
    for grade in grades:
        if grade.score is None:
            who = f"{grade.student} {grade.lesson}"
            say(f"without a score: {who} ({grade.status}: see `explain`)")
    for submission in open_ones:
        say(f"not in it: {submission} is not graded yet (run `grade`)")
    return 1 if open_ones else 0


def grade_of(classroom: Classroom, submission: Submission, record: Record) -> Grade:
    """Joins the result and the marks that people gave: theirs count before ours."""
    result = record.result
    marks = marks_of(classroom, submission)
    scores = [mark.score for mark in marks.values()]
    decided = scores and None not in scores
    by_hand = any(mark.manual is not None or mark.extra for mark in marks.values())
    score = sum(scores) if decided else result.score
    note = "; ".join([*result.notes, *(["marked by a person"] if by_hand else [])])
    if result.status is Status.STUDENT_ERROR:
        note = "; ".join([*result.reasons, note]).strip("; ")
    return Grade(
        student=submission.student,
        lesson=submission.lesson,
        status=result.status,
        score=score,
        max_score=result.max_points,
        note=note,
    )


def marks_of(
    classroom: Classroom, submission: Submission
) -> Mapping[str, gradebook.Mark]:
    """Reads a submission's marks from the gradebook."""
    place = (submission.lesson, submission.student)
    return gradebook.marks_of(classroom.db_url, classroom.course_id, *place)


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
            say(f"{verb} marks and name of {student}")
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
