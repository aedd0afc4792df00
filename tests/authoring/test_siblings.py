"""A sibling is an exercise of its own: the published solution does not solve it."""

import re

import jax
import pytest
import tiny
from solved_lesson import SOURCES, JudgeHere, run

from coursekit.context import Context, within
from grader import ROOT
from grader.authoring.build import read
from grader.authoring.rules import BuildError
from grader.authoring.siblings import draw, read_with, siblings_of, table_path
from grader.judging.judge_process import material
from grader.lessons.release import checks, exercises, release, with_check_of
from grader.submissions.definitions import definitions

SIBLINGS = [
    (source, exercise, name)
    for source in SOURCES
    for exercise, found in siblings_of(source).items()
    for name in found
]
TABLE = """
[[double]]
name = "triple"
replace = [
  ["returns twice `x`", "returns three times `x`"],
  ["Returns twice `x`", "Returns three times `x`"],
  ["secret = 2", "secret = 3"],
  ["observe(double, 3), 6", "observe(double, 3), 9"],
  ["observe(double, -7), -14", "observe(double, -7), -21"],
]
[[double]]
name = "half"
replace = [["Returns what nobody said", "half"]]
"""


def ids(value):
    return value.stem if hasattr(value, "stem") else value


@pytest.mark.parametrize(("source", "exercise", "name"), SIBLINGS, ids=ids)
def test_a_sibling_changes_its_exercise_and_nothing_else(source, exercise, name):
    public, own = read(source, ROOT), read_with(source, ROOT, {exercise: name})
    before, after = exercises(release(public)), exercises(release(own))
    assert before.keys() == after.keys()
    assert exercises(public)[exercise].source != exercises(own)[exercise].source
    assert public.metadata.checks != own.metadata.checks
    others = before.keys() - {exercise}
    assert all(before[one].source == after[one].source for one in others)
    sources = [cell.source for cell in checks(own).values()]
    assert len(sources) == len(before)


@pytest.mark.slow
@pytest.mark.parametrize(("source", "exercise", "name"), SIBLINGS, ids=ids)
def test_its_solution_is_right_and_the_published_one_gets_nothing(
    source, exercise, name
):
    own, namespace = read_with(source, ROOT, {exercise: name}), {"__name__": "lesson"}
    for cell in own.cells:
        facts = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and not facts.get("grade"):
            is_whole = cell.id == "setup" or facts.get("solution")
            text = cell.source if is_whole else definitions(cell.source)
            run(text, f"<{cell.id}>", namespace)
    # As learners have it.
    context = Context(lesson=source.stem, namespaces=[namespace])
    with (
        within(context),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):
        judge = JudgeHere(namespace, material(with_check_of(own, exercise)), context)
        found = judge.verdict(exercise)
        assert found.outcome == "right", found
        run(exercises(read(source, ROOT))[exercise].source, "<published>", namespace)
        assert judge.verdict(exercise).share == 0


@pytest.fixture
def source(tmp_path):
    path = tiny.write_course(tmp_path)
    table_path(path).parent.mkdir()
    table_path(path).write_text(TABLE)
    return path


def test_text_stub_solution_and_check_change_alike(source):
    lesson = read_with(source, source.parents[1], {"double": "triple"})
    text = "\n".join(cell.source for cell in release(lesson).cells)
    assert "returns three times `x`" in text and "twice `x`" not in text
    assert "secret = 3" in exercises(lesson)["double"].source
    assert "observe(double, 3), 9" in lesson.metadata.checks
    assert "-21" in checks(lesson)["double"].source
    assert "observe(negate, 3), -3" in lesson.metadata.checks


def test_a_cell_that_runs_what_the_learner_wrote_is_left_out(source):
    payoff = (
        '# %%\n@needs("double")\ndef _():\n    print(double(3))\n\n\n# %% scorecard'
    )
    text = tiny.changed(source.read_text(), ("# %% scorecard", payoff))
    source.write_text(text)
    lesson = read_with(source, source.parents[1], {"double": "triple"})
    assert "needs" not in "".join(cell.source for cell in lesson.cells)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("half", 'nothing about double says "Returns what nobody said"'),
        ("fifth", 'has no sibling "fifth" of double'),
    ],
)
def test_what_is_not_there_is_named(source, name, said):
    with pytest.raises(BuildError, match=re.escape(said)):
        read_with(source, source.parents[1], {"double": name})


def test_a_seed_draws_one_of_them_and_always_the_same(source):
    drawn = [draw(source, str(seed))["double"] for seed in range(20)]
    assert {*drawn} == {"triple", "half"}
    assert drawn == [draw(source, str(seed))["double"] for seed in range(20)]
