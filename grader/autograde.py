"""Grades one submission: the pure function in the middle of everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nbformat import NotebookNode

from grader.containment import Limits
from grader.evidence import evidence
from grader.intake import Intake, why_other_lesson
from grader.judging import JudgeProcess
from grader.notebooks import Answers, answer, checks, extract_answers, marks
from grader.results import ExerciseResult, Outcome, Result, Status
from grader.text import clean_text
from grader.trial import Trial
from grader.tried import Tried

MAX_PICTURES = 4  # per exercise
MAX_SOURCE = 30_000  # characters of an exercise's code that are kept


def autograde(
    submitted: Intake,
    lesson: NotebookNode,
    name: str,
    judge: JudgeProcess,
    limits: Limits,
    *,
    trusted: bool = False,
    compiled: Path | None = None,
    on_exercise: Callable[[], None] = lambda: None,
) -> Result:
    """Grades `submitted` by the solved `lesson` and its warm `judge`.

    A learner's work, our own solution, a known wrong answer and a hostile file travel
    this one road. Code runs contained unless `trusted`; programs in `compiled` need not
    be compiled again.

    Raises:
        SessionError, JudgeError, ContainmentError: our fault; there is no result.
    """
    if submitted.notebook is None:
        return nothing_to_grade(lesson, name, submitted.notes, submitted.reasons)
    other = why_other_lesson(submitted.notebook, lesson, name)
    if other:
        return nothing_to_grade(lesson, name, submitted.notes, (other,))
    answers = extract_answers(submitted.notebook, lesson)
    clean = answer(lesson, answers)
    trial = Trial(clean, lesson, judge, limits, trusted=trusted, compiled=compiled)
    tried = trial.run(on_exercise)
    sources = [*answers.exercises.values(), *(text for _, text in answers.extras)]
    reasons = [*evidence(sources), *trial.evidence]
    reasons += [
        f"{exercise}: the check could not run. {one.message}"
        for exercise, one in tried.items()
        if one.outcome is Outcome.BROKEN
    ]
    notes = (*submitted.notes, *answers.notes)
    status = Status.GRADED_WITH_NOTE if notes else Status.GRADED
    return Result(
        lesson=name,
        exercises=tuple(
            exercise_result(
                exercise, tried[exercise], answers, marks(check)["points"], judge
            )
            for exercise, check in checks(lesson).items()
        ),
        status=Status.NEEDS_REVIEW if reasons else status,
        notes=notes,
        reasons=tuple(dict.fromkeys(clean_text(text, 500) for text in reasons)),
        limits=tuple(clean_text(text, 200) for text in trial.limits_hit),
    )


def nothing_to_grade(
    lesson: NotebookNode, name: str, notes: tuple[str, ...], reasons: tuple[str, ...]
) -> Result:
    """Makes the result of a submission that holds no work on this lesson."""
    exercises = tuple(
        ExerciseResult(exercise, Outcome.NOT_ATTEMPTED, 0, marks(check)["points"])
        for exercise, check in checks(lesson).items()
    )
    return Result(name, exercises, Status.STUDENT_ERROR, notes, reasons)


def exercise_result(
    exercise: str, tried: Tried, answers: Answers, points: float, judge: JudgeProcess
) -> ExerciseResult:
    """Makes an exercise's result; what comes from the learner is cleaned and cut."""
    drawn = tried.pictures[:MAX_PICTURES]
    return ExerciseResult(
        exercise=exercise,
        outcome=tried.outcome,
        points=points if tried.outcome is Outcome.PASSED else 0,
        max_points=points,
        message=clean_text(tried.message, 500),
        details=tuple((name, clean_text(text, 1000)) for name, text in tried.details),
        source=answers.exercises.get(exercise, "")[:MAX_SOURCE],
        pictures=tuple(filter(None, map(judge.picture, drawn))),
    )
