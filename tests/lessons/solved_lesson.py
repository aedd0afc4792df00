"""A solved lesson in this process, its checks asked as a notebook and as a judge do."""

import ast
import functools
import linecache
import os
import random
import warnings
from pathlib import Path
from unittest import mock

import nbformat

from coursekit import check, likeness
from coursekit.i18n import pattern_of
from coursekit.observe import observe
from coursekit.own_names import transform
from coursekit.processes import run_script
from grader.kernel.inside.compiled_programs import free_compiled_programs
from grader.results import Outcome
from grader.submissions.definitions import definitions

try:
    from grader.authoring.lesson import read_lesson
    from grader.authoring.notebook import release
    from grader.authoring.translatable_text import messages as said
    from grader.judging import judge, known_solutions
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
        checks: the check cells' sources, by exercise.
        exercises: the names that an exercise's cell defines, by exercise.
        namespace: what the cells have defined.
        hidden: patterns of the messages that hidden tests alone may tell.
    """

    def __init__(self, source):
        self.hidden, self.judge, self.number_told = [], None, 0
        if Judge is object:
            notebook = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
        else:
            notebook = read_lesson(source, "https://example.org/ada/course")
        self.checks = checks_of(notebook)
        self.exercises = {}
        self.namespace = {"__name__": source.stem}
        solved = {"__name__": "__solution__"}
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
            run(text, f"<solution of {source.stem}: {cell.id}>", solved)
            if metadata.get("solution"):
                self.exercises[cell.id] = new_names(before, self.namespace)
        self.ways = {"notebook": {"learner": observe, "solution": observe}}
        self.solutions = {"notebook": solved}
        if Judge is object:
            return
        messages = [
            {text for source in checks_of(one).values() for text in said(source)}
            for one in (notebook, release(notebook))
        ]
        self.hidden = [pattern_of(text) for text in messages[0] - messages[1]]
        self.judge = JudgeHere(self.namespace, **material(notebook))
        # What the solution does is observed once for both, as a judge observes it.
        by_judge = likeness.ways
        self.ways = {"grader": by_judge, "notebook": by_judge | {"learner": observe}}
        self.solutions = dict.fromkeys(self.ways, likeness.solutions)

    def write_known(self, path):
        """Writes what the solutions were seen to do, for other judges of this run."""
        if self.judge:
            likeness.ways = self.ways["grader"]
            likeness.solutions = self.solutions["grader"]
            cases, own = likeness.solved_cases(), self.judge.own.own
            known_solutions.write(str(path), cases, own, self.judge.counts)

    def outcomes(self, path, exercise, by="notebook"):
        """Runs the checks that an answer can touch; returns what each has told.

        Its own, and others where it gives another meaning to a name of the lesson: two
        of them, with `ANSWERS=all` all.
        """
        return self.told(path.read_text(), exercise, by, name=path.stem)

    def told(self, text, exercise, by="notebook", name="answer"):
        """Runs the checks that the answer `text` can touch: {exercise: what it told}.

        What it told is the outcome in words, the first sentence, and the rows.
        """
        self.number_told += 1
        if self.number_told % 12 == 0:  # a process must not hold thousands of programs
            free_compiled_programs()
        before = dict(self.namespace)
        likeness.ways, likeness.solutions = self.ways[by], self.solutions[by]
        likeness.learner = self.namespace
        try:
            # In place, as in a kernel: the lesson's functions may call the answer's.
            run(text, f"<{name}>", self.namespace)
            changed = {n for n, v in before.items() if self.namespace[n] is not v}
            if name in HANGING:
                run_script = functools.partial(stopped_after, HANGING[name])
                self.namespace["run_script"] = run_script
            own = [exercise]
            if changed - self.exercises[exercise]:
                others = [n for n in self.checks if n not in (*SLOW, exercise)]
                own += others if EVERY else random.Random(name).sample(others, 2)
            ask = self.in_notebook if by == "notebook" else self.in_grader
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # in tests they are errors
                return {one: ask(one) for one in own}
        finally:
            self.namespace.clear()
            self.namespace.update(before)

    def in_notebook(self, exercise):
        """Runs a check cell, hidden tests included, where the answer is."""
        cell = compile(transform(ast.parse(self.checks[exercise])), exercise, "exec")
        try:
            exec(cell, dict(self.namespace))
        except check.NotPassed as failure:
            return failure.outcome, failure.headline, failure.rows
        return "right", "", {}

    def in_grader(self, exercise):
        """Lets the judge run a check, by questions about the answer."""
        said = self.judge.check(exercise)
        outcome = Outcome[said["verdict"]]
        rows = {} if outcome is Outcome.PASSED else dict(said["details"])
        return outcome.value, said["message"], rows


class JudgeHere(Judge):
    """A judge whose questions are answered in this process."""

    def __init__(self, learner, **material):
        self.learner = learner
        super().__init__(lambda message: None, None, **material)

    def ask(self, question):
        return answer(question, self.learner)

    def check(self, exercise):
        # Many answers make the same programs, which a judge may free before a check.
        with mock.patch.object(judge, "free_compiled_programs"):
            return super().check(exercise)


def checks_of(notebook):
    """Finds the check cells' sources, by exercise."""
    return {
        cell.metadata.nbgrader.grade_id.removeprefix("check-"): cell.source
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("grade")
    }


def new_names(before, after):
    return {name for name, value in after.items() if before.get(name) is not value}


def stopped_after(seconds, *arguments, timeout_s, **more):
    """Runs a script as `run_script` does, for so many seconds at most."""
    return run_script(*arguments, timeout_s=min(seconds, timeout_s), **more)


def run(source, name, namespace):
    """Runs a cell whose text `inspect` finds, as it does a kernel's."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), namespace)
