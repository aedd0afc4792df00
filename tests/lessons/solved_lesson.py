"""A solved lesson in this process, its checks asked as a notebook and as a judge do."""

import collections
import functools
import linecache
import os
import random
import warnings
from pathlib import Path
from unittest import mock

import nbformat

from coursekit import learner, materials, reference_checks
from coursekit.checks import CheckModule, solutions
from coursekit.i18n import pattern_of
from coursekit.observe import observe
from coursekit.outcomes import StatementResult, Verdict
from coursekit.processes import run_script
from grader.kernel.inside.compiled_programs import free_compiled_programs
from grader.results import Outcome
from grader.submissions.definitions import definitions

try:
    from grader.authoring.check_source import visible_source
    from grader.authoring.lesson import read_lesson
    from grader.authoring.translatable_text import messages
    from grader.judging import judge
    from grader.judging.judge import Judge, answer
    from grader.judging.judge_process import material
except ModuleNotFoundError:  # beside the oldest JAX there is no nbgrader
    Judge = object

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.py"))
# Their checks start Python processes. No answer is meant for these but their own:
# where `fit` calls other exercises' functions, their answers would decide it, too.
SLOW = ("launch_env", "fit")
EVERY = os.environ.get("ANSWERS") == "all"
# Processes of these wait for each other until the check's time limit, which is not what
# is tested: here it is shorter, in seconds.
HANGING = {"fit__wrong__process_0_saves_alone": 10}


class Lesson:
    """A solved lesson, what its cells define, and its checks.

    Attributes:
        checks: what a notebook runs, hidden cases included, as in a clone.
        exercises: the names that an exercise's cell defines, by exercise.
        namespace: what the cells have defined.
        hidden: patterns of the messages that hidden cases alone may tell.
    """

    def __init__(self, source):
        self.hidden, self.judge, self.number_told = [], None, 0
        if Judge is object:
            notebook = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
        else:
            notebook = read_lesson(source, "https://example.org/ada/course")
        self.exercises = {}
        self.namespace = {"__name__": source.stem}
        for cell in notebook.cells:
            if cell.cell_type != "code" or cell.id == "scorecard":
                continue
            text, metadata = cell.source, cell.metadata.get("nbgrader", {})
            if metadata.get("grade"):
                continue
            if cell.id != "setup" and not metadata.get("solution"):
                # As in grading, a lesson's own cells only define what others call.
                text = definitions(text)
            before = dict(self.namespace)
            run(text, f"<{source.stem}: {cell.id}>", self.namespace)
            if metadata.get("solution"):
                self.exercises[cell.id] = new_names(before, self.namespace)
        learner.namespaces[:] = [self.namespace]
        # Another lesson of this process may have left its judge's.
        reference_checks.ways = {"learner": observe, "solution": observe}
        text, _ = materials.checks_of(source.stem)
        self.checks = CheckModule(text, f"<checks of {source.stem}>", observe)
        known = solutions(materials.solutions_of(source.stem), self.namespace)
        self.checks.compare_with(known, self.namespace)
        self.ways = {"notebook": dict(reference_checks.ways)}
        self.solutions = {"notebook": reference_checks.solutions}
        if Judge is object:
            return
        said = [{*messages(one)} for one in (text, visible_source(text))]
        self.hidden = [pattern_of(text) for text in said[0] - said[1]]
        self.judge = JudgeHere(self.namespace, **material(notebook))
        self.ways["grader"] = dict(reference_checks.ways)
        self.solutions["grader"] = reference_checks.solutions
        if not EVERY:
            # What the solution does is observed once for both, as a judge observes it.
            self.ways["notebook"] = self.ways["grader"] | {"learner": observe}
            self.solutions["notebook"] = self.solutions["grader"]

    def take_road(self, by):
        """Lets hidden cases compare as in a notebook, or as in a judge."""
        reference_checks.ways = self.ways[by]
        reference_checks.solutions = self.solutions[by]

    def verdicts(self, path, exercise, by="notebook"):
        """Runs the checks that an answer can touch; returns their verdicts by exercise.

        Its own, and others where it gives another meaning to a name of the lesson: two
        of them, with `ANSWERS=all` all.
        """
        return self.verdicts_of(path.read_text(), exercise, by, name=path.stem)

    def verdicts_of(self, text, exercise, by="notebook", name="answer"):
        """Runs the checks that the answer `text` can touch."""
        self.number_told += 1
        if self.number_told % 12 == 0:  # a process must not hold thousands of programs
            free_compiled_programs()
        before = dict(self.namespace)
        self.take_road(by)
        try:
            # In place, as in a kernel: the lesson's functions may call the answer's.
            run(text, f"<{name}>", self.namespace)
            changed = {n for n, v in before.items() if self.namespace[n] is not v}
            if name in HANGING:
                run_script = functools.partial(stopped_after, HANGING[name])
                self.namespace["run_script"] = run_script
            own = [exercise]
            if changed - self.exercises[exercise]:
                every = [*self.checks.checks]
                others = [n for n in every if n not in (*SLOW, exercise)]
                own += others if EVERY else random.Random(name).sample(others, 2)
            ask = self.in_notebook if by == "notebook" else self.judge.verdict
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # in tests they are errors
                return {one: ask(one) for one in own}
        finally:
            self.namespace.clear()
            self.namespace.update(before)

    def in_notebook(self, exercise):
        """Runs a check, hidden cases included, where the answer is."""
        self.checks.bind(self.namespace)
        names = [name for name in self.checks.imported if name in self.namespace]
        reference_checks.learner = {name: self.namespace[name] for name in names}
        return self.checks.run(exercise)


class JudgeHere(Judge):
    """A judge whose questions are answered in this process."""

    def __init__(self, notebook, *, checks, **material):
        self.notebook = notebook
        self.helpers = CheckModule(checks, "<checks, where an answer is>")
        super().__init__(lambda message: None, None, checks=checks, **material)

    def ask(self, question):
        helpers = self.helpers.namespace
        return answer(question, collections.ChainMap(self.notebook, helpers))

    def verdict(self, exercise):
        """Runs a check, by questions about the answer; says what a notebook's says."""
        self.helpers.bind(self.notebook)
        reference_checks.learner = {}
        # Many answers make the same programs, which a judge may free before a check.
        with mock.patch.object(judge, "free_compiled_programs"):
            said = self.check(exercise)
        return Verdict(
            exercise,
            Outcome[said["verdict"]].value,
            said["share"],
            tuple(StatementResult(**one) for one in said["statements"]),
            said["message"],
            tuple((name, text) for name, text in said["details"]),
        )


def new_names(before, after):
    return {name for name, value in after.items() if before.get(name) is not value}


def stopped_after(seconds, *arguments, timeout_s, **more):
    """Runs a script as `run_script` does, for so many seconds at most."""
    return run_script(*arguments, timeout_s=min(seconds, timeout_s), **more)


def run(source, name, namespace):
    """Runs a cell whose text `inspect` finds, as it does a kernel's."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), namespace)
