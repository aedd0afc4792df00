"""Says what an exercise's check makes of a mutant, where the lesson has run."""

from __future__ import annotations

import stand_ins
from solved_lesson import Lesson


def outcome_of(solved: Lesson, exercise: str, source: str) -> str:
    """Grades a mutant; returns its outcome in words."""
    stand_ins.reset()
    try:
        verdict = solved.verdicts_of(source, exercise, by="grader")[exercise]
    except Exception as error:
        return f"raised {type(error).__name__} where it is defined"
    if verdict.outcome == "right" and "_s." in source and not stand_ins.acted:
        return "no effect"
    return verdict.outcome
