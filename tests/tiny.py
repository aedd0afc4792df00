"""Writes a course of one tiny lesson, for tests of the grader."""

import shutil
from pathlib import Path

from nbformat import NotebookNode

from grader import MODULES, ROOT
from grader.lesson import read_lesson
from grader.readme import LIST_MARKS

REPOSITORY = "https://example.org/ada/tiny-course"
NAME = "01_tiny"

# Runs in about three seconds, of which most go into the import of JAX.
SETUP = """
import sys

FILES, NAMES = "COURSE_FILES", "COURSE_MODULES"
sys.path.append("../lessons")
import start

start.with_devices(8)

from expect import expect_close
from observe import observe
from outcomes import check, scorecard
"""

# Runs in about one second; stubs count as a broken check.
SETUP_WITHOUT_JAX = """
from outcomes import Wrong, check, scorecard

FILES, NAMES = "COURSE_FILES", "COURSE_MODULES"


def observe(function, x):
    return function(x)


def expect_close(seen, expected):
    if seen != expected:
        raise Wrong("The result is wrong.")
"""

SOURCE = '''\
# %% [markdown]
# # Lesson 1. Tiny
#
# COLAB_BADGE

# %% setup=true

# %% [markdown]
# A demonstration.

# %%
print("a demonstration")

# %% [markdown]
# ### Exercise 1.1: double
#
# `double(x)` returns twice `x`.


# %% exercise="double" minutes=3 difficulty=1
def double(x):
    """Returns twice `x`."""
    ### BEGIN SOLUTION
    secret = 2
    return secret * x
    ### END SOLUTION


# %% [markdown] hints="double"
# - Multiply `x`.
# - By two, as in
#   `2 * x`.

# %% check="double" points=1
expect_close(observe(double, 3), 6)
### BEGIN HIDDEN TESTS
expect_close(observe(double, -7), -14)
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 1.2: negate
#
# `negate(x)` returns `-x`.


# %% exercise="negate" minutes=12 difficulty=3
def negate(x):
    """Returns `-x`."""
    ### BEGIN SOLUTION
    return -x
    ### END SOLUTION


# %% [markdown] hints="negate"
# - Subtract `x`.
# - From what?
# - From zero.

# %% check="negate" points=2
expect_close(observe(negate, 3), -3)

# %% [markdown]
# ## The end

# %% scorecard=true
'''


def changed(text: str, *changes: tuple[str, str]) -> str:
    """Replaces parts of `text`, each of which must be there exactly once."""
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def write_course(root: Path, source: str = SOURCE, setup: str = SETUP) -> Path:
    """Writes the course's files into the folder `root`; returns the source's path."""
    (root / "lessons").mkdir(parents=True)
    (root / "solutions").mkdir()
    for name in MODULES:
        shutil.copy(ROOT / "lessons" / f"{name}.py", root / "lessons")
    course = f'[tool.course]\nrepository = "{REPOSITORY}"\n'
    (root / "pyproject.toml").write_text(course)
    for folder in (root, root / "lessons"):
        begin, end = LIST_MARKS
        (folder / "README.md").write_text(f"# Tiny\n\n{begin}\n{end}\n\nMore.\n")
    (root / "solutions" / "setup_cell.py").write_text(setup)
    path = root / "solutions" / f"{NAME}.py"
    path.write_text(source)
    return path


def lesson(root: Path, *changes: tuple[str, str], setup: str = SETUP) -> NotebookNode:
    """Writes the course and reads its lesson, with parts of the source replaced."""
    path = write_course(root, changed(SOURCE, *changes), setup)
    return read_lesson(path, REPOSITORY)
