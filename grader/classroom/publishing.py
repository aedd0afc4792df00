"""Shows a result where people look: gradebook, autograded notebook, feedback page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader.atomic_files import read_text, write
from grader.authoring.release import checks, dumps, exercises, release, title
from grader.classroom import gradebook
from grader.classroom.folder import Classroom, Submission
from grader.pages.cards import card
from grader.pages.class_report import class_report
from grader.pages.feedback import feedback_page
from grader.results import ExerciseResult, Outcome, Record, Result, Status


def publish(
    classroom: Classroom,
    submission: Submission,
    record: Record,
    *,
    autograded: bool = True,
) -> None:
    """Writes one result to all its places; again with the same result, the same bytes.

    Without `autograded` nbgrader itself writes the autograded notebook.

    Raises:
        GradebookError: the gradebook refuses; the result itself is safe in the store.
        OSError: a file cannot be written.
    """
    result, place = record.result, (submission.student, submission.lesson)
    gradebook.save(classroom.db_url, classroom.course_id, submission.student, result)
    lesson = classroom.lesson(submission.lesson)
    if autograded:
        path = classroom.path("autograded", *place) / f"{submission.lesson}.ipynb"
        write(path, dumps(autograded_notebook(lesson, result)))
    publish_page(classroom, submission, decided(classroom, submission, result), lesson)
    # Last: whoever finds it knows that everything above was written.
    write(marker(classroom, submission), record.key)


def decided(classroom: Classroom, submission: Submission, result: Result) -> Result:
    """Returns what counts: work that an instructor has scored is decided."""
    if result.status is not Status.NEEDS_REVIEW:
        return result
    place = (submission.lesson, submission.student)
    entered = gradebook.scores_of(classroom.db_url, classroom.course_id, *place)
    scores = {one.exercise: None for one in result.exercises}
    scores |= {name: one.score for name, one in entered.items()}
    if not scores or None in scores.values():
        return result
    return dataclasses.replace(
        result,
        exercises=tuple(by_hand(one, scores[one.exercise]) for one in result.exercises),
        status=Status.GRADED_WITH_NOTE,
        reasons=(),
        notes=(*result.notes, "A person looked at this work and gave the points."),
    )


def by_hand(one: ExerciseResult, points: float) -> ExerciseResult:
    """Replaces what a check said by what a person decided."""
    full = points >= (one.max_points or 1)  # of a bonus, any point
    part = Outcome.PARTLY if points else Outcome.FAILED
    return dataclasses.replace(
        one,
        outcome=Outcome.PASSED if full else part,
        points=points,
        share=points / one.worth if one.worth else 0.0,
        message="" if full else "A person gave these points.",
        statements=(),
        details=(),
    )


def publish_page(
    classroom: Classroom, submission: Submission, result: Result, lesson: NotebookNode
) -> None:
    """Writes a learner's feedback page."""
    page = feedback_page(
        result,
        title=title(lesson, submission.lesson),
        student=classroom.names().get(submission.student, submission.student),
    )
    place = (submission.student, submission.lesson)
    write(classroom.path("feedback", *place) / f"{submission.lesson}.html", page)


def is_published(classroom: Classroom, submission: Submission, record: Record) -> bool:
    """Tells whether all places show this very result."""
    return published_key(classroom, submission) == record.key


def published_key(classroom: Classroom, submission: Submission) -> str:
    """Returns the key of the result that all places show, or ""."""
    return read_text(marker(classroom, submission))


def marker(classroom: Classroom, submission: Submission) -> Path:
    """Names the file that says which result is published."""
    folder = classroom.folder / "grading" / "published"
    return folder / submission.lesson / submission.student


def publish_reports(classroom: Classroom) -> None:
    """Writes each lesson's class report, and pages of work that instructors scored."""
    found: dict[str, dict[str, Record]] = {}
    for submission, record in records(classroom):
        if record is None:
            continue
        counts = decided(classroom, submission, record.result)
        if counts != record.result:
            lesson = classroom.lesson(submission.lesson)
            publish_page(classroom, submission, counts, lesson)
            record = dataclasses.replace(record, result=counts)
        found.setdefault(submission.lesson, {})[submission.student] = record
    for lesson, of_lesson in found.items():
        page = class_report(
            lesson,
            {student: record.result for student, record in of_lesson.items()},
            title=title(classroom.lesson(lesson), lesson),
            seconds={student: record.seconds for student, record in of_lesson.items()},
            solved={
                name: cell.source
                for name, cell in exercises(classroom.lesson(lesson)).items()
            },
        )
        write(classroom.folder / "grading" / "report" / f"{lesson}.html", page)


def records(classroom: Classroom) -> Iterator[tuple[Submission, Record | None]]:
    """Yields each submission with the result that is published for it."""
    for submission in classroom.submissions():
        key = published_key(classroom, submission)
        yield submission, classroom.store.get(key)


def autograded_notebook(lesson: NotebookNode, result: Result) -> NotebookNode:
    """Makes the notebook that nbgrader shows: answers, and each check's card.

    It holds the checks as they were released: hidden cases never reach a learner.
    """
    notebook = release(lesson)
    answered, checked = exercises(notebook), checks(notebook)
    for one in result.exercises:
        if one.source:
            answered[one.exercise].source = one.source
        checked[one.exercise].outputs = [said(one, result.status)]
        checked[one.exercise].execution_count = 1
    return notebook


def said(one: ExerciseResult, status: Status) -> NotebookNode:
    """Makes a check's output: the points as text, for nbgrader, and its card."""
    if status is Status.NEEDS_REVIEW:
        text = f"{one.exercise}: a person will look at it.\n"
        return nbformat.v4.new_output("stream", text=text)
    points = one.points if one.max_points else 0  # a bonus has no points in nbgrader
    data = {"text/plain": f"{points:g}", "text/html": card(one)}
    return nbformat.v4.new_output("execute_result", data=data, execution_count=1)
