"""A learner's own `check` or `observe` stays theirs, and checks work as before."""

import ast
import types
from pathlib import Path

import nbformat
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from coursekit import notebook, own_names, setup
from coursekit.check import Wrong
from coursekit.own_names import OwnNames, transform

SOLVED = sorted((Path(__file__).resolve().parents[2] / "solutions").glob("0*.ipynb"))
MINE = "mine: "
# What a learner may write: every name that the set-up cell brings means another thing.
LEARNERS = "\n".join(
    f"def {name}(*arguments, **options):\n    return {MINE + name!r}\n"
    for name in notebook.__all__
)
CHECK = """
with check("double", points=2):
    def close(x):
        return [(lambda: expect_close(observe(double, x), 2 * x))() for _ in range(2)]
    for x in (1.5, -2):
        close(x)
"""
REPORTS = {
    "scorecard(double=2)": "double  2 of 2  right\ntotal   2 of 2\n",
    'checklist({"it doubles": "double"})': "[x] it doubles (double)\n",
}


def double(x):
    return 2 * x


def learners_notebook(**more):
    namespace = {}
    exec(LEARNERS, namespace)
    return namespace | {"np": np, "double": double} | more


def run(source, namespace):
    exec(compile(transform(ast.parse(source)), "cell", "exec"), namespace)


@pytest.mark.parametrize("helpers", [False, True], ids=["imported", "the learner's"])
def test_a_check_reads_the_courses_names_and_leaves_the_learners(helpers, capsys):
    names = {name: getattr(notebook, name) for name in notebook.__all__}
    namespace = learners_notebook(**({} if helpers else names))
    before = dict(namespace)
    run(CHECK, namespace)
    assert "Right: double does what it should." in capsys.readouterr().out
    for cell, printed in REPORTS.items():
        run(cell, namespace)
        assert capsys.readouterr().out == printed
    after = {name for name in namespace if namespace[name] is not before.get(name)}
    assert after == {"close", "x"}


def test_a_wrong_answer_is_still_wrong():
    with pytest.raises(Wrong):
        run(CHECK, learners_notebook(double=lambda x: 3 * x))


def test_a_name_that_the_check_itself_defines_is_its_own():
    run(
        'with check("double", points=2):\n'
        "    def expect_close(*_):\n"
        '        found.append("its own")\n'
        "    expect_close(observe(double, 1), 3)\n",
        learners_notebook(found=(found := [])),
    )
    assert found == ["its own"]


OTHERS = {
    "a call": "found = check('double')",
    "not first": "x = 1\nwith check('double', points=2):\n    pass",
    "another with": "with observe('double', points=2):\n    pass",
    "without points": "with check('double'):\n    observe(double, 1)",
    "another argument": "with check(double, points=2):\n    pass",
    "rows of another scorecard": "scorecard([1, 2])",
    "no rows": "scorecard()",
    "its result": "found = scorecard(double=2)",
    "more than a scorecard": "scorecard(double=2)\nobserve(double, 1)",
    "a list": "checklist(['a', 'b'])",
    "a function": "def f():\n    with check('double', points=2):\n        observe(f)",
    "an observation": "seen = observe(double, 3)\nexpect_close(seen, 6)",
    "nothing": "# nothing yet",
}


@pytest.mark.parametrize("source", OTHERS.values(), ids=OTHERS.keys())
def test_a_cell_of_the_learners_stays_as_it_is(source):
    before = ast.dump(ast.parse(source), include_attributes=True)
    assert ast.dump(transform(ast.parse(source)), include_attributes=True) == before


def test_every_line_keeps_its_number():
    tree = ast.parse(CHECK)
    lines = {node.id: node.lineno for node in ast.walk(tree) if hasattr(node, "id")}
    found = {
        node.attr: (node.lineno, node.end_lineno, node.value.lineno)
        for node in ast.walk(transform(tree))
        if isinstance(node, ast.Attribute)
    }
    assert set(found) == {"check", "expect_close", "observe"}
    assert all(places == (lines[name],) * 3 for name, places in found.items())


@pytest.mark.parametrize("path", SOLVED, ids=lambda path: path.stem)
def test_each_lessons_checks_and_scorecard_are_recognized_and_nothing_else(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code" and cell.id != "setup":
            tree, before = ast.parse(cell.source), ast.dump(ast.parse(cell.source))
            defined = {getattr(node, "name", "") for node in tree.body}
            is_own = ast.dump(transform(tree)) != before
            is_report = cell.source.startswith(("scorecard(", "checklist("))
            assert is_own == (cell.metadata.nbgrader.grade or is_report)
            # Else a check would read the course's function instead of the learner's.
            assert not defined & {*notebook.__all__}


def test_a_transformer_that_fails_leaves_the_cell_alone(monkeypatch):
    monkeypatch.setattr(own_names, "is_own", lambda tree: 1 / 0)
    tree = ast.parse(CHECK)
    assert OwnNames().visit(tree) is tree


@pytest.fixture
def shell():
    """A shell in this process, which runs cells as a notebook's kernel does."""
    settings = Config({"HistoryManager": {"enabled": False}})
    module = types.ModuleType("notebook")
    shell = InteractiveShell.instance(config=settings, user_module=module)
    yield shell
    InteractiveShell.clear_instance()


def test_a_notebook_whose_learner_took_every_name_is_checked(shell, capsys):
    for _ in range(2):  # a learner runs the set-up cell again
        setup.with_devices(8)
    assert [type(one) for one in shell.ast_transformers] == [OwnNames]
    shell.user_ns["double"] = double
    for source in (LEARNERS, CHECK, *REPORTS):
        assert shell.run_cell(source).success
    out = capsys.readouterr().out
    assert "Right: double does what it should. 2 of 2 points." in out
    assert out.endswith("".join(REPORTS.values()))
    assert shell.run_cell("found = observe(double), check('double')").success
    assert shell.user_ns["found"] == (f"{MINE}observe", f"{MINE}check")


def test_outside_of_a_notebook_nothing_is_registered(monkeypatch):
    own_names.register()
    monkeypatch.delitem(own_names.sys.modules, "IPython")
    own_names.register()
