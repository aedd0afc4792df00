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
from grader.authoring import coursekit
from grader.authoring.build import BuildError, build, stale
from grader.authoring.source import SourceError

SOLVED, RELEASED = "solutions/01_tiny.ipynb", "lessons/01_tiny.ipynb"
SOURCE = "solutions/01_tiny.py"


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


def archive_of(root):
    """Names the archive of a course's package."""
    version = coursekit.version(coursekit.read(root))
    return f"docs/colab/coursekit-{version}.zip"


def code_outputs(path):
    cells = nbformat.read(path, as_version=4).cells
    return {
        cell.id: "".join(output.text for output in cell.outputs)
        for cell in cells
        if cell.cell_type == "code"
    }


def test_build_writes_both_notebooks_and_the_archive(first_build):
    root, written = first_build
    names = (SOLVED, RELEASED, archive_of(root))
    assert written == [root / name for name in names]


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
ARCHIVE, NO_ARCHIVE = "ARCHIVE", "is not the archive of lessons/coursekit"
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
    "set-up": (
        "solutions/setup_cell.py",
        "import Wrong, check",
        "import check, Wrong",
        {SOLVED: "another source or other modules", RELEASED: RELEASE_DIFFERS},
    ),
    "a learner's module": (
        "lessons/coursekit/expect.py",
        '"""Checks',
        '"""Always checks',
        {
            SOLVED: "was run with another source or other modules",
            RELEASED: RELEASE_DIFFERS,
            ARCHIVE: NO_ARCHIVE,
        },
    ),
    "a learner's module in a folder": (
        "lessons/coursekit/draw/array.py",
        '"""Draws',
        '"""Always draws',
        {
            SOLVED: "was run with another source or other modules",
            RELEASED: RELEASE_DIFFERS,
            ARCHIVE: NO_ARCHIVE,
        },
    ),
    "a message in another language": (
        "lessons/coursekit/messages_ko.py",
        "MESSAGES = {",
        "MESSAGES = {'a': 'b',",
        {ARCHIVE: NO_ARCHIVE},
    ),
    "repository": (
        "pyproject.toml",
        "/ada/",
        "/grace/",
        {SOLVED: "another source or other modules", RELEASED: RELEASE_DIFFERS},
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
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_change_makes_stale_is_named_with_its_reason(course, change):
    name, old, new, expected = CHANGES[change]
    edit(course / name, old, new)
    found = stale(root=course)
    expected = {expected: ""} if isinstance(expected, str) else {**expected}
    if ARCHIVE in expected:
        expected[archive_of(course)] = expected.pop(ARCHIVE)
    assert {str(path.relative_to(course)) for path in found} == set(expected)
    for stale_name, reason in expected.items():
        assert reason in found[course / stale_name]


def test_new_lesson_makes_its_notebooks_stale(course):
    shutil.copy(course / SOURCE, course / "solutions" / "02_more.py")
    assert stale(root=course) == {
        course / "solutions" / "02_more.ipynb": "is missing",
        course / "lessons" / "02_more.ipynb": RELEASE_DIFFERS,
    }


def test_only_the_lessons_asked_for_are_looked_at(course):
    shutil.copy(course / SOURCE, course / "solutions" / "02_more.py")
    assert stale(["1"], course) == {}


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


@pytest.mark.parametrize("damage", ["missing", "cut off", "of other messages"])
def test_build_mends_the_archive_of_the_package(course, damage):
    path = course / archive_of(course)
    whole = path.read_bytes()
    path.unlink()
    if damage == "cut off":
        path.write_bytes(whole[:1000])
    elif damage == "of other messages":
        modules = coursekit.read(course)
        others = modules | {"messages_ko.py": "MESSAGES = {}\n"}
        assert coursekit.version(others) == coursekit.version(modules)
        path.write_bytes(coursekit.archive(others))
    assert stale(root=course) == {path: NO_ARCHIVE}
    assert build(root=course) == [path]
    assert path.read_bytes() == whole
    assert stale(root=course) == {}


def test_archive_of_an_earlier_version_stays(course):
    earlier = course / archive_of(course)
    whole = earlier.read_bytes()
    edit(course / "lessons/coursekit/expect.py", '"""Checks', '"""Always checks')
    path = course / archive_of(course)
    assert path != earlier
    assert build(root=course) == [course / SOLVED, course / RELEASED, path]
    assert earlier.read_bytes() == whole
    for name in (SOLVED, RELEASED):
        setup = nbformat.read(course / name, as_version=4).cells[1].source
        assert archive_of(course) in setup
    assert stale(root=course) == {}


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
        archive = archive_of(course)
        assert f"/grace/tiny-course/raw/main/{archive}" in cells[1].source
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


DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAAB"
    "JRU5ErkJggg=="
)


def test_build_renews_a_picture_that_a_lesson_shows(course):
    shows = "from IPython.display import display\n"
    shows += f'display({{"image/png": "{DOT}"}}, raw=True)'
    edit(course / SOURCE, 'print("a demonstration")', shows)
    picture = course / "docs/pictures/01_tiny-1.png"
    picture.parent.mkdir()
    picture.write_bytes(b"another")
    assert picture in build(root=course)
    assert picture.read_bytes() == base64.b64decode(DOT)
    assert build(root=course) == []


def test_unknown_lesson_is_refused_before_anything_is_written(course):
    (course / SOLVED).unlink()
    with pytest.raises(ValueError, match='There is no lesson "9"'):
        build(["1", "9"], course)
    assert not (course / SOLVED).exists()


def test_built_notebooks_do_not_depend_on_the_machine(first_build):
    metadata = json.loads((first_build[0] / SOLVED).read_text())["metadata"]
    assert metadata["language_info"] == {"name": "python"}
    assert metadata["kernelspec"]["name"] == "python3"
