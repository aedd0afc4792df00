"""Shows results where people look: gradebook, autograded notebooks, pages."""

from __future__ import annotations

import dataclasses
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import nbformat
from nbformat import NotebookNode
from tqdm import tqdm

from grader.atomic_files import write
from grader.classroom import gradebook
from grader.classroom.final_result import EMPTY, final_result
from grader.classroom.folder import Classroom, Publication, Submission
from grader.classroom.gradebook import Entry
from grader.classroom.lateness import (
    TIME,
    remember_earlier,
    small_text,
    time_known,
    time_of_change,
)
from grader.classroom.roster import read_sections
from grader.lessons.release import checks, dumps, exercises, release, title
from grader.pages.class_report import ClassReport
from grader.pages.feedback import card, feedback_page
from grader.results import ExerciseResult, Record, Result, Status, late_text
from grader.submissions.lms_names import safe_id
from grader.workers.cache_key import sha256

SECRET = "submission_secret.txt"  # nbgrader's, by which a learner finds a page
EXCHANGE_FILES = TIME, SECRET  # by which its exchange knows a submission again
T = TypeVar("T")


def save(
    classroom: Classroom, submission: Submission, record: Record, event: str = "graded"
) -> None:
    """Stores a result and adds to the log what was graded, by what, when, and how."""
    classroom.store.put(record)
    classroom.store.add_to_log(
        event,
        student=submission.student,
        lesson=submission.lesson,
        key=record.key,
        hashes=dict(record.hashes),
        status=record.result.status,
        score=record.result.score,  # none while a person has to decide
        seconds=round(record.seconds, 2),
    )


def publish(classroom: Classroom, submission: Submission, record: Record) -> Record:
    """Writes one result to all its places; again with the same result, the same bytes.

    Returns the record that is now shown: an earlier one where a new file cannot be
    graded.
    """
    before = classroom.publication(submission)
    earlier = classroom.store.get(before.key)
    it_stays = bool(earlier) and stays(earlier, record)
    if earlier:  # else what a lost gradebook had on it would be lost for good
        unreadable = record.key if it_stays else before.unreadable
        known = dataclasses.replace(before, unreadable=unreadable)
        entries_of(classroom, {submission: known})
    is_new_file = bool(earlier) and is_other_file(earlier, record)
    if it_stays:
        facts = {"unreadable": record.key, "time": before.time}
        now = Publication(earlier.key, before.better, **facts)
        record, is_new_file = earlier, False
    else:
        others = filter(None, (earlier, classroom.store.get(before.better)))
        better = [one for one in others if earned_more(one, record)]
        best = max(better, key=lambda one: one.result.points, default=None)
        time = time_known(submission)
        now = Publication(record.key, best.key if best else "", time=time)
        if is_new_file and before.time not in (None, time):
            remember_earlier(classroom, submission, [(before.time, "")])
    result, name = record.result, submission.lesson
    gradebook.save(classroom, submission, result, is_new_file=is_new_file)
    folder = classroom.path("autograded", submission.student, name)
    notebook = autograded_notebook(classroom.lessons[name], result)
    write(folder / f"{name}.ipynb", dumps(notebook))
    copy_exchange_files(submission, folder)
    [(_, entry, final)] = final_results(classroom, {submission: now})
    show(classroom, submission, now, entry, final, classroom.names())
    return record


def is_other_file(one: Record, other: Record) -> bool:
    return one.hashes["submission"] != other.hashes["submission"]


def stays(earlier: Record, record: Record) -> bool:
    """Tells whether a result stays, since the newer file cannot be graded."""
    is_error = record.result.status is Status.STUDENT_ERROR
    is_known = earlier.result.status is not Status.STUDENT_ERROR
    return is_error and is_known and is_other_file(earlier, record)


