"""Grades a class: collects, grades what is new or changed, saves and publishes it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tqdm import tqdm

from grader.classroom import gradebook
from grader.classroom.course import make_course
from grader.classroom.folder import Classroom, Submission
from grader.classroom.publishing import (
    decided,
    is_published,
    publish,
    publish_reports,
    published_key,
)
from grader.classroom.roster import add_names
from grader.classroom.store import Store
from grader.containment.limits import Limits
from grader.containment.temp_dirs import remove_left_folders
from grader.pages.terminal import closing, differences, summary
from grader.results import Record, Result
from grader.submissions.collecting import collect
from grader.workers.cache_key import lesson_hashes
from grader.workers.executor import grade_jobs
from grader.workers.jobs import FinishedJob, Job, infra_error, job_of
from grader.workers.opening import open_executor

Say = Callable[[str], None]


def grade(
    folder: Path,
    downloads: Sequence[Path] = (),
    *,
    now: str,
    workers: int = 0,
    limits: Limits | None = None,
    trusted: bool = False,
    scheduler: str = "",
    say: Say = print,
) -> int:
    """Grades everything submitted that has no result yet; returns the exit status.

    `folder` is a course folder, or an LMS download, for which one is made beside it.

    Raises:
        ValueError, ContainmentError, StoreError, GradebookError: with the remedy.
    """
    limits = limits or Limits()
    classroom, downloads = open_or_make(folder, downloads, say)
    with classroom.store.writing():
        classroom.names()  # a damaged roster is told before any file is placed
        collected = collect(downloads, classroom.folder, classroom.lessons)
        add_names(classroom.roster, collected.names)
        for line in [*collected.problems, *classroom.strays()]:
            say(f"left alone: {line}")
        work = jobs(classroom, classroom.submissions(), limits)
        ready, todo = split(list(work), classroom.store)
        done = f"{len(work)} submissions: {len(ready)} graded before"
        results = {work[job]: record.result for job, record in ready}
        kept = [
            one for one in ready if not is_published(classroom, work[one[0]], one[1])
        ]
        if todo:
            remove_left_folders()
            how = {"most": len(todo), "workers": workers, "trusted": trusted}
            with open_executor(classroom.solved, limits, scheduler, **how) as executor:
                say(f"{done}, {len(todo)} to grade {executor.description}.")
                found = grade_jobs(executor, todo)
                enter(classroom)  # while the first are graded
                for one in progress(found, len(todo)):
                    finished(classroom, work[one.job], one, now, results)
        else:
            say(f"{done}, 0 to grade.")
            if kept:
                enter(classroom)
        for job, record in kept:
            show(classroom, work[job], record, now)
            tqdm.write(f"{work[job]}  {summary(record.result)}  graded before")
        publish_reports(classroom)
        results = {s: decided(classroom, s, result) for s, result in results.items()}
        say(f"\nFeedback: {classroom.folder / 'feedback'}")
        say(f"Reports:  {classroom.folder / 'grading' / 'report'}")
    return closing(results.values(), len(work), say)


def jobs(
    classroom: Classroom, submissions: Iterable[Submission], limits: Limits
) -> dict[Job, Submission]:
    """Reads submissions: {job: submission}."""
    hashes = {
        name: lesson_hashes(classroom.lesson(name), limits)
        for name in classroom.lessons
    }
    return {
        job_of(s.student, s.lesson, s.folder, hashes[s.lesson]): s for s in submissions
    }


def finished(
    classroom: Classroom,
    submission: Submission,
    one: FinishedJob,
    now: str,
    results: dict[Submission, Result],
) -> None:
    """Keeps a result, then shows it, then tells about it."""
    store, facts = classroom.store, {"student": submission.student}
    facts["lesson"] = submission.lesson
    if one.record is None:
        result = infra_error(one.job, classroom.lesson(submission.lesson), one.error)
        store.record("failed", now, **facts, error=one.error)
    else:
        result = one.record.result
        store.put(one.record)
        show(classroom, submission, one.record, now)
    results[submission] = result
    seconds = f"{one.record.seconds:6.1f} s" if one.record else ""
    tqdm.write(f"{submission}  {summary(result)}  {seconds}")
    for reason in result.reasons:
        tqdm.write(f"    {reason}")


def show(
    classroom: Classroom, submission: Submission, record: Record, now: str
) -> None:
    """Lists what a kept result changes, then enters it everywhere."""
    earlier = classroom.store.get(published_key(classroom, submission))
    for line in differences(earlier.result, record.result) if earlier else ():
        tqdm.write(f"{submission}: {line}")
    record_grade(classroom, "graded", now, submission, record)
    publish(classroom, submission, record)


def record_grade(
    classroom: Classroom, event: str, now: str, submission: Submission, record: Record
) -> None:
    """Adds to the log what was graded, by what, when, and how."""
    classroom.store.record(
        event,
        now,
        student=submission.student,
        lesson=submission.lesson,
        key=record.key,
        hashes=dict(record.hashes),
        status=record.result.status,
        points=record.result.points,
        seconds=round(record.seconds, 2),
        used=dict(record.used),
    )


def regrade(
    folder: Path,
    students: Sequence[str] = (),
    *,
    now: str,
    workers: int = 0,
    limits: Limits | None = None,
    trusted: bool = False,
    scheduler: str = "",
    apply: bool = False,
    say: Say = print,
) -> int:
    """Grades again what has a result, and lists each difference before it applies any.

    Raises:
        ValueError: a learner without a submission.
    """
    limits, classroom = limits or Limits(), Classroom(folder)
    chosen = [
        s for s in classroom.submissions() if s.student in (students or [s.student])
    ]
    for student in set(students) - {s.student for s in chosen}:
        raise ValueError(f'"{student}" handed in nothing in {classroom.folder}.')
    with classroom.store.writing():
        work = jobs(classroom, chosen, limits)
        how = {"most": len(work), "workers": workers, "trusted": trusted}
        with open_executor(classroom.solved, limits, scheduler, **how) as executor:
            found = grade_jobs(executor, list(work))
            enter(classroom)
            graded = list(progress(found, len(work)))
        changed = 0
        for one in sorted(graded, key=lambda one: work[one.job]):
            earlier = classroom.store.get(published_key(classroom, work[one.job]))
            if one.record is None:
                say(f"{work[one.job]}: {one.error}")
            elif earlier is None:
                say(f"{work[one.job]}: not graded before: {summary(one.record.result)}")
            else:
                lines = differences(earlier.result, one.record.result)
                changed += bool(lines)
                for line in lines:
                    say(f"{work[one.job]}: {line}")
        say(f"{len(graded)} graded again, {changed} differ.")
        if not apply:
            say("Nothing was written. To apply this: the same command with --apply.")
        for one in graded if apply else ():
            if one.record:
                classroom.store.put(one.record)
                record_grade(classroom, "regraded", now, work[one.job], one.record)
                publish(classroom, work[one.job], one.record)
        if apply:
            publish_reports(classroom)
    return 1 if any(one.record is None for one in graded) else 0


def progress(items: Iterable, total: int):
    """Shows a progress bar while `items` come in."""
    return tqdm(items, total=total, unit="submission", disable=None, file=sys.stderr)


def open_or_make(
    folder: Path, downloads: Sequence[Path], say: Say
) -> tuple[Classroom, list[Path]]:
    """Opens a course folder, or makes one beside an LMS download."""
    if not folder.exists():
        raise ValueError(f"{folder} does not exist.")
    if (folder / "nbgrader_config.py").is_file():
        return Classroom(folder), list(downloads)
    course = folder.resolve().with_name(f"{folder.resolve().stem}-graded")
    if not (course / "nbgrader_config.py").is_file():
        make_course(course)
        say(f"{folder} is a download: its class is kept in {course}.")
    return Classroom(course), [folder, *downloads]


def enter(classroom: Classroom) -> None:
    """Enters all lessons into the gradebook.

    Raises:
        GradebookError: it refuses.
    """
    for name, lesson in classroom.solved.items():
        gradebook.ensure_lesson(classroom.db_url, classroom.course_id, name, lesson)


def split(
    jobs: Sequence[Job], store: Store
) -> tuple[list[tuple[Job, Record]], list[Job]]:
    """Parts jobs whose results are in the store from those that must be graded."""
    found = [(job, store.get(job.key)) for job in jobs]
    ready = [(job, record) for job, record in found if record]
    return ready, [job for job, record in found if not record]
