"""A solved lesson in this process, its checks run as a notebook and as a judge do."""

import collections
import functools
import linecache
import os
import random
import warnings
from pathlib import Path
from unittest import mock

import jax
import nbformat

from coursekit import learner, materials, reference_checks
from coursekit.checks import CheckModule, solutions
from coursekit.hidden_cases import Case
from coursekit.i18n import pattern_of
from coursekit.observation import Observation, describe_call, plain
from coursekit.observe import observe, on_devices
from coursekit.outcomes import FAILS, Run, StatementResult, Verdict, carry_out
from coursekit.processes import run_script
from coursekit.tracing import program_of
from grader.kernel.inside.responder import free_compiled_programs
from grader.results import Outcome
from grader.submissions.definitions import definitions

try:
    from grader.authoring.check_source import visible_source
    from grader.authoring.lesson import read_lesson
    from grader.authoring.translation import messages
    from grader.judging import judge
    from grader.judging.judge import Judge, answer
    from grader.judging.judge_process import material
except ModuleNotFoundError:  # beside the oldest JAX there is no nbgrader
    Judge = object

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.py"))
# Their checks start Python processes. They are run for their own answers alone: `fit`
# calls other exercises' functions, whose wrong answers would decide its verdict.
SLOW = ("launch_env", "fit")
EVERY = os.environ.get("ANSWERS") == "all"
# This answer's processes wait for each other until the check's time limit, which is not
# under test: here they get fewer seconds.
HANGING = {"fit: process 0 saves alone": 10}
PROGRAMS_KEPT = 12  # a process must not hold the programs of thousands of answers


class Lesson:
    """A solved lesson, what its cells define, and its checks.

    Attributes:
        checks: what a notebook runs, hidden cases included, as in a clone.
        exercises: the names that an exercise's cell defines, by exercise.
        namespace: what the cells have defined.
        solutions: the source of each exercise's solved cell.
        judge: runs the checks as a class is graded; None beside the oldest JAX.
        hidden: patterns of the messages that only hidden cases contain.
    """

    def __init__(self, source):
        if Judge is object:
            notebook = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
        else:
            notebook = read_lesson(source, "https://example.org/ada/course")
        self.exercises, self.solutions, self.num_run = {}, {}, 0
        self.drawn, self.kept = {}, KeptPrograms()
        self.namespace = {"__name__": source.stem}
        for cell in notebook.cells:
            metadata = cell.metadata.get("nbgrader", {})
            is_check = metadata.get("grade") or cell.id == "scorecard"
            if cell.cell_type != "code" or is_check:
                continue
            before, text = dict(self.namespace), cell.source
            if cell.id != "setup" and not metadata.get("solution"):
                # As in grading, a lesson's own cells only define what others call.
                text = definitions(text)
            run(text, f"<{source.stem}: {cell.id}>", self.namespace)
            if metadata.get("solution"):
                new = {n for n, v in self.namespace.items() if before.get(n) is not v}
                self.exercises[cell.id], self.solutions[cell.id] = new, text
        learner.namespaces[:] = [self.namespace]
        # An earlier lesson's judge may have changed them in this process.
        reference_checks.observers = {"learner": observe, "solution": observe}
        text, _ = materials.checks_of(source.stem)
        self.checks = CheckModule(text, f"<checks of {source.stem}>", observe)
        known = solutions(materials.solutions_of(source.stem), self.namespace)
        self.checks.compare_with(known, self.namespace)
        in_notebook = reference_checks.observers, reference_checks.solutions
        self.judge, self.references = None, {False: in_notebook}
        if Judge is object:
            return
        every, shown = ({*messages(one)} for one in (text, visible_source(text)))
        self.hidden = [pattern_of(message) for message in every - shown]
        reference_checks.observers = dict(reference_checks.observers)
        self.judge = JudgeHere(self.namespace, material(notebook))
        judged = reference_checks.observers, reference_checks.solutions
        self.references[True] = judged
        if not EVERY:
            # What the solution does is observed once for both, as a judge observes it.
            self.references[False] = judged[0] | {"learner": observe}, judged[1]

    def verdicts(self, exercise, source, name="answer", judged=False):
        """Runs the checks that an answer can touch; returns verdicts by exercise.

        These are its own check and, where the answer redefines a name of the lesson,
        two others; with `ANSWERS=all` all.

        Args:
            exercise: the exercise that is answered.
            source: the answer.
            name: what tracebacks call it.
            judged: runs the checks as a judge does, not as a notebook.
        """
        self.free_programs()
        before = dict(self.namespace)
        reference_checks.observers, reference_checks.solutions = self.references[judged]
        try:
            # In place, as in a kernel: the lesson's functions may call the answer's.
            run(source, f"<{name}>", self.namespace)
            changed = {n for n, v in before.items() if self.namespace[n] is not v}
            if name in HANGING:
                run_script = functools.partial(stopped_after, HANGING[name])
                self.namespace["run_script"] = run_script
            touched = [exercise]
            if changed - self.exercises[exercise]:
                others = [n for n in self.checks.checks if n not in (*SLOW, exercise)]
                touched += others if EVERY else random.Random(name).sample(others, 2)
            check = self.judge.verdict if judged else self.verdict_in_notebook
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # in tests they are errors
                return {one: check(one) for one in touched}
        finally:
            self.namespace.clear()
            self.namespace.update(before)

    def free_programs(self):
        self.num_run += 1
        if self.num_run % PROGRAMS_KEPT == 0:
            free_compiled_programs()

    def failed_by_draw(self, exercise, source, seeds, name="answer"):
        """Returns, for each seed, the statements that drawn cases show not to hold.

        Values and errors alone are compared, which are all that a draw decides: so no
        facts of programs are read, no example is tried again, and a program is compiled
        once for all seeds, unless that changes what is found with the first one.
        """
        self.free_programs()
        check, before = self.checks.checks[exercise], dict(self.namespace)
        observers, reference_checks.solutions = self.references[False]
        observers = observers | {"solution": self.kept.observe}
        reference_checks.observers = observers
        drawn, kept = self.drawn_comparisons(exercise), KeptPrograms()
        no_program = mock.patch.multiple(reference_checks, COMPARE={}, OF_PROGRAM=set())
        try:
            run(source, f"<{name}>", self.namespace)
            self.bind()

            def compare():
                for function, cases, facts in drawn:
                    meant = self.checks.namespace.get(function, function)
                    reference_checks.expect_like_solution(meant, cases, **facts)

            def failed(seed, observe):
                reference_checks.seed = seed
                reference_checks.observers["learner"] = observe
                run_of_check = Run(exercise, check.essential, check.others)
                found = carry_out(run_of_check, {False: compare}).statements
                return tuple(one.name for one in found if one.standing == FAILS)

            with warnings.catch_warnings(), no_program:
                warnings.simplefilter("ignore")
                first = failed(seeds[0], observe)
                is_same = failed(seeds[0], kept.observe) == first
                way = kept.observe if is_same else observe
                return [first, *(failed(seed, way) for seed in seeds[1:])]
        finally:
            reference_checks.seed = 0
            self.namespace.clear()
            self.namespace.update(before)

    def drawn_comparisons(self, exercise):
        """Lists the arguments of a check's calls of `expect_like_solution`.

        A function that the check has as a global is given by its name there.
        """
        if exercise not in self.drawn:
            found = self.drawn[exercise] = []
            self.bind()
            names = self.checks.namespace

            def note(function, cases, **facts):
                named = [name for name, value in names.items() if value is function]
                found.append(([*named, function][0], cases, facts))

            with mock.patch.dict(names, expect_like_solution=note):
                self.checks.hidden[exercise]()
        return self.drawn[exercise]

    def verdict_in_notebook(self, exercise):
        """Runs a check, hidden cases included, where the answer is."""
        self.bind()
        return self.checks.run(exercise)

    def bind(self):
        self.checks.bind(self.namespace)
        names = [name for name in self.checks.imported if name in self.namespace]
        reference_checks.learner = {name: self.namespace[name] for name in names}


