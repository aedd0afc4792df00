"""A fault in a lesson's source is named with its file, its line and its remedy."""

import pytest
from tiny import REPOSITORY, SOURCE, changed, write_course

from grader.authoring.lesson import read_lesson
from grader.authoring.source import SourceError, read_source

DEMO = "# %%\nprint("
DOUBLE = '# %% exercise="double" minutes=3 difficulty=1'
NEGATE = '# %% exercise="negate" minutes=12 difficulty=3'
DOUBLE_HINTS = '# %% [markdown] hints="double"'
NEGATE_HINTS = '# %% [markdown] hints="negate"'
DOUBLE_CHECK = '# %% check="double"'
NEGATE_CHECK = '# %% check="negate"'
SETUP, SCORECARD = "# %% setup=true", "# %% scorecard=true"

# Name of the fault: (what is replaced in the source, by what, text at the line that
# the message must name, the problem in words, part of the remedy).
FAULTS = {
    "check without exercise": (
        DOUBLE_CHECK,
        '# %% check="duble"',
        '# %% check="duble"',
        'check "duble" has no exercise before it.',
        "correct the name",
    ),
    "hints without exercise": (
        DOUBLE_HINTS,
        '# %% [markdown] hints="duble"',
        '# %% [markdown] hints="duble"',
        'hints "duble" has no exercise before it.',
        "correct the name",
    ),
    "duplicate exercise": (
        NEGATE,
        DOUBLE.replace("3", "4"),
        DOUBLE.replace("3", "4"),
        'Duplicate exercise "double".',
        "Rename one of the two.",
    ),
    "duplicate check": (
        NEGATE_CHECK,
        DOUBLE_CHECK,
        DOUBLE_CHECK + "\n\n# %% [markdown]\n# ## The end",
        'Duplicate check "double".',
        "Rename one of the two.",
    ),
    "duplicate hints": (
        NEGATE_HINTS,
        DOUBLE_HINTS,
        DOUBLE_HINTS + "\n# - Subtract",
        'Duplicate hints "double".',
        "Rename one of the two.",
    ),
    "duplicate set-up": (
        DEMO,
        "# %% setup=true\nprint(",
        "# %% setup=true\nprint(",
        'Duplicate setup "setup".',
        "Rename one of the two.",
    ),
    "missing hints": (
        NEGATE_HINTS,
        "# %% [markdown]",
        NEGATE,
        'Exercise "negate" has no hint.',
        "Add a cell",
    ),
    "one hint": (
        "# - By two, as in\n#   `2 * x`.\n",
        "",
        DOUBLE_HINTS,
        '"double" has 1 hints.',
        "Give two or three",
    ),
    "four hints": (
        "# - From zero.",
        "# - From zero.\n# - Really.",
        NEGATE_HINTS,
        '"negate" has 4 hints.',
        "Give two or three",
    ),
    "hints without a list": (
        "# - Multiply `x`.\n# - By two",
        "# Multiply `x`.\n# By two",
        DOUBLE_HINTS,
        '"double" has 0 hints.',
        "each a list item",
    ),
    "text before the first hint": (
        "# - Multiply `x`.",
        "# Think first.\n# - Multiply `x`.",
        DOUBLE_HINTS,
        "",
        "each a list item",
    ),
    "missing check": (
        NEGATE_CHECK,
        "# %%",
        NEGATE,
        'Exercise "negate" has no check.',
        "Add a cell",
    ),
    "no minutes": (
        " minutes=12",
        "",
        '# %% exercise="negate"',
        'minutes of "negate" is None, not a positive number.',
        "Write minutes=2 in the cell's header.",
    ),
    "negative minutes": (
        "minutes=12",
        "minutes=-1",
        '# %% exercise="negate"',
        'minutes of "negate" is -1, not a positive number.',
        "Write minutes=2 in the cell's header.",
    ),
    "no difficulty": (
        " difficulty=3",
        "",
        '# %% exercise="negate"',
        'difficulty of "negate" is None, not a positive number.',
        "Write difficulty=2 in the cell's header.",
    ),
    "difficulty out of range": (
        "difficulty=3",
        "difficulty=4",
        '# %% exercise="negate"',
        "difficulty is 4.",
        "Choose 1, 2 or 3.",
    ),
    "solution mark never closed": (
        "    return secret * x\n    ### END SOLUTION\n",
        "    return secret * x\n",
        "    ### BEGIN SOLUTION\n    secret",
        "### BEGIN SOLUTION is never closed.",
        "Add ### END SOLUTION",
    ),
    "solution mark never opened": (
        "    ### BEGIN SOLUTION\n    secret",
        "    secret",
        "    ### END SOLUTION\n\n\n" + DOUBLE_HINTS,
        "### END SOLUTION closes nothing.",
        "Add ### BEGIN SOLUTION before it.",
    ),
    "nested solution marks": (
        "    return secret * x",
        "    ### BEGIN SOLUTION\n    return secret * x",
        "    ### BEGIN SOLUTION\n    return secret * x",
        "### BEGIN SOLUTION twice.",
        "Close the first.",
    ),
    "no solution": (
        "    ### BEGIN SOLUTION\n    return -x\n    ### END SOLUTION\n",
        "    return -x\n",
        NEGATE,
        'Exercise "negate" has no solution region.',
        "Put ### BEGIN SOLUTION and ### END SOLUTION around the answer.",
    ),
    "empty solution": (
        "    return -x\n",
        "",
        NEGATE,
        'Exercise "negate" has no solution region.',
        "Put ### BEGIN SOLUTION and ### END SOLUTION around the answer.",
    ),
    "check in a text cell": (
        NEGATE_CHECK,
        NEGATE_CHECK.replace("%%", "%% [markdown]"),
        NEGATE_CHECK.replace("%%", "%% [markdown]"),
        "",
        "",
    ),
    "check with code": (
        NEGATE_CHECK,
        NEGATE_CHECK + "\nexpect_close(observe(negate, 3), -3)",
        NEGATE_CHECK,
        'The check of "negate" is written by the build.',
        "Move its code to ",
    ),
    "exercise in a text cell": (
        NEGATE,
        NEGATE.replace("%%", "%% [markdown]"),
        NEGATE.replace("%%", "%% [markdown]"),
        "",
        "",
    ),
    "exercise that states nothing by name": (
        "# [twice] `double(x)` returns twice `x`.",
        "# `double(x)` returns twice `x`.",
        "# %% [markdown]\n# ### Exercise 1.1: double",
        "The text of double states nothing by name.",
        "Begin a statement with its name",
    ),
    "bullet without a name": (
        "# [twice] `double(x)` returns twice `x`.",
        "# [twice] `double(x)` returns twice `x`.\n#\n# - It keeps dtypes.",
        "# %% [markdown]\n# ### Exercise 1.1: double",
        'A statement of double has no name: "It keeps dtypes."',
        "Begin it with one: - [name] ...",
    ),
    "unknown mark": (
        DEMO,
        '# %% exercises="triple"\nprint(',
        '# %% exercises="triple"',
        'Unknown mark "exercises".',
        "Known are: setup, exercise, hints, check, scorecard.",
    ),
    "mark of another cell": (
        NEGATE_CHECK,
        NEGATE_CHECK + " minutes=2",
        NEGATE_CHECK,
        'Unknown mark "minutes".',
        "Known are:",
    ),
    "points beside the check module": (
        NEGATE_CHECK,
        NEGATE_CHECK + " points=2",
        NEGATE_CHECK,
        'Unknown mark "points".',
        "Known are:",
    ),
    "no set-up": (
        SETUP,
        "# %%",
        SCORECARD,
        "The setup cell is missing.",
        "Add # %% setup=true.",
    ),
    "no scorecard": (
        SCORECARD,
        "# %%\nlast = 1",
        "# %%\nlast = 1",
        "The scorecard cell is missing.",
        "Add # %% scorecard=true.",
    ),
    "syntax error": (
        'print("a demonstration")',
        "first = 1\n\nprint((first)",
        "print((first)",
        "'(' was never closed.",
        "Correct the syntax.",
    ),
    "syntax error below blank lines": (
        'print("a demonstration")',
        "\n\nprint((1)",
        "print((1)",
        "'(' was never closed.",
        "Correct the syntax.",
    ),
    "function of another name": (
        "def negate(x)",
        "def negative(x)",
        NEGATE,
        'Exercise "negate" does not define negate().',
        "Name the function or the exercise alike (found: ['negative']).",
    ),
    "too many lines": (
        'print("a demonstration")',
        "\n".join(f"x = {number}" for number in range(21)),
        "# %%\nx = 0",
        "The code has 21 lines.",
        "Split it: 20 at most.",
    ),
    "too many solution lines": (
        "    return -x\n",
        15 * "    x = x + 0\n" + "    return -x\n",
        NEGATE,
        "The solution has 16 lines.",
        "Shorten it to 15.",
    ),
    "statement without heading": (
        "# ### Exercise 1.2: negate\n#\n",
        "",
        NEGATE,
        'Exercise "negate" has no statement right before it.',
        'Add a text cell that starts with "### Exercise N.M: negate".',
    ),
    "statement of another exercise": (
        "# ### Exercise 1.2: negate\n",
        "# ### Exercise 1.2: negative\n",
        NEGATE,
        'Exercise "negate" has no statement right before it.',
        'Add a text cell that starts with "### Exercise N.M: negate".',
    ),
    "code between statement and exercise": (
        NEGATE,
        f"# %%\nx = 1\n\n{NEGATE}",
        NEGATE,
        'Exercise "negate" has no statement right before it.',
        'Add a text cell that starts with "### Exercise N.M: negate".',
    ),
    "text before the first cell": (
        "# %% [markdown]\n# # Lesson 1",
        "import os\n\n# %% [markdown]\n# # Lesson 1",
        "import os",
        "Text before the first cell.",
        "Move it into one.",
    ),
    "header without its space": (DEMO, "#%%\nprint(", "#%%\nprint(", "", ""),
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
    source = changed(SOURCE, (old, new))
    path = write_course(tmp_path / "course", source)
    message = message_of(path)
    assert message.startswith(f"{path}:{line_of(place, source)}: {problem}")
    assert remedy in message


@pytest.mark.parametrize(
    "fault, header",
    {
        "check without exercise": '# %% exercise="duble"',
        "missing hints": '# %% [markdown] hints="negate"',
        "missing check": '# %% check="negate"',
    }.items(),
)
def test_header_in_a_remedy_can_be_copied(fault, header, tmp_path):
    source = changed(SOURCE, FAULTS[fault][:2])
    assert header in message_of(write_course(tmp_path / "course", source))


def test_exercise_in_the_first_cell_needs_a_statement(tmp_path):
    source = SOURCE[SOURCE.index(DOUBLE) :] + f"\n{SETUP}\n"
    path = write_course(tmp_path / "course", source)
    assert message_of(path).startswith(f'{path}:1: Exercise "double" has no statement')


def test_empty_file_is_named(tmp_path):
    path = write_course(tmp_path / "course", "")
    assert message_of(path).startswith(f"{path}:1: ")


def test_file_that_is_not_utf8_is_named_with_its_line(tmp_path):
    path = write_course(tmp_path / "course")
    path.write_bytes(SOURCE.replace("Tiny", "Gr\xf6\xdfe").encode("latin-1"))
    assert message_of(path).startswith(f"{path}:2: ")


def test_marks_of_cells_are_read(tmp_path):
    cells = read_source(write_course(tmp_path / "course"))
    assert [(cell.mark, cell.name) for cell in cells if cell.mark] == [
        ("setup", "setup"),
        ("exercise", "double"),
        ("hints", "double"),
        ("check", "double"),
        ("exercise", "negate"),
        ("hints", "negate"),
        ("check", "negate"),
        ("scorecard", "scorecard"),
    ]


@pytest.mark.parametrize(
    "old, new",
    {
        "20 lines": ('print("a demonstration")', 20 * "x = 1\n\n"),
        "15 solution lines": ("    return -x\n", 15 * "    return -x\n\n"),
        "long docstring": ("Returns `-x`.", "Returns `-x`." + 30 * "\n    More."),
    }.values(),
    ids=str.split,
)
def test_limits_may_be_reached(old, new, tmp_path):
    path = write_course(tmp_path / "course", changed(SOURCE, (old, new)))
    assert read_source(path)
