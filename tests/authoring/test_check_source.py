"""A fault in a lesson's checks is named with its file, its line and its remedy.

Hidden cases are cut out of what learners get, and nothing else is.
"""

import ast

import pytest
from tiny import CHECKS, NAME, REPOSITORY, SOURCE, changed, write_course

from grader.authoring.check_source import checks_path, read_checks, visible_source
from grader.authoring.lesson import read_lesson
from grader.authoring.source_error import SourceError

MARK = '@visible("double", points=1, essential=["twice"])'
HIDDEN = '@hidden("double")'
EXAMPLES = "def examples_of_double():"
BLOCK = '    with statement("twice"):\n        expect_close(observe(double, 3), 6)\n'
IN_CASES = "        expect_close(observe(double, -7), -14)\n"
TWICE = "# [twice] `double(x)` returns twice `x`."


def options(text):
    return MARK.replace('points=1, essential=["twice"]', text)


# Name of the fault: (what is replaced in the checks, by what, text at the line that the
# message must name, the problem in words, part of the remedy).
FAULTS = {
    "syntax error": (
        IN_CASES,
        "        expect_close(observe(double, -7), -14\n",
        "        expect_close(observe(double, -7), -14\n",
        "'(' was never closed.",
        "Correct the syntax.",
    ),
    "second check": (
        '@visible("negate"',
        '@visible("double"',
        "def examples_of_negate",
        'A second check of "double".',
        "Remove one of the two.",
    ),
    "second function with hidden cases": (
        '@visible("negate"',
        f'{HIDDEN}\ndef more():\n    pass\n\n\n@visible("negate"',
        "def more",
        'A second function with hidden cases of "double".',
        "Remove one of the two.",
    ),
    "hidden cases alone": (
        HIDDEN,
        '@hidden("duble")',
        "def cases_of_double",
        'Hidden cases of "duble", which has no visible examples.',
        'Add a function with @visible("duble", ...).',
    ),
    "points that are computed": (
        MARK,
        options('points=ONE, essential=["twice"]'),
        "points=ONE",
        "points is computed.",
        "Write it as plain values",
    ),
    "points that are text": (
        MARK,
        options('points="1", essential=["twice"]'),
        EXAMPLES,
        "points is '1', not a positive number.",
        "Write points=2.",
    ),
    "no points": (
        MARK,
        options('essential=["twice"]'),
        EXAMPLES,
        "points is 0, not a positive number.",
        "Write points=2.",
    ),
    "negative points": (
        MARK,
        options('points=-1, essential=["twice"]'),
        EXAMPLES,
        "points is -1, not a positive number.",
        "Write points=2.",
    ),
    "points that are true": (
        MARK,
        options('points=True, essential=["twice"]'),
        EXAMPLES,
        "points is True, not a positive number.",
        "Write points=2.",
    ),
    "bonus that is a number": (
        MARK,
        options('points=1, essential=["twice"], bonus=2'),
        EXAMPLES,
        "bonus is 2.",
        "Write bonus=True, or leave it out.",
    ),
    "unknown option": (
        MARK,
        options('points=1, essentials=["twice"]'),
        "essentials=",
        'Unknown option "essentials".',
        "Known are: points, essential, others, bonus.",
    ),
    "nothing essential": (
        MARK,
        options('points=1, others=["twice"]'),
        EXAMPLES,
        "examples_of_double has no essential statement.",
        'essential=["..."]',
    ),
    "statement that is no list": (
        MARK,
        options('points=1, essential="twice"'),
        EXAMPLES,
        "essential is 'twice', not a list of names.",
        'Write essential=["..."].',
    ),
    "statement that is no name": (
        MARK,
        options('points=1, essential=["twice"], others=[2]'),
        EXAMPLES,
        "others is [2], not a list of names.",
        'Write others=["..."].',
    ),
    "statement of both kinds": (
        MARK,
        options('points=1, essential=["twice"], others=["twice"]'),
        EXAMPLES,
        'examples_of_double names "twice" twice.',
        "Remove one of the two.",
    ),
    "statement that nothing proves": (
        MARK,
        options('points=1, essential=["twice"], others=["kept"]'),
        EXAMPLES,
        'Nothing proves "kept" of double.',
        'Add a block: with statement("kept"):',
    ),
    "block of an unknown statement": (
        BLOCK,
        f'{BLOCK}    with statement("thrice"):\n        pass\n',
        'with statement("thrice")',
        'double has no statement "thrice".',
        "Name it in @visible, among essential or others.",
    ),
    "hidden block of an unknown statement": (
        IN_CASES,
        f'{IN_CASES}    with statement("twice", "odd"):\n        pass\n',
        'with statement("twice", "odd")',
        'double has no statement "odd".',
        "Name it in @visible",
    ),
    "case of an unknown statement": (
        IN_CASES,
        f'{IN_CASES}    cases = [Case(1, statements="odd")]\n',
        "cases = [",
        'double has no statement "odd".',
        "Name it in @visible",
    ),
    "compared fact of an unknown statement": (
        IN_CASES,
        f'{IN_CASES}    expect_like_solution(double, cases, sent=["twice", "bytes"])\n',
        "expect_like_solution",
        'double has no statement "bytes".',
        "Name it in @visible",
    ),
    "expectation outside of a block": (
        BLOCK,
        f"{BLOCK}    expect_close(observe(double, 1), 2)\n",
        "expect_close(observe(double, 1), 2)",
        "An expectation proves no statement.",
        'Put it into a block: with statement("..."):',
    ),
    "expectation in a loop": (
        BLOCK,
        f"{BLOCK}    for x in (1, 2):\n        expect_close(observe(double, x), x)\n",
        "expect_close(observe(double, x)",
        "An expectation proves no statement.",
        "Put it into a block",
    ),
    "expectation in a hidden handler": (
        IN_CASES,
        f"{IN_CASES}    try:\n        pass\n    except ValueError:\n"
        "        expect_error(observe(double, x), ValueError)\n",
        "expect_error(",
        "An expectation proves no statement.",
        "Put it into a block",
    ),
    "expectation in a block of another kind": (
        BLOCK,
        f"{BLOCK}    with redirected():\n        expect_close(observe(double, 1), 2)\n",
        "expect_close(observe(double, 1), 2)",
        "An expectation proves no statement.",
        "Put it into a block",
    ),
    "check of no exercise": (
        '@visible("negate", points=2, essential=["negative"])',
        '@visible("thrice", points=2, essential=["twice"])\ndef f():\n'
        '    with statement("twice"):\n        pass\n\n\n'
        '@visible("negate", points=2, essential=["negative"])',
        "def f",
        'The lesson has no exercise "thrice".',
        "Remove its check.",
    ),
    "statement that the text does not make": (
        MARK + "\n" + EXAMPLES,
        options('points=1, essential=["twice"], others=["kept"]')
        + f'\n{EXAMPLES}\n    with statement("kept"):\n        pass',
        EXAMPLES,
        'The text of double does not state "kept".',
        "Mark the sentence that does: - [kept] ...",
    ),
}


