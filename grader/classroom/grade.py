"""Grades a class: collects, grades what is new or changed, saves and publishes it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from grader.atomic_files import write
from grader.classroom import gradebook
from grader.classroom.folder import Classroom, Submission
from grader.classroom.lateness import (
    Lateness,
    remember_earlier,
    time_of_version,
    write_time,
)
from grader.classroom.publishing import (
    publish,
    publish_reports,
    save,
    stays,
    with_progress,
)
from grader.classroom.roster import add_names, ids_known, strangers
from grader.containment.limits import Limits
from grader.lessons.release import checks, points_for, with_check_of
from grader.pages.terminal import differences, print_statuses, summary
from grader.results import Outcome, Record, Result
from grader.submissions.collecting import Collection, collect
from grader.workers.cache_key import lesson_hashes, without_check
from grader.workers.executor import Executor, grade_jobs, open_executor
from grader.workers.jobs import FinishedJob, Job, infra_error, job_of

POINTS_SHOWN = re.compile(r"(?m)^check\(.*\bpoints\s*=\s*([\d.]+)")


def grade(
    folder: Path,
    downloads: Sequence[Path] = (),
    *,
    section: str = "",
    workers: int = 0,
    limits: Limits | None = None,
    trusted: bool = False,
    scheduler: str = "",
) -> int:
    """Grades everything submitted that has no result yet; returns the exit status.

    With a `section`, only what learners in it submitted; all that came in is collected.

    Raises:
        ValueError, CourseError: with the remedy.
    """
    limits = limits or Limits()
    classroom = Classroom(folder)
    with classroom.store.writing(), contextlib.ExitStack() as stack:
        classroom.names()  # a damaged table is reported before all else
        extensions = Lateness(classroom).extensions
        collected = collect_all(classroom, downloads)
        for line in [*collected.problems, *classroom.unknown_folders()]:
            was_taken = line in collected.problems and line not in collected.left
            print(f"{'note: ' if was_taken else 'left alone: '}{line}")
        for line in points_in_doubt(classroom):
            print(f"note: {line}")
        submissions = classroom.submissions(section=section)
        submitted = {(one.student, one.lesson) for one in submissions}
        for student, lesson in sorted(extensions.keys() - submitted):
            if section and student not in classroom.members(section):
                continue
            until = classroom.time_text(extensions[student, lesson])
            print(f"extended, but not submitted: {student} {lesson} until {until}")
        jobs = read_jobs(classroom, submissions, limits)
        todo, finished, known, new, failed = [], [], set(), set(), {}
        for job, submission in jobs.items():
            now = classroom.publication(submission)
            record = classroom.store.get(job.key)
            if not record:
                todo.append(job)
            elif job.key in (now.key, now.unreadable):
                known.add(submission)
            else:
                finished.append(FinishedJob(job, record))
        count = f"{len(jobs)} submissions: {len(jobs) - len(todo)} graded before"
        to_grade = "0 to grade."
        if todo:
            options = {"most": len(todo), "workers": workers, "trusted": trusted}
            executor = stack.enter_context(
                open_executor(classroom.lessons, limits, scheduler, **options)
            )
            to_grade = f"{len(todo)} to grade {executor.description}."
            finished = itertools.chain(finished, graded(executor, todo))
        gradebook.add_lessons(classroom)
        gradebook.add_students(classroom)
        for lesson, due in gradebook.due_dates(classroom).items():
            if lesson not in classroom.lessons:
                print(
                    f'note: nbgrader has an assignment "{lesson}", which is no lesson '
                    "of this class. If its name is misspelled: nbgrader db assignment "
                    f"remove {lesson}"
                )
            elif due:
                print(f"due: {lesson} {classroom.time_text(due)}")
        print(f"{count}, {to_grade}", flush=True)
        for one in finished:
            submission = jobs[one.job]
            new.add(submission)
            result = finish(classroom, submission, one)
            if not one.record:
                failed[submission] = result
        final = publish_reports(classroom) | failed
        print(f"\nFeedback: {classroom.folder / 'feedback'}")
        print(f"Reports:  {classroom.folder / 'grading' / 'report'}")
    print_reviews(final)
    status = print_statuses(map(final.get, known | new), len(jobs))
    if downloads and not collected.placed:
        print("Nothing that you named was collected: see the lines at the top.")
        return 1
    return status


def collect_all(classroom: Classroom, downloads: Sequence[Path]) -> Collection:
    """Puts downloads into submitted/, with names and times."""
    placed = classroom.folder.glob("submitted/*/*/*.ipynb")
    before = {path: path.stat().st_ctime_ns for path in placed}
    submitted = {one.student for one in classroom.submissions()}
    known_as, known = ids_known(classroom.roster, submitted)
    lessons, ask = [*classroom.lessons], functools.partial(strangers, known)
    collected = collect(downloads, classroom.folder, lessons, known_as, ask)
    students = {student for student, _ in collected.placed}
    if guests := sorted(students - known) if known else []:
        collected.problems.append(f"not on the roster: {', '.join(guests)}")
    add_names(classroom.roster, collected.names)
    if downloads:
        print(collected.summary)
    for (student, lesson), version in collected.placed.items():
        path = classroom.folder / "submitted" / student / lesson / f"{lesson}.ipynb"
        if before.get(path) != path.stat().st_ctime_ns:  # else its time is known
            write_time(path, version.name, is_canvas=bool(version.number))
        submission = Submission(lesson, student, path.parent)
        write(classroom.received_path(submission), version.path)
        if others := collected.superseded.get((student, lesson)):
            files = [(time_of_version(one), one.path) for one in others]
            remember_earlier(classroom, submission, files)
    return collected


def points_in_doubt(classroom: Classroom) -> Iterator[str]:
    """Names the checks that show learners other points than those that count."""
    for lesson, notebook in classroom.lessons.items():
        for exercise, cell in checks(notebook).items():
            shown, counts = POINTS_SHOWN.search(cell.source), points_for(cell)
            if shown and float(shown[1]) != counts:
                yield (
                    f"{lesson}: the line of {exercise}'s check says points={shown[1]}, "
                    f"but its nbgrader metadata {counts:g}, which counts. Make them "
                    "equal in source/."
                )


def read_jobs(
    classroom: Classroom, submissions: Sequence[Submission], limits: Limits
) -> dict[Job, Submission]:
    hashes = {
        name: lesson_hashes(lesson, limits)
        for name, lesson in classroom.lessons.items()
    }
    return {
        job_of(s.student, s.lesson, s.folder, hashes[s.lesson]): s
        for s in with_progress(submissions, len(submissions), "file")
    }


def graded(executor: Executor, jobs: Sequence[Job]) -> Iterable[FinishedJob]:
    """Grades jobs, and shows from the first second on how far it is."""
    finished = grade_jobs(executor, jobs)
    return with_progress(finished, len(jobs), "submission", delay_s=0)


def finish(classroom: Classroom, submission: Submission, one: FinishedJob) -> Result:
    """Saves a result, then publishes it, then reports it."""
    if one.record:
        result, seconds = one.record.result, f"{one.record.seconds:6.1f} s"
        earlier = classroom.published(submission)
        save(classroom, submission, one.record)
        shown = publish(classroom, submission, one.record)
        if earlier and shown is one.record:
            for line in differences(earlier.result, result):
                tqdm.write(f"{submission}: {line}")
    else:
        lesson = classroom.lessons[submission.lesson]
        result, seconds = infra_error(one.job, lesson, one.error), ""
        place = {"student": submission.student, "lesson": submission.lesson}
        classroom.store.add_to_log("failed", **place, error=one.error)
    tqdm.write(f"{submission}  {summary(result)}  {seconds}")
    for reason in result.reasons:
        tqdm.write(f"    {reason}")
    return result


def print_reviews(results: Mapping[Submission, Result]) -> None:
    """Prints what a person should look at again although it has a score."""
    for submission, result in sorted(results.items()):
        for line in result.to_review:
            print(f"for a person: {submission}: {line}")


def regrade(
    folder: Path,
    students: Sequence[str] = (),
    *,
    lesson: str = "",
    section: str = "",
    exercise: str = "",
    workers: int = 0,
    limits: Limits | None = None,
    trusted: bool = False,
    scheduler: str = "",
    apply: bool = False,
) -> int:
    """Grades submissions again, and lists all differences before it applies any.

    With `exercise` it grades those who tried it, and lists the differences in it. To
    `apply` these, the other exercises are checked, too, unless nothing that decides
    them has changed: a result that differs in anything else is named and not applied.

    Raises:
        ValueError: a learner without a submission; no such lesson, section or exercise.
    """
    limits, classroom = limits or Limits(), Classroom(folder)
    chosen = classroom.submissions(lesson, students, section=section)
    if exercise:
        lessons = [classroom.lesson_named(lesson)] if lesson else classroom.lessons
        known = [one for name in lessons for one in checks(classroom.lessons[name])]
        if exercise not in known:
            names = ", ".join(known)
            raise ValueError(f'There is no exercise "{exercise}". There are: {names}.')
        chosen = [s for s in chosen if has_tried(classroom.published(s), exercise)]
    with classroom.store.writing():
        print(f"{len(chosen)} submissions to grade again.", flush=True)
        jobs = read_jobs(classroom, chosen, limits)
        published = {one: classroom.published(one) for one in chosen}
        alone = [
            job
            for job in (jobs if exercise else ())
            if not apply or others_unchanged(published[jobs[job]], job, exercise)
        ]
        lessons, found = classroom.lessons, {}
        parts = {n: with_check_of(one, exercise) for n, one in lessons.items()}
        for of, some in ((parts, alone), (lessons, [*jobs.keys() - {*alone}])):
            options = {"most": len(some), "workers": workers, "trusted": trusted}
            if some:
                with open_executor(of, limits, scheduler, **options) as executor:
                    found |= {jobs[one.job]: one for one in graded(executor, some)}
        for submission in map(jobs.get, alone if apply else ()):
            found[submission] = with_others(found[submission], published[submission])
        num_changed, num_held, records = 0, 0, {}
        for submission, one in sorted(found.items()):
            others: list[str] = []  # differences that were not asked for
            earlier = published[submission]
            if not one.record:
                lines = [one.error]
            elif not earlier:
                lines = [f"not graded before: {summary(one.record.result)}"]
            elif stays(earlier, one.record):
                lines = ["the newest file cannot be graded: nothing changes"]
            else:
                lines = differences(earlier.result, one.record.result)
                if exercise and not apply:
                    lines = [one for one in lines if one.startswith(f"{exercise}: ")]
                num_changed += bool(lines)
                start = f"{exercise}: " if exercise else ""
                others = [line for line in lines if not line.startswith(start)]
                lines = [line for line in lines if line.startswith(start)]
                if others:
                    num_held += 1
                    lines.append(
                        f"not applied, since it also differs in {'; '.join(others)}. "
                        "Regrade it without --exercise"
                    )
            for line in lines:
                print(f"{submission}: {line}")
            for reason in one.record.result.reasons if lines and one.record else ():
                print(f"    {reason}")
            if one.record and not others:
                records[submission] = one.record
        print(f"{len(found)} graded again, {num_changed} differ.")
        if apply:
            gradebook.add_lessons(classroom)
            for submission, record in records.items():
                save(classroom, submission, record, "regraded")
                publish(classroom, submission, record)
            print_reviews(publish_reports(classroom))
            print(f"{num_changed - num_held} of the {num_changed} applied.")
        else:
            print("Nothing was written. To apply this: the same command with --apply.")
    return 0 if all(one.record for one in found.values()) else 1


def others_unchanged(earlier: Record | None, job: Job, exercise: str) -> bool:
    """Tells whether nothing that decides the other exercises has changed since."""
    now = without_check(job.hashes, exercise)
    return bool(earlier) and without_check(earlier.hashes, exercise) == now


def with_others(one: FinishedJob, earlier: Record) -> FinishedJob:
    """Adds to the result of one exercise what an earlier record has on the others."""
    if not one.record:
        return one
    new, old = one.record.result, earlier.result
    again = {exercise.exercise: exercise for exercise in new.exercises}
    result = dataclasses.replace(
        new,
        exercises=tuple(again.get(each.exercise, each) for each in old.exercises),
        notes=tuple(dict.fromkeys((*old.notes, *new.notes))),
        limits=tuple(dict.fromkeys((*old.limits, *new.limits))),
    )
    return FinishedJob(one.job, dataclasses.replace(one.record, result=result))


def has_tried(record: Record | None, exercise: str) -> bool:
    """Tells whether a learner tried an exercise, as far as it is known."""
    if not record:
        return True
    outcomes = {one.exercise: one.outcome for one in record.result.exercises}
    return outcomes.get(exercise, Outcome.NOT_ATTEMPTED) is not Outcome.NOT_ATTEMPTED
