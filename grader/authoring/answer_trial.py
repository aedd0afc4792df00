"""Tries known answers in a solved lesson, by its own checks."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from coursekit.outcomes import RIGHT
from grader.authoring.known_answers import KnownAnswer
from grader.authoring.rules import BuildError, Problem
from grader.lessons.release import exercises

# Tries an answer alone, and defines the solution again. The value is what the check
# found: the outcome, what went wrong first, the statements that fail, likely causes.
TRIAL = """\
del {name}
{answer}
check("{name}")
from coursekit.context import current_context as _current_context
_verdict = _current_context().results["{name}"]
_failed = [one for one in _verdict.statements if one.standing == "fails"]
_failed = {{one.name: dict(one.rows).get("likely", "") for one in _failed}}
{solution}
_verdict.outcome, _verdict.headline, _failed"""


def trial_cell(answer: KnownAnswer, lesson: NotebookNode) -> NotebookNode:
    name, solution = answer.exercise, exercises(lesson)[answer.exercise].source
    source = TRIAL.format(name=name, answer=answer.source, solution=solution)
    return nbformat.v4.new_code_cell(source)


def refuse_wrong_answers(
    folder: Path, answers: Iterable[KnownAnswer], ran: list[NotebookNode]
) -> None:
    """Raises `BuildError` where an answer did not get what it deserves.

    Their files are in `folder`; `ran` are the cells that tried them.
    """
    problems = []
    for answer, cell in zip(answers, ran, strict=True):
        [result] = (one for one in cell.outputs if "execution_count" in one)
        found = ast.literal_eval(result.data["text/plain"])
        if text := fault_of(answer, *found):
            path = folder / f"{answer.exercise}.py"
            problems.append(Problem(path, answer.line, text))
    if problems:
        raise BuildError("\n".join(map(str, problems)))


def fault_of(
    answer: KnownAnswer, outcome: str, headline: str, failed: dict[str, str]
) -> str:
    """Says how a check judged an answer, if not as its header says; else ""."""
    fails = "; ".join(failed) or "nothing"
    said = f'the check says "{outcome}"; it fails: {fails}.'
    said += f" {headline}" if headline else ""
    if answer.kind == "right":
        is_right = outcome == RIGHT
        return "" if is_right else f'The right answer "{answer.name}": {said}'
    if {*failed} != {*answer.fails}:
        fails = "; ".join(answer.fails) or "nothing"
        return f'The wrong answer "{answer.name}" should fail: {fails}. But {said}'
    if answer.cause and answer.cause not in failed.values():
        shown = "; ".join(filter(None, failed.values())) or "none"
        return f'The wrong answer "{answer.name}" shows another likely cause: {shown}.'
    return ""
