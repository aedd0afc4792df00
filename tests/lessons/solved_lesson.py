"""A solved lesson in this process, its checks run as a notebook and as a judge do."""

import collections
import dataclasses
import functools
import linecache
import os
import random
import warnings
from pathlib import Path
from unittest import mock

import jax
import nbformat
import numpy as np

from coursekit import materials, reference_checks
from coursekit.checks import CheckModule, Solutions
from coursekit.context import Context, within
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
# JAX makes no program of what saves files: Orbax's threads would wait for its arrays,
# and end minutes later, below other tests.
SAVING = ("restore_state", "restore_elsewhere")
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
        context: in which the checks run as in a notebook.
        judge: runs the checks as a class is graded; None beside the oldest JAX.
        hidden: patterns of the messages that only hidden cases contain.
    """

    def __init__(self, source):
        if Judge is object:
            notebook = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
        else:
            notebook = read_lesson(source, "https://example.org/ada/course")
        self.exercises, self.solutions, self.num_run = {}, {}, 0
        self.drawn, self.known_draws, self.kept = {}, {}, KeptPrograms()
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
        text, _ = materials.checks_of(source.stem)
        self.judge, self.context = None, Context(namespaces=[self.namespace])
        with within(self.context):
            self.checks = CheckModule(text, f"<checks of {source.stem}>", observe)
            known = Solutions(materials.solutions_of(source.stem), self.namespace)
            self.checks.compare_with(known.of(""), self.namespace)
        if Judge is object:
            return
        every, shown = ({*messages(one)} for one in (text, visible_source(text)))
        self.hidden = [pattern_of(message) for message in every - shown]
        self.judge = JudgeHere(self.namespace, material(notebook), self.context)
        if not EVERY:
            # What the solution does is observed once for both, as a judge observes it.
            for name in ("observe_solution", "solutions", "known"):
                setattr(self.context, name, getattr(self.judge.context, name))

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
            with warnings.catch_warnings(), within(self.context):
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
        context = dataclasses.replace(self.context, known=self.known_draws)
        drawn, kept = self.drawn_comparisons(exercise), observe
        context.observe_solution = observe
        if exercise not in SAVING:
            kept, context.observe_solution = KeptPrograms().observe, self.kept.observe
        no_program = mock.patch.multiple(reference_checks, COMPARE={}, OF_PROGRAM=set())
        try:
            run(source, f"<{name}>", self.namespace)
            self.bind(context)

            def compare():
                for function, cases, facts in drawn:
                    meant = self.checks.namespace.get(function, function)
                    reference_checks.expect_like_solution(meant, cases, **facts)

            def failed(seed, observe):
                context.seed, context.observe_learner = seed, observe
                run_of_check = Run(exercise, check.essential, check.others)
                found = carry_out(run_of_check, {False: compare}).statements
                return tuple(one.name for one in found if one.standing == FAILS)

            with warnings.catch_warnings(), no_program, within(context):
                warnings.simplefilter("ignore")
                first = failed(seeds[0], observe)
                is_same = failed(seeds[0], kept) == first
                way = kept if is_same else observe
                return [first, *(failed(seed, way) for seed in seeds[1:])]
        finally:
            self.namespace.clear()
            self.namespace.update(before)

    def failed_in_classes(self, exercise, source, seeds, name="answer"):
        """Returns the sets of statements that whole checks of these seeds fail."""
        context, failed = self.judge.context, set()
        before = context.seed
        try:
            for context.seed in seeds:
                found = self.verdicts(exercise, source, name, judged=True)[exercise]
                failed.add(
                    tuple(s.name for s in found.statements if s.standing == FAILS)
                )
        finally:
            context.seed = before
        return failed

    def drawn_comparisons(self, exercise):
        """Lists the arguments of a check's calls of `expect_like_solution`.

        A function that the check has as a global is given by its name there.
        """
        if exercise not in self.drawn:
            found = self.drawn[exercise] = []
            self.bind(self.context)
            names = self.checks.namespace

            def note(function, cases, **facts):
                named = [name for name, value in names.items() if value is function]
                found.append(([*named, function][0], cases, facts))

            with (
                mock.patch.dict(names, expect_like_solution=note),
                within(self.context),
            ):
                self.checks.hidden[exercise]()
        return self.drawn[exercise]

    def verdict_in_notebook(self, exercise):
        """Runs a check, hidden cases included, where the answer is."""
        self.bind(self.context)
        return self.checks.run(exercise)

    def bind(self, context):
        self.checks.bind(self.namespace)
        names = [name for name in self.checks.imported if name in self.namespace]
        context.functions = {name: self.namespace[name] for name in names}


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
        scalars = float | np.generic  # what a program is traced for
        fixed = [x for x in jax.tree.leaves(arguments) if isinstance(x, scalars)]
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

    def __init__(self, notebook, material, context):
        self.notebook, self.in_notebook = notebook, context
        self.helpers = CheckModule(material["checks"], "<checks, where an answer is>")
        super().__init__(self.ask, material)

    def ask(self, question):
        helpers = self.helpers.namespace
        with within(self.in_notebook):
            return answer(question, collections.ChainMap(self.notebook, helpers))

    def verdict(self, exercise):
        """Runs a check by questions about the answer; returns a notebook's verdict."""
        self.helpers.bind(self.notebook)
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
