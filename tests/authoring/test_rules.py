"""Each rule for authors: what breaks it is named with its file, line and remedy.

All that is wrong is named at once, before anything runs.
"""

import re
from pathlib import Path

import pytest
from tiny import CHECKS, REPOSITORY, SOURCE, changed, write_course

from grader.authoring.build import read_lessons
from grader.authoring.check_source import checks_path
from grader.authoring.known_answers import answers_folder
from grader.authoring.lesson import read_lesson
from grader.authoring.rules import RULES, SourceError

DEMO = "# %%\nprint("
DOUBLE = '# %% exercise="double" minutes=5 difficulty=1'
NEGATE = '# %% exercise="negate" minutes=10 difficulty=3'
DOUBLE_HINTS = '# %% [markdown] hints="double"'
NEGATE_HINTS = '# %% [markdown] hints="negate"'
DOUBLE_CHECK = '# %% check="double"'
NEGATE_CHECK = '# %% check="negate"'
SETUP, SCORECARD = "# %% setup=true", "# %% scorecard=true"
TWICE = "# - [twice] `double(x)` returns twice `x`."

MARK = '@visible("double", points=1, essential=["twice"])'
HIDDEN = '@hidden("double")'
EXAMPLES = "def examples_of_double():"
BLOCK = '    with statement("twice"):\n        expect_close(observe(double, 3), 6)\n'
IN_CASES = "        expect_close(observe(double, -7), -14)\n"

COMPARED = f"""{IN_CASES}
    from coursekit.reference_checks import expect_like_solution

    expect_like_solution("""
# What a comparison with the solution may leave open; of the last, without two.
OPEN = '{"error layout": "a number", "collectives sent arrays compiles arguments": ""}'
REST = '{"collectives sent arrays compiles arguments": ""}'


def options(text):
    return MARK.replace('points=1, essential=["twice"]', text)


