"""Checks are read without being run, and hidden cases are cut out of them."""

import ast

from tiny import CHECKS, NAME, changed

from grader.__main__ import main
from grader.atomic_files import write
from grader.authoring.check_source import (
    checks_path,
    read_checks,
    shown_only,
    visible_source,
)

MARK = '@visible("double", points=1, essential=["twice"])'
HIDDEN = '@hidden("double")'
BLOCK = '    with statement("twice"):\n        expect_close(observe(double, 3), 6)\n'


def test_checks_are_read_in_order_with_their_facts(tmp_path):
    said = 'points=1.5, essential=["twice"], others=["b", "a"], bonus=True'
    mark = f'@visible("double", {said})'
    proof = '    with statement("a", "b"):\n        pass\n'
    path = tmp_path / "checks.py"
    path.write_text(changed(CHECKS, (MARK, mark), (BLOCK, BLOCK + proof)))
    found = read_checks(path)
    assert list(found) == ["double", "negate"]
    double, negate = found.values()
    assert (double.points, double.bonus) == (1.5, True)
    assert double.statements == ["twice", "b", "a"]
    assert double.maximum == 0  # a bonus does not count
    assert double.hidden == CHECKS[CHECKS.index(HIDDEN) :].split("\n\n\n")[0]
    assert (negate.maximum, negate.hidden) == (2, "")


def test_hidden_cases_are_cut_out_and_nothing_else():
    hidden = CHECKS[CHECKS.index(HIDDEN) :].split("@visible")[0]
    assert "-7" in hidden
    assert visible_source(CHECKS) == CHECKS.replace(hidden, "")
    assert visible_source(visible_source(CHECKS)) == visible_source(CHECKS)


def test_hidden_cases_at_the_end_leave_no_blank_lines():
    before, after = CHECKS.split(HIDDEN)
    cases, rest = after.split("@visible", 1)
    last = f"{before}@visible{rest.rstrip()}\n\n\n{HIDDEN}{cases.rstrip()}\n"
    assert visible_source(last) == f"{before}@visible{rest.rstrip()}\n"


HELPER = """\
def expect_twice(x):
    with statement("twice"):
        expect_close(observe(double, x), 2 * x)


"""


def test_what_only_the_examples_try_is_listed(tmp_path):
    path = tmp_path / "checks.py"
    path.write_text(CHECKS)
    assert [*shown_only(path)] == [("negate", "negative")]
    block = BLOCK.replace("3), 6", "-7), -14")
    path.write_text(changed(CHECKS, (MARK, HELPER + MARK), (block, "    pass\n")))
    assert [*shown_only(path)] == [("double", "twice"), ("negate", "negative")]
    called = (MARK, HELPER + MARK), (block, "    expect_twice(-7)\n")
    path.write_text(changed(CHECKS, *called))
    assert [*shown_only(path)] == [("negate", "negative")]


def test_a_private_build_says_so(tmp_path, monkeypatch, capsys):
    checks = tmp_path / "solutions" / "checks" / f"{NAME}.py"
    write(checks, CHECKS)
    write(tmp_path / "solutions" / f"{NAME}.py", "")
    monkeypatch.setattr("grader.authoring.build.build", lambda *_, **__: [])
    assert main(["build", "--folder", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert (
        'note: only examples, which learners can read, try "negative" of negate' in said
    )
    assert '"twice"' not in said


def test_helpers_stay_and_decorators_go():
    extra = '@hidden("double")\n@functools.cache\ndef cases_of_double():'
    checks = changed(
        CHECKS,
        (f"{HIDDEN}\ndef cases_of_double():", extra),
        (MARK, f"def helper(x):\n    return x\n\n\n{MARK}"),
    )
    names = [
        node.name
        for node in ast.parse(visible_source(checks)).body
        if isinstance(node, ast.FunctionDef)
    ]
    assert names == ["helper", "examples_of_double", "examples_of_negate"]
    assert "functools" not in visible_source(checks)


def test_checks_are_beside_the_lessons(tmp_path):
    path = checks_path(tmp_path / f"{NAME}.py")
    assert path == tmp_path / "checks" / f"{NAME}.py"