def line_of(text, source):
    assert source.count(text) == 1, text
    return source[: source.index(text)].count("\n") + 1


def message_of(path):
    with pytest.raises(SourceError) as caught:
        read_lesson(path, REPOSITORY)
    return str(caught.value)


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_named_with_file_line_and_remedy(fault, tmp_path):
    old, new, place, problem, remedy = FAULTS[fault]
    checks = changed(CHECKS, (old, new))
    path = write_course(tmp_path / "course", checks=checks)
    message = message_of(path)
    where = f"{checks_path(path)}:{line_of(place, checks)}"
    assert message.startswith(f"{where}: {problem}")
    assert remedy in message


def test_missing_checks_are_named_with_the_remedy(tmp_path):
    path = write_course(tmp_path / "course")
    checks_path(path).unlink()
    assert message_of(path) == (
        f"{checks_path(path)}:1: The file is missing. "
        "Write the checks of the lesson's exercises into it."
    )


def test_checks_that_are_not_utf8_are_named_with_their_line(tmp_path):
    path = write_course(tmp_path / "course")
    text = changed(CHECKS, (BLOCK, f"    # Gr\xf6\xdfe\n{BLOCK}"))
    checks_path(path).write_bytes(text.encode("latin-1"))
    where = f"{checks_path(path)}:{line_of('# Gr', text)}"
    assert message_of(path) == f"{where}: Not UTF-8. Save it as UTF-8."


