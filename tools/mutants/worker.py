"""Grades a lesson's mutants in a separate process, since one may abort or hang."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from catalog import SLOW

ROOT = Path(__file__).resolve().parents[2]
LOAD_S, MUTANT_S, SLOW_S = 300, 60, 300


class Worker:
    """A process that has run a solved lesson; it is restarted when it ends."""

    def __init__(self, lesson: Path):
        self.lesson = lesson
        self.process = None

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, self.lesson))
        self.process.start()
        other.close()
        self.answer(LOAD_S)

    def outcome(self, exercise: str, source: str) -> str:
        """Grades an answer: what its check says, "crashed" or "timed out"."""
        if self.process is None:
            self.start()
        self.pipe.send((exercise, source))
        try:
            return self.answer(SLOW_S if exercise in SLOW else MUTANT_S)
        except EOFError:
            self.stop()
            return "crashed"
        except TimeoutError:
            self.stop()
            return "timed out"

    def answer(self, limit_s: float) -> str:
        if not self.pipe.poll(limit_s):
            raise TimeoutError
        return self.pipe.recv()

    def stop(self) -> None:
        """Ends the process and those that it started."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None


def serve(pipe: Connection, lesson: Path) -> None:
    """Runs a solved lesson, then grades the answers that it receives."""
    os.setsid()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, sys.stdout.fileno())
    sys.path[:0] = [str(ROOT / part) for part in ("", "lessons", "tests/lessons")]
    from coursekit import setup

    setup.with_devices(8)
    from solved_lesson import Lesson

    solved = Lesson(lesson)
    os.dup2(silence, sys.stderr.fileno())
    pipe.send("ready")
    while True:
        exercise, source = pipe.recv()
        pipe.send(outcome_of(solved, exercise, source))


def outcome_of(solved, exercise: str, source: str) -> str:
    """Grades a mutant in a solved lesson's process; returns its outcome in words."""
    import stand_ins

    stand_ins.reset()
    try:
        verdict = solved.verdicts(exercise, source, judged=True)[exercise]
    except Exception as error:
        return f"raised {type(error).__name__} where it is defined"
    if verdict.outcome == "right" and "_s." in source and not stand_ins.acted:
        return "no effect"
    return verdict.outcome
