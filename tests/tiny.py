"""Writes a course of one tiny lesson, for tests of the grader."""

from pathlib import Path

from nbformat import NotebookNode

from grader.authoring.lesson import read_lesson
from grader.lessons import coursekit

REPOSITORY = "https://example.org/ada/tiny-course"
NAME = "01_tiny"

# Runs in about four seconds, of which most go into the import of JAX.
SETUP = """
import sys

URL, FOLDER = "COURSEKIT_URL", "COURSEKIT_FOLDER"
VERSION = "COURSEKIT_VERSION"
sys.path.append("../lessons")
from coursekit import setup

setup.with_devices(8, lesson="COURSE_LESSON")

from coursekit.notebook import check, observe, scorecard
"""

# Runs in about one second: it checks by itself, and only what the examples check.
SETUP_WITHOUT_JAX = """
URL, FOLDER = "COURSEKIT_URL", "COURSEKIT_FOLDER"
VERSION = "COURSEKIT_VERSION"
RESULTS, POINTS = {"double": 6, "negate": -3}, {"double": 1, "negate": 2}


class Score(int):
    def _repr_html_(self):
        return self.card


def check(name):
    is_right = globals()[name](3) == RESULTS[name]
    score = Score(POINTS[name] * is_right)
    score.card = f'"{name}: {"right" if is_right else "wrong"}, '
    return score


def scorecard():
    print("total")
"""

CHECKS = '''\
"""Checks of a tiny lesson."""

from coursekit.checks import hidden, visible
from coursekit.expect import expect_close
from coursekit.learner import double, negate
from coursekit.observe import observe
from coursekit.outcomes import statement


@visible("double", points=1, essential=["twice"])
def examples_of_double():
    with statement("twice"):
        expect_close(observe(double, 3), 6)


@hidden("double")
def cases_of_double():
    with statement("twice"):
        expect_close(observe(double, -7), -14)


@visible("negate", points=2, essential=["negative"])
def examples_of_negate():
    with statement("negative"):
        expect_close(observe(negate, 3), -3)
'''

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
# - [twice] `double(x)` returns twice `x`.


# %% exercise="double" minutes=5 difficulty=1
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

# %% check="double"

# %% [markdown] built="double"
# Doubling is a shift.

# %% [markdown]
# ### Exercise 1.2: negate
#
# - [negative] `negate(x)` returns `-x`.


# %% exercise="negate" minutes=10 difficulty=3
def negate(x):
    """Returns `-x`."""
    ### BEGIN SOLUTION
    return -x
    ### END SOLUTION


# %% [markdown] hints="negate"
# - Subtract `x`.
# - From what?
# - From zero.

# %% check="negate"

# %% [markdown] built="negate"
# Zero is its own opposite.

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


def write_course(
    root: Path, source: str = SOURCE, setup: str = SETUP, checks: str = CHECKS
) -> Path:
    """Writes the course's files into the folder `root`; returns the source's path."""
    (root / "lessons").mkdir(parents=True)
    (root / "solutions" / "checks").mkdir(parents=True)
    coursekit.copy(root / "lessons")
    course = f'[tool.course]\nrepository = "{REPOSITORY}"\n'
    (root / "pyproject.toml").write_text(course)
    (root / "solutions" / "setup_cell.py").write_text(setup)
    path = root / "solutions" / f"{NAME}.py"
    path.write_text(source)
    (root / "solutions" / "checks" / f"{NAME}.py").write_text(checks)
    return path


def lesson(
    root: Path, *changes: tuple[str, str], setup: str = SETUP, checks: str = CHECKS
) -> NotebookNode:
    """Writes the course and reads its lesson, with parts of the source replaced."""
    path = write_course(root, changed(SOURCE, *changes), setup, checks)
    return read_lesson(path, REPOSITORY)
