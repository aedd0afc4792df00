"""Shows results where people look: gradebook, autograded notebooks, pages."""

from __future__ import annotations

import dataclasses

import nbformat
from nbformat import NotebookNode

from grader.atomic_files import write
from grader.authoring.release import checks, dumps, exercises, release, title
from grader.classroom import gradebook
from grader.classroom.folder import Classroom, Submission
from grader.pages.class_report import ClassReport
from grader.pages.feedback import card, feedback_page
from grader.results import ExerciseResult, Outcome, Record, Result, Status


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
        points=record.result.points,
        seconds=round(record.seconds, 2),
    )


def publish(
    classroom: Classroom,
    submission: Submission,
    record: Record,
    *,
    autograded: bool = True,
) -> None:
    """Writes one result to all its places; again with the same result, the same bytes.

    Without `autograded` nbgrader itself writes the autograded notebook.
    """
    result, name = record.result, submission.lesson
    gradebook.save(classroom, submission.student, result)
    if autograded:
        folder = classroom.path("autograded", submission.student, name)
        notebook = autograded_notebook(classroom.lessons[name], result)
        write(folder / f"{name}.ipynb", dumps(notebook))
    publish_page(
        classroom, submission, with_given_points(classroom, submission, result)
    )
    # Last: where this file is, everything above was written.
    write(classroom.published_path(submission), record.key)


def publish_page(classroom: Classroom, submission: Submission, result: Result) -> None:
    student, name = submission.student, submission.lesson
    page = feedback_page(
        result,
        title=title(classroom.lessons[name], name),
        student=classroom.names().get(student, student),
    )
    write(classroom.path("feedback", student, name) / f"{name}.html", page)


def publish_reports(classroom: Classroom) -> None:
    """Writes each lesson's class report, and pages of work that instructors scored."""
    reports: dict[str, ClassReport] = {}
    for submission in classroom.submissions():
        if record := classroom.published(submission):
            result = with_given_points(classroom, submission, record.result)
            if result != record.result:
                publish_page(classroom, submission, result)
            if submission.lesson not in reports:
                reports[submission.lesson] = new_report(classroom, submission.lesson)
            reports[submission.lesson].add(submission.student, result)
    for name, report in reports.items():
        write(classroom.folder / "grading" / "report" / f"{name}.html", report.page())


def new_report(classroom: Classroom, name: str) -> ClassReport:
    lesson = classroom.lessons[name]
    solutions = {one: cell.source for one, cell in exercises(lesson).items()}
    return ClassReport(name, title=title(lesson, name), solutions=solutions)


def with_given_points(
    classroom: Classroom, submission: Submission, result: Result
) -> Result:
    """Returns the result that counts: an instructor's scores decide a NEEDS_REVIEW."""
    if result.status is not Status.NEEDS_REVIEW:
        return result
    given = gradebook.scores_of(classroom, submission)
    points = [
        given[one.exercise].score if one.exercise in given else None
        for one in result.exercises
    ]
    if not points or None in points:
        return result
    return dataclasses.replace(
        result,
        exercises=tuple(map(with_points, result.exercises, points)),
        status=Status.GRADED_WITH_NOTE,
        reasons=(),
        notes=(*result.notes, "A person looked at this work and gave the points."),
    )


def with_points(one: ExerciseResult, points: float) -> ExerciseResult:
    """Replaces a check's verdict by the points that a person gave."""
    is_full = points >= (one.max_points or 1)  # of a bonus, any point
    part = Outcome.PARTLY if points else Outcome.FAILED
    return dataclasses.replace(
        one,
        outcome=Outcome.PASSED if is_full else part,
        points=points,
        share=points / one.worth if one.worth else 0.0,
        message="" if is_full else "A person gave these points.",
        statements=(),
        details=(),
    )


def autograded_notebook(lesson: NotebookNode, result: Result) -> NotebookNode:
    """Makes the notebook that nbgrader shows: answers, and each check's card.

    It holds the checks as they were released: hidden cases never reach a learner.
    """
    notebook = release(lesson)
    exercise_cells, check_cells = exercises(notebook), checks(notebook)
    for one in result.exercises:
        if one.source:
            exercise_cells[one.exercise].source = one.source
        check_cells[one.exercise].outputs = [check_output(one, result.status)]
        check_cells[one.exercise].execution_count = 1
    return notebook


def check_output(one: ExerciseResult, status: Status) -> NotebookNode:
    """Makes a check's output: the points as text, for nbgrader, and its card."""
    if status is Status.NEEDS_REVIEW:
        text = f"{one.exercise}: a person will look at it.\n"
        return nbformat.v4.new_output("stream", text=text)
    points = 0 if one.is_bonus else one.points  # a bonus has no points in nbgrader
    data = {"text/plain": f"{points:g}", "text/html": card(one)}
    return nbformat.v4.new_output("execute_result", data=data, execution_count=1)