# Name of the fault: (the rule, what is replaced in the lesson, by what, text at the
# line that the message must name, the problem in words).
IN_LESSON = {
    "check without exercise": (
        "exercise first",
        DOUBLE_CHECK,
        '# %% check="duble"',
        '# %% check="duble"',
        'check "duble" has no exercise before it.',
    ),
    "hints without exercise": (
        "exercise first",
        DOUBLE_HINTS,
        '# %% [markdown] hints="duble"',
        '# %% [markdown] hints="duble"',
        'hints "duble" has no exercise before it.',
    ),
    "duplicate exercise": (
        "one of each",
        NEGATE,
        DOUBLE.replace("5", "15"),
        DOUBLE.replace("5", "15"),
        'Duplicate exercise "double".',
    ),
    "duplicate check": (
        "one of each",
        NEGATE_CHECK,
        DOUBLE_CHECK,
        DOUBLE_CHECK + '\n\n# %% [markdown] built="negate"',
        'Duplicate check "double".',
    ),
    "duplicate hints": (
        "one of each",
        NEGATE_HINTS,
        DOUBLE_HINTS,
        DOUBLE_HINTS + "\n# - Subtract",
        'Duplicate hints "double".',
    ),
    "duplicate set-up": (
        "one of each",
        DEMO,
        "# %% setup=true\nprint(",
        "# %% setup=true\nprint(",
        'Duplicate setup "setup".',
    ),
    "missing hints": (
        "part",
        NEGATE_HINTS,
        "# %% [markdown]",
        NEGATE,
        'Exercise "negate" has no cell marked hints.',
    ),
    "one hint": (
        "number of hints",
        "# - By two, as in\n#   `2 * x`.\n",
        "",
        DOUBLE_HINTS,
        '"double" has 1 hints.',
    ),
    "four hints": (
        "number of hints",
        "# - From zero.",
        "# - From zero.\n# - Really.",
        NEGATE_HINTS,
        '"negate" has 4 hints.',
    ),
    "hints without a list": (
        "number of hints",
        "# - Multiply `x`.\n# - By two",
        "# Multiply `x`.\n# By two",
        DOUBLE_HINTS,
        '"double" has 0 hints.',
    ),
    "text before the first hint": (
        "number of hints",
        "# - Multiply `x`.",
        "# Think first.\n# - Multiply `x`.",
        DOUBLE_HINTS,
        '"double" has 2 hints.',
    ),
    "missing check": (
        "part",
        NEGATE_CHECK,
        "# %%",
        NEGATE,
        'Exercise "negate" has no cell marked check.',
    ),
    "nothing about what was built": (
        "part",
        '# %% [markdown] built="negate"',
        "# %% [markdown]",
        NEGATE,
        'Exercise "negate" has no cell marked built.',
    ),
    "odd minutes": (
        "minutes",
        "minutes=10",
        "minutes=12",
        '# %% exercise="negate"',
        'Exercise "negate" takes 12 minutes.',
    ),
    "seven statements": (
        "number of statements",
        TWICE,
        TWICE + "".join(f"\n# - [of {number}] Too." for number in range(6)),
        "# %% [markdown]\n# ### Exercise 1.1: double",
        "double states 7 things. State 6 at most",
    ),
    "no minutes": (
        "minutes",
        " minutes=10",
        "",
        '# %% exercise="negate"',
        'Exercise "negate" takes None minutes.',
    ),
    "negative minutes": (
        "minutes",
        "minutes=10",
        "minutes=-1",
        '# %% exercise="negate"',
        'Exercise "negate" takes -1 minutes.',
    ),
    "no difficulty": (
        "difficulty",
        " difficulty=3",
        "",
        '# %% exercise="negate"',
        'Exercise "negate" has difficulty None.',
    ),
    "difficulty out of range": (
        "difficulty",
        "difficulty=3",
        "difficulty=4",
        '# %% exercise="negate"',
        'Exercise "negate" has difficulty 4.',
    ),
    "solution mark never closed": (
        "solution",
        "    return secret * x\n    ### END SOLUTION\n",
        "    return secret * x\n",
        DOUBLE,
        'Exercise "double" has no solution.',
    ),
    "solution mark never opened": (
        "solution",
        "    ### BEGIN SOLUTION\n    secret",
        "    secret",
        DOUBLE,
        'Exercise "double" has no solution.',
    ),
    "nested solution marks": (
        "solution",
        "    return secret * x",
        "    ### BEGIN SOLUTION\n    return secret * x",
        DOUBLE,
        'Exercise "double" has no solution.',
    ),
    "no solution": (
        "solution",
        "    ### BEGIN SOLUTION\n    return -x\n    ### END SOLUTION\n",
        "    return -x\n",
        NEGATE,
        'Exercise "negate" has no solution.',
    ),
    "empty solution": (
        "solution",
        "    return -x\n",
        "",
        NEGATE,
        'Exercise "negate" has no solution.',
    ),
    "check in a text cell": (
        "kind of cell",
        NEGATE_CHECK,
        NEGATE_CHECK.replace("%%", "%% [markdown]"),
        NEGATE_CHECK.replace("%%", "%% [markdown]"),
        'check "negate" is in the wrong kind of cell.',
    ),
    "check with code": (
        "empty check",
        NEGATE_CHECK,
        NEGATE_CHECK + "\nexpect_close(observe(negate, 3), -3)",
        NEGATE_CHECK,
        'The check of "negate" is written by the build.',
    ),
    "exercise in a text cell": (
        "kind of cell",
        NEGATE,
        NEGATE.replace("%%", "%% [markdown]"),
        NEGATE.replace("%%", "%% [markdown]"),
        'exercise "negate" is in the wrong kind of cell.',
    ),
    "bullet without a name": (
        "named statement",
        "# - [twice] `double(x)` returns twice `x`.",
        "# - [twice] `double(x)` returns twice `x`.\n#\n# - It keeps dtypes.",
        "# %% [markdown]\n# ### Exercise 1.1: double",
        'A statement of double has no name: "It keeps dtypes.".',
    ),
    "unknown mark": (
        "known mark",
        DEMO,
        '# %% exercises="triple"\nprint(',
        '# %% exercises="triple"',
        'Unknown mark "exercises".',
    ),
    "mark of another cell": (
        "known mark",
        NEGATE_CHECK,
        NEGATE_CHECK + " minutes=2",
        NEGATE_CHECK,
        'Unknown mark "minutes".',
    ),
    "no set-up": (
        "set-up and scorecard",
        SETUP,
        "# %%",
        SCORECARD,
        "The setup cell is missing.",
    ),
    "no scorecard": (
        "set-up and scorecard",
        SCORECARD,
        "# %%\nlast = 1",
        "# %%\nlast = 1",
        "The scorecard cell is missing.",
    ),
    "too many lines": (
        "length of code",
        'print("a demonstration")',
        "\n".join(f"x = {number}" for number in range(21)),
        "# %%\nx = 0",
        "The code has 21 lines.",
    ),
    "function of another name": (
        "function",
        "def negate(x):",
        "def minus(x):",
        NEGATE,
        'The cell of exercise "negate" does not define negate.',
    ),
    "too many solution lines": (
        "length of solution",
        "    return -x\n",
        15 * "    x = x + 0\n" + "    return -x\n",
        NEGATE,
        "The solution has 16 lines.",
    ),
    "statement without heading": (
        "task",
        "# ### Exercise 1.2: negate\n#\n",
        "",
        NEGATE,
        'Exercise "negate" has no task right before it.',
    ),
    "statement of another exercise": (
        "task",
        "# ### Exercise 1.2: negate\n",
        "# ### Exercise 1.2: negative\n",
        NEGATE,
        'Exercise "negate" has no task right before it.',
    ),
    "code between statement and exercise": (
        "task",
        NEGATE,
        f"# %%\nx = 1\n\n{NEGATE}",
        NEGATE,
        'Exercise "negate" has no task right before it.',
    ),
    "text before the first cell": (
        "first cell",
        "# %% [markdown]\n# # Lesson 1",
        "import os\n\n# %% [markdown]\n# # Lesson 1",
        "import os",
        "Text before the first cell.",
    ),
}
# The same for its checks.
IN_CHECKS = {
    "second check": (
        "one of each",
        '@visible("negate"',
        '@visible("double"',
        "def examples_of_negate",
        'Duplicate visible "double".',
    ),
    "second function with hidden cases": (
        "one of each",
        '@visible("negate"',
        f'{HIDDEN}\ndef more():\n    pass\n\n\n@visible("negate"',
        "def more",
        'Duplicate hidden "double".',
    ),
    "hidden cases alone": (
        "visible check",
        HIDDEN,
        '@hidden("duble")',
        "def cases_of_double",
        'There is no check of "duble".',
    ),
    "points that are computed": (
        "arguments",
        MARK,
        options('points=ONE, essential=["twice"]'),
        EXAMPLES,
        '@visible("double", ...) takes plain values of',
    ),
    "no points": (
        "arguments",
        MARK,
        options('essential=["twice"]'),
        EXAMPLES,
        '@visible("double", ...) takes plain values of',
    ),
    "unknown option": (
        "arguments",
        MARK,
        options('points=1, essentials=["twice"]'),
        EXAMPLES,
        '@visible("double", ...) takes plain values of',
    ),
    "nothing essential": (
        "arguments",
        MARK,
        options('points=1, others=["twice"]'),
        EXAMPLES,
        '@visible("double", ...) takes plain values of',
    ),
    "no points at all": (
        "arguments",
        MARK,
        options('points=0, essential=["twice"]'),
        EXAMPLES,
        '@visible("double", ...) takes plain values of',
    ),
    "statement named twice": (
        "arguments",
        MARK,
        options('points=1, essential=["twice"], others=["twice"]'),
        EXAMPLES,
        '@visible("double", ...) takes plain values of',
    ),
    "name that nothing defines": (
        "undefined name",
        '    with statement("negative"):\n',
        '    with statement("negative"):\n        x = np.zeros(3)\n',
        "np.zeros(3)",
        'The name "np" is not defined. Import it',
    ),
    "function that the lesson lacks": (
        "learner's name",
        "import double, negate\n",
        "import double, negate, thrice\n",
        "import double, negate, thrice",
        'The lesson does not define "thrice".',
    ),
    "statement without a block": (
        "tried",
        BLOCK
        + "\n\n"
        + HIDDEN
        + "\ndef cases_of_double():\n"
        + '    with statement("twice"):\n'
        + IN_CASES,
        "    observe(double, 3)\n",
        EXAMPLES,
        '@visible names "twice" of double, but no block tries it.',
    ),
    "block of no statement": (
        "known statement",
        BLOCK,
        f'{BLOCK}    with statement("twist"):\n        pass\n',
        'statement("twist")',
        '@visible of double does not name "twist". Known are: "twice".',
    ),
    "case of no statement": (
        "known statement",
        IN_CASES,
        f'{COMPARED}double, lambda: 1, value="twist", free={OPEN})\n',
        "lambda: 1",
        '@visible of double does not name "twist". Known are: "twice".',
    ),
    "facts that are neither compared nor open": (
        "open facts",
        IN_CASES,
        f'{COMPARED}double, print, value="twice", free={REST})\n',
        "expect_like_solution(",
        "expect_like_solution(double, ...) neither compares nor frees: error, ",
    ),
    "fact that is compared and open": (
        "facts twice",
        IN_CASES,
        f'{COMPARED}double, print, value="twice", error="twice", free={OPEN})\n',
        "expect_like_solution(",
        "expect_like_solution(double, ...) both compares and leaves open: error.",
    ),
    "fact that does not exist": (
        "known facts",
        IN_CASES,
        f'{COMPARED}double, print, values="twice", value="twice", free={OPEN})\n',
        "expect_like_solution(",
        "expect_like_solution(double, ...) knows no values. Known are: value, error",
    ),
    "expectation outside of a block": (
        "expectation",
        BLOCK,
        f"{BLOCK}    expect_close(observe(double, 1), 2)\n",
        "expect_close(observe(double, 1), 2)",
        "An expectation proves no statement.",
    ),
    "expectation in a loop": (
        "expectation",
        BLOCK,
        f"{BLOCK}    for x in (1, 2):\n        expect_close(observe(double, x), x)\n",
        "expect_close(observe(double, x)",
        "An expectation proves no statement.",
    ),
    "expectation in a hidden handler": (
        "expectation",
        IN_CASES,
        f"{IN_CASES}    try:\n        pass\n    except ValueError:\n"
        "        expect_close(observe(double, 1), 2)\n",
        "expect_close(observe(double, 1), 2)",
        "An expectation proves no statement.",
    ),
    "expectation in a block of another kind": (
        "expectation",
        BLOCK,
        f"{BLOCK}    with open(0):\n        expect_close(observe(double, 1), 2)\n",
        "expect_close(observe(double, 1), 2)",
        "An expectation proves no statement.",
    ),
    "check of no exercise": (
        "check of an exercise",
        '@visible("negate", points=2, essential=["negative"])',
        '@visible("thrice", points=2, essential=["twice"])\ndef f():\n'
        '    with statement("twice"):\n        pass\n\n\n'
        '@visible("negate", points=2, essential=["negative"])',
        "def f",
        'The lesson has no exercise "thrice".',
    ),
    "statement that the text does not make": (
        "stated",
        MARK + "\n" + EXAMPLES,
        options('points=1, essential=["twice"], others=["kept"]')
        + f'\n{EXAMPLES}\n    with statement("kept"):\n        pass',
        EXAMPLES,
        'The text of double does not state "kept".',
    ),
}


