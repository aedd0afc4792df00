"""Eight simulated devices for every test, and JAX at its strictest."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "lessons"), str(ROOT / "tests")]

import pytest

import start

# Most of a test's time goes into compiling, so that is done as in grading, in haste. A
# check that hangs on how a program rounds shows, too: kernels, scripts and, with
# `ANSWERS=some`, the oldest and the newest JAX compile as learners have it.
if os.environ.get("ANSWERS") != "some":
    from grader.compile_cache import HASTE

    os.environ["XLA_FLAGS"] = HASTE
start.with_devices(8)

import jax

jax.devices()  # reads the flags, which kernels and scripts must not inherit
FLAGS = os.environ.pop("XLA_FLAGS")
start.set_environment(os.environ, 8)

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


LONG = ("test_hostile.py", "test_known_answers.py", "test_crash.py")


def pytest_collection_modifyitems(items):
    """Begins with what takes minutes: at the end it would keep one process waiting."""
    items.sort(key=lambda item: item.path.name not in LONG)


@pytest.fixture(scope="session", autouse=True)
def compile_cache(tmp_path_factory):
    """One for all tests of a run, also where they run side by side."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
        yield


@pytest.fixture(scope="session")
def flags():
    """What XLA was told in this process."""
    return FLAGS


@pytest.fixture(scope="session")
def contained_here():
    """Skips, naming what is missing, where bubblewrap contains nothing."""
    from grader.containment import ContainmentError, backend

    try:
        return backend("bubblewrap")
    except ContainmentError as error:
        pytest.skip(str(error))