def earned_more(earlier: Record, record: Record) -> bool:
    """Tells whether another file earned more by the same checks."""
    ours = {**record.hashes, "submission": earlier.hashes["submission"]}
    return (
        ours == earlier.hashes != record.hashes
        and earlier.result.is_graded
        and record.result.is_graded
        and earlier.result.points > record.result.points
    )


def final_results(
    classroom: Classroom, publications: Mapping[Submission, Publication]
) -> Iterator[tuple[Submission, Entry, Result]]:
    """Yields what counts, of those submissions that have a result."""
    entries = entries_of(classroom, publications)
    for submission, now in publications.items():
        if record := classroom.store.get(now.key):
            others = (
                classroom.store.get(now.better),
                classroom.store.get(now.unreadable),
            )
            better, unreadable = (one.result if one else None for one in others)
            entry = entries.get(submission, EMPTY)
            facts = {"better": better, "unreadable": unreadable}
            yield submission, entry, final_result(record.result, entry, **facts)


def entries_of(
    classroom: Classroom, publications: Mapping[Submission, Publication]
) -> dict[Submission, Entry]:
    """Reads what the gradebook has on submissions; fills in first what it has lost."""
    entries = gradebook.entries(classroom, publications)
    records = {
        submission: record
        for submission, now in publications.items()
        if submission not in entries and (record := classroom.store.get(now.key))
    }
    if not records:
        return entries
    gradebook.add_lessons(classroom)
    gradebook.add_students(classroom)
    lost = {submission: publications[submission] for submission in records}
    for submission, record in records.items():
        gradebook.save(classroom, submission, record.result, lost=lost[submission])
    tqdm.write(
        f"The gradebook had lost {len(lost)} graded submissions. They were filled in "
        "again from grading/, with the scores that people gave."
    )
    return entries | gradebook.entries(classroom, lost)


def results_of(
    classroom: Classroom, lesson: str = "", section: str = ""
) -> dict[Submission, Result | None]:
    """Returns the results that count, of one lesson or all; None: not graded yet."""
    chosen = classroom.submissions(lesson, section=section)
    wanted = {submission: classroom.publication(submission) for submission in chosen}
    finals = {
        submission: final for submission, _, final in final_results(classroom, wanted)
    }
    return dict.fromkeys(wanted) | finals


def final_result_of(classroom: Classroom, submission: Submission) -> Result:
    """Returns the result that counts; the submission must have one."""
    now = {submission: classroom.publication(submission)}
    [(_, _, final)] = final_results(classroom, now)
    return final


def about_lateness(submission: Submission, now: Publication, final: Result) -> str:
    """Says what is new about a submission's lateness; "" if nothing is."""
    text = late_text(final)
    if text == now.late:
        return ""
    score = f": {final.score:g} points" if final.score is not None else ""
    return f"late: {submission}: {text}" if text else f"in time: {submission}{score}"


def show(
    classroom: Classroom,
    submission: Submission,
    now: Publication,
    entry: Entry,
    final: Result,
    names: Mapping[str, str],
) -> None:
    """Writes a learner's page and what is published, unless both are as they were."""
    name = names.get(submission.student)
    kept = {"given": entry.given, "extension_s": entry.extension_s}
    facts = final.status, final.score, final.remarks, name, kept
    shown = sha256(repr(facts).encode())
    if shown != now.shown:
        write_page(classroom, submission, final, names)
        # Last: where this file is, everything above was written.
        now = dataclasses.replace(now, shown=shown, **kept)
        classroom.write_publication(submission, now)


def write_page(
    classroom: Classroom,
    submission: Submission,
    final: Result,
    names: Mapping[str, str],
) -> str:
    """Writes a learner's page, and the files by which nbgrader's exchange finds it.

    Returns the page.
    """
    lesson, student = submission.lesson, submission.student
    folder = classroom.path("feedback", student, lesson)
    page = feedback_page(
        final,
        title=title(classroom.lessons[lesson], lesson),
        student=names.get(student, student),
    )
    write(folder / f"{lesson}.html", page)
    copy_exchange_files(submission, folder)
    # Work from a download has neither; `nbgrader release_feedback` needs both.
    if not (folder / TIME).exists():
        write(folder / TIME, time_of_change(submission.folder))
    if not (folder / SECRET).exists():
        write(folder / SECRET, secrets.token_hex(64))
    return page