# The same for the known answers to a private lesson.
ANSWERS = '''\
# %% right="adds"
"""Adds `x` to itself."""


def double(x):
    return x + x


# %% wrong="once" fails="twice"
"""Forgets to double."""


def double(x):
    return x
'''
WRONG = '# %% wrong="once" fails="twice"'
IN_ANSWERS = {
    "answers to no exercise": (
        "answers of an exercise",
        None,
        "duble.py",
        "# %% right",
        'The lesson has no exercise "duble".',
    ),
    "no right answer": (
        "both answers",
        '# %% right="adds"',
        '# %% wrong="adds" fails="twice"',
        '# %% wrong="adds"',
        'Exercise "double" has no right one among its known answers. Add a cell: # %%',
    ),
    "misspelled header": (
        "header of an answer",
        WRONG,
        f'# %% correct="as before"\n\n{WRONG}',
        "# %% correct",
        "This begins no known answer.",
    ),
    "another function": (
        "answer",
        "def double(x):\n    return x + x",
        "def twice(x):\n    return x + x",
        '# %% right="adds"',
        'The answer "adds" does not define double.',
    ),
    "no statement that fails": (
        "what fails",
        WRONG,
        '# %% wrong="once"',
        '# %% wrong="once"',
        'The wrong answer "once" does not say which statements it fails.',
    ),
    "unknown statement": (
        "failing statement",
        WRONG,
        WRONG.replace("twice", "twice; thrice"),
        "# %% wrong",
        'The wrong answer "once" fails "thrice", which @visible of double',
    ),
    "answers that are no Python": (
        "syntax",
        "return x + x",
        "return x +",
        "return x +",
        "This is not Python: invalid syntax.",
    ),
}
# The faults that break another rule, too.
BREAK_OTHERS = {
    *("check without exercise", "hints without exercise", "duplicate exercise"),
    *("duplicate check", "duplicate hints", "seven statements", "second check"),
    *("points that are computed", "function of another name"),
}


