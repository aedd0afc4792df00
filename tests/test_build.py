"""A build writes the same bytes each time, all or nothing, and tells what is stale."""

import base64
import json
import shutil
import subprocess
import sys

import nbformat
import pytest
import tiny

from grader import ROOT
from grader.build import BuildError, build, stale
from grader.readme import LIST_MARKS, ReadmeError
from grader.source import SourceError

SOLVED, RELEASED = "solutions/01_tiny.ipynb", "lessons/01_tiny.ipynb"
SOURCE = "solutions/01_tiny.py"
READMES = README, SHORT_README = "README.md", "lessons/README.md"


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


def code_outputs(path):
    cells = nbformat.read(path, as_version=4).cells
    return {
        cell.id: "".join(output.text for output in cell.outputs)
        for cell in cells
        if cell.cell_type == "code"
    }


def test_build_writes_both_notebooks_and_the_lists(first_build):
    root, written = first_build
    assert written == [root / name for name in (SOLVED, RELEASED, *READMES)]


def test_solved_notebook_shows_its_run(first_build):
    outputs = code_outputs(first_build[0] / SOLVED)
    right = "Right: double does what it should. 1 of 1 point.\n"
    assert outputs["check-double"] == right
    assert outputs["scorecard"].endswith("total   3 of 3\n")


def test_released_notebook_shows_no_run(first_build):
    assert set(code_outputs(first_build[0] / RELEASED).values()) == {""}


@pytest.mark.parametrize("name", [SOLVED, RELEASED])
def test_built_notebook_is_valid(first_build, name):
    nbformat.validate(nbformat.read(first_build[0] / name, as_version=4))


@pytest.mark.parametrize(
    "name, link", [(README, RELEASED), (SHORT_README, "01_tiny.ipynb")]
)
def test_readme_lists_the_lesson_with_its_badge(first_build, name, link):
    begin, end = LIST_MARKS
    text = (first_build[0] / name).read_text()
    assert text.startswith(f"# Tiny\n\n{begin}\n\n- [Lesson 1. Tiny]({link}) [![")
    assert "/ada/tiny-course/blob/main/lessons/01_tiny.ipynb)\n" in text
    assert text.endswith(f"\n\n{end}\n\nMore.\n")


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
        f"{RELEASED} differs from what its source releases.\n"
        "Run `python -m grader build` and commit what it writes.\n"
    )
    assert files(course) == before