def test_exercise_without_a_check_is_named(tmp_path):
    checks = CHECKS[: CHECKS.index('@visible("negate"')]
    path = write_course(tmp_path / "course", checks=checks)
    assert message_of(path) == (
        f'{checks_path(path)}:1: There is no check of "negate". '
        'Add a function with @visible("negate", ...).'
    )


def test_what_the_text_states_and_no_check_proves_is_named(tmp_path):
    source = changed(SOURCE, (TWICE, f"{TWICE}\n#\n# - [kept] It keeps dtypes."))
    path = write_course(tmp_path / "course", source)
    where = f"{checks_path(path)}:{line_of(EXAMPLES, CHECKS)}"
    assert message_of(path).startswith(f'{where}: Nothing proves "kept" of double.')


def test_what_a_lesson_states_of_all_exercises_may_be_proven_of_each(tmp_path):
    source = changed(SOURCE, ("# A demonstration.", "# - [kept] All keep dtypes."))
    proof = '    with statement("kept"):\n        pass\n'
    checks = changed(
        CHECKS,
        (MARK, options('points=1, essential=["twice"], others=["kept"]')),
        (BLOCK, BLOCK + proof),
    )
    assert read_lesson(write_course(tmp_path / "course", source, checks=checks), "")


# Name of what is allowed: (what is replaced in the checks, by what).
ALLOWED = {
    "a name that a variable holds": (
        BLOCK,
        '    name = "twice"\n    with statement(name):\n'
        "        expect_close(observe(double, 3), 6)\n",
    ),
    "a function of the check": (
        BLOCK,
        "    def compare(x):\n        expect_close(observe(double, x), 2 * x)\n\n"
        '    with statement("twice"):\n        compare(3)\n',
    ),
    "a loop around a block": (
        BLOCK,
        '    for x in (1, 2):\n        with statement("twice"):\n'
        "            expect_close(observe(double, x), 2 * x)\n",
    ),
    "comparison with the solution outside of a block": (
        IN_CASES,
        f'{IN_CASES}    expect_like_solution(double, cases, value="twice", '
        'free={"error": "not twice"})\n',
    ),
    "a fraction of a point": (MARK, MARK.replace("points=1", "points=1.5")),
    "statements in a tuple": (MARK, options('points=1, essential=("twice",)')),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_no_fault_is_found_in(name, tmp_path):
    checks = changed(CHECKS, ALLOWED[name])
    path = write_course(tmp_path / "course", checks=checks)
    assert read_lesson(path, REPOSITORY)


def test_checks_are_read_in_order_with_their_facts(tmp_path):
    mark = options('points=1.5, essential=["twice"], others=["b", "a"], bonus=True')
    proof = '    with statement("a", "b"):\n        pass\n'
    path = tmp_path / "checks.py"
    path.write_text(changed(CHECKS, (MARK, mark), (BLOCK, BLOCK + proof)))
    double, negate = read_checks(path).values()
    assert (double.exercise, double.points, double.bonus) == ("double", 1.5, True)
    assert double.statements == ("twice", "b", "a")
    assert double.maximum == 0  # of a bonus none counts in the lesson's
    assert double.hidden == CHECKS[CHECKS.index(HIDDEN) :].split("\n\n\n")[0]
    assert (negate.exercise, negate.maximum, negate.hidden) == ("negate", 2, "")


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


def test_checks_lie_beside_the_lessons(tmp_path):
    path = checks_path(tmp_path / f"{NAME}.py")
    assert path == tmp_path / "checks" / f"{NAME}.py"
