"""A check module runs as it is written, on whatever its names are bound to."""

import tempfile
from pathlib import Path

import pytest

from coursekit.checks import CheckModule, Solutions
from coursekit.context import Context, current_context, within
from coursekit.observe import observe

SOURCE = '''\
"""Checks."""

from coursekit.checks import hidden, visible
from coursekit.expect import expect_close
from coursekit.learner import double, negate
from coursekit.observe import observe
from coursekit.outcomes import statement

FACTOR = 2


def expected(x):
    return FACTOR * x


@visible("double", points=1.5, essential=["twice"], others=["large"])
def examples_of_double():
    with statement("twice"):
        expect_close(observe(double, 3), expected(3))


@hidden("double")
def cases_of_double():
    with statement("large"):
        expect_close(observe(double, 700), expected(700))


@visible("negate", points=2, bonus=True, essential=["negative"])
def examples_of_negate():
    with statement("negative"):
        expect_close(observe(negate, 3), -3)
'''
CELL = """\
from coursekit.checks import hidden, solution

solution("def negate(x): return -x")

@hidden("negate")
def _():
    with statement("negative"):
        expect_close(observe(negate, FACTOR), -2)
"""


@pytest.fixture(autouse=True)
def context():
    """Nothing that other tests have defined, and nothing left for them."""
    with within(Context()) as found:
        yield found


def module(source=SOURCE, **meanings):
    made = CheckModule(source, "<checks>", observe)
    made.bind(meanings)
    return made


def double(x):
    return 2 * x


def small(x):
    return 2 * x if x < 100 else x


def test_a_module_says_what_each_exercise_is_worth():
    found = module().checks
    assert [*found] == ["double", "negate"]
    assert (found["double"].points, found["double"].is_bonus) == (1.5, False)
    assert (found["double"].essential, found["double"].others) == (
        ("twice",),
        ("large",),
    )
    assert (found["negate"].points, found["negate"].is_bonus) == (2, True)
    assert found["negate"].others == ()


def test_both_parts_are_one_check():
    assert module(double=double).run("double").outcome == "right"
    verdict = module(double=small).run("double")
    assert (verdict.outcome, verdict.share) == ("partly right", 0.5)
    assert module(double=abs).run("double").outcome == "wrong"


def test_without_hidden_cases_the_examples_alone_decide():
    verdict = module(double=small).run("double", with_hidden=False)
    assert (verdict.outcome, verdict.share) == ("right on the examples", 1)


def test_the_same_module_serves_one_answer_after_the_other():
    made = module(double=abs)
    assert made.run("double").outcome == "wrong"
    made.bind({"double": double})
    assert made.run("double").outcome == "right"


def test_what_a_check_writes_is_removed_when_it_ends():
    before, found = tempfile.gettempdir(), []

    def double(x):
        found.append(Path(tempfile.mkdtemp()))
        return 2 * x

    assert module(double=double).run("double").outcome == "right"
    assert len(found) == 2 and not any(folder.exists() for folder in found)
    assert tempfile.gettempdir() == before


def test_a_class_may_ask_for_all_or_nothing(context):
    context.partial_credit = False
    verdict = module(double=small).run("double")
    assert (verdict.outcome, verdict.share) == ("wrong", 0)
    assert all(one.is_essential for one in verdict.statements)
    assert module(double=double).run("double").share == 1


def test_hidden_cases_of_a_cell_use_the_modules_names():
    made = module(negate=lambda x: -x if x == 3 else x)
    assert made.run("negate").outcome == "right"
    made.add_hidden(CELL)
    assert made.run("negate").outcome == "wrong"
    assert current_context().hidden == {}  # none of a notebook's own


def test_a_notebooks_own_cells_may_define_hidden_cases(context):
    exec(CELL, {})
    made = module(negate=lambda x: -x if x == 3 else x)
    made.hidden |= context.hidden
    assert made.run("negate").outcome == "wrong"
    assert [*made.hidden] == ["double", "negate"]


def test_solutions_are_run_beside_the_notebooks_names(capsys):
    notebook = {"FACTOR": 2, "double": "the learner's"}
    sources = {
        "double": "print('loud')\ndef double(x):\n    return FACTOR * x",
        "size": "SIZE = FACTOR",
    }
    exec(CELL, {})  # a solution in a cell
    found = Solutions(sources, notebook).of("double")
    assert (found["double"](4), found["SIZE"], found["negate"](3)) == (8, 2, -3)
    assert notebook == {"FACTOR": 2, "double": "the learner's"}
    assert capsys.readouterr().out == ""


def test_a_solution_whose_names_are_missing_stops_its_own_check_alone():
    sources = {"double": "SIZE = 2", "later": "@of_a_later_cell\ndef later(x): pass"}
    found = Solutions(sources, {})
    assert found.of("double")["SIZE"] == 2
    with pytest.raises(NameError, match="of_a_later_cell"):
        found.of("later")


def test_a_learners_function_is_known_by_the_name_that_the_checks_use(context):
    made = module()
    answer, notebook = (lambda x: 2 * x), {"other": abs}
    notebook |= {"mine": answer, "double": answer}
    made.compare_with({"double": double}, notebook)
    assert context.functions == {"double": answer}
    assert context.solutions["double"] is double
    # A function of the checks themselves means ours, on our solutions.
    assert context.solutions["expected"](3) == 6


def test_the_visible_part_can_be_read():
    assert module().text_of("double") == (
        "def examples_of_double():\n"
        '    with statement("twice"):\n'
        "        expect_close(observe(double, 3), expected(3))"
    )


def test_a_module_that_cannot_be_run_names_its_line():
    with pytest.raises(ZeroDivisionError) as error:
        CheckModule("FACTOR = 1\n1 / 0\n", "<checks of 01_tiny>")
    assert error.traceback[-1].lineno == 1
    assert str(error.traceback[-1].statement) == "1 / 0"