RELEASE_DIFFERS = "differs from what its source releases"
LIST_DIFFERS = "has another list of lessons than solutions/"
LISTS_DIFFER = dict.fromkeys(READMES, LIST_DIFFERS)
# What is changed: (file, old text, new text, {stale file: reason}).
CHANGES = {
    "code in the source": (
        SOURCE,
        'print("a demonstration")',
        'print("a show")',
        {SOLVED: "another source or other modules", RELEASED: RELEASE_DIFFERS},
    ),
    "solution in the source": (
        SOURCE,
        "secret * x",
        "x * secret",
        {SOLVED: "was run with another source or other modules"},
    ),
    "text in the source": (
        SOURCE,
        "A demonstration.",
        "A show.",
        {SOLVED: "", RELEASED: RELEASE_DIFFERS},
    ),
    "title in the source": (
        SOURCE,
        "Lesson 1. Tiny",
        "Lesson 1. Small",
        {SOLVED: "", RELEASED: RELEASE_DIFFERS, **LISTS_DIFFER},
    ),
    "set-up": (
        "solutions/setup_cell.py",
        "import Wrong, check",
        "import check, Wrong",
        {SOLVED: "another source or other modules", RELEASED: RELEASE_DIFFERS},
    ),
    "a learner's module": (
        "lessons/expect.py",
        '"""Checks',
        '"""Always checks',
        {SOLVED: "was run with another source or other modules"},
    ),
    "repository": (
        "pyproject.toml",
        "/ada/",
        "/grace/",
        {
            SOLVED: "another source or other modules",
            RELEASED: RELEASE_DIFFERS,
            **LISTS_DIFFER,
        },
    ),
    "an output": (
        SOLVED,
        '"a demonstration\\n"',
        '"a show\\n"',
        {SOLVED: "has outputs that no build wrote"},
    ),
    "solved code": (
        SOLVED,
        "secret * x",
        "x * secret",
        {SOLVED: "differs from its source"},
    ),
    "solved text": (
        SOLVED,
        "A demonstration.",
        "A show.",
        {SOLVED: "differs from its source"},
    ),
    "solved counter": (SOLVED, '"execution_count": 2', '"execution_count": 7', SOLVED),
    "solved format": (SOLVED, "\n ", "\n  ", SOLVED),
    "released code": (RELEASED, "def double", "def twice", {RELEASED: RELEASE_DIFFERS}),
    "released text": (
        RELEASED,
        "A demonstration.",
        "A show.",
        {RELEASED: RELEASE_DIFFERS},
    ),
    "list of lessons": (
        README,
        "[Lesson 1. Tiny]",
        "[Lesson 1]",
        {README: LIST_DIFFERS},
    ),
    "list of lessons in lessons/": (
        SHORT_README,
        "[Lesson 1. Tiny]",
        "[Lesson 1]",
        {SHORT_README: LIST_DIFFERS},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_change_makes_stale_is_named_with_its_reason(course, change):
    name, old, new, expected = CHANGES[change]
    edit(course / name, old, new)
    found = stale(root=course)
    expected = {expected: ""} if isinstance(expected, str) else expected
    assert {str(path.relative_to(course)) for path in found} == set(expected)
    for stale_name, reason in expected.items():
        assert reason in found[course / stale_name]


@pytest.mark.parametrize("name", READMES)
def test_text_around_the_list_of_lessons_is_free(course, name):
    edit(course / name, "More.", "Much more.")
    assert stale(root=course) == {}


def test_new_lesson_makes_its_notebooks_and_the_list_stale(course):
    shutil.copy(course / SOURCE, course / "solutions" / "02_more.py")
    assert stale(root=course) == {
        course / "solutions" / "02_more.ipynb": "is missing",
        course / "lessons" / "02_more.ipynb": RELEASE_DIFFERS,
        course / README: LIST_DIFFERS,
        course / SHORT_README: LIST_DIFFERS,
    }


def test_only_the_lessons_asked_for_are_looked_at(course):
    shutil.copy(course / SOURCE, course / "solutions" / "02_more.py")
    assert list(stale(["1"], course)) == [course / name for name in READMES]


@pytest.mark.parametrize(
    "name, reason", [(SOLVED, "is missing"), (RELEASED, RELEASE_DIFFERS)]
)
def test_missing_notebook_is_stale(course, name, reason):
    (course / name).unlink()
    assert stale(root=course) == {course / name: reason}


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


def test_build_mends_damaged_notebooks(course):
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
        assert "/grace/tiny-course/raw/main/lessons" in cells[1].source
    for name in READMES:
        assert "/grace/tiny-course/blob/" in (course / name).read_text()
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
    (course / "solutions" / "02_fails.py").write_text(FAILING)
    before = files(course)
    with pytest.raises(BuildError, match="ZeroDivisionError") as caught:
        build(root=course)
    assert str(caught.value).startswith("02_fails.py, cell 2 (cell-")
    assert files(course) == before


def test_solution_that_its_check_refuses_fails_the_build(course):
    edit(course / SOURCE, "return -x", "return x")
    before = files(course)
    with pytest.raises(BuildError, match=r"cell 12 \(check-negate\): Wrong: .*wrong"):
        build(root=course)
    assert files(course) == before


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


@pytest.mark.parametrize("name", READMES)
@pytest.mark.parametrize("mark", LIST_MARKS)
def test_readme_without_its_marks_is_named(course, name, mark):
    edit(course / name, mark, "")
    with pytest.raises(ReadmeError) as caught:
        stale(root=course)
    assert str(caught.value).startswith(f"{course / name} needs the lines <!-- ")


DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAAB"
    "JRU5ErkJggg=="
)


def test_picture_in_the_readme_is_the_one_that_the_lesson_shows(course):
    shows = "from IPython.display import display\n"
    shows += f'display({{"image/png": "{DOT}"}}, raw=True)'
    edit(course / SOURCE, 'print("a demonstration")', shows)
    edit(course / README, "More.", "![A dot.](docs/pictures/01_tiny-1.png)")
    picture = course / "docs/pictures/01_tiny-1.png"
    assert picture in build(root=course)
    assert picture.read_bytes() == base64.b64decode(DOT)
    assert build(root=course) == []
    assert stale(root=course) == {}
    picture.write_bytes(b"another")
    assert stale(root=course) == {picture: "is not the picture that the lesson shows"}


def test_picture_that_no_lesson_shows_is_named(course):
    edit(course / README, "More.", "![A dot.](docs/pictures/01_tiny-7.png)")
    with pytest.raises(ReadmeError, match=r"shows docs/pictures/01_tiny-7\.png, but"):
        stale(root=course)


def test_end_of_another_list_in_the_readme_is_left_alone(course):
    edit(course / README, "# Tiny\n", f"# Tiny\n\n{LIST_MARKS[1]}\n")
    assert stale(root=course) == {}


def test_unknown_lesson_is_refused_before_anything_is_written(course):
    (course / SOLVED).unlink()
    with pytest.raises(ValueError, match='There is no lesson "9"'):
        build(["1", "9"], course)
    assert not (course / SOLVED).exists()


def test_built_notebooks_do_not_depend_on_the_machine(first_build):
    metadata = json.loads((first_build[0] / SOLVED).read_text())["metadata"]
    assert metadata["language_info"] == {"name": "python"}
    assert metadata["kernelspec"]["name"] == "python3"
