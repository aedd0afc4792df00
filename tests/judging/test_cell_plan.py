"""Which cells of a lesson run, in which order, and what of them other cells need."""

import concurrent.futures
import gc
import inspect
import time

import nbformat
import pytest
import tiny

from grader.judging import cell_plan
from grader.judging.cell_plan import Step, kind_of, steps
from grader.submissions.answers import Answers, fill_in
from grader.submissions.definitions import defined, definitions, parse


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return tiny.lesson(
        tmp_path_factory.mktemp("course") / "course",
        (
            'print("a demonstration")',
            "import math\n\nprint(math.pi)\n\n\ndef helper():\n    return 1",
        ),
    )


def test_definitions_are_imports_functions_and_classes():
    source = """
import numpy as np
from math import pi

x = np.ones(3)  # a comment


def f(x, *, y=2):
    "Doubles."
    return x * y


print(f(x))


class C(dict):
    size: int = 3


for i in range(10**9):
    pass
"""
    kept = definitions(source)
    assert "print" not in kept and "ones" not in kept and "range" not in kept
    namespace = {}
    exec(kept, namespace)
    assert namespace["f"](3) == 6
    assert namespace["f"].__doc__ == "Doubles."
    assert (namespace["C"].size, namespace["np"].__name__) == (3, "numpy")


def test_what_a_cell_does_with_a_learners_functions_is_left_out():
    source = '@needs("double")\ndef _():\n    print(double(2))\n'
    assert definitions(f"{source}\n\ndef half(x):\n    return x / 2") == (
        "def half(x):\n    return x / 2"
    )


def test_decorators_are_kept_and_nested_definitions_stay_inside():
    source = "@staticmethod\ndef f():\n    def g(): pass\nif True:\n    def h(): pass\n"
    assert defined(definitions(source)) == ["f"]
    assert "@staticmethod" in definitions(source)


@pytest.mark.parametrize("magic", ["%time", "files = !ls", "f?", "  %timeit f()"])
def test_definitions_beside_ipythons_own_syntax_are_kept(magic):
    indent = "if True:\n" * magic.startswith(" ")
    source = f"def f():\n    return 1\n{indent}{magic}\ndef g():\n    return 2"
    assert defined(definitions(source)) == ["f", "g"]


@pytest.mark.parametrize("source", ["", "x = 1", "# nothing", "'text'"])
def test_a_cell_without_definitions_leaves_nothing(source):
    assert definitions(source) == ""


def test_names_of_what_a_cell_defines():
    assert defined("def f(): pass\nclass C: pass\nx = 1") == ["f", "C"]


@pytest.mark.parametrize(
    "source",
    [
        "def f(:",
        "\0",
        "'\ud800'",
        "-" * 10**5 + "1",
        "x\n" * 10**6,
    ],
    ids=["syntax", "null", "surrogate", "deep", "long"],
)
def test_other_cells_get_nothing_of_a_cell_that_cannot_be_read(source):
    assert Step("double", "exercise", source).lean == ""


def test_steps_follow_the_lesson_and_leave_out_checks_and_scorecard(lesson):
    found = steps(lesson)
    kinds = [step.kind for step in found]
    assert kinds == ["setup", "lesson", "exercise", "exercise"]
    assert [step.name for step in found][2:] == ["double", "negate"]
    assert not any("check(" in step.source for step in found)


def test_other_cells_need_only_the_definitions_of_a_lessons_cell(lesson):
    by_kind = {step.kind: step for step in steps(lesson)}
    demonstration = by_kind["lesson"]
    assert "print" in demonstration.source and "print" not in demonstration.lean
    assert "import math" in demonstration.lean and "def helper" in demonstration.lean
    assert by_kind["exercise"].lean.startswith("def negate")


def test_added_cells_run_whole_and_where_they_stood(lesson):
    answers = Answers(
        {"double": "def double(x): return 2 * x"},
        extras=(("setup", "first = 1"), ("double", "second = 2")),
    )
    found = steps(fill_in(lesson, answers))
    order = [step.source for step in found if step.kind in ("exercise", "extra")]
    places = [order.index(text) for text in ("first = 1", "second = 2")]
    assert places[0] < order.index("def double(x): return 2 * x") < places[1]


@pytest.mark.parametrize(
    ("name", "marks", "kind"),
    [
        ("setup", {}, "setup"),
        ("scorecard", {}, ""),
        ("double", {"solution": True}, "exercise"),
        ("check-double", {"grade": True}, ""),
        ("demonstration", {"solution": False, "grade": False}, "lesson"),
        ("demonstration", {}, "lesson"),
        ("extra-0", {}, "extra"),
    ],
)
def test_the_kind_of_a_cell_is_its_part_in_grading(name, marks, kind):
    metadata = {"nbgrader": marks} if marks else {}
    cell = nbformat.v4.new_code_cell("x = 1", id=name, metadata=metadata)
    assert kind_of(cell) == kind


def yield_to_others(*_):
    time.sleep(0)


def test_threads_parse_side_by_side():
    source = inspect.getsource(cell_plan)
    gc.callbacks.append(yield_to_others)  # in the middle of a tree, as JAX's can
    try:
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            found = [*threads.map(parse, [source] * 100)]
    finally:
        gc.callbacks.remove(yield_to_others)
    assert len(found) == 100
