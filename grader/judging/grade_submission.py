"""Grades one submission by its solved lesson; stores and publishes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from grader.containment.limits import Limits
from grader.judging.judge_process import JudgeProcess
from grader.judging.tampering import signs
from grader.judging.trial import CheckedExercise, Trial
from grader.lessons.release import checks, nbgrader_metadata, points_for
from grader.results import (
    ExerciseResult,
    Outcome,
    Result,
    StatementResult,
    Status,
    read_statement,
)
from grader.submissions.answers import (
    MAX_NAMED,
    extract_answers,
    fill_in,
    why_other_lesson,
)
from grader.submissions.clean_text import clean_text
from grader.submissions.read_submission import SubmittedFile, language_of

MAX_SOURCE = 30_000  # characters of an exercise's code that are kept


def grade_submission(
    submitted: SubmittedFile,
    lesson: NotebookNode,
    lesson_name: str,
    judge: JudgeProcess,
    limits: Limits,
    *,
    trusted: bool = False,
    compiled: Path | None = None,
    on_exercise: Callable[[], None] = lambda: None,
) -> Result:
    """Grades `submitted` by the solved `lesson` and its warm `judge`.

    Code runs contained unless `trusted`; programs in `compiled` need not be compiled
    again.

    Raises:
        SessionError, JudgeError, ContainmentError: our fault; there is no result.
    """
    if submitted.notebook is None:
        return nothing_to_grade(lesson, lesson_name, submitted.notes, submitted.reasons)
    other = why_other_lesson(submitted.notebook, lesson, lesson_name)
    language = language_of(submitted.notebook)
    if other:
        nothing = nothing_to_grade(lesson, lesson_name, submitted.notes, (other,))
        return dataclasses.replace(nothing, language=language)
    answers = extract_answers(submitted.notebook, lesson)
    clean = fill_in(lesson, answers)
    judge.begin_submission()
    options = {"trusted": trusted, "compiled": compiled}
    trial = Trial(clean, lesson, judge, limits, answers.left_out, **options)
    checked = trial.run(on_exercise)
    notes = [*submitted.notes, *answers.notes]
    if missing := [*trial.packages][:MAX_NAMED]:
        notes.append(
            "Not installed where this was graded, so what uses it could not run: "
            f"{', '.join(missing)}."
        )
    if cells := [*trial.keyboard][:MAX_NAMED]:
        notes.append(
            "There is no keyboard where this was graded, so what asks for input could "
            f"not run: {', '.join(cells)}."
        )
    if cells := [*trial.cut_short][:MAX_NAMED]:
        notes.append(
            "Cells that did not end, or ended their process, count only as far as they "
            f"define something: {', '.join(cells)}."
        )
    notes += [clean_text(text, 500) for text in signs(answers.sources)]
    status = Status.GRADED_WITH_NOTE if notes else Status.GRADED
    return Result(
        lesson=lesson_name,
        exercises=tuple(
            exercise_result(name, checked[name], answers.exercises.get(name, ""), check)
            for name, check in checks(lesson).items()
        ),
        status=Status.NEEDS_REVIEW if trial.evidence else status,
        notes=tuple(notes),
        reasons=tuple(dict.fromkeys(clean_text(text, 500) for text in trial.evidence)),
        limits=tuple(clean_text(text, 200) for text in trial.limits_hit),
        language=language,
    )


def nothing_to_grade(
    lesson: NotebookNode, name: str, notes: tuple[str, ...], reasons: tuple[str, ...]
) -> Result:
    """Makes the result of a submission that holds no work on this lesson."""
    nothing = CheckedExercise(Outcome.NOT_ATTEMPTED)
    exercises = tuple(
        exercise_result(exercise, nothing, "", check)
        for exercise, check in checks(lesson).items()
    )
    return Result(name, exercises, Status.STUDENT_ERROR, notes, reasons)


def exercise_result(
    exercise: str, checked: CheckedExercise, source: str, check: NotebookNode
) -> ExerciseResult:
    """Makes an exercise's result; what comes from the learner is cleaned and cut."""
    return ExerciseResult(
        exercise=exercise,
        outcome=checked.outcome,
        points=round(points_for(check) * checked.share, 2),
        max_points=nbgrader_metadata(check)["points"],
        worth=points_for(check),
        share=checked.share,
        statements=tuple(map(statement_result, checked.statements)),
        message=clean_text(checked.message, 500),
        details=tuple((name, clean_text(text, 1000)) for name, text in checked.details),
        source=source[:MAX_SOURCE],
    )


def statement_result(facts: dict[str, Any]) -> StatementResult:
    """Reads how a statement stands; what comes from the learner is cleaned and cut."""
    rows = [(name, clean_text(text, 1000)) for name, text in facts["rows"]]
    cleaned = {"headline": clean_text(facts["headline"], 500), "rows": rows}
    return read_statement(facts | cleaned)
