"""Who has the same answers: for instructors, as information."""

import textwrap

import pytest

from grader.pages.class_report import class_report
from grader.pages.similar_work import normal_form, similar_work
from grader.results import ExerciseResult, Outcome, Result, Status

ANSWER = '''
def train(params, batches, lr):
    """Trains."""
    losses = []
    for x, y in batches:
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        params = jax.tree.map(lambda p, g: p - lr * g, params, grads)
        losses.append(float(loss))  # one number
    return params, np.array(losses)
'''
REWORDED = """
def train(weights: dict, data: list, rate: float) -> tuple:
    seen = []
    for inputs, targets in data:

        value, slope = jax.value_and_grad(loss_fn)(weights, inputs, targets)
        weights = jax.tree.map(
            lambda w, s: w - rate * s, weights, slope
        )
        seen.append(float(value))
    return weights, np.array(seen)
"""
OTHER = ANSWER.replace("p - lr * g", "p - g * lr")
SHORT = "def train(params, batches, lr):\n    return params\n"


def work(*sources):
    exercises = tuple(
        ExerciseResult(f"exercise_{number}", Outcome.PASSED, 1, 1, source=source)
        for number, source in enumerate(sources)
    )
    return Result("01_tiny", exercises, Status.GRADED)


def test_names_comments_types_and_layout_make_no_other_answer():
    assert normal_form(ANSWER) == normal_form(REWORDED) != ""
    assert normal_form(ANSWER) != normal_form(OTHER)


@pytest.mark.parametrize("source", ["", SHORT, "def f(:", "x = " + "(" * 5000])
def test_what_is_short_or_cannot_be_read_is_like_nothing(source):
    assert normal_form(source) == ""


def test_two_students_with_two_equal_answers_are_listed_for_each_other():
    renamed = ANSWER.replace("losses", "errors").replace("train", "run")
    results = {
        "ada": work(ANSWER, renamed, OTHER),
        "bob": work(REWORDED, renamed, SHORT),
        "eve": work(OTHER, OTHER, SHORT),
    }
    found = similar_work(results, {})
    assert found == {
        "ada": ["bob: exercise_0, exercise_1"],
        "bob": ["ada: exercise_0, exercise_1"],
    }


def test_one_equal_answer_is_chance():
    results = {"ada": work(ANSWER, OTHER), "bob": work(ANSWER, ANSWER)}
    assert similar_work(results, {}) == {}


def test_the_published_solution_is_named():
    solved = {"exercise_0": ANSWER, "exercise_1": OTHER}
    results = {"ada": work(REWORDED, OTHER), "bob": work(OTHER, ANSWER)}
    assert similar_work(results, solved) == {
        "ada": ["the published solution: exercise_0, exercise_1"]
    }


def test_many_who_share_answers_are_counted():
    results = {f"student-{n:02}": work(ANSWER, OTHER) for n in range(9)}
    texts = similar_work(results, {})["student-04"]
    assert len(texts) == 6
    assert texts[-1] == "and 3 more"


def report(results):
    return class_report("01_tiny", results, title="Tiny", solutions={})


def test_the_class_report_shows_it_and_says_what_it_is_not():
    results = {"ada": work(ANSWER, OTHER), "b<i>ob": work(REWORDED, OTHER)}
    page = report(results)
    assert "Equal answers" in page
    assert "no proof" in page
    assert "<td>b&lt;i&gt;ob: exercise_0, exercise_1</td>" in page
    alone = report({"ada": work(ANSWER)})
    assert "Equal answers" not in alone
    assert textwrap.dedent(ANSWER) not in page
