"""Grades a class: collects, grades what is new or changed, saves and publishes it."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tqdm import tqdm

from grader.classroom import gradebook
from grader.classroom.folder import CONFIG, Classroom, Submission
from grader.classroom.publishing import (
    publish,
    publish_reports,
    save,
    with_given_points,
)
from grader.classroom.roster import add_names
from grader.containment.limits import Limits
from grader.pages.terminal import differences, print_statuses, summary
from grader.results import Result
from grader.submissions.collecting import collect
from grader.workers.cache_key import lesson_hashes
from grader.workers.executor import grade_jobs, open_executor
from grader.workers.jobs import FinishedJob, Job, infra_error, job_of


def grade(
    folder: Path,
    downloads: Sequence[Path] = (),
    *,
    workers: int = 0,
    limits: Limits | None = None,
    trusted: bool = False,
    scheduler: str = "",
) -> int:
    """Grades everything submitted that has no result yet; returns the exit status.

    `folder` is a course folder, or an LMS download, for which one is made beside it.

    Raises:
        ValueError, ContainmentError, StoreError, GradebookError: with the remedy.
    """
    limits = limits or Limits()
    classroom, downloads = open_or_make(folder, downloads)
    with classroom.store.writing(), contextlib.ExitStack() as stack:
        classroom.names()  # a damaged roster is reported before any file is placed
        collected = collect(downloads, classroom.folder, [*classroom.lessons])
        add_names(classroom.roster, collected.names)
        if downloads:
            print(collected.summary)
        for line in [*collected.problems, *classroom.unknown_folders()]:
            print(f"left alone: {line}")
        jobs = read_jobs(classroom, classroom.submissions(), limits)
        found = [(job, classroom.store.get(job.key)) for job in jobs]
        todo = [job for job, record in found if not record]
        stored = [FinishedJob(job, record) for job, record in found if record]
        results = {jobs[one.job]: one.record.result for one in stored}
        finished = [
            one
            for one in stored
            if classroom.published_key(jobs[one.job]) != one.record.key
        ]
        count = f"{len(jobs)} submissions: {len(stored)} graded before"
        to_grade = "0 to grade."
        if todo:
            options = {"most": len(todo), "workers": workers, "trusted": trusted}
            executor = stack.enter_context(
                open_executor(classroom.lessons, limits, scheduler, **options)
            )
            to_grade = f"{len(todo)} to grade {executor.description}."
            graded = with_progress(grade_jobs(executor, todo), len(todo))
            finished = itertools.chain(finished, graded)
        gradebook.add_lessons(classroom)
        print(f"{count}, {to_grade}")
        for one in finished:
            submission = jobs[one.job]
            results[submission] = finish(classroom, submission, one)
        publish_reports(classroom)
        final = [with_given_points(classroom, s, r) for s, r in results.items()]
        print(f"\nFeedback: {classroom.folder / 'feedback'}")
        print(f"Reports:  {classroom.folder / 'grading' / 'report'}")
    return print_statuses(final, len(jobs))


def open_or_make(
    folder: Path, downloads: Sequence[Path]
) -> tuple[Classroom, Sequence[Path]]:
    """Opens a course folder, or makes one beside an LMS download."""
    if not folder.exists():
        raise ValueError(f"{folder} does not exist.")
    if (folder / CONFIG).is_file():
        return Classroom(folder), downloads
    course_folder = folder.resolve().with_name(f"{folder.resolve().stem}-graded")
    if not (course_folder / CONFIG).is_file():
        from grader.classroom import course  # imports all that authors need

        course.make_course(course_folder)
        print(f"{folder} is a download: its class is kept in {course_folder}.")
    return Classroom(course_folder), [folder, *downloads]


def read_jobs(
    classroom: Classroom, submissions: Iterable[Submission], limits: Limits
) -> dict[Job, Submission]:
    hashes = {
        name: lesson_hashes(lesson, limits)
        for name, lesson in classroom.lessons.items()
    }
    return {
        job_of(s.student, s.lesson, s.folder, hashes[s.lesson]): s for s in submissions
    }


def with_progress(finished: Iterable[FinishedJob], total: int) -> Iterable[FinishedJob]:
    return tqdm(finished, total=total, unit="submission", disable=None, file=sys.stderr)


def finish(classroom: Classroom, submission: Submission, one: FinishedJob) -> Result:
    """Saves a result, then publishes it, then reports it."""
    if one.record:
        result, seconds = one.record.result, f"{one.record.seconds:6.1f} s"
        earlier = classroom.published(submission)
        save(classroom, submission, one.record)
        for line in differences(earlier.result, result) if earlier else ():
            tqdm.write(f"{submission}: {line}")
        publish(classroom, submission, one.record)
    else:
        lesson = classroom.lessons[submission.lesson]
        result, seconds = infra_error(one.job, lesson, one.error), ""
        place = {"student": submission.student, "lesson": submission.lesson}
        classroom.store.add_to_log("failed", **place, error=one.error)
    tqdm.write(f"{submission}  {summary(result)}  {seconds}")
    for reason in result.reasons:
        tqdm.write(f"    {reason}")
    return result


def regrade(
    folder: Path,
    students: Sequence[str] = (),
    *,
    workers: int = 0,
    limits: Limits | None = None,
    trusted: bool = False,
    scheduler: str = "",
    apply: bool = False,
) -> int:
    """Grades again what has a result, and lists each difference before it applies any.

    Raises:
        ValueError: a learner without a submission.
    """
    limits, classroom = limits or Limits(), Classroom(folder)
    chosen = [
        s for s in classroom.submissions() if not students or s.student in students
    ]
    for student in set(students) - {s.student for s in chosen}:
        raise ValueError(f'"{student}" submitted nothing in {classroom.folder}.')
    with classroom.store.writing():
        jobs = read_jobs(classroom, chosen, limits)
        options = {"most": len(jobs), "workers": workers, "trusted": trusted}
        with open_executor(classroom.lessons, limits, scheduler, **options) as executor:
            gradebook.add_lessons(classroom)
            finished = with_progress(grade_jobs(executor, list(jobs)), len(jobs))
            graded = {jobs[one.job]: one for one in finished}
        num_changed = 0
        for submission, one in sorted(graded.items()):
            earlier = classroom.published(submission)
            if one.record is None:
                print(f"{submission}: {one.error}")
            elif earlier is None:
                print(f"{submission}: not graded before: {summary(one.record.result)}")
            else:
                lines = differences(earlier.result, one.record.result)
                num_changed += bool(lines)
                for line in lines:
                    print(f"{submission}: {line}")
        print(f"{len(graded)} graded again, {num_changed} differ.")
        if apply:
            for submission, one in graded.items():
                if one.record:
                    save(classroom, submission, one.record, "regraded")
                    publish(classroom, submission, one.record)
            publish_reports(classroom)
        else:
            print("Nothing was written. To apply this: the same command with --apply.")
    return 1 if any(one.record is None for one in graded.values()) else 0
