"""Grades one submission: answers into a clean lesson, run it, read the checks."""

from __future__ import annotations

import re
from collections.abc import Callable

from nbformat import NotebookNode

from grader.notebooks import answer, checks, exercises, extract_answers, marks
from grader.results import ExerciseResult, Outcome, Result
from grader.sandbox import TIMEOUT_S, execute

OUTCOMES = {
    "Wrong": Outcome.FAILED,
    "NotAttempted": Outcome.NOT_ATTEMPTED,
    "Raised": Outcome.RAISED,
    "BrokenCheck": Outcome.BROKEN,
    "KeyboardInterrupt": Outcome.TIMED_OUT,
}


def autograde(
    submitted: NotebookNode,
    lesson: NotebookNode,
    name: str,
    *,
    timeout_s: float = TIMEOUT_S,
    on_cell: Callable[[], None] = lambda: None,
) -> Result:
    """Grades `submitted` by the solved `lesson` and its checks, hidden tests included.

    A learner's work, our own solution and a known wrong answer travel this one road.
    """
    clean = answer(lesson, extract_answers(submitted, lesson))
    return judge(execute(clean, timeout_s=timeout_s, on_cell=on_cell), name)


def judge(executed: NotebookNode, name: str) -> Result:
    """Reads each exercise's outcome from an executed lesson.

    Only a check that ran and said so passes: silence is never a pass.
    """
    answers = exercises(executed)
    return Result(
        name,
        tuple(
            verdict(exercise, answers[exercise], cell)
            for exercise, cell in checks(executed).items()
        ),
    )


def verdict(
    exercise: str, answered: NotebookNode, check: NotebookNode
) -> ExerciseResult:
    """Reads one exercise's outcome from its two cells."""
    points = marks(check)["points"]
    failed_cell, failed_check = error_of(answered), error_of(check)
    printed = "".join(o.text for o in check.outputs if o.output_type == "stream")
    if failed_cell is not None:
        outcome = OUTCOMES.get(failed_cell.ename, Outcome.RAISED)
        message = f"{failed_cell.ename}: {failed_cell.evalue}"
    elif failed_check is not None:
        outcome = OUTCOMES.get(failed_check.ename, Outcome.RAISED)
        message = headline(failed_check.evalue)
    elif check.execution_count is None:
        outcome = Outcome.RAISED
        message = "The kernel died before this check came to its end."
    elif re.search(rf"(?m)^Right: {exercise}\b", printed):
        return ExerciseResult(exercise, Outcome.PASSED, points, points)
    else:
        outcome, message = Outcome.BROKEN, "The check ended without a verdict."
    if outcome is Outcome.TIMED_OUT:
        message = "It was stopped at the time limit: is there a loop without an end?"
    return ExerciseResult(exercise, outcome, 0, points, message)


def error_of(cell: NotebookNode) -> NotebookNode | None:
    """Returns a cell's error output, or None."""
    return next((o for o in cell.outputs if o.output_type == "error"), None)


def headline(message: str) -> str:
    """Takes the first sentence out of a check's message: what went wrong."""
    lines = []
    for line in message.splitlines():
        if line.startswith("  ") or re.match(r"\w+: 0 of ", line):
            break
        lines.append(line)
    text = " ".join(lines)
    prefixes = "|".join(outcome.value for outcome in Outcome)
    return re.sub(rf"^({prefixes}): ", "", text, flags=re.IGNORECASE)
