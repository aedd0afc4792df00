"""Checks are found beside the lessons, in Colab's archive, in a class's release."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from coursekit import materials

PACKAGE = Path(materials.__file__).resolve().parent
LESSON = '''\
# %% [markdown]
# ### Exercise 1.1: double

# %% exercise="double" minutes=3 difficulty=1
def double(x):
    """Returns twice `x`."""
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION


# %% check="double"

# %% exercise="negate" minutes=3 difficulty=1
def negate(x):
    return -x
'''
PROGRAM = """
import json
from coursekit import materials

try:
    found = materials.checks_of("01_tiny")
except FileNotFoundError:
    found = None
print(json.dumps([found, materials.solutions_of("01_tiny")]))
"""
WHOLE, VISIBLE = "# with hidden cases\n", "# visible\n"


def asked(place):
    """Asks a package in a folder or an archive for the checks and the solutions."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def lessons(tmp_path):
    """A folder with the package, and the learners' copy of a lesson's checks."""
    folder = tmp_path / "lessons"
    (folder / "coursekit" / "checks").mkdir(parents=True)
    for name in ("__init__.py", "materials.py"):
        shutil.copy(PACKAGE / name, folder / "coursekit")
    (folder / "coursekit" / "checks" / "01_tiny.py").write_text(VISIBLE)
    return folder


def write_solutions(folder):
    (folder / "checks").mkdir(parents=True)
    (folder / "checks" / "01_tiny.py").write_text(WHOLE)
    (folder / "01_tiny.py").write_text(LESSON)


def is_solved(found):
    """Tells whether these are the exercises of the lesson as we solve them."""
    assert [*found] == ["double", "negate"]
    namespace = {}
    for source in found.values():
        exec(source, namespace)
    return namespace["double"](3) == 6 and namespace["negate"](3) == -3


def test_a_clone_has_hidden_cases_and_solutions(lessons):
    write_solutions(lessons.parent / "solutions")
    found, solutions = asked(lessons)
    assert found == [WHOLE, True]
    assert is_solved(solutions)


def test_an_archive_for_colab_has_them_too(lessons, tmp_path):
    write_solutions(lessons.parent / "solutions")
    path = tmp_path / "elsewhere" / "course.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        for file in lessons.parent.rglob("*.py"):
            archive.write(file, Path("course-main", file.relative_to(lessons.parent)))
    found, solutions = asked(path / "course-main" / "lessons")
    assert found == [WHOLE, True]
    assert is_solved(solutions)


def test_a_package_with_the_solutions_in_it_has_them_too(lessons):
    write_solutions(lessons / "coursekit" / "solutions")
    found, solutions = asked(lessons)
    assert found == [WHOLE, True]
    assert is_solved(solutions)


def test_a_class_release_has_neither(lessons):
    assert asked(lessons) == [[VISIBLE, False], {}]


def test_a_lesson_that_is_in_no_solutions_is_a_class_of_its_own(lessons):
    folder = lessons.parent / "solutions"
    write_solutions(folder)
    for path in (folder / "checks" / "01_tiny.py", folder / "01_tiny.py"):
        path.rename(path.with_stem("02_other"))
    assert asked(lessons) == [[VISIBLE, False], {}]


def test_another_folder_of_the_name_solutions_is_none_of_ours(lessons):
    (lessons.parent / "solutions").mkdir()
    (lessons.parent / "solutions" / "01_tiny.py").write_text(LESSON)
    assert asked(lessons) == [[VISIBLE, False], {}]


def test_an_unknown_lesson_has_no_checks(lessons):
    (lessons / "coursekit" / "checks" / "01_tiny.py").unlink()
    assert asked(lessons) == [None, {}]


def test_what_a_learner_is_shown_has_no_marks(monkeypatch, tmp_path):
    write_solutions(tmp_path)
    monkeypatch.setattr(materials, "solutions_folder", lambda: tmp_path)
    shown = materials.solutions_of("01_tiny")["double"].rstrip()
    assert shown.splitlines() == [
        "def double(x):",
        '    """Returns twice `x`."""',
        "    return 2 * x",
    ]
