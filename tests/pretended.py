"""Grades a tiny class without running code: right is what equals `classes.RIGHT`."""

import contextlib
import dataclasses
import types

import nbformat
import pytest
import tiny
from classes import RIGHT, answered, hand_in, printed
from nbgrader.api import Gradebook

from grader.classroom import grade as grading
from grader.judging.grade_submission import nothing_to_grade
from grader.lessons.release import checks
from grader.results import ExerciseResult, Outcome, Record, Result, Status
from grader.submissions.answers import extract_answers, why_other_lesson
from grader.workers.jobs import FinishedJob

NAME = tiny.NAME


def result_of(submitted, lesson):
    """Grades as the tiny lesson's checks do; a text with "settrace" needs review."""
    notebook = submitted.notebook
    if notebook is None or why_other_lesson(notebook, lesson, NAME):
        reasons = submitted.reasons or ("This is another lesson.",)
        return nothing_to_grade(lesson, NAME, submitted.notes, reasons)
    answers, found = extract_answers(notebook, lesson), []
    for name, check in checks(lesson).items():
        source, worth = answers.exercises.get(name, ""), check.metadata.nbgrader.points
        is_right = RIGHT[name] in source
        outcome = Outcome.PASSED if is_right else Outcome.FAILED
        if "NotImplementedError" in source:
            outcome = Outcome.NOT_ATTEMPTED
        message = "" if is_right else "The result is wrong."
        facts = {"worth": worth, "share": float(is_right), "source": source}
        points = worth * is_right
        one = ExerciseResult(name, outcome, points, worth, message=message, **facts)
        found.append(one)
    text = "".join(one.source for one in found)
    notes = (*submitted.notes, *answers.notes)
    status = Status.GRADED_WITH_NOTE if notes else Status.GRADED
    status = Status.NEEDS_REVIEW if "settrace" in text else status
    return Result(NAME, tuple(found), status, notes)


@pytest.fixture
def pretended(monkeypatch):
    """Lets `grade` and `regrade` take a result from `result_of`."""

    def open_executor(lessons, *_, **__):
        executor = types.SimpleNamespace(lessons=lessons, description="by pretending")
        return contextlib.nullcontext(executor)

    def grade_jobs(executor, jobs):
        for job in jobs:
            result = result_of(job.submitted, executor.lessons[job.lesson])
            result = dataclasses.replace(result, lesson=job.lesson)
            yield FinishedJob(job, Record(job.key, job.hashes, result))

    monkeypatch.setattr(grading, "open_executor", open_executor)
    monkeypatch.setattr(grading, "grade_jobs", grade_jobs)


def submit(folder, student, **answers):
    """Puts a learner's notebook into the class, with these answers."""
    lesson = nbformat.read(folder / "class" / "source" / NAME / f"{NAME}.ipynb", 4)
    return hand_in(folder, student, answered(lesson, **answers))


def grade(folder, *downloads):
    status, lines = printed(grading.grade, folder / "class", downloads)
    assert status == 0, lines
    return lines


def regrade(folder, *students, **options):
    return printed(grading.regrade, folder / "class", students, **options)[1]


@contextlib.contextmanager
def gradebook_of(folder):
    address = f"sqlite:///{folder / 'class' / 'gradebook.db'}"
    with Gradebook(address, "distributed-jax") as book:
        yield book
        book.db.commit()


def decide(folder, student, exercise, points, comment=None, extra=None):
    """Enters what a person decides, as the formgrader does."""
    with gradebook_of(folder) as book:
        place = NAME, NAME, student
        grade = book.find_grade(f"check-{exercise}", *place)
        grade.manual_score, grade.extra_credit = points, extra
        is_open = grade.manual_score is None and grade.auto_score is None
        grade.needs_manual_grade = is_open
        if comment:
            book.find_comment(exercise, *place).manual_comment = comment


def set_due(folder, moment, lesson=NAME):
    """What `nbgrader db assignment add LESSON --duedate=...` does."""
    with gradebook_of(folder) as book:
        book.update_or_create_assignment(lesson, duedate=moment)


def page(folder, student):
    path = folder / "class" / "feedback" / student / NAME / f"{NAME}.html"
    return path.read_text()


def report(folder):
    path = folder / "class" / "grading" / "report" / f"{NAME}.html"
    return path.read_text()
