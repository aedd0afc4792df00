"""Checks one submission's answers: they run in contained sessions, the judge asks.

No exercise affects another one's outcome: what ends a session costs the exercise that
ended it, and the others go on in a fresh session.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from grader import ROOT
from grader.authoring.notebook import checks, exercises
from grader.containment.limits import Limits
from grader.judging.cell_plan import Step, defs, is_plain, steps, stubs
from grader.judging.judge_process import JudgeProcess, ProgramEnded
from grader.kernel.cell_result import CellResult, SessionEnded
from grader.kernel.session import START_S, Session, SessionError
from grader.results import Outcome

RESPONDER = "__import__('grader.kernel.inside.responder', fromlist=['answer'])"
MAX_SESSIONS = 16  # per submission
MAX_BAD_EXTRAS = 2  # after so many, cells that a learner added are left out


@dataclasses.dataclass
class CheckedExercise:
    """What a trial found out about one exercise."""

    outcome: Outcome
    message: str = ""
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
    return CheckedExercise(outcome, said["message"], details)


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
        setup = next(step.source for step in self.steps if step.kind == "setup")
        own = [step.lean for step in self.steps if step.kind == "lesson"]
        names = [n for cell in exercises(lesson).values() for n in defs(cell.source)]
        self.define = f"{RESPONDER}.define({setup!r}, {own!r}, {names!r})"
        self.stubs = stubs(clean, lesson)
        self.judge, self.limits = judge, limits
        self.how = {"trusted": trusted, "root": root, "compiled": compiled}
        self.sessions = 0
        self.skipped: dict[str, CheckedExercise | None] = {}  # what ended a session
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
            with self.session() as session:
                loaded = self.load(session, lean=True)
                self.ran |= loaded
                for name in rest:
                    if not session.ended:
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
                if again.outcome is Outcome.PASSED or ended:
                    found[name] = again
        for name, checked in found.items():
            checked.pictures = self.pictures(name)
        return found

    @property
    def too_many(self) -> bool:
        """Tells whether this submission has had all its sessions."""
        return self.sessions >= MAX_SESSIONS

    def session(self) -> Session:
        """Starts a fresh session."""
        self.sessions += 1
        return Session(self.limits, **self.how)

    def load(
        self, session: Session, *, lean: bool, only: str = ""
    ) -> dict[str, CellResult]:
        """Runs the lesson's cells, then the learner's; with `only`, one exercise.

        A learner's cell that ends the session is skipped from then on.

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
        return ran | self.run_own(session, rest, only)

    def run_own(
        self, session: Session, own: list[Step], only: str
    ) -> dict[str, CellResult]:
        """Runs the learner's cells until one ends the session."""
        ran: dict[str, CellResult] = {}
        for step in own:
            others = only and step.kind == "exercise" and step.name != only
            skipped = step.name in self.skipped and step.name != only
            if others or skipped or not step.source.strip():
                continue
            try:
                ran[step.name] = session.run(step.source)
            except SessionEnded as end:
                self.skip(step, end.why)
                return ran
            if ran[step.name].replies:
                self.evidence["It sends answers that nobody asked for."] = None
        return ran

    def skip(self, step: Step, why: str) -> None:
        """Leaves out a cell that ended a session; after some extra cells, all."""
        self.skipped[step.name] = self.ended(why) if step.kind == "exercise" else None
        extras = [s.name for s in self.steps if s.kind == "extra"]
        if sum(name in self.skipped for name in extras) >= MAX_BAD_EXTRAS:
            self.skipped |= dict.fromkeys(extras)

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
            self.limits_hit[f"judge: the traced program {end}"] = None
            if str(end) == "timed out":
                return self.ended("timed out")
            return CheckedExercise(
                Outcome.RAISED, "Its traced program ended the process."
            )
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

    def worth_retrying(self, name: str, checked: CheckedExercise) -> bool:
        """Tells whether another cell may have caused an exercise to fail."""
        stub = name in self.stubs or "still holds its stub" in checked.message
        if checked.outcome is Outcome.PASSED or stub or self.too_many:
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

    def pictures(self, exercise: str) -> list[str]:
        """Collects what an exercise's cell drew, and the learner's cells after it."""
        found, current = [], ""
        for step in self.steps:
            if step.kind == "exercise":
                current = step.name
            if current == exercise and step.kind in ("exercise", "extra"):
                found += self.ran[step.name].pictures if step.name in self.ran else []
        return found
