"""Writes the page that a learner gets back; the instructor's is in class_report.py."""

from __future__ import annotations

from typing import Any

from grader.class_report import class_report
from grader.page import Room, render
from grader.results import ExerciseResult, Outcome, Result, Status
from grader.summary import GRADED

__all__ = ["class_report", "feedback_page"]

# A learner reads these two lines first: how it went, and whether to do something.
STATUS = {
    Status.GRADED: ("Graded", "Every exercise was looked at."),
    Status.GRADED_WITH_NOTE: ("Graded, with a note", "Every exercise was looked at."),
    Status.STUDENT_ERROR: (
        "Nothing to grade yet",
        "What was handed in holds no work that can be graded. This is why, and what "
        "to do:",
    ),
    Status.NEEDS_REVIEW: (
        "A person will look at it",
        "Your work has arrived. It gets its score from a person, which takes a little "
        "longer. There is nothing for you to do until then.",
    ),
    Status.INFRA_ERROR: (
        "Not graded yet: our fault",
        "Something failed on our side, not in your work. Your work is kept and will be "
        "graded. There is nothing for you to do.",
    ),
}
# An outcome in words, its tone, and what to say where a check said nothing.
OUTCOMES = {
    Outcome.PASSED: ("Right", "right", ""),
    Outcome.FAILED: ("Wrong", "wrong", "It does not do what the exercise asks for."),
    Outcome.NOT_ATTEMPTED: ("Not attempted yet", "open", "It still holds its stub."),
    Outcome.RAISED: ("Your code raised an error", "wrong", "It ended in an error."),
    Outcome.TIMED_OUT: ("Took too long", "wrong", "It was stopped at the time limit."),
    Outcome.BROKEN: ("The check could not run", "fault", "It ended without a verdict."),
}
ROWS = {
    "called": "Called",
    "seen": "Seen",
    "expected": "Expected",
    "likely": "Likely cause",
}
MAX_EXERCISES, MAX_ROWS, MAX_LISTED, MAX_PICTURES = 100, 12, 20, 8
LONG_CODE = 30  # lines; longer code is folded


def feedback_page(result: Result, *, title: str, student: str) -> str:
    """Returns a learner's page for one lesson: HTML that needs nothing else.

    Where a person or the machine still has to do its part, the page says so and shows
    what was received: no score, no outcome, no evidence.
    """
    room = Room()
    graded, is_error = result.status in GRADED, result.status is Status.STUDENT_ERROR
    headline, explanation = STATUS[result.status]
    exercises = result.exercises[:MAX_EXERCISES]
    describe = _exercise if graded else _received
    return render(
        "feedback.html.j2",
        title=room.line(title, 200),
        student=room.line(student, 100),
        headline=headline,
        explanation=explanation,
        graded=graded,
        is_error=is_error,
        score=_score(result),
        num_right=sum(e.outcome is Outcome.PASSED for e in result.exercises),
        reasons=room.lines(result.reasons, MAX_LISTED) if is_error else [],
        notes=room.lines(result.notes, MAX_LISTED),
        limits=room.lines(result.limits, MAX_LISTED) if graded or is_error else [],
        exercises=[describe(entry, room) for entry in exercises],
        num_more=len(result.exercises) - len(exercises),
        room=room,
    )


def _score(result: Result) -> str | None:
    """Writes the score: "2.5 of 3 points", or None where there is none."""
    if result.score is None:
        return None
    if not result.max_points:
        return f"{result.score:g} points"
    return _points(result.score, result.max_points) + _unit(result.max_points)


def _points(points: float, max_points: float) -> str:
    return f"{points:g} of {max_points:g}"


def _unit(max_points: float) -> str:
    return " point" if max_points == 1 else " points"


def _received(entry: ExerciseResult, room: Room) -> dict[str, Any]:
    """Describes an exercise by the learner's own code, and nothing else."""
    source = room.text(entry.source, 20_000, max_lines=400)
    num_lines = source.count("\n") + 1 if source else 0
    return {
        "name": room.line(entry.exercise, 80),
        "source": source,
        "num_lines": num_lines,
        "folded": num_lines > LONG_CODE,
    }


def _exercise(entry: ExerciseResult, room: Room) -> dict[str, Any]:
    """Describes a graded exercise."""
    words, tone, fallback = OUTCOMES[entry.outcome]
    passed = entry.outcome is Outcome.PASSED
    facts = _received(entry, room)
    pictures = [room.picture(text) for text in entry.pictures[:MAX_PICTURES]]
    room.dropped += len(entry.pictures[MAX_PICTURES:])
    return facts | {
        "outcome": words,
        "tone": tone,
        "points": _points(entry.points, entry.max_points),
        "unit": _unit(entry.max_points),
        "message": "" if passed else room.line(entry.message or fallback, 1000),
        "rows": [
            (ROWS.get(name) or room.line(name, 40), room.text(text, 1500, max_lines=20))
            for name, text in entry.details[:MAX_ROWS]
        ],
        "folded": facts["folded"] or passed or entry.outcome is Outcome.NOT_ATTEMPTED,
        "pictures": [picture for picture in pictures if picture],
    }
