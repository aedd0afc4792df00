"""Starts a judge's process for a lesson and carries its questions to a learner's."""

from __future__ import annotations

import base64
import binascii
import collections
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from grader import ROOT, CourseError
from grader.authoring import coursekit
from grader.authoring.execution import environment
from grader.authoring.release import checks, exercises, hidden_source
from grader.containment.box import Box
from grader.containment.fork_server import running_server
from grader.containment.inside.deadline import LONGEST
from grader.containment.limits import DEFAULT_WALL_S, Limits
from grader.containment.process import BoxProcess
from grader.judging.cell_plan import definitions, is_special
from grader.kernel import compile_cache
from grader.submissions.definitions import defined

MODULE = "grader.judging.judge"
FOLDERS = [str(ROOT), str(ROOT / "lessons")]  # where a judge finds what it imports
ARGV = ["-m", MODULE]
START_S = 120
SILENCE_S = 120  # the longest that a check of ours may compute
LIMITS = Limits(cpu_s=10**6, memory_mib=8000, address_mib=16000, processes=1000)


class JudgeError(CourseError):
    """The judge's process failed by itself: our fault, never the learner's."""


class ProgramEnded(Exception):
    """The judge's process ended, or had to be, while a learner's program ran."""


class JudgeProcess:
    """A warm judge for one lesson: started when first needed, anew where it ended.

    Contained unless `trusted`: it runs untrusted exported programs. The process ends
    with the thread that started it. It need not compile again what lies in the folder
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
        self.begins = True  # whether the next check is a submission's first
        self.kill: Callable[[], object] | None = None  # while there is a process

    def check(self, exercise: str, ask: Callable[[dict], dict]) -> dict[str, Any]:
        """Runs one check, whose questions go to `ask`; returns the judge's verdict.

        Raises:
            ProgramEnded: a learner's program ended the judge itself, or took too long.
            JudgeError: the judge failed by itself.
            ContainmentError: nothing here can contain it.
        """
        if self.kill is None:
            self.start()
        message = {"check": exercise, "wall_s": self.wall_s, "begins": self.begins}
        self.send(message)
        runs, self.begins = False, False
        # A contained judge watches programs itself; this is for one that cannot.
        longest = self.wall_s if self.trusted else LONGEST * self.wall_s + SILENCE_S
        while True:
            message = self.receive(longest if runs else SILENCE_S, runs)
            if "verdict" in message:
                return message
            if "running" in message:
                runs = message["running"]
                continue
            try:
                answer = ask(message["ask"])
            except BaseException:
                self.close()  # it would wait for this answer in the next check
                raise
            self.send(answer)

    def picture(self, text: str) -> str | None:
        """Encodes an untrusted picture (base64) anew; None where it is no good.

        Raises:
            JudgeError, ContainmentError: see `check`.
        """
        if self.kill is None:
            self.start()
        try:
            data = base64.b64encode(base64.b64decode(text)).decode()
            self.send({"picture": data})
            return self.receive(self.wall_s, True)["picture"]
        except (binascii.Error, ValueError, ProgramEnded):
            return None

    def start(self) -> None:
        """Starts the process and hands it the lesson's checks."""
        pipes = [os.pipe() for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        ours = [pipes[0][1], pipes[1][0], pipes[2][0]]
        self.stdin, stdout, stderr = (
            open(end, mode, encoding="utf-8")
            for end, mode in zip(ours, "wrr", strict=True)
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.said: collections.deque[str] = collections.deque(maxlen=20)
        for pipe, keep in ((stdout, self.lines.put), (stderr, self.said.append)):
            threading.Thread(target=pump, args=(pipe, keep), daemon=True).start()
        try:
            self.kill = self.begin(theirs)
        finally:
            for end in theirs:
                os.close(end)
        self.send(self.material)
        if "ready" not in self.receive(START_S):
            self.close()
            raise JudgeError("The judge said something else than that it is ready.")

    def begin(self, streams: Sequence[int]) -> Callable[[], object]:
        """Starts the process; returns what ends it."""
        if not self.trusted:
            box = judge_box(self.compiled)
            return BoxProcess(ARGV, box, streams, running_server).kill
        env = environment(ROOT) | {"PYTHONPATH": os.pathsep.join(FOLDERS)}
        if self.compiled:
            env |= compile_cache.variables(self.compiled, writes=True)
        # In this folder a trusted judge finds its own modules.
        command, places = [sys.executable, *ARGV], ("stdin", "stdout", "stderr")
        streams = dict(zip(places, streams, strict=True))
        process = subprocess.Popen(command, env=env, cwd=ROOT, **streams)
        return lambda: (process.kill(), process.wait())

    def send(self, message: dict) -> None:
        """Sends one message."""
        try:
            self.stdin.write(json.dumps(message) + "\n")
            self.stdin.flush()
        except (BrokenPipeError, ValueError):
            self.close()
            raise JudgeError(self.last_words("The judge has ended.")) from None

    def receive(self, timeout_s: float, runs: bool = False) -> dict[str, Any]:
        """Returns the judge's next message."""
        try:
            line = self.lines.get(timeout=timeout_s)
        except queue.Empty:
            self.close()
            if runs:
                raise ProgramEnded("timed out") from None
            raise JudgeError(f"The judge gave no answer in {timeout_s} s.") from None
        if not line:
            self.close()
            if runs:
                raise ProgramEnded("died")
            raise JudgeError(self.last_words("The judge has ended."))
        return json.loads(line)

    def last_words(self, headline: str) -> str:
        """Adds the last lines that the judge wrote to stderr."""
        return " ".join([headline, *list(self.said)[-3:]]).strip()

    def close(self) -> None:
        """Ends the process; the next check starts another."""
        if self.kill is not None:
            self.kill()
            with contextlib.suppress(BrokenPipeError):
                self.stdin.close()
            self.kill = None


def pump(pipe, keep: Callable[[str], Any]) -> None:
    """Hands on a pipe's lines, then an empty one."""
    with pipe:
        for line in pipe:
            keep(line)
    keep("")


def judge_box(compiled: Path | None) -> Box:
    """Makes the box of a judge: the course, and what is compiled."""
    found = [ROOT / "grader", coursekit.folder()]
    found += [(compiled, compile_cache.INSIDE)] if compiled else []
    env = {"PYTHONPATH": os.pathsep.join(FOLDERS), "MPLCONFIGDIR": "/tmp/.matplotlib"}
    env |= compile_cache.variables()
    return Box(LIMITS, read_only=tuple(found), env=env)


def material(lesson: NotebookNode) -> dict[str, Any]:
    """Takes out of a solved lesson what the judge needs."""
    own = [c for c in lesson.cells if c.cell_type == "code" and not is_special(c)]
    return {
        "setup": next(c.source for c in lesson.cells if c.id == "setup"),
        "definitions": [definitions(cell.source) for cell in own],
        "solutions": [cell.source for cell in exercises(lesson).values()],
        "functions": [n for c in exercises(lesson).values() for n in defined(c.source)],
        "checks": lesson.metadata["checks"],
        "hidden": {
            name: source
            for name, cell in checks(lesson).items()
            if (source := hidden_source(cell))
        },
        "seed": lesson.metadata.get("seed", 0),
    }
