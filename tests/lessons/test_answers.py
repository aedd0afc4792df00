"""Known wrong answers lose the points of their check alone; other right ones get all.

Each answer is set into the solved lesson's namespace, and the checks that it can touch
are run, hidden tests included; with `ANSWERS=some` a sixth of the wrong answers and a
third of the right ones. All happens in this process: a kernel for each of dozens of
answers would take minutes.
"""

import ast
import functools
import linecache
import os
import re
from pathlib import Path

import jax
import matplotlib.pyplot as plt
import nbformat
import pytest

from coursekit import check
from coursekit.processes import run_script

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.ipynb"))
RIGHT = sorted((ROOT / "solutions" / "answers").glob("*/*__right__*.py"))
WRONG = sorted((ROOT / "solutions" / "answers").glob("*/*__wrong__*.py"))
# Their checks start Python processes. No answer is meant for these but their own:
# where `fit` calls other exercises' functions, their answers would decide it, too.
SLOW = ("launch_env", "fit")
# Processes of these wait for each other until the check's time limit, which is not what
# is tested: here it is shorter, in seconds.
HANGING = {"fit__wrong__process_0_saves_alone": 10}


class Lesson:
    """A solved lesson, run once up to its checks."""

    def __init__(self, path):
        cells = nbformat.read(path, as_version=4).cells
        code = [cell for cell in cells if cell.cell_type == "code"]
        self.checks = {}
        self.exercises = {}  # with the names that their cells define
        self.namespace = {"__name__": path.stem}
        for cell in code:
            metadata = cell.metadata.nbgrader
            if metadata.grade:
                self.checks[metadata.grade_id.removeprefix("check-")] = cell.source
            elif metadata.grade_id not in ("setup", "scorecard"):
                before = dict(self.namespace)
                run(cell.source, f"<{path.stem}: {cell.id}>", self.namespace)
                if metadata.solution:
                    new = {
                        n for n, v in self.namespace.items() if before.get(n) is not v
                    }
                    self.exercises[metadata.grade_id] = new
            elif metadata.grade_id == "setup":
                exec(cell.source, self.namespace)
            plt.close("all")  # as a kernel does after each cell

    def outcomes(self, answer, exercise):
        """Runs the checks that `answer` can touch; returns {exercise: outcome}.

        Its own, and all where it gives another meaning to a name of the lesson.
        """
        before = dict(self.namespace)
        if answer.stem in HANGING:
            run_script = functools.partial(stopped_after, HANGING[answer.stem])
            self.namespace["run_script"] = run_script
        # In place, as in a kernel: the lesson's own functions may call the answer's.
        exec(compile(answer.read_text(), str(answer), "exec"), self.namespace)
        try:
            changed = {n for n, v in before.items() if self.namespace[n] is not v}
            checks = {exercise: self.checks[exercise]}
            if changed - self.exercises[exercise]:
                checks |= {n: c for n, c in self.checks.items() if n not in SLOW}
            return {name: self.outcome(source) for name, source in checks.items()}
        finally:
            self.namespace.clear()
            self.namespace.update(before)

    def outcome(self, source):
        try:
            exec(source, dict(self.namespace))
        except check.NotPassed as failure:
            return failure.outcome
        return "right"


def stopped_after(seconds, *arguments, timeout_s, **more):
    """Runs a script as `run_script` does, for so many seconds at most."""
    return run_script(*arguments, timeout_s=min(seconds, timeout_s), **more)


def run(source, name, namespace):
    """Runs a cell whose text `inspect` finds, as it does a kernel's."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), namespace)


def pytest_generate_tests(metafunc):
    if "answer" in metafunc.fixturenames:
        known = (*RIGHT, *WRONG)
        if os.environ.get("ANSWERS") == "some":
            known = (*RIGHT[::3], *WRONG[::6])
        own = [path for path in known if path.parent.name == metafunc.cls.path.stem]
        metafunc.parametrize("answer", own, ids=lambda path: path.stem)


class Answers:
    """The tests of one lesson's known answers, which stay in one process."""

    path: Path

    @pytest.fixture(scope="class")
    @classmethod
    def lesson(cls, tmp_path_factory):
        # Checks compile their small programs anew for each answer; most are the same.
        kept = {
            "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("jit")),
            "jax_persistent_cache_min_compile_time_secs": 0,
            "jax_persistent_cache_min_entry_size_bytes": -1,
        }
        with (
            # Learners' kernels run with JAX's usual promotion,
            jax.numpy_dtype_promotion("standard"),
            jax.numpy_rank_promotion("allow"),
            # and their scripts with a kernel's flags.
            pytest.MonkeyPatch.context() as patch,
        ):
            for name, value in kept.items():
                jax.config.update(name, value)
                patch.setenv(name.upper(), str(value))  # for scripts
            yield Lesson(cls.path)
        jax.config.update("jax_compilation_cache_dir", None)

    def test_answer_gets_the_points_it_deserves(self, answer, lesson):
        exercise, verdict, _ = answer.stem.split("__")
        found = lesson.outcomes(answer, exercise)
        assert found.pop(exercise) in (
            ("right",) if verdict == "right" else ("wrong", "your code raised")
        )
        assert set(found.values()) <= {"right"}

    def test_answer_says_what_it_stands_for(self, answer):
        assert re.fullmatch(r"\w+?__(wrong|right)__\w+", answer.stem)
        assert ast.get_docstring(ast.parse(answer.read_text()))

    def test_each_exercise_has_three_wrong_and_two_right_answers(self, lesson):
        every = (*RIGHT, *WRONG)
        own = [path.stem for path in every if path.parent.name == self.path.stem]
        for exercise in lesson.exercises:
            assert sum(name.startswith(f"{exercise}__wrong__") for name in own) >= 3
            assert sum(name.startswith(f"{exercise}__right__") for name in own) >= 2


for path in LESSONS:
    name = f"Test_{path.stem}"
    globals()[name] = type(name, (Answers,), {"path": path})
