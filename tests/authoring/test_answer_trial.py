"""What a check found about a known answer is compared with what its header says."""

import pytest

from grader.authoring.answer_trial import fault_of
from grader.authoring.known_answers import KnownAnswer

ANSWER = KnownAnswer("06", "f", "wrong", "once", ("a", "b"), "x is halved", "")


@pytest.mark.parametrize(
    ("outcome", "failed", "said"),
    [
        ("wrong", {"a": "", "b": "x is halved"}, ""),
        ("wrong", {"b": "x is halved", "a": ""}, ""),
        (
            "right",
            {},
            'should fail: a; b. But the check says "right"; it fails: nothing.',
        ),
        ("partly right", {"b": "x is halved"}, "should fail: a; b. But"),
        ("wrong", {"a": "", "b": ""}, "shows another likely cause: none."),
    ],
)
def test_a_wrong_answer_fails_the_statements_that_it_names(outcome, failed, said):
    assert said in fault_of(ANSWER, outcome, "", failed)
    assert bool(said) == bool(fault_of(ANSWER, outcome, "", failed))