def line_of(text, source):
    assert source.count(text) == 1, text
    return source[: source.index(text)].count("\n") + 1


def message_of(path):
    with pytest.raises(SourceError) as caught:
        read_lesson(path, REPOSITORY)
    return str(caught.value)


def fault_of(message, fault, start):
    """Returns the line that begins so; few faults break another rule, too."""
    lines = message.splitlines()
    [found] = [line for line in lines if line.startswith(start)]
    assert (len(lines) > 1) == (fault in BREAK_OTHERS), message
    return found


def pattern(rule):
    """Matches the rule's message with any values in it."""
    text = RULES[rule].replace("{{", "{").replace("}}", "}")
    return re.sub(r"\\{\w+\\}", ".*", re.escape(text))


@pytest.mark.parametrize("fault", IN_LESSON)
def test_fault_in_a_lesson_is_named(fault, tmp_path):
    rule, old, new, place, problem = IN_LESSON[fault]
    source = changed(SOURCE, (old, new))
    path = write_course(tmp_path / "course", source)
    where = f"{path}:{line_of(place, source)}: "
    found = fault_of(message_of(path), fault, where + problem)
    assert re.fullmatch(pattern(rule), found.removeprefix(where))


@pytest.mark.parametrize("fault", IN_CHECKS)
def test_fault_in_checks_is_named(fault, tmp_path):
    rule, old, new, place, problem = IN_CHECKS[fault]
    checks = changed(CHECKS, (old, new))
    path = write_course(tmp_path / "course", checks=checks)
    where = f"{checks_path(path)}:{line_of(place, checks)}: "
    found = fault_of(message_of(path), fault, where + problem)
    assert re.fullmatch(pattern(rule), found.removeprefix(where))


