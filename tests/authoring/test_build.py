"""A build writes the same bytes each time, all or nothing, and names what is stale."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import nbformat
import pytest
import tiny

from coursekit.card import html_card
from coursekit.outcomes import (
    FAILS,
    HOLDS,
    LATER,
    PARTLY,
    RIGHT,
    StatementResult,
    Verdict,
)
from grader import ROOT
from grader.authoring.build import (
    BuildError,
    build,
    refuse_wrong_solutions,
    stale,
)
from grader.authoring.check_source import visible_source
from grader.authoring.rules import SourceError
from grader.lessons.release import checks

SOLVED, RELEASED = "solutions/01_tiny.ipynb", "lessons/01_tiny.ipynb"
SOURCE, CHECKS = "solutions/01_tiny.py", "solutions/checks/01_tiny.py"
VISIBLE = "lessons/coursekit/checks/01_tiny.py"


@pytest.fixture(scope="module")
def first_build(tmp_path_factory):
    """A built course that holds the grader, too, and what that build returned."""
    root = tmp_path_factory.mktemp("built") / "course"
    tiny.write_course(root, setup=tiny.SETUP_WITHOUT_JAX)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "grader", root / "grader", ignore=ignored)
    return root, build(root=root)


@pytest.fixture
def course(first_build, tmp_path):
    """A copy of the built course, for one test to change."""
    return shutil.copytree(first_build[0], tmp_path / "course")


def files(root):
    paths = (path for path in root.rglob("*") if path.is_file())
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in paths
        if "__pycache__" not in path.parts
    }


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def grader(root, *arguments):
    command = [sys.executable, "-m", "grader", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


def add_lesson(root, name="02_more", source=tiny.SOURCE, checks=tiny.CHECKS):
    (root / "solutions" / f"{name}.py").write_text(source)
    (root / "solutions" / "checks" / f"{name}.py").write_text(checks)


def code_outputs(path):
    cells = nbformat.read(path, as_version=4).cells
    return {
        cell.id: "".join(
            output.text if "text" in output else output.data["text/plain"]
            for output in cell.outputs
        )
        for cell in cells
        if cell.cell_type == "code"
    }


def test_build_writes_both_notebooks_and_the_visible_checks(first_build):
    root, written = first_build
    assert written == [root / name for name in (SOLVED, RELEASED, VISIBLE)]


def test_solved_notebook_shows_its_run_without_hidden_cases(first_build):
    path = first_build[0] / SOLVED
    outputs = code_outputs(path)
    assert outputs["check-double"] == "1"
    assert outputs["scorecard"].endswith("total\n")
    cells = {cell.id: cell.source for cell in nbformat.read(path, as_version=4).cells}
    assert cells["check-double"] == 'check("double")'
    assert "return secret * x" in cells["double"]


def test_visible_checks_are_the_checks_without_hidden_cases(first_build):
    text = (first_build[0] / VISIBLE).read_text()
    assert text == visible_source(tiny.CHECKS)
    assert "-7" in tiny.CHECKS and "-7" not in text


def test_released_notebook_shows_no_run(first_build):
    assert set(code_outputs(first_build[0] / RELEASED).values()) == {""}


@pytest.mark.parametrize("name", [SOLVED, RELEASED])
def test_built_notebook_is_valid(first_build, name):
    nbformat.validate(nbformat.read(first_build[0] / name, as_version=4))


def test_another_process_builds_the_same_bytes(course):
    before = files(course)
    (course / SOLVED).unlink()
    (course / RELEASED).unlink()
    child = grader(course, "build")
    assert (child.returncode, child.stderr) == (0, "")
    assert child.stdout == f"wrote {SOLVED}\nwrote {RELEASED}\n"
    assert files(course) == before


def test_nothing_is_stale_after_a_build(course):
    assert stale(root=course) == {}


def test_our_own_lessons_are_fresh():
    child = grader(ROOT, "build", "--check")
    assert (child.returncode, child.stdout, child.stderr) == (0, "", "")


def test_command_line_names_stale_files_and_the_command(course):
    edit(course / RELEASED, "def double", "def twice")
    before = files(course)
    child = grader(course, "build", "--check")
    assert child.returncode == 1
    assert child.stdout == (
        f"{RELEASED} is not what a build writes.\n"
        "Run `python -m grader build` and commit what it writes.\n"
    )
    assert files(course) == before


# What is changed: (file, old text, new text, stale files).
CHANGES = {
    "code in the source": (
        SOURCE,
        'print("a demonstration")',
        'print("a show")',
        {SOLVED, RELEASED},
    ),
    "solution in the source": (SOURCE, "secret * x", "x * secret", {SOLVED}),
    "text in the source": (
        SOURCE,
        "A demonstration.",
        "A show.",
        {SOLVED, RELEASED},
    ),
    "visible checks": (
        CHECKS,
        "observe(double, 3), 6",
        "observe(double, 4), 8",
        {SOLVED, VISIBLE},
    ),
    "hidden cases": (
        CHECKS,
        "observe(double, -7), -14",
        "observe(double, -8), -16",
        {SOLVED},
    ),
    "points": (CHECKS, "points=2", "points=3", {SOLVED, RELEASED, VISIBLE}),
    "the copy of visible checks": (
        VISIBLE,
        "observe(double, 3), 6",
        "observe(double, 4), 8",
        {VISIBLE},
    ),
    "set-up": (
        "solutions/setup_cell.py",
        'print("total")',
        'print("sum")',
        {SOLVED, RELEASED},
    ),
    "a learner's module": (
        "lessons/coursekit/expect.py",
        '"""Checks',
        '"""Always checks',
        {SOLVED, RELEASED},
    ),
    "a learner's module in a folder": (
        "lessons/coursekit/draw/array.py",
        '"""Draws',
        '"""Always draws',
        {SOLVED, RELEASED},
    ),
    "a message in another language": (
        "lessons/coursekit/messages_ko.py",
        "MESSAGES = {",
        "MESSAGES = {'a': 'b',",
        set(),
    ),
    "repository": ("pyproject.toml", "/ada/", "/grace/", {SOLVED, RELEASED}),
    "an output": (SOLVED, '"a demonstration\\n"', '"a show\\n"', {SOLVED}),
    "solved code": (SOLVED, "secret * x", "x * secret", {SOLVED}),
    "solved text": (SOLVED, "A demonstration.", "A show.", {SOLVED}),
    "solved counter": (
        SOLVED,
        '"execution_count": 2',
        '"execution_count": 7',
        {SOLVED},
    ),
    "solved format": (SOLVED, "\n ", "\n  ", {SOLVED}),
    "released code": (RELEASED, "def double", "def twice", {RELEASED}),
    "released text": (RELEASED, "A demonstration.", "A show.", {RELEASED}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_change_makes_stale_is_named(course, change):
    name, old, new, expected = CHANGES[change]
    edit(course / name, old, new)
    found = {str(path.relative_to(course)) for path in stale(root=course)}
    assert found == expected


DIFFERS = "is not what a build writes"


def test_new_lesson_makes_its_files_stale(course):
    add_lesson(course)
    names = ("solutions/02_more.ipynb", "lessons/02_more.ipynb")
    names += ("lessons/coursekit/checks/02_more.py",)
    assert stale(root=course) == {course / name: DIFFERS for name in names}


def test_only_the_lessons_asked_for_are_run(course):
    add_lesson(course)
    assert course / "solutions/02_more.ipynb" not in stale(["1"], course)
    build(["1"], course)
    assert stale(["1"], course) == {}
    assert stale(root=course) == {course / "solutions/02_more.ipynb": DIFFERS}


def test_an_edit_of_one_lessons_checks_makes_no_other_lesson_stale(course):
    add_lesson(course)
    build(root=course)
    edit(course / "solutions/checks/02_more.py", "(double, 3), 6", "(double, 4), 8")
    names = ["solutions/02_more.ipynb", "lessons/coursekit/checks/02_more.py"]
    assert [str(path.relative_to(course)) for path in stale(root=course)] == names
    assert build(root=course) == [course / name for name in names]
    assert stale(root=course) == {}


@pytest.mark.parametrize("name", [SOLVED, RELEASED])
def test_missing_notebook_is_stale(course, name):
    (course / name).unlink()
    assert stale(root=course) == {course / name: DIFFERS}


DAMAGES = {
    "empty": b"",
    "cut off": b'{"cells": [{"cell_type": "co',
    "no notebook": b"[]",
    "not UTF-8": b"\xff\xfe{\x00}\x00",
    "foreign metadata": b'{"cells": [], "metadata": {"course": "x"}, "nbformat": 4,'
    b' "nbformat_minor": 5}',
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [SOLVED, RELEASED])
def test_damaged_notebook_is_stale(course, name, damage):
    (course / name).write_bytes(DAMAGES[damage])
    assert list(stale(root=course)) == [course / name]


def test_build_repairs_damaged_notebooks(course):
    before = files(course)
    (course / SOLVED).write_bytes(DAMAGES["not UTF-8"])
    (course / RELEASED).write_bytes(DAMAGES["cut off"])
    assert build(root=course) == [course / SOLVED, course / RELEASED]
    assert files(course) == before


def test_build_never_overwrites_what_a_learner_wrote(course):
    edit(
        course / RELEASED,
        'raise NotImplementedError(\\"not written yet\\")',
        "return x",
    )
    edit(course / SOURCE, "a demonstration", "a show")
    before = files(course)
    with pytest.raises(BuildError, match=r"01_tiny\.ipynb holds an answer to double"):
        build(root=course)
    assert files(course) == before


def test_new_repository_reaches_badges_and_set_up(course):
    edit(course / "pyproject.toml", "/ada/", "/grace/")
    build(root=course)
    for name in (SOLVED, RELEASED):
        cells = nbformat.read(course / name, as_version=4).cells
        assert "/grace/tiny-course/blob/main/lessons/01_tiny" in cells[0].source
        assert "/grace/tiny-course/archive/main.zip" in cells[1].source
    assert stale(root=course) == {}


# Fails without a set-up that would take its time.
FAILING = """\
# %% setup=true

# %%
1 / 0

# %% scorecard=true
"""


def test_failing_solution_is_named_and_nothing_is_written(course):
    edit(course / SOURCE, "a demonstration", "a show")
    add_lesson(course, "02_fails", FAILING, checks="")
    before = files(course)
    with pytest.raises(BuildError, match=r"(?s)^02_fails\.py: .*1 / 0.*ZeroDivision"):
        build(root=course)
    assert files(course) == before


def test_solution_that_its_check_refuses_fails_the_build(course):
    edit(course / SOURCE, "return -x", "return x")
    before = files(course)
    message = (
        r"01_tiny\.py: the solution of negate does not get the 2 points of its check"
    )
    with pytest.raises(BuildError, match=message):
        build(root=course)
    assert files(course) == before


@pytest.fixture
def with_jax(course):
    """A course whose lesson runs our own checks, with what the checks are now."""
    (course / "solutions" / "setup_cell.py").write_text(tiny.SETUP)
    return course


def test_build_runs_todays_checks_with_hidden_cases(with_jax):
    """Not those of the last build: the card says what grading will."""
    edit(with_jax / CHECKS, "(double, 3), 6)", "(double, 40), 80)")
    edit(with_jax / CHECKS, "(double, -7), -14", "(double, -7), 14")
    before = files(with_jax)
    with pytest.raises(BuildError, match="solution of double") as caught:
        build(root=with_jax)
    for part in ("double wrong 0 of 1 point", "double(-7)", "-14"):
        assert part in str(caught.value)
    assert files(with_jax) == before
    edit(with_jax / CHECKS, "(double, -7), 14", "(double, -7), -14")
    build(root=with_jax)
    cells = nbformat.read(with_jax / SOLVED, as_version=4).cells
    [card] = [cell.outputs[0].data for cell in cells if cell.id == "check-double"]
    assert card["text/plain"] == "1"
    assert "double: right, 1 of 1 point" in card["text/html"]
    assert "Our solution" in card["text/html"]


def test_statement_that_no_block_reaches_is_named(with_jax):
    """The source names a block; only a run shows that it is never tried."""
    twice = "# - [twice] `double(x)` returns twice `x`."
    edit(with_jax / SOURCE, twice, f"{twice}\n# - [kept] So does 0.")
    edit(with_jax / CHECKS, '["twice"]', '["twice", "kept"]')
    block = (
        '    with statement("twice"):\n        expect_close(observe(double, 3), 6)\n'
    )
    never = '    if not double:\n        with statement("kept"):\n            pass\n'
    edit(with_jax / CHECKS, block, block + never)
    with pytest.raises(BuildError, match=r"solution of double .* says: .*later: Kept"):
        build(root=with_jax)


HELD = StatementResult("twice", True, 0, HOLDS)
CARDS = {
    "right": ("1", Verdict("double", RIGHT, 1, (HELD,))),
    "partly right": ("0.5", Verdict("double", PARTLY, 0.5, (HELD,))),
    "wrong": ("0", Verdict("double", "wrong", 0, (replace(HELD, standing=FAILS),))),
    "a broken check": ("0", Verdict("double", "the check could not run", 0)),
    "not written": ("0", Verdict("double", "not attempted yet", 0)),
    "a statement untried": (
        "1",
        Verdict("double", RIGHT, 1, (HELD, StatementResult("odd", False, 0.5, LATER))),
    ),
}


@pytest.mark.parametrize("is_bonus", [False, True], ids=["points", "bonus"])
@pytest.mark.parametrize("name", CARDS)
def test_solution_must_get_all_its_points_also_as_a_bonus(tmp_path, name, is_bonus):
    """A bonus's check returns 0 whatever it finds."""
    mark = 'points=1, essential=["twice"]'
    bonus = (mark, f"{mark}, bonus=True") if is_bonus else (mark, mark)
    solved = tiny.lesson(tmp_path / "course", checks=tiny.changed(tiny.CHECKS, bonus))
    value, verdict = CARDS[name]
    html = html_card(verdict, points=1, is_bonus=is_bonus, solution="text = '…'")
    data = {"text/plain": "0" if is_bonus else value, "text/html": html}
    for exercise, cell in checks(solved).items():
        if exercise == "negate":
            data = {"text/html": '"negate: right, 2 of 2 points"'}
        cell.outputs = [nbformat.v4.new_output("execute_result", data)]
    if name == "right":
        return refuse_wrong_solutions(tmp_path / "01_tiny.py", solved)
    with pytest.raises(BuildError, match="solution of double does not get the 1 point"):
        refuse_wrong_solutions(tmp_path / "01_tiny.py", solved)


@pytest.mark.parametrize("shown", ["nothing", "printed", "a value"])
def test_check_of_a_solution_must_show_its_card(tmp_path, shown):
    solved = tiny.lesson(tmp_path / "course")
    value = nbformat.v4.new_output("execute_result", {"text/plain": "1"})
    printed = nbformat.v4.new_output("stream", text="double: right, 1 of 1\n")
    outputs = {"nothing": [], "printed": [printed], "a value": [value]}
    checks(solved)["double"].outputs = outputs[shown]
    with pytest.raises(BuildError, match="solution of double"):
        refuse_wrong_solutions(tmp_path / "01_tiny.py", solved)


def test_faulty_source_is_named_and_nothing_is_written(course):
    edit(course / SOURCE, "a demonstration", "a show")
    faulty = course / "solutions" / "02_faulty.py"
    faulty.write_text("# %%\nx = 1\n")
    before = files(course)
    with pytest.raises(
        SourceError, match=r"02_faulty\.py:1: The setup cell is missing"
    ):
        build(root=course)
    assert files(course) == before


def test_unknown_lesson_is_refused_before_anything_is_written(course):
    (course / SOLVED).unlink()
    with pytest.raises(ValueError, match='There is no lesson "9"'):
        build(["1", "9"], course)
    assert not (course / SOLVED).exists()


def test_built_notebooks_do_not_depend_on_the_machine(first_build):
    metadata = json.loads((first_build[0] / SOLVED).read_text())["metadata"]
    assert metadata["language_info"] == {"name": "python"}
    assert metadata["kernelspec"]["name"] == "python3"
