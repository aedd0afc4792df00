"""The small lesson that the corpus of hostile and harmless submissions answers."""

import ast
import copy
import textwrap
from pathlib import Path

import tiny
from nbformat import NotebookNode

from grader.authoring.check_source import marked
from grader.lessons.release import checks

NAME = tiny.NAME
# Stands in hidden tests and in a solution: whoever sees it sees what is hidden.
NEEDLE = "corpus-needle-93b1"

SETUP = """
import sys

URL, FOLDER = "COURSEKIT_URL", "COURSEKIT_FOLDER"
VERSION = "COURSEKIT_VERSION"
sys.path.append("../lessons")
from coursekit import setup

setup.with_devices(8, lesson="COURSE_LESSON")

import jax
import jax.numpy as jnp
import numpy as np
from coursekit.notebook import check, observe, scorecard
"""

# What a set-up cell imports and defines where checks are code in cells.
STOCK_NAMES = """
from coursekit.expect import *
from coursekit.expect_program import *


def check_doubled_twice(x):
    return double(double(x))
"""

CHECKS = '''\
"""Checks of the corpus's lesson."""

import numpy as np

from coursekit.checks import hidden, visible
from coursekit.expect import expect_close, expect_error, expect_unchanged
from coursekit.expect_program import expect_collectives, expect_devices
from coursekit.learner import double, negate, normalize, parallel_square
from coursekit.observe import observe
from coursekit.outcomes import statement


def check_doubled_twice(x):
    return double(double(x))


@visible("double", points=1, essential=["twice"])
def examples_of_double():
    with statement("twice"):
        expect_close(observe(double, 3), 6)
        expect_close(observe(check_doubled_twice, 5), 20)


@hidden("double")
def cases_of_double():
    with statement("twice"):
        expect_close(observe(double, -7), -14)  # corpus-needle-93b1
        expect_close(observe(double, 1234.5), 2469.0)


@visible("normalize", points=2, essential=["mean zero"])
def examples_of_normalize():
    with statement("mean zero"):
        seen = observe(normalize, np.float32([[1, 10], [3, 30]]))
        expect_close(seen, np.float32([[-1, -10], [1, 10]]))
        expect_unchanged(seen)
        empty = observe(normalize, np.zeros((0, 2), np.float32))
        expect_error(empty, "ValueError", mentions=[0])


@hidden("normalize")
def cases_of_normalize():
    with statement("mean zero"):
        for shape in ((5,), (6, 3), (4, 2, 3)):
            x = np.float32(np.random.default_rng(5).normal(size=shape))
            seen = observe(normalize, x)
            expect_close(seen, x - x.mean(axis=0))
            expect_unchanged(seen)
        empty = observe(normalize, np.zeros(0, np.float32))
        expect_error(empty, "ValueError", mentions=[0])


@visible("parallel_square", points=3, essential=["a row on each device"])
def examples_of_parallel_square():
    with statement("a row on each device"):
        x = np.arange(16, dtype=np.float32).reshape(8, 2)
        seen = observe(parallel_square, x, traced=True)
        expect_close(seen, x**2)
        expect_collectives(seen, {})
        expect_devices(seen, 8)


@hidden("parallel_square")
def cases_of_parallel_square():
    with statement("a row on each device"):
        for num_devices in (2, 4):
            x = np.arange(num_devices * 6, dtype=np.int32).reshape(num_devices, 2, 3)
            seen = observe(parallel_square, x - 5, traced=True)
            expect_close(seen, (x - 5) ** 2)
            expect_collectives(seen, {})
            expect_devices(seen, num_devices)


@visible("negate", points=4, essential=["negative"])
def examples_of_negate():
    with statement("negative"):
        expect_close(observe(negate, 3), -3)


@hidden("negate")
def cases_of_negate():
    with statement("negative"):
        expect_close(observe(negate, -2.5), 2.5)
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
# - [twice] `double(x)` returns twice the number `x`.


# %% exercise="double" minutes=5 difficulty=1
def double(x):
    """Returns twice the number `x`."""
    ### BEGIN SOLUTION
    return 2 * x  # corpus-needle-93b1
    ### END SOLUTION


# %% [markdown] hints="double"
# - Multiply `x`.
# - By two.

# %% check="double"

# %% [markdown] built="double"
# A small function.

# %% [markdown]
# ### Exercise 1.2: normalize
#
# - [mean zero] `normalize(x)` returns the NumPy array `x: (N, ...)` minus its mean over
#   axis 0, with the same shape and dtype, and leaves `x` as it was. Where `N` is 0:
#   `ValueError`, and its text names that size.


# %% exercise="normalize" minutes=5 difficulty=1
def normalize(x):
    """Subtracts from `x: (N, ...)` its mean over axis 0; raises where N is 0."""
    ### BEGIN SOLUTION
    if len(x) == 0:
        raise ValueError("x has 0 rows")
    return x - np.mean(x, axis=0, keepdims=True)
    ### END SOLUTION


# %% [markdown] hints="normalize"
# - `x.mean(axis=0)` is the mean.
# - `x -= ...` changes the caller's array; `x - ...` makes a new one.

# %% check="normalize"

# %% [markdown] built="normalize"
# A small function.

# %% [markdown]
# ### Exercise 1.3: parallel_square
#
# - [a row on each device] `parallel_square(x)` takes `x: (D, ...)` and returns its
#   square, of the same shape and dtype: row `d` of the result lies on one device of its
#   own.


# %% exercise="parallel_square" minutes=5 difficulty=1
def parallel_square(x):
    """Squares `x: (D, ...)` on D devices, one row of the leading axis on each."""
    ### BEGIN SOLUTION
    return jax.pmap(lambda row: row**2)(x)
    ### END SOLUTION


# %% [markdown] hints="parallel_square"
# - `jax.pmap(g)` is a function. Call it on `x`.
# - `g` receives one row, without the leading axis.

# %% check="parallel_square"

# %% [markdown] built="parallel_square"
# A small function.

# %% [markdown]
# ### Exercise 1.4: negate
#
# - [negative] `negate(x)` returns `-x`.


# %% exercise="negate" minutes=5 difficulty=1
def negate(x):
    """Returns `-x`."""
    ### BEGIN SOLUTION
    return -x
    ### END SOLUTION


# %% [markdown] hints="negate"
# - Subtract `x`.
# - From zero.

# %% check="negate"

# %% [markdown] built="negate"
# A small function.

# %% scorecard=true
'''


def write_course(root: Path) -> Path:
    """Writes a course of this lesson into `root`; returns the source's path."""
    return tiny.write_course(root, SOURCE, SETUP, CHECKS)


def in_stock_form(lesson: NotebookNode) -> NotebookNode:
    """Copies the lesson, with the same checks as other courses of nbgrader have them.

    They are code in cells, which the learner's kernel runs, with names of the
    notebook's: what compare_with_nbgrader.py compares with.
    """
    stock = copy.deepcopy(lesson)
    cells, tree = {cell.id: cell for cell in stock.cells}, ast.parse(CHECKS)
    cells["setup"].source += STOCK_NAMES
    parts = {(name, mark): block(node) for name, node, mark in marked(tree)}
    for name in checks(lesson):
        cells[f"check-{name}"].source = (
            f"{parts[name, 'visible']}\n### BEGIN HIDDEN TESTS\n"
            f"{parts[name, 'hidden']}\n### END HIDDEN TESTS"
        )
    return stock


def block(node: ast.FunctionDef) -> str:
    """Returns the lines in the `with` block that is all of a check's function."""
    [inside] = node.body
    lines = CHECKS.splitlines()[inside.lineno : inside.end_lineno]
    return textwrap.dedent("\n".join(lines))
