"""Eight simulated devices for every test, and JAX at its strictest."""

import os

import pytest

from coursekit import setup

# Tests spend most of their time on compiling: that is done as in grading, without
# optimization, in kernels and scripts, too. The oldest JAX compiles as learners have
# it, which shows checks that depend on rounding.
if os.environ.get("ANSWERS") != "oldest":
    from grader.kernel.compile_cache import FAST_COMPILE_FLAGS

    os.environ["XLA_FLAGS"] = FAST_COMPILE_FLAGS
setup.with_devices(8)

import jax

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
def contained_here():
    """Skips, naming what is missing, where bubblewrap contains nothing."""
    from grader.containment.backend import backend
    from grader.containment.limits import ContainmentError

    try:
        return backend("bubblewrap")
    except ContainmentError as error:
        pytest.skip(str(error))


# What tests need of the system, and how to get it on Debian and Ubuntu.
SYSTEM = {"bwrap": "bubblewrap", "chromium": "chromium", "initdb": "postgresql"}


def pytest_terminal_summary(terminalreporter):
    """Says last which tests were skipped for want of a program, and how to get it."""
    skipped = terminalreporter.stats.get("skipped", ())
    reasons = [str(report.longrepr) for report in skipped]
    for program, package in SYSTEM.items():
        count = sum(program in reason for reason in reasons)
        if count:
            terminalreporter.write_line(
                f"{count} tests were skipped: {package} is missing or does not work; "
                f"sudo apt install {package}",
                yellow=True,
            )