def private_course(root, answers=ANSWERS, name="double.py"):
    """Writes a private lesson with known answers; returns the answers' file."""
    path = write_course(root)
    for own in ("lessons", "pyproject.toml", "solutions/setup_cell.py"):
        (root / own).rename(root.parent / Path(own).name)
    folder = answers_folder(path)
    folder.mkdir(parents=True)
    negate = ANSWERS.replace("double(", "negate(").replace("twice", "negative")
    (folder / "negate.py").write_text(negate)
    (folder / "double.py").write_text(ANSWERS)
    (folder / name).write_text(answers)
    return folder / name


@pytest.mark.parametrize("fault", IN_ANSWERS)
def test_fault_in_known_answers_is_named(fault, tmp_path):
    rule, old, new, place, problem = IN_ANSWERS[fault]
    answers = changed(ANSWERS, (old, new)) if old else ANSWERS
    name = "double.py" if old else new
    path = private_course(tmp_path / "own", answers, name)
    with pytest.raises(SourceError) as caught:
        read_lessons(tmp_path / "own")
    where = f"{path}:{line_of(place, answers)}: "
    found = fault_of(str(caught.value), fault, where + problem)
    assert re.fullmatch(pattern(rule), found.removeprefix(where))


def test_private_lesson_with_two_known_answers_breaks_no_rule(tmp_path):
    private_course(tmp_path / "own")
    assert read_lessons(tmp_path / "own")


