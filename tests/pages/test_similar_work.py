"""Who has the same answers: for instructors, as information."""

import dataclasses
import textwrap
import weakref

import pytest
from bs4 import BeautifulSoup

from coursekit.outcomes import FAILS
from grader.pages.class_report import ClassReport
from grader.pages.similar_work import Answers, normal_form
from grader.results import ExerciseResult, Outcome, Result, StatementResult, Status

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


def groups(results, solutions=()):
    """Makes rows: who, and which exercises."""
    answers = Answers(dict(solutions))
    for student, result in results.items():
        answers.add(student, {one.exercise: one.source for one in result.exercises})
    return [(" ".join(one.authors), *one.exercises) for one in answers.groups()]


def test_learners_with_two_equal_answers_are_one_group():
    renamed = ANSWER.replace("losses", "errors").replace("train", "run")
    results = {
        "ada": work(ANSWER, renamed, OTHER),
        "bob": work(REWORDED, renamed, SHORT),
        "eve": work(OTHER, OTHER, SHORT),
    }
    assert groups(results) == [("ada bob", "exercise_0", "exercise_1")]


def test_one_equal_answer_is_chance():
    results = {"ada": work(ANSWER, OTHER), "bob": work(ANSWER, ANSWER)}
    assert groups(results) == []


def test_the_published_solution_is_named():
    solved = {"exercise_0": ANSWER, "exercise_1": OTHER}
    results = {"ada": work(REWORDED, OTHER), "bob": work(OTHER, ANSWER)}
    assert groups(results, solved) == [
        ("ada the published solution", "exercise_0", "exercise_1")
    ]


def test_many_who_share_answers_are_one_row_in_any_order():
    results = {f"student-{n:02}": work(ANSWER, OTHER) for n in range(40)}
    assert groups(results) == [(" ".join(results), "exercise_0", "exercise_1")]
    assert groups(results) == groups(dict(reversed(results.items())))
    assert "Learners Who Exercises 40 student-00, student-01," in words(results)
    assert "student-19 and 20 more exercise_0, exercise_1" in words(results)


def test_those_who_share_more_are_a_group_of_their_own():
    results = {
        "ada": work(ANSWER, OTHER, ANSWER),
        "bob": work(ANSWER, OTHER, ANSWER),
        "cyd": work(ANSWER, OTHER, OTHER),
    }
    assert groups(results) == [
        ("ada bob", "exercise_0", "exercise_1", "exercise_2"),
        ("ada bob cyd", "exercise_0", "exercise_1"),
    ]


def report(results, solutions=(), names=()):
    facts = {"solutions": dict(solutions), "names": dict(names)}
    made = ClassReport("01_tiny", title="Tiny", **facts)
    for student, result in results.items():
        made.add(student, result)
    return made.page()


def words(results, solutions=()):
    text = BeautifulSoup(report(results, solutions), "html.parser").get_text(" ")
    return " ".join(text.split())


def test_the_class_report_shows_it_and_says_what_it_is_not():
    results = {"ada": work(ANSWER, OTHER), "b<i>ob": work(REWORDED, OTHER)}
    page = report(results)
    assert "Equal answers" in page
    assert "no proof" in page
    assert "<td>ada, b&lt;i&gt;ob</td>" in page
    named = report(results, names={"ada": "Lovelace, Ada"})
    assert "<td>Lovelace, Ada (ada), b&lt;i&gt;ob</td>" in named
    alone = report({"ada": work(ANSWER)})
    assert "Equal answers" not in alone
    assert textwrap.dedent(ANSWER) not in page


def test_the_class_report_marks_what_equals_the_published_solution():
    solved = {"exercise_0": ANSWER, "exercise_1": OTHER}
    text = words({"ada": work(ANSWER, OTHER)}, solved)
    assert "1 ada (the published solution) exercise_0, exercise_1" in text


def test_report_of_a_class_keeps_no_layouts_and_no_code():
    """A drawn layout may take tens of kilobytes, and a class has thousands."""
    parts = tuple((device, ((device, device + 1),)) for device in range(64))
    layouts = ((64,), parts, parts)
    failed = StatementResult("sum", True, 0, FAILS, "It is 0.", (), layouts)
    result = work(ANSWER, OTHER)
    one = dataclasses.replace(result.exercises[0], statements=(failed,))
    made = ClassReport("01_tiny", title="Tiny", solutions={}, names={})
    kept = weakref.WeakSet()
    for number in range(3):
        copied = dataclasses.replace(one, message=f"It is {number}.")
        kept.add(copied)
        made.add(f"student-{number}", dataclasses.replace(result, exercises=(copied,)))
        del copied
    assert len(kept) == 0
    assert "It is 0." in made.page()