def copy_exchange_files(submission: Submission, folder: Path) -> None:
    """Copies what `nbgrader submit` wrote beside the notebook, as nbgrader does."""
    for name in EXCHANGE_FILES:
        if text := small_text(submission.folder / name):
            write(folder / name, text)


def publish_reports(classroom: Classroom) -> dict[Submission, Result]:
    """Writes each lesson's class report, and pages that the gradebook has changed.

    Where the roster has several sections, each has a report of its own, too.

    Prints whose lateness, or its cost, is another than was said before. Returns the
    results that count, without what they say about exercises.
    """
    publications = {one: classroom.publication(one) for one in classroom.submissions()}
    names, finals = classroom.names(), {}
    sections = read_sections(classroom.roster)
    reports: dict[tuple[str, str], ClassReport] = {}
    found = final_results(classroom, publications)
    for submission, entry, final in with_progress(found, len(publications), "page"):
        now = publications[submission]
        if line := about_lateness(submission, now, final):
            tqdm.write(line)
            now = dataclasses.replace(now, late=late_text(final), shown="")
        show(classroom, submission, now, entry, final, names)
        name, lesson = submission.lesson, classroom.lessons[submission.lesson]
        of_theirs = [s for s in sections if submission.student in sections[s]]
        for section in ["", *of_theirs] if len(sections) > 1 else [""]:
            if (name, section) not in reports:
                solutions = {one: c.source for one, c in exercises(lesson).items()}
                heading = ", ".join(filter(None, [title(lesson, name), section]))
                facts = {"title": heading, "solutions": solutions, "names": names}
                reports[name, section] = ClassReport(name, **facts)
            reports[name, section].add(submission.student, final)
        finals[submission] = dataclasses.replace(final, exercises=())
    for (name, section), report in reports.items():
        file = f"{name}-{safe_id(section)}.html" if section else f"{name}.html"
        write(classroom.folder / "grading" / "report" / file, report.page())
    return finals


def with_progress(
    items: Iterable[T], total: int, unit: str, delay_s: float = 1
) -> Iterable[T]:
    """Shows a bar; where no terminal shows it, a line every half a minute."""
    interval = 0.1 if sys.stderr.isatty() else 30
    options = {"mininterval": interval, "maxinterval": 2 * interval, "delay": delay_s}
    return tqdm(items, total=total, unit=f" {unit}", file=sys.stderr, **options)


def autograded_notebook(lesson: NotebookNode, result: Result) -> NotebookNode:
    """Makes the notebook that nbgrader shows: answers, and each check's card.

    It holds the checks as they were released: hidden cases never reach a learner.
    """
    notebook = release(lesson)
    exercise_cells, check_cells = exercises(notebook), checks(notebook)
    for exercise in result.exercises:
        if exercise.source:
            exercise_cells[exercise.exercise].source = exercise.source
        check_cells[exercise.exercise].outputs = [check_output(exercise, result.status)]
        check_cells[exercise.exercise].execution_count = 1
    return notebook


def check_output(exercise: ExerciseResult, status: Status) -> NotebookNode:
    """Makes a check's output: the points as text, for nbgrader, and its card."""
    if status is Status.NEEDS_REVIEW:
        text = f"{exercise.exercise}: a person will look at it.\n"
        return nbformat.v4.new_output("stream", text=text)
    # A bonus has no points in nbgrader.
    points = 0 if exercise.is_bonus else exercise.points
    data = {"text/plain": f"{points:g}", "text/html": card(exercise)}
    return nbformat.v4.new_output("execute_result", data=data, execution_count=1)
