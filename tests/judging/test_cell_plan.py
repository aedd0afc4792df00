"""What of a lesson's cells runs where: definitions, plain cells, the order of cells."""

import concurrent.futures
import gc
import inspect
import time

import nbformat
import pytest
import tiny

from grader.judging import cell_plan
from grader.judging.cell_plan import (
    definitions,
    defs,
    is_plain,
    is_special,
    parse,
    steps,
)
from grader.submissions.answers import Answers, fill_in


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


def test_decorators_are_kept_and_nested_definitions_stay_inside():
    source = "@staticmethod\ndef f():\n    def g(): pass\nif True:\n    def h(): pass\n"
    assert defs(definitions(source)) == ["f"]
    assert "@staticmethod" in definitions(source)


@pytest.mark.parametrize("source", ["", "x = 1", "# nothing", "'text'"])
def test_a_cell_without_definitions_leaves_nothing(source):
    assert definitions(source) == ""


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(): pass\nclass C: pass\nx = 1", ["f", "C"]),
        ("def f(:", []),
        ("%time\ndef f(): pass", []),
        ("\0", []),
        ("'\ud800'", []),
        ("-" * 100_000 + "1", []),
        ("x = 1\n" * 100_000, []),
    ],
    ids=["both", "syntax", "magic", "null", "surrogate", "deep", "long"],
)
def test_names_of_what_a_cell_defines(source, names):
    assert defs(source) == names


PLAIN = [
    "",
    "def f(x):\n    return x + 1",
    '"""A text."""\nimport numpy as np\nfrom jax import lax\n\n\ndef f(x): return x',
    "class C:\n    def size(self): return 3",
    "def f(x):\n    y = dict(x)\n    y['a'] = y['b'] = 1\n    return y",
    "def f(x):\n    x[0][1] += 1\n    del x[2]",
    "def f(rows):\n    for row in rows:\n        row[0] = 1",
    "def f(x):\n    def g():\n        nonlocal x\n        x = 2\n    return g()",
]
REACHING = [
    "print(1)",
    "x = 1",
    "if True:\n    def f(): pass",
    "from numpy import *",
    "def helper(): pass",
    "class helper: pass",
    "from numpy import sum as helper",
    "import numpy.linalg as helper",
    "def f():\n    global x\n    x = 1",
    "def f():\n    np.sum = max",
    "def f():\n    del np.sum",
    "def f():\n    setattr(np, 'sum', max)",
    "def f():\n    delattr(np, 'sum')",
    "def f():\n    globals()['x'] = 1",
    "def f():\n    vars(np)['sum'] = max",
    "def f():\n    exec('x = 1')",
    "def f():\n    eval('x.append(1)')",
    "def f(x):\n    params['w'] = x",
    "def f(x):\n    del params['w'][0]",
    "%matplotlib inline\ndef f(): pass",
    "def f(:",
    "\0",
    "def f(): pass\n" * 40_000,
]


@pytest.mark.parametrize("source", PLAIN)
def test_a_cell_of_functions_alone_is_plain(source):
    assert is_plain(source, {"helper"})


@pytest.mark.parametrize("source", REACHING, ids=lambda source: source[:40])
def test_a_cell_that_may_touch_its_neighbours_is_not_plain(source):
    assert not is_plain(source, {"helper"})


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
    assert by_kind["setup"].lean == by_kind["setup"].source
    assert by_kind["exercise"].lean == by_kind["exercise"].source


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
    ("name", "marks", "special"),
    [
        ("setup", {}, True),
        ("scorecard", {}, True),
        ("double", {"solution": True}, True),
        ("check-double", {"grade": True}, True),
        ("demonstration", {"solution": False, "grade": False}, False),
        ("demonstration", {}, False),
    ],
)
def test_special_cells_are_those_with_a_part_in_grading(name, marks, special):
    metadata = {"nbgrader": marks} if marks else {}
    cell = nbformat.v4.new_code_cell("x = 1", id=name, metadata=metadata)
    assert is_special(cell) is special


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