def test_all_that_is_wrong_in_all_lessons_is_named_at_once(tmp_path):
    own = tmp_path / "own"
    answers = private_course(own, changed(ANSWERS, (WRONG, '# %% wrong="once"')))
    (own / "solutions" / "02_more.py").write_text("x = 1\n")
    with pytest.raises(SourceError) as caught:
        read_lessons(own)
    message = str(caught.value)
    assert f"{answers}:9: The wrong answer" in message
    assert f"{own / 'solutions' / '02_more.py'}:1: Text before the first" in message
    assert "checks/02_more.py:1: The file is missing." in message


def test_faults_of_a_private_lesson_stop_no_build_of_another(tmp_path):
    own = tmp_path / "own"
    private_course(own)
    (own / "solutions" / "02_more.py").write_text("x = 1\n")
    assert [path.stem for path in read_lessons(own, ["01"])] == ["01_tiny"]
    with pytest.raises(SourceError, match=r"02_more\.py:1: Text before the first"):
        read_lessons(own, ["02"])


def test_all_that_is_wrong_is_named_at_once(tmp_path):
    faults = "no set-up", "odd minutes", "four hints"
    source = changed(SOURCE, *(IN_LESSON[fault][1:3] for fault in faults))
    named = "points that are computed", "expectation outside of a block"
    checks = changed(CHECKS, *(IN_CHECKS[fault][1:3] for fault in named))
    message = message_of(write_course(tmp_path / "course", source, checks=checks))
    for fault in faults:
        assert IN_LESSON[fault][4] in message
    for fault in named:
        assert IN_CHECKS[fault][4] in message


def test_each_rule_has_a_fault():
    found = {fault[0] for fault in (*IN_LESSON.values(), *IN_CHECKS.values())}
    found |= {fault[0] for fault in IN_ANSWERS.values()}
    assert found | {"file of checks", "proven"} == RULES.keys()  # tested below


@pytest.mark.parametrize(
    "fault, header",
    {
        "check without exercise": '# %% exercise="duble"',
        "missing hints": '# %% [markdown] hints="negate"',
        "missing check": '# %% check="negate"',
    }.items(),
)
def test_header_in_a_remedy_can_be_copied(fault, header, tmp_path):
    source = changed(SOURCE, IN_LESSON[fault][1:3])
    assert header in message_of(write_course(tmp_path / "course", source))


def test_exercise_in_the_first_cell_needs_a_task(tmp_path):
    source = SOURCE[SOURCE.index(DOUBLE) :] + f"\n{SETUP}\n"
    path = write_course(tmp_path / "course", source)
    assert message_of(path).startswith(f'{path}:1: Exercise "double" has no task')


