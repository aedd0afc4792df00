"""Checks one submission's answers: they run in contained sessions, the judge asks.

What ends a session costs the exercise that ended it, and the others go on in a fresh
one. Where another cell can be to blame for a failure, the exercises that failed are
tried once more, each in the notebook as it stood after its own cell: of the other
exercises above it, only the definitions run.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import json
import math
import re
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from nbformat import NotebookNode

from grader.containment.limits import Limits
from grader.judging.cell_plan import Step, are_independent, steps, stubs
from grader.judging.judge_process import JudgeProcess
from grader.kernel.session import (
    START_S,
    Session,
    SessionEnded,
    SessionError,
)
from grader.lessons.release import checks
from grader.results import Outcome
from grader.submissions.answers import first_line

RESPONDER = "__import__('grader.kernel.inside.responder', fromlist=['answer'])"
MAX_SESSIONS = 16  # per submission
NOT_INSTALLED = re.compile(r"ModuleNotFoundError: No module named '([\w.]{1,60})'")


@dataclasses.dataclass
class CheckedExercise:
    """What a trial found out about one exercise."""

    outcome: Outcome
    message: str = ""
    share: float = 0.0
    statements: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    details: tuple[tuple[str, str], ...] = ()
    is_missing: bool = False  # nothing was there to check
    misses_name: bool = False  # it raised a `NameError`

    @property
    def may_be_retried(self) -> bool:
        """Tells whether another cell may be to blame: not for a stub."""
        if self.outcome is Outcome.NOT_ATTEMPTED:
            return self.is_missing
        return self.outcome is not Outcome.PASSED


class Trial:
    """One submission's answers, in the clean lesson `clean`; `lesson` is solved.

    Code that was `left_out` of it runs where an exercise misses a name.
    """

    def __init__(
        self,
        clean: NotebookNode,
        lesson: NotebookNode,
        judge: JudgeProcess,
        limits: Limits,
        left_out: Collection[str] = (),
        **session_options: Any,
    ):
        self.steps, self.exercises = steps(clean), list(checks(clean))
        self.first = [
            *itertools.takewhile(lambda step: step.kind == "extra", self.steps)
        ]
        self.stubs = stubs(clean, lesson)
        self.left_out = [
            Step(f"left-out-{number}", "extra", source)
            for number, source in enumerate(left_out)
        ]
        visible = ("setup", "definitions", "functions", "checks")
        words = ", ".join(repr(judge.material[part]) for part in visible)
        self.define = f"{RESPONDER}.define({words})"
        self.judge, self.limits = judge, limits
        self.session_options = session_options
        self.sessions, self.begun = 0, time.monotonic()
        self.cpu_s = 0.0  # of sessions that have ended
        self.clean: Session | None = None  # no cell of the learner's runs in it
        self.cleanup = contextlib.ExitStack()
        self.stopped: dict[str, CheckedExercise] = {}  # exercises that ended a session
        self.endings = collections.Counter[str]()  # how many sessions a cell has ended
        self.limits_hit: dict[str, None] = {}  # by learners' code, in any process
        self.evidence: dict[str, None] = {}  # answers that no honest process gives
        self.packages: dict[str, None] = {}  # that cells import and that are missing
        self.keyboard: dict[str, None] = {}  # cells that ask it for input
        self.cut_short: dict[str, None] = {}  # first lines of cells that did not end

    def run(
        self, on_exercise: Callable[[], None] = lambda: None
    ) -> dict[str, CheckedExercise]:
        """Returns the result of each exercise.

        Raises:
            SessionError, JudgeError, ContainmentError: our fault; nothing is known.
        """
        found = {
            name: CheckedExercise(
                Outcome.NOT_ATTEMPTED, f"{name} still holds its stub."
            )
            for name in sorted(self.stubs)
        }
        with self.cleanup:
            while rest := [name for name in self.exercises if name not in found]:
                if self.spent():
                    found |= {name: self.not_reached for name in rest}
                    break
                with self.session() as session, contextlib.suppress(SessionEnded):
                    errors = self.load(session)
                    for name in rest:
                        if session.ended or self.spent(session):
                            break
                        known = self.stopped.get(name)
                        found[name] = known or self.check(name, session, errors)
                        on_exercise()
            return found | self.retry(found)

    def retry(self, found: dict[str, CheckedExercise]) -> dict[str, CheckedExercise]:
        """Tries again what another cell may have spoiled; returns better results.

        Where an exercise misses a name, the lesson's demonstrations run, too, with what
        the learner added to them, and cells that were left out.
        """
        failed = {name: one for name, one in found.items() if one.may_be_retried}
        missing = {name: one for name, one in failed.items() if one.misses_name}
        again: dict[str, CheckedExercise] = {}
        if self.left_out or self.endings or not are_independent(self.steps):
            others = {n: one for n, one in failed.items() if n not in missing}
            again = self.check_again(others, whole=False)
            missing |= {n: failed[n] for n, one in again.items() if one.misses_name}
        again |= self.check_again(missing, whole=True)
        return {n: one for n, one in again.items() if one.share > failed[n].share}

    def check_again(
        self, failed: dict[str, CheckedExercise], *, whole: bool
    ) -> dict[str, CheckedExercise]:
        """Checks exercises that `failed`, each right after its own cell.

        They share a session as long as their cells only define something. A check ends
        as soon as its result cannot be better than the first. For `whole` see
        `run_lesson`.
        """
        found, left = {}, [name for name in self.exercises if name in failed]
        while left and not self.spent():
            with self.session() as session:
                try:
                    errors = self.begin(session, left[0], whole)
                    for step in self.own(whole):
                        errors |= self.run_cells(session, [step], left[0])
                        if step.name == left[0]:
                            name, to_beat = left.pop(0), failed[step.name].share
                            found[name] = self.check(name, session, errors, to_beat)
                            if session.ended or not (left and step.is_lean):
                                break
                except SessionEnded as end:
                    found[left.pop(0)] = self.ended(end.why)
        return found | {name: self.not_reached for name in left}

    def spent(self, session: Session | None = None) -> bool:
        cpu_s = self.cpu_s + sum(one.cpu_s for one in (session, self.clean) if one)
        took_s = time.monotonic() - self.begun
        if not session and self.sessions >= MAX_SESSIONS:
            return True
        return cpu_s > self.limits.total_cpu_s or took_s > self.limits.total_s

    @property
    def not_reached(self) -> CheckedExercise:
        self.limits_hit["time of the whole submission"] = None
        text = (
            f"Not finished: the submission took more than {self.limits.total_s:g} s, "
            f"{self.limits.total_cpu_s:g} s of CPU time or {MAX_SESSIONS} starts."
        )
        return CheckedExercise(Outcome.TIMED_OUT, text)

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """Starts a fresh session, with what is left of the time of processors."""
        self.sessions += 1
        left = max(1, math.ceil(self.limits.total_cpu_s - self.cpu_s))
        limits = dataclasses.replace(self.limits, cpu_s=min(self.limits.cpu_s, left))
        with Session(limits, **self.session_options) as session:
            try:
                yield session
            finally:
                self.cpu_s += session.cpu_s

    def clean_session(self) -> Session:
        """Returns a session that runs the lesson's code alone, started when needed."""
        if self.clean is None or self.clean.ended:
            self.cleanup.close()
            self.clean = self.cleanup.enter_context(self.session())
            setup = next(step.source for step in self.steps if step.kind == "setup")
            for source in (setup, self.define):
                self.clean.run(source, wall_s=START_S)
        return self.clean

    def load(self, session: Session) -> dict[str, list[str]]:
        """Runs the lesson's definitions and the learner's cells; see `begin`."""
        errors = self.begin(session)
        return errors | self.run_cells(session, self.own(with_changes=True))

    def begin(
        self, session: Session, alone: str = "", whole: bool = False
    ) -> dict[str, list[str]]:
        """Runs what comes before the learner's answers; returns the learner's errors.

        The set-up runs, and the definitions of the lesson's other cells. With `whole`,
        these cells run in full, and so do the cells that were left out.

        Raises:
            SessionEnded: a learner's cell ended the session.
            SessionError: a cell of the lesson did.
        """
        errors = self.run_cells(session, self.first, alone)
        if problem := self.run_lesson(session, whole):
            suspects = [step for step in self.first if self.endings[step.name] < 2]
            if not suspects:  # nothing of the learner's ran before the lesson's cells
                raise SessionError(f"The lesson's own cells: {problem}.")
            for step in suspects:
                self.endings[step.name] = 2  # so that it does not run again
            raise SessionEnded(problem)
        if whole:  # now, so that nothing of it replaces what counts
            errors |= self.run_cells(session, self.left_out, alone)
        return errors

    def own(self, with_changes: bool) -> list[Step]:
        """Lists the learner's cells from the first answer on."""
        kinds = {"exercise", "extra"} | ({"change"} if with_changes else set())
        return [step for step in self.steps[len(self.first) :] if step.kind in kinds]

    def run_lesson(self, session: Session, whole: bool) -> str:
        """Runs the lesson's cells; returns what went wrong."""
        own = (step for step in self.steps if step.kind in ("setup", "lesson"))
        setup, *others = own
        lesson = ["\n\n".join(step.lean for step in others)]
        if whole:
            lesson = [step.source for step in others]
        try:
            problem = session.run(setup.source, wall_s=START_S).error
            for source in (self.define, *lesson):  # `define` notes the settings, too
                session.run(source, wall_s=START_S)
        except SessionEnded as end:
            return end.why
        return problem

    def run_cells(
        self, session: Session, cells: list[Step], alone: str = ""
    ) -> dict[str, list[str]]:
        """Runs cells of the learner's until one ends the session; returns errors.

        Of other exercises than the one `alone` only the definitions run.
        """
        errors = {}
        for step in cells:
            if not (source := self.source(step, alone)).strip():
                continue
            if self.spent(session):
                raise SessionEnded("timed out")
            try:
                result = session.run(source)
            except SessionEnded as end:
                self.stop(step.name, end.why)
                if step.kind != "exercise":
                    self.cut_short[first_line(step.source)] = None
                raise
            errors[step.name] = result.errors
            missing = map(NOT_INSTALLED.match, result.errors)
            self.packages |= {found[1]: None for found in missing if found}
            if any(error.startswith("StdinNotImplemented") for error in result.errors):
                self.keyboard[first_line(step.source)] = None
            if result.replies:
                self.evidence["It sends answers that nobody asked for."] = None
        return errors

    def source(self, step: Step, alone: str) -> str:
        """Returns what of a learner's cell runs.

        All of it, unless it has ended a session or belongs to another exercise than
        `alone`: then its definitions, or nothing if those ended a session, too.
        """
        endings = self.endings[step.name]
        is_other = alone and step.kind == "exercise" and step.name != alone
        if step.name == alone or not (endings or is_other):
            return step.source
        return step.lean if endings < 2 else ""

    def stop(self, name: str, why: str) -> CheckedExercise:
        """Notes that a cell, or the check of an exercise, has ended its session."""
        self.endings[name] += 1
        self.stopped[name] = self.ended(why)
        return self.stopped[name]

    def check(
        self,
        name: str,
        session: Session,
        errors: dict[str, list[str]],
        to_beat: float | None = None,
    ) -> CheckedExercise:
        why, is_late, asked = "", False, set()

        def ask(question: dict) -> dict:
            nonlocal why, is_late
            if is_late := self.spent(session):
                return {"ended": "timed out"}
            try:
                one = self.clean_session() if question.get("clean") else session
                words = f"{json.dumps(question)!r}, begins={one not in asked}"
                asked.add(one)
                replies = one.run(f"{RESPONDER}.answer({words})", silent=True).replies
            except SessionEnded as end:
                why = end.why
                return {"ended": why}
            if len(replies) == 1:
                return {"answer": replies[0]}
            return {"answer": "several"} if replies else {"ended": "no answer"}

        said = self.judge.check(name, ask, to_beat)
        if is_late:
            return self.not_reached
        if why:
            return self.stop(name, why)
        return self.checked(said, errors.get(name, []))

    def checked(self, said: dict[str, Any], errors: list[str]) -> CheckedExercise:
        ended, misses_name = said.get("ended"), said.get("misses_name", False)
        if ended in ("program died", "program timed out"):
            self.limits_hit[f"judge: the traced {ended}"] = None
            return self.ended(ended)
        if ended == "died":
            return self.ended("no answer")
        if ended == "distrusted":
            self.evidence[said["message"]] = None
        if ended == "missing" and errors:
            misses_name = any(error.startswith("NameError:") for error in errors)
            text = errors[-1][:400]  # the error that ended its cell
            return CheckedExercise(Outcome.RAISED, text, misses_name=misses_name)
        return CheckedExercise(
            Outcome[said["verdict"]],
            said["message"],
            said["share"],
            said["statements"],
            tuple((str(name), str(text)) for name, text in said["details"]),
            is_missing=ended == "missing",
            misses_name=misses_name,
        )

    def ended(self, why: str) -> CheckedExercise:
        """Says what it means for an exercise that it ended a process."""
        kind, _, limit = why.partition(": ")
        outcome = Outcome.RAISED
        if kind in ("timed out", "program timed out"):
            outcome = Outcome.TIMED_OUT
            text = (
                f"It was stopped after {self.limits.wall_s:g} s: "
                "is there a loop without an end?"
            )
        elif kind == "limit":
            self.limits_hit[limit] = None
            text = f"It was stopped at a limit of the grader: {limit}."
        elif kind == "no answer":
            text = "It gave no answer."
        elif kind == "program died":
            text = (
                "Its traced program ended the process that ran it: "
                "by a crash, or by too much memory."
            )
        else:
            text = "It ended the process: by os._exit, a crash, or too much memory."
        return CheckedExercise(outcome, text)
