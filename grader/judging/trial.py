"""Checks one submission's answers: they run in contained sessions, the judge asks.

No exercise affects another one's outcome: what ends a session costs the exercise that
ended it, and the others go on in a fresh session.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from grader import ROOT
from grader.authoring.release import checks, exercises
from grader.containment.limits import Limits
from grader.judging.cell_plan import Step, defs, is_plain, only_defined, steps, stubs
from grader.judging.judge_process import JudgeProcess, ProgramEnded
from grader.kernel.cell_result import CellResult, SessionEnded
from grader.kernel.session import START_S, Session, SessionError
from grader.results import Outcome
from grader.submissions.definitions import MAX_SOURCE

RESPONDER = "__import__('grader.kernel.inside.responder', fromlist=['answer'])"
MAX_SESSIONS = 16  # per submission
MAX_BAD_EXTRAS = 2  # after so many, of cells that a learner added only definitions run


@dataclasses.dataclass
class CheckedExercise:
    """What a trial found out about one exercise."""

    outcome: Outcome
    message: str = ""
    share: float = 0.0
    statements: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    details: tuple[tuple[str, str], ...] = ()
    pictures: list[str] = dataclasses.field(default_factory=list)


def checked_exercise(said: dict[str, Any], ran: CellResult) -> CheckedExercise:
    """Joins the judge's verdict and the cell's own error."""
    outcome = Outcome[said["verdict"]]
    if said.get("ended") == "missing" and ran.error:
        return CheckedExercise(Outcome.RAISED, ran.error[:400])
    details = tuple((str(name), str(text)) for name, text in said["details"])
    if said.get("ended") == "died":
        return CheckedExercise(outcome, "It gave no answer.")
    return CheckedExercise(
        outcome, said["message"], said["share"], said["statements"], details
    )


class Trial:
    """One submission's answers, set into the clean lesson `clean`; `lesson` is solved.

    Attributes:
        limits_hit: the limits that the learner's process ran into.
        evidence: answers that no honest process gives.
    """

    def __init__(
        self,
        clean: NotebookNode,
        lesson: NotebookNode,
        judge: JudgeProcess,
        limits: Limits,
        *,
        trusted: bool = False,
        root: Path = ROOT,
        compiled: Path | None = None,
    ):
        self.steps = steps(clean)
        self.exercises = list(checks(clean))
        own = [step.source for step in self.steps if step.kind in ("exercise", "extra")]
        self.too_long = sum(map(len, own)) > MAX_SOURCE  # a person will look at it
        setup = next(step.source for step in self.steps if step.kind == "setup")
        own = [step.lean for step in self.steps if step.kind == "lesson"]
        names = [n for cell in exercises(lesson).values() for n in defs(cell.source)]
        checks_source = lesson.metadata["checks"]
        self.define = (
            f"{RESPONDER}.define({setup!r}, {own!r}, {names!r}, {checks_source!r})"
        )
        self.stubs = stubs(clean, lesson)
        self.judge, self.limits = judge, limits
        self.how = {"trusted": trusted, "root": root, "compiled": compiled}
        self.sessions, self.begun = 0, time.monotonic()
        self.cpu_s = self.peak_mib = 0.0  # of sessions that have ended
        self.skipped: dict[str, CheckedExercise | None] = {}  # what ended a session
        self.reduced: dict[str, None] = {}  # of which only definitions run
        self.limits_hit: dict[str, None] = {}
        self.evidence: dict[str, None] = {}
        self.ran: dict[str, CellResult] = {}

    def run(self, on_exercise=lambda: None) -> dict[str, CheckedExercise]:
        """Returns what became of each exercise.

        Raises:
            SessionError, JudgeError, ContainmentError: our fault; nothing is known.
        """
        stub, names = "{} still holds its stub.", sorted(self.stubs)
        found = {
            n: CheckedExercise(Outcome.NOT_ATTEMPTED, stub.format(n)) for n in names
        }
        while rest := [name for name in self.exercises if name not in found]:
            if self.spent():
                found |= {name: self.not_reached for name in rest}
                break
            with self.session() as session:
                loaded = self.load(session, lean=True)
                self.ran |= loaded
                for name in rest:
                    if not session.ended and self.spent(session):
                        found[name] = self.not_reached
                    elif not session.ended:
                        known = self.skipped.get(name)
                        found[name] = known or self.check(name, session, loaded)
                        on_exercise()
                if session.ended and rest[0] not in found and self.too_many:
                    text = "The cells around it never came to an end."
                    found |= {
                        name: CheckedExercise(Outcome.TIMED_OUT, text) for name in rest
                    }
        for name in self.exercises:
            if self.worth_retrying(name, found[name]):
                again = self.retry_alone(
                    name, lean="NameError" not in found[name].message
                )
                ended = name in self.skipped and again.outcome is not Outcome.TIMED_OUT
                if again.share > found[name].share or ended:
                    found[name] = again
            if self.was_changed_later(name, found[name]):
                again = self.retry_as_it_stood(name)
                if again.share > found[name].share:
                    found[name] = again
        for name, checked in found.items():
            checked.pictures = self.pictures(name)
        return found

    @property
    def too_many(self) -> bool:
        """Tells whether this submission has had all its sessions."""
        return self.sessions >= MAX_SESSIONS

    @property
    def may_retry(self) -> bool:
        """Tells whether another session may be tried for an exercise that failed."""
        return not (self.too_many or self.too_long or self.spent())

    def spent(self, session: Session | None = None) -> bool:
        """Tells whether this submission has had all the time that it gets."""
        cpu_s = self.cpu_s + (session.cpu_s if session else 0)
        took_s = time.monotonic() - self.begun
        return cpu_s > self.limits.total_cpu_s or took_s > self.limits.total_s

    @property
    def not_reached(self) -> CheckedExercise:
        """What becomes of an exercise for which no time is left."""
        text = f"Not reached: all before it took more than {self.limits.total_s:g} s, "
        text += f"or {self.limits.total_cpu_s:g} s of processors."
        self.limits_hit["time of the whole submission"] = None
        return CheckedExercise(Outcome.TIMED_OUT, text)

    @property
    def used(self) -> dict[str, float]:
        """What the sessions used, where it was counted; see `Record`."""
        found = {"cpu_s": round(self.cpu_s, 2), "peak_mib": round(self.peak_mib)}
        return {name: value for name, value in found.items() if value}

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """Starts a fresh session, with what is left of the time of processors."""
        self.sessions += 1
        left = max(1, math.ceil(self.limits.total_cpu_s - self.cpu_s))
        limits = dataclasses.replace(self.limits, cpu_s=min(self.limits.cpu_s, left))
        with Session(limits, **self.how) as session:
            try:
                yield session
            finally:
                self.cpu_s += session.cpu_s
                self.peak_mib = max(self.peak_mib, session.peak_mib)

    def load(
        self, session: Session, *, lean: bool, only: str = "", until: str = ""
    ) -> dict[str, CellResult]:
        """Runs the lesson's cells, then the learner's.

        With `only`, the cell of one exercise alone; with `until`, up to one. A
        learner's cell that ends the session is skipped from then on; of one that is no
        answer, what it defines still runs.

        Raises:
            SessionError: a cell of the lesson did not come to its end.
        """
        ours = [step for step in self.steps if step.kind in ("setup", "lesson")]
        first = self.steps.index(ours[0])
        before = [step.name for step in self.steps[:first]]
        ran = self.run_own(session, self.steps[:first], only)
        if session.ended:
            return ran
        lesson = [step.lean if lean else step.source for step in ours[1:]]
        try:
            setup = session.run(ours[0].source, wall_s=START_S)
            session.run(self.define, wall_s=START_S)  # notes the settings, too
            for source in ["\n\n".join(lesson)] if lean else lesson:
                session.run(source, wall_s=START_S)
            problem = setup.error
        except SessionEnded as end:
            problem = end.why
        if problem and set(before) - set(self.skipped):
            self.skipped |= dict.fromkeys(before)  # the set-up works without them
            session.ended = session.ended or "to be loaded again"
        elif problem:
            raise SessionError(f"The lesson's own cells: {problem}.")
        if session.ended:
            return ran
        rest = [step for step in self.steps[first:] if step not in ours]
        names = [step.name for step in rest]
        if until:
            rest = rest[: names.index(until) + 1]
        return ran | self.run_own(session, rest, only)

    def run_own(
        self, session: Session, own: list[Step], only: str
    ) -> dict[str, CellResult]:
        """Runs the learner's cells until one ends the session."""
        ran: dict[str, CellResult] = {}
        for step in own:
            others = only and step.kind == "exercise" and step.name != only
            skipped = step.name in self.skipped and step.name != only
            source = step.source
            if step.name in self.reduced:
                source = "" if self.too_long else only_defined(source)
            if others or skipped or not source.strip():
                continue
            if self.spent(session):
                break
            try:
                ran[step.name] = session.run(source)
            except SessionEnded as end:
                self.skip(step, end.why)
                return ran
            if ran[step.name].replies:
                self.evidence["It sends answers that nobody asked for."] = None
        return ran

    def skip(self, step: Step, why: str) -> None:
        """Leaves out what ended a session: of an extra cell, all but its definitions.

        After some extra cells, of all; and where definitions end sessions, all.
        """
        if step.kind == "exercise":
            self.skipped[step.name] = self.ended(why)
            return
        extras = [s.name for s in self.steps if s.kind == "extra"]
        bad = self.reduced if step.name not in self.reduced else self.skipped
        bad |= {step.name: None}
        if sum(name in bad for name in extras) >= MAX_BAD_EXTRAS:
            bad |= dict.fromkeys(extras)

    def check(
        self, name: str, session: Session, ran: dict[str, CellResult]
    ) -> CheckedExercise:
        """Lets the judge check one exercise in a loaded session."""
        why, begins = "", True

        def ask(question: dict) -> dict:
            nonlocal why, begins
            words = f"{json.dumps(question)!r}, begins={begins}"
            code, begins = f"{RESPONDER}.answer({words})", False
            try:
                replies = session.run(code, silent=True).replies
            except SessionEnded as end:
                why = end.why
                return {"ended": why}
            if len(replies) == 1:
                return {"answer": replies[0]}
            return {"answer": "several"} if replies else {"ended": "no answer"}

        try:
            said = self.judge.check(name, ask)
        except ProgramEnded as end:
            return self.program_ended(str(end))
        if said.get("ended") in ("program died", "program timed out"):
            return self.program_ended(said["ended"].removeprefix("program "))
        if said.get("evidence"):
            self.evidence[said["evidence"]] = None
        if why:
            checked = self.ended(why)
            self.skipped[name] = checked
            return checked
        return checked_exercise(said, ran.get(name, CellResult()))

    def ended(self, why: str) -> CheckedExercise:
        """Says what it means for an exercise that it ended its session."""
        if why == "timed out":
            text = f"It was stopped after {self.limits.wall_s:g} s"
            return CheckedExercise(
                Outcome.TIMED_OUT, f"{text}: is there a loop without an end?"
            )
        if why.startswith("limit: "):
            self.limits_hit[why.removeprefix("limit: ")] = None
            text = f"It was stopped at a limit of the grader: {why[7:]}."
            return CheckedExercise(Outcome.RAISED, text)
        text = "It ended the process: by os._exit, a crash, or too much memory."
        return CheckedExercise(Outcome.RAISED, text)

    def program_ended(self, why: str) -> CheckedExercise:
        """Says what it means that a traced program ended the process that ran it."""
        self.limits_hit[f"judge: the traced program {why}"] = None
        if why == "timed out":
            return self.ended(why)
        text = "Its traced program ended the process that ran it: by a crash, or by "
        return CheckedExercise(Outcome.RAISED, f"{text}too much memory.")

    def worth_retrying(self, name: str, checked: CheckedExercise) -> bool:
        """Tells whether another cell may have caused an exercise to fail."""
        stub = name in self.stubs or "still holds its stub" in checked.message
        if checked.outcome is Outcome.PASSED or stub or not self.may_retry:
            return False
        own = next(step for step in self.steps if step.name == name)
        lesson = {n for s in self.steps if s.kind == "lesson" for n in defs(s.lean)}
        return "NameError" in checked.message or not all(
            is_plain(step.source, lesson - set(defs(own.source)))
            for step in self.steps
            if step.kind in ("exercise", "extra") and step is not own
        )

    def retry_alone(self, name: str, *, lean: bool) -> CheckedExercise:
        """Tries one exercise in a fresh session, after the lesson's definitions.

        Where it uses a name of a demonstration, then after the whole of the lesson.
        """
        with self.session() as session:
            ran = self.load(session, lean=lean, only=name)
            if session.ended:
                return self.ended(session.ended)
            checked = self.check(name, session, ran)
        needs_all = lean and "NameError" in checked.message
        return self.retry_alone(name, lean=False) if needs_all else checked

    def was_changed_later(self, name: str, checked: CheckedExercise) -> bool:
        """Tells whether cells below an answer that fails may have changed its names."""
        stub = name in self.stubs or "still holds its stub" in checked.message
        if checked.outcome is Outcome.PASSED or stub or not self.may_retry:
            return False
        own = [step for step in self.steps if step.kind in ("exercise", "extra")]
        place = [step.name for step in own].index(name)
        above, below = own[: place + 1], own[place + 1 :]
        taken = {defined for step in above for defined in defs(step.source)}
        return not all(is_plain(step.source, taken) for step in below)

    def retry_as_it_stood(self, name: str) -> CheckedExercise:
        """Tries one exercise in the notebook as it stood after its own cell."""
        with self.session() as session:
            ran = self.load(session, lean=True, until=name)
            if session.ended:
                return self.ended(session.ended)
            return self.check(name, session, ran)

    def pictures(self, exercise: str) -> list[str]:
        """Collects what an exercise's cell drew, and the learner's cells after it."""
        found, current = [], ""
        for step in self.steps:
            if step.kind == "exercise":
                current = step.name
            if current == exercise and step.kind in ("exercise", "extra"):
                found += self.ran[step.name].pictures if step.name in self.ran else []
        return found
