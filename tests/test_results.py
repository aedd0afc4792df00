"""Results are plain facts: sums have two digits at most, JSON keeps all of them."""

import dataclasses
import json

import pytest

from coursekit.outcomes import FAILS, HOLDS, StatementResult
from grader.results import (
    ExerciseResult,
    Outcome,
    Result,
    Status,
    from_json,
    to_json,
)

HALVES = ((0, ((0, 4), (0, 2))), (1, ((4, 8), (0, 2))))
STATEMENTS = (
    StatementResult("twice", True, 0.0, HOLDS),
    StatementResult(
        *("in halves", False, 1 / 6, FAILS, "It lies on one device."),
        rows=(("called", "double(x)"), ("seen", "1 device")),
        layouts=((8, 2), HALVES[:1], HALVES),
    ),
)
PART = ExerciseResult(
    "double",
    Outcome.PARTLY,
    1.67,
    2,
    worth=2,
    share=1 - 1 / 6,
    statements=STATEMENTS,
    message="It lies on one device.",
    details=(("called", "double(x)"),),
    source="def double(x): ...",
)
RESULT = Result("01_tiny", (PART,), Status.GRADED_WITH_NOTE, ("Repaired.",))


def test_json_keeps_every_fact():
    assert from_json(to_json(RESULT)) == RESULT
    assert to_json(from_json(to_json(RESULT))) == to_json(RESULT)


def test_points_are_summed_to_two_digits():
    part = dataclasses.replace(PART, points=0.1)
    other = dataclasses.replace(PART, points=0.2)
    assert Result("01_tiny", (part, other)).points == 0.3
    assert Result("01_tiny", (PART,) * 3).score == 5.01


@pytest.mark.parametrize("status", [Status.NEEDS_REVIEW, Status.INFRA_ERROR])
def test_undecided_work_has_no_score(status):
    assert dataclasses.replace(RESULT, status=status).score is None


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "half right"},
        {"statements": [{"name": "twice"}]},
        {"statements": "twice"},
        {"statements": [{"name": "twice", "colour": "red"}]},
        {"statements": None},
    ],
    ids=str,
)
def test_damaged_json_is_an_error(change):
    facts = json.loads(to_json(RESULT))
    facts["exercises"][0] |= change
    with pytest.raises((ValueError, KeyError, TypeError)):
        from_json(json.dumps(facts))