def test_empty_file_is_named(tmp_path):
    path = write_course(tmp_path / "course", "")
    assert message_of(path).startswith(f"{path}:1: ")


def test_missing_checks_are_named_with_the_remedy(tmp_path):
    path = write_course(tmp_path / "course")
    checks_path(path).unlink()
    assert message_of(path) == (
        f"{checks_path(path)}:1: The file is missing. "
        "Write the checks of the lesson's exercises into it."
    )


def test_exercise_without_a_check_is_named(tmp_path):
    checks = CHECKS[: CHECKS.index('@visible("negate"')]
    path = write_course(tmp_path / "course", checks=checks)
    assert message_of(path) == (
        f'{checks_path(path)}:1: There is no check of "negate". '
        'Add a function with @visible("negate", ...).'
    )


def test_syntax_error_is_named_with_its_file_and_line(tmp_path):
    source = changed(SOURCE, ('print("a demonstration")', "first = 1\n\nprint((first)"))
    checks = changed(CHECKS, ("def examples_of_double():", "def examples_of_double()"))
    path = write_course(tmp_path / "course", source, checks=checks)
    one, two = message_of(path).splitlines()
    line = line_of("print((first)", source)
    assert one.startswith(f"{path}:{line}: This is not Python: '(' was never closed.")
    line = line_of("def examples_of_double", checks)
    assert two.startswith(f"{checks_path(path)}:{line}: This is not Python: expected")


@pytest.mark.parametrize(
    "text, problem",
    [
        (TWICE.replace("- [twice] ", ""), 'The text of double does not state "twice".'),
        (
            f"{TWICE}\n#\n# - [kept] It keeps dtypes.",
            'Nothing proves "kept" of double.',
        ),
    ],
)
def test_what_either_the_text_or_the_checks_lack_is_named(text, problem, tmp_path):
    path = write_course(tmp_path / "course", changed(SOURCE, (TWICE, text)))
    where = f"{checks_path(path)}:{line_of(EXAMPLES, CHECKS)}"
    assert message_of(path).startswith(f"{where}: {problem}")


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
        f'{COMPARED}double, print, value="twice", free={OPEN})\n',
    ),
    "what is open in a constant": (
        IN_CASES,
        f'{COMPARED}double, print, value="twice", free=free | {REST})\n'.replace(
            "    expect_like_solution(",
            '    more = {"error": ""}\n    free = more | {"layout": ""}\n'
            "    expect_like_solution(",
        ),
    ),
    "what is open in a dict that changes": (
        IN_CASES,
        f'{COMPARED}double, print, value="twice", free=free)\n'.replace(
            "    expect_like_solution(",
            f"    free = {REST}\n    free |= {OPEN}\n    expect_like_solution(",
        ),
    ),
    "a fraction of a point": (MARK, MARK.replace("points=1", "points=1.5")),
    "statements in a tuple": (MARK, options('points=1, essential=("twice",)')),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_no_fault_is_found_in_checks_with(name, tmp_path):
    checks = changed(CHECKS, ALLOWED[name])
    path = write_course(tmp_path / "course", checks=checks)
    assert read_lesson(path, REPOSITORY)


@pytest.mark.parametrize(
    "old, new",
    {
        "20 lines": ('print("a demonstration")', 20 * "x = 1\n\n"),
        "15 solution lines": ("    return -x\n", 15 * "    return -x\n\n"),
        "long docstring": ("Returns `-x`.", "Returns `-x`." + 30 * "\n    More."),
        "a header without its space": (DEMO, "#%%\nprint("),
    }.values(),
    ids=str.split,
)
def test_no_fault_is_found_in_a_lesson_with(old, new, tmp_path):
    path = write_course(tmp_path / "course", changed(SOURCE, (old, new)))
    assert read_lesson(path, REPOSITORY)
