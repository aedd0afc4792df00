"""Starts a judge's process for a lesson and carries its questions to a learner's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from grader import ROOT, CourseError
from grader.authoring import coursekit
from grader.authoring.execution import environment
from grader.authoring.release import checks, exercises, hidden_source
from grader.containment.box import Box
from grader.containment.deadline import LONGEST
from grader.containment.limits import DEFAULT_WALL_S, Limits
from grader.containment.monitor import StderrTail
from grader.containment.process import BoxProcess
from grader.judging.cell_plan import steps
from grader.kernel import compile_cache
from grader.kernel.learner_box import fork_server
from grader.submissions.definitions import defined

FOLDERS = [str(ROOT), str(ROOT / "lessons")]  # where a judge finds what it imports
MODULE = "grader.judging.judge"
MAX_SILENCE_S = 120  # that a start or a check of ours may take
LIMITS = Limits(cpu_s=10**6, memory_mib=8000, address_mib=16000, processes=1000)


class JudgeError(CourseError):
    """The judge's process failed by itself: our fault, never the learner's."""


class JudgeProcess:
    """A warm judge for one lesson: started when first needed, anew where it ended.

    Contained unless `trusted`: its children run untrusted programs. The process ends
    with the thread that started it. It need not compile again what is in the folder
    `compiled`; a trusted judge adds to it.
    """

    def __init__(
        self,
        lesson: NotebookNode,
        *,
        trusted: bool = False,
        wall_s: float = DEFAULT_WALL_S,
        compiled: Path | None = None,
    ):
        self.material = material(lesson)
        self.compiled = compiled
        self.trusted, self.wall_s = trusted, wall_s
        self.kill: Callable[[], object] | None = None  # while there is a process

    def begin_submission(self) -> None:
        """Lets the programs of another learner run in another process."""
        if self.kill is not None:
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
        reply = self.reply_to(message)
        while "ask" in reply:
            try:
                answer = ask(reply["ask"])
            except BaseException:
                self.close()  # it would wait for this answer in the next check
                raise
            reply = self.reply_to(answer)
        return reply

    def reply_to(self, message: dict) -> dict[str, Any]:
        if self.kill is None:
            self.start()
        self.send(message)
        return self.receive()

    def start(self) -> None:
        pipes = [os.pipe() for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        self.requests = Connection(pipes[0][1], readable=False)
        self.replies = Connection(pipes[1][0], writable=False)
        self.stderr_tail = StderrTail(pipes[2][0])
        self.stderr_tail.start()
        try:
            self.kill = self.begin(theirs)
        finally:
            for end in theirs:
                os.close(end)
        self.send(self.material)
        self.receive()  # it is ready

    def begin(self, streams: Sequence[int]) -> Callable[[], object]:
        if not self.trusted:
            box = judge_box(self.compiled)
            return BoxProcess(MODULE, box, streams, fork_server()).kill
        env = environment(ROOT) | {"PYTHONPATH": os.pathsep.join(FOLDERS)}
        if self.compiled:
            env |= compile_cache.variables(self.compiled, writes=True)
        # In this folder a trusted judge finds its own modules.
        command, places = [sys.executable, "-m", MODULE], ("stdin", "stdout", "stderr")
        streams = dict(zip(places, streams, strict=True))
        process = subprocess.Popen(command, env=env, cwd=ROOT, **streams)
        return lambda: (process.kill(), process.wait())

    def send(self, message: dict) -> None:
        try:
            self.requests.send_bytes(json.dumps(message).encode())
        except OSError:
            raise self.failed("The judge has ended.") from None

    def receive(self) -> dict[str, Any]:
        """Returns the next message, for which a program may run as long as it may."""
        longest = LONGEST * self.wall_s + MAX_SILENCE_S
        if not self.replies.poll(longest):
            raise self.failed(f"The judge gave no answer in {longest:g} s.")
        try:
            return json.loads(self.replies.recv_bytes())
        except (EOFError, OSError):
            raise self.failed("The judge has ended.") from None

    def failed(self, headline: str) -> JudgeError:
        """Ends the process; makes an error with the end of what it wrote to stderr."""
        self.close()
        return JudgeError(f"{headline} {self.stderr_tail}".strip())

    def close(self) -> None:
        """Ends the process; the next check starts another."""
        if self.kill is not None:
            self.kill()
            self.kill = None
            self.requests.close()
            self.replies.close()


def judge_box(compiled: Path | None) -> Box:
    """Makes the box of a judge: the course, and what is compiled."""
    found = [ROOT / "grader", coursekit.folder()]
    found += [(compiled, compile_cache.INSIDE)] if compiled else []
    env = {"PYTHONPATH": os.pathsep.join(FOLDERS), "MPLCONFIGDIR": "/tmp/.matplotlib"}
    env |= compile_cache.variables()
    return Box(LIMITS, read_only=tuple(found), env=env)


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
