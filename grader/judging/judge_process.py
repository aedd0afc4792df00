"""Starts a judge's process for a lesson and carries its questions to a learner's."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from grader import ROOT, CourseError
from grader.atomic_files import read_text, write_file
from grader.containment.box import Box
from grader.containment.deadline import LONGEST
from grader.containment.limits import DEFAULT_WALL_S, Limits
from grader.containment.process import PythonProcess
from grader.judging.cell_plan import steps
from grader.kernel import compile_cache
from grader.kernel.learner_box import PYTHONPATH, fork_server, trusted_environment
from grader.lessons import coursekit
from grader.lessons.release import checks, exercises, hidden_source
from grader.submissions.definitions import defined

MODULE = "grader.judging.judge"
MAX_SILENCE_S = 120  # that a start or a check of ours may take
LIMITS = Limits(cpu_s=10**6, memory_mib=8000, address_mib=16000, processes=1000)


class JudgeError(CourseError):
    """The judge's process failed by itself: our fault, never the learner's."""


class JudgeProcess:
    """A warm judge for one lesson: started when first needed, anew where it ended.

    Contained unless `trusted`: its children run untrusted programs. The process ends
    with the thread that started it. It need not compile again what is in the folder
    `compiled`; a trusted judge adds to it. It need not run solutions whose results are
    in the file `known`.
    """

    def __init__(
        self,
        lesson: NotebookNode,
        *,
        trusted: bool = False,
        wall_s: float = DEFAULT_WALL_S,
        compiled: Path | None = None,
        known: Path | None = None,
    ):
        self.material = material(lesson)
        self.compiled, self.known = compiled, known
        self.trusted, self.wall_s = trusted, wall_s
        self.python: PythonProcess | None = None  # while there is one

    def begin_submission(self) -> None:
        """Lets the programs of another learner run in another process."""
        if self.python:
            self.send({"begins": True})

    def check(
        self,
        exercise: str,
        ask: Callable[[dict], dict],
        to_beat: float | None = None,
    ) -> dict[str, Any]:
        """Runs one check, whose questions go to `ask`; returns the judge's verdict.

        With a share `to_beat` it may end early; see `Run` in coursekit/outcomes.py.

        Raises:
            JudgeError: the judge failed by itself.
            ContainmentError: nothing here can contain it.
        """
        message = {"check": exercise, "wall_s": self.wall_s, "to_beat": to_beat}
        try:
            reply = self.reply_to(message)
            while "ask" in reply:
                reply = self.reply_to(ask(reply["ask"]))
        except BaseException:
            self.close()  # it would wait for this answer in the next check
            raise
        return reply

    def reply_to(self, message: dict) -> dict[str, Any]:
        if not self.python:
            self.start()
        self.send(message)
        return self.receive()

    def start(self) -> None:
        env = trusted_environment(self.compiled) if self.trusted else None
        box = judge_box(self.compiled)
        self.python = PythonProcess(MODULE, box, fork_server(), trusted=env)
        self.kept = read_text(self.known) if self.known else ""
        self.send(self.material | {"known": self.kept})
        self.receive()  # it is ready

    def send(self, message: dict) -> None:
        try:
            self.python.requests.send_bytes(json.dumps(message).encode())
        except OSError:
            raise self.failed("The judge has ended.") from None

    def receive(self) -> dict[str, Any]:
        """Returns the next message; waits longer than any program may run."""
        longest = LONGEST * self.wall_s + MAX_SILENCE_S
        if not self.python.replies.poll(longest):
            raise self.failed(f"The judge gave no answer in {longest:g} s.")
        try:
            return json.loads(self.python.replies.recv_bytes())
        except (EOFError, OSError):
            raise self.failed("The judge has ended.") from None

    def failed(self, headline: str) -> JudgeError:
        """Ends the process; makes an error with the end of what it wrote to stderr."""
        stderr_tail = self.python.stderr_tail
        self.close()
        return JudgeError(f"{headline} {stderr_tail}".strip())

    def keep_known(self) -> None:
        """Lets later judges of this lesson know what this one knows of solutions."""
        if self.python and self.known:
            with contextlib.suppress(JudgeError, OSError):
                text = self.reply_to({"keeps": True})["known"]
                if len(text) > len(self.kept):
                    write_file(self.known, text.encode(), mode=0o600)
                    self.kept = text

    def close(self) -> None:
        """Ends the process; the next check starts another."""
        if self.python:
            self.python.kill()
            self.python = None


def judge_box(compiled: Path | None) -> Box:
    """Makes the box of a judge: the course, and what is compiled."""
    found = {str(path): path for path in (ROOT / "grader", coursekit.folder())}
    found |= {compile_cache.INSIDE: compiled} if compiled else {}
    env = {"PYTHONPATH": PYTHONPATH, "MPLCONFIGDIR": "/tmp/.matplotlib"}
    env |= compile_cache.variables()
    return Box(LIMITS, found, env)


def material(lesson: NotebookNode) -> dict[str, Any]:
    """Takes out of a solved lesson what the judge needs.

    Its set-up cell, what its other cells define, the exercises' cells as solved, the
    names that these define, the source of the visible checks, that of the hidden cases
    by exercise, and the seed of the generated cases.
    """
    own, solved = steps(lesson), exercises(lesson).values()
    hidden = {name: hidden_source(cell) for name, cell in checks(lesson).items()}
    return {
        "setup": next(step.source for step in own if step.kind == "setup"),
        "definitions": [step.lean for step in own if step.kind == "lesson"],
        "solutions": [cell.source for cell in solved],
        "functions": [name for cell in solved for name in defined(cell.source)],
        "checks": lesson.metadata["checks"],
        "hidden": {name: source for name, source in hidden.items() if source},
        "seed": lesson.metadata.get("seed", 0),
    }
