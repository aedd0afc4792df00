"""Eight simulated devices for every test, and JAX at its strictest."""

import atexit
import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from coursekit import environment, setup
from grader.kernel.compile_cache import variables

# Here the oldest JAX optimizes what it compiles, as for real devices: that shows checks
# that depend on rounding.
if os.environ.get("ANSWERS") == "oldest":
    environment.NEWEST_JAX_TRIED = (0, 0)
setup.with_devices(8)

import jax

# As in `grader/__main__.py`: imports and compiled programs make many objects that stay,
# and a process would look through all of them several times at its end.
gc.set_threshold(100_000)
atexit.register(gc.freeze)

# No test cuts the power, and syncing thousands of small files takes minutes.
os.fsync = lambda file: None

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


ROOT = Path(__file__).resolve().parents[1]
# `make test` runs the quick tests, `make test-slow` those that start kernels, boxes,
# browsers, servers or many processes: tests that use one of these fixtures, that have
# one of these names, or that are marked `slow`.
SLOW_FIXTURES = {"browser", "contained_here"}
SLOW = (
    "solutions/",
    "tests/authoring/test_build.py",
    "tests/authoring/test_translation.py",
    "tests/classroom/test_course.py",
    "tests/classroom/test_export_template.py",
    "tests/classroom/test_grade.py",
    "tests/classroom/test_gradebook.py",
    "tests/classroom/test_mid_semester.py",
    "tests/classroom/test_partial_credit.py",
    "tests/classroom/test_postgresql.py",
    "tests/classroom/test_stock_nbgrader.py",
    "tests/containment/",
    "tests/coursekit/test_notebook.py::test_a_kernel_shows_cards",
    "tests/coursekit/test_processes.py",
    "tests/coursekit/test_script.py",
    "tests/end_to_end/test_crash.py",
    "tests/end_to_end/test_hostile.py",
    "tests/end_to_end/test_load.py",
    "tests/end_to_end/test_mutations.py",
    "tests/judging/test_grade_submission.py",
    "tests/judging/test_judge_process.py",
    "tests/judging/test_partial_credit.py",
    "tests/judging/test_program_process.py",
    "tests/judging/test_secrecy.py",
    "tests/kernel/test_session.py",
    "tests/learner/test_lab.py",
    "tests/learner/test_own_work.py",
    "tests/learner/test_progress.py::test_axe_finds_no_violation",
    "tests/lessons/test_colab.py",
    "tests/lessons/test_device_counts.py",
    "tests/lessons/test_kernel.py",
    "tests/submissions/test_conservation.py",
    "tests/test_imports.py",
    "tests/test_make.py",
    "tests/test_skips.py",
    "tests/test_website.py",
    "tests/workers/test_dask_executor.py",
)
# What takes minutes comes first: at the end it would keep one process waiting. First of
# all comes what compiles the lessons' programs, which others read.
LONG = (
    *("test_answers.py", "test_crash.py", "test_hostile.py", "test_known_answers.py"),
    *("05_full_pipeline.ipynb", "test_grade_submission.py", "test_dask_executor.py"),
)
PROGRAMS = "COURSE_PROGRAMS"  # the variable with the folder of a run's programs
TEMPROOT = "PYTEST_DEBUG_TEMPROOT"  # pytest's variable for where `tmp_path` is


def pytest_configure(config):
    """Makes a folder for temporary files and compiled programs, one for a whole run."""
    missing = [name for name in SLOW if not (ROOT / name.split("::")[0]).exists()]
    if missing:
        raise pytest.UsageError(
            f"{__file__}: SLOW names files that are gone: {missing}"
        )
    config.pluginmanager.register(Kernels())
    if PROGRAMS not in os.environ:
        patch = pytest.MonkeyPatch()
        patch.setenv(TEMPROOT, tempfile.gettempdir())  # pytest keeps it after the run
        folder = tempfile.mkdtemp(prefix="tests-")
        os.chmod(folder, 0o711)  # PostgreSQL runs as another user
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        patch.setenv(PROGRAMS, tempfile.mkdtemp(prefix="programs-"))
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        config.add_cleanup(patch.undo)


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items):
    """Marks slow tests, and sorts what takes minutes to the front."""
    for item in items:
        fixtures = {*getattr(item, "fixturenames", ())}  # a notebook's cell has none
        if item.nodeid.startswith(SLOW) or fixtures & SLOW_FIXTURES:
            item.add_marker("slow")
    items.sort(key=lambda item: [*LONG, item.path.name].index(item.path.name))


def program_variables(lesson, writes=False):
    """Lists the variables that let JAX read, or also write, a lesson's programs."""
    folder = Path(os.environ[PROGRAMS]) / lesson
    folder.mkdir(exist_ok=True)
    found = variables(folder, writes=writes)
    return {name: value for name, value in found.items() if name != "XLA_FLAGS"}


@pytest.fixture(scope="session")
def programs():
    """Returns `program_variables`."""
    return program_variables


class Kernels:
    """A plugin, since a conftest's hooks do not see items outside its folder."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item):
        """Lets a notebook's kernel, which nbval starts here, read compiled programs."""
        with pytest.MonkeyPatch.context() as patch:
            if item.path.suffix == ".ipynb":
                for name, value in program_variables(item.path.stem).items():
                    patch.setenv(name, value)
            return (yield)


@pytest.fixture(scope="session", autouse=True)
def compile_cache(tmp_path_factory):
    """Shares one cache among all tests of a run, in several processes, too."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if base.name.startswith("popen-") else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
        yield


@pytest.fixture(scope="session")
def contained_here():
    """Skips where bubblewrap does not work, naming what is missing."""
    from grader.containment.backend import backend
    from grader.containment.limits import ContainmentError

    try:
        name = backend()
    except ContainmentError as error:
        pytest.skip(str(error))
    if name != "bubblewrap":
        pytest.skip(f"bubblewrap does not work here, only {name}")


# What tests need of the system, and how to get it on Debian and Ubuntu.
SYSTEM = {"bwrap": "bubblewrap", "chromium": "chromium", "initdb": "postgresql"}


def pytest_terminal_summary(terminalreporter):
    """Names last the programs for lack of which tests were skipped."""
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
