"""Joins a result with the gradebook: what a person decided, and what came late."""

from __future__ import annotations

import dataclasses

from grader.classroom.gradebook import Entry, ExerciseScore
from grader.pages.wording import points_of
from grader.results import ExerciseResult, Outcome, Result, Status

EMPTY = Entry({})
UNDECIDED = (Status.NEEDS_REVIEW, Status.STUDENT_ERROR)


def final_result(
    result: Result,
    entry: Entry = EMPTY,
    *,
    better: Result | None = None,
    unreadable: Result | None = None,
) -> Result:
    """Returns the result that counts, which all pages and exports show.

    A person's scores come before those of the checks; the penalty for late work is
    taken off the sum. `better` and `unreadable` are results of the learner's other
    files, which a person should look at.
    """
    given = [entry.scores.get(one.exercise) for one in result.exercises]
    by_hand = [bool(score and score.by_hand) for score in given]
    facts = {"status": result.status, "reasons": result.reasons, "notes": result.notes}
    if result.status in UNDECIDED:
        # Nothing here counts before a person has decided about all of it.
        if not any(by_hand) or any(s is None or s.score is None for s in given):
            lines = about_other_files(result, None, unreadable)
            late = {"late": entry.late.words, "due": entry.late.due}
            return dataclasses.replace(result, **late, to_review=lines)
        facts = {"status": Status.GRADED_WITH_NOTE, "reasons": ()}
        reasons = result.reasons if result.status is Status.STUDENT_ERROR else ()
        note = "A person looked at this work and gave the points."
        facts["notes"] = (*reasons, *result.notes, note)
    undecided = [
        one.exercise
        for one, hand in zip(result.exercises, by_hand, strict=True)
        if one.has_broken_check and not hand
    ]
    to_review = [
        f"The check of {name} failed by itself: a person should give its points."
        for name in undecided
    ]
    scores = entry.scores.items()
    if earlier := [name for name, one in scores if one.is_for_earlier_file]:
        to_review.append(
            f"A person gave the points for {', '.join(earlier)} to an earlier file. "
            "They still count, but should be checked against the newest file."
        )
    elif any(by_hand):
        better = None  # a person has looked
    if entry.late.in_time:
        to_review.append(
            f"An earlier file was in time ({entry.late.in_time}), but the newest one "
            "counts."
        )
    return dataclasses.replace(
        result,
        exercises=tuple(map(decided, result.exercises, given)),
        **facts,
        late=entry.late.words,
        due=entry.late.due,
        penalty=entry.late.penalty,
        to_review=(*to_review, *about_other_files(result, better, unreadable)),
    )


def decided(one: ExerciseResult, score: ExerciseScore | None) -> ExerciseResult:
    """Adds to an exercise's result what a person decided about it."""
    if score is None:
        return one
    said, final = [], dataclasses.replace(one, comment=score.comment)
    if score.manual is not None:
        given = points_of(score.manual, one.max_points)
        checks = "" if score.auto is None else f" (the checks gave {score.auto:g})"
        said.append(f"Decided by a person: {given}{checks}.")
        if score.manual != score.auto:  # else the checks' verdict stands
            final = with_points(final, score.manual)
    if score.extra:
        said.append(f"Extra credit from a person: {score.extra:g}.")
        final = dataclasses.replace(final, points=final.points + score.extra)
    return dataclasses.replace(final, decision=" ".join(said))


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


def about_other_files(
    result: Result, better: Result | None, unreadable: Result | None
) -> tuple[str, ...]:
    """Says what the learner's other files would have earned."""
    lines = []
    if unreadable:
        why = " ".join(unreadable.reasons)
        lines.append(
            f"The newest file cannot be graded, so an earlier one counts. {why}"
        )
    if better:
        lines.append(
            f"The newest file counts and earns {result.points:g} points; an earlier "
            f"one earned {better.points:g}."
        )
    return tuple(lines)