class KeptPrograms:
    """Observes what functions return, by programs that are compiled once."""

    def __init__(self):
        self.programs = {}

    def observe(self, function, *arguments, axis=None, **how):
        """Observes a function's result; plainly, where JAX makes no program of it."""
        called = on_devices(function, axis) if axis else function
        run_once, arrays = program_of(called, arguments)

        def program(*arrays):
            result = run_once(*arrays)
            if any(not isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(result)):
                raise TypeError("it computes with no array")
            return result

        case = Case(*arguments, axis=axis)
        fixed = [one for one in jax.tree.leaves(arguments) if type(one) is float]
        key = function, case.shapes, *fixed
        try:
            compiled = self.programs.setdefault(key, jax.jit(program))
            result = jax.block_until_ready(compiled(*arrays))
        except Exception:
            return observe(function, *arguments, axis=axis)
        call = describe_call(function.__name__, arguments, axis)
        return Observation(function.__name__, call, plain(result))


class JudgeHere(Judge):
    """A judge whose questions are answered in this process."""

    def __init__(self, notebook, material):
        self.notebook = notebook
        self.helpers = CheckModule(material["checks"], "<checks, where an answer is>")
        super().__init__(self.ask, material)

    def ask(self, question):
        helpers = self.helpers.namespace
        return answer(question, collections.ChainMap(self.notebook, helpers))

    def verdict(self, exercise):
        """Runs a check by questions about the answer; returns a notebook's verdict."""
        self.helpers.bind(self.notebook)
        reference_checks.learner = {}
        # Many answers make the same programs, which a judge may free before a check.
        with mock.patch.object(judge, "free_compiled_programs"):
            reply = self.check(exercise)
        return Verdict(
            exercise,
            Outcome[reply["verdict"]].value,
            reply["share"],
            tuple(StatementResult(**one) for one in reply["statements"]),
            reply["message"],
            tuple((name, text) for name, text in reply["details"]),
        )


def stopped_after(seconds, *arguments, timeout_s, **more):
    """Runs a script as `run_script` does, with a shorter time limit."""
    return run_script(*arguments, timeout_s=min(seconds, timeout_s), **more)


def run(source, name, namespace):
    """Runs a cell whose text `inspect` finds, as it does a kernel's."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), namespace)
    namespace["In"] = [*namespace.get("In", ()), source]
