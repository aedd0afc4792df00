"""The small lesson that the corpus of hostile and harmless submissions answers."""

from pathlib import Path

import tiny

NAME = tiny.NAME
# Stands in hidden tests and in a solution: whoever sees it sees what is hidden.
NEEDLE = "corpus-needle-93b1"

SETUP = """
import sys

URL, NAME, VERSION = "COURSEKIT_URL", "COURSEKIT_NAME", "COURSEKIT_VERSION"
sys.path.append("../lessons")
from coursekit import setup

setup.with_devices(8)

import jax
import jax.numpy as jnp
import numpy as np
from coursekit.check import check, scorecard, statement
from coursekit.expect import *
from coursekit.expect_program import *
from coursekit.observe import observe
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
# [twice] `double(x)` returns twice the number `x`.


# %% exercise="double" minutes=3 difficulty=1
def double(x):
    """Returns twice the number `x`."""
    ### BEGIN SOLUTION
    return 2 * x  # corpus-needle-93b1
    ### END SOLUTION


# %% [markdown] hints="double"
# - Multiply `x`.
# - By two.


# %% helpers="double"
def check_doubled_twice(x):
    return double(double(x))


# %% check="double" points=1
statement("twice")
expect_close(observe(double, 3), 6)
expect_close(observe(check_doubled_twice, 5), 20)
### BEGIN HIDDEN TESTS
expect_close(observe(double, -7), -14)  # corpus-needle-93b1
expect_close(observe(double, 1234.5), 2469.0)
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 1.2: normalize
#
# [mean zero] `normalize(x)` returns the NumPy array `x: (N, ...)` minus its mean over
# axis 0, with the same shape and dtype, and leaves `x` as it was. Where `N` is 0:
# `ValueError`, and its text names that size.


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

# %% check="normalize" points=2
statement("mean zero")
seen = observe(normalize, np.float32([[1, 10], [3, 30]]))
expect_close(seen, np.float32([[-1, -10], [1, 10]]))
expect_unchanged(seen)
empty = observe(normalize, np.zeros((0, 2), np.float32))
expect_error(empty, "ValueError", mentions=[0])
### BEGIN HIDDEN TESTS
for shape in ((5,), (6, 3), (4, 2, 3)):
    x = np.float32(np.random.default_rng(5).normal(size=shape))
    seen = observe(normalize, x)
    expect_close(seen, x - x.mean(axis=0))
    expect_unchanged(seen)
expect_error(observe(normalize, np.zeros(0, np.float32)), "ValueError", mentions=[0])
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 1.3: parallel_square
#
# [a row on each device] `parallel_square(x)` takes `x: (D, ...)` and returns its
# square, of the same shape and dtype: row `d` of the result lies on one device of its
# own.


# %% exercise="parallel_square" minutes=4 difficulty=1
def parallel_square(x):
    """Squares `x: (D, ...)` on D devices, one row of the leading axis on each."""
    ### BEGIN SOLUTION
    return jax.pmap(lambda row: row**2)(x)
    ### END SOLUTION


# %% [markdown] hints="parallel_square"
# - `jax.pmap(g)` is a function. Call it on `x`.
# - `g` receives one row, without the leading axis.

# %% check="parallel_square" points=3
statement("a row on each device")
x = np.arange(16, dtype=np.float32).reshape(8, 2)
seen = observe(parallel_square, x, traced=True)
expect_close(seen, x**2)
expect_collectives(seen, {})
expect_devices(seen, 8)
### BEGIN HIDDEN TESTS
for num_devices in (2, 4):
    x = np.arange(num_devices * 6, dtype=np.int32).reshape(num_devices, 2, 3) - 5
    seen = observe(parallel_square, x, traced=True)
    expect_close(seen, x**2)
    expect_collectives(seen, {})
    expect_devices(seen, num_devices)
### END HIDDEN TESTS

# %% [markdown]
# ### Exercise 1.4: negate
#
# [negative] `negate(x)` returns `-x`.


# %% exercise="negate" minutes=2 difficulty=1
def negate(x):
    """Returns `-x`."""
    ### BEGIN SOLUTION
    return -x
    ### END SOLUTION


# %% [markdown] hints="negate"
# - Subtract `x`.
# - From zero.

# %% check="negate" points=4
statement("negative")
expect_close(observe(negate, 3), -3)
### BEGIN HIDDEN TESTS
expect_close(observe(negate, -2.5), 2.5)
### END HIDDEN TESTS

# %% scorecard=true
'''


def write_course(root: Path) -> Path:
    """Writes a course of this lesson into `root`; returns the source's path."""
    return tiny.write_course(root, SOURCE, SETUP)
