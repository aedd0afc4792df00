"""Runs learners' programs in a process of their own, a new one for each learner.

What a program does to its process ends there. Once JAX has started, a process has
threads and must not be forked. So the judge makes a server before that: it waits, and
each of its children starts JAX for itself.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import multiprocessing
import os
import resource
import sys
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import jax
import scipy.linalg  # noqa: F401 - JAX imports it late, in each child anew

from coursekit import setup
from grader.containment.deadline import Deadline, used_s
from grader.containment.inside.box_init import SET_DUMPABLE, prctl
from grader.containment.limits import DEFAULT_WALL_S
from grader.judging.exported_program import ProgramRunner
from grader.judging.observation_reader import MAX_LINE
from grader.kernel.inside.responder import free_compiled_programs

MAX_DATA_MIB = 4000  # of a child's memory, shared with nobody
POLL_S = 0.2
# Elsewhere a fork is not safe, even before JAX starts.
processes = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


class ProgramEnded(Exception):
    """A program "died" with its process, or was ended with it since it "timed out"."""


class ProgramProcess:
    """Answers as a `ProgramRunner`, in another process; make it before JAX starts."""

    def __init__(self):
        self.wall_s = DEFAULT_WALL_S  # that an answer may take
        if sys.platform == "linux":  # else a child could write to its parents' memory
            prctl(SET_DUMPABLE, 0)
        self.server, theirs = processes.Pipe()
        processes.Process(target=serve, args=(theirs, self.server)).start()
        theirs.close()

    def answer(self, question: dict[str, Any]) -> str:
        """Answers one question.

        Raises:
            ProgramEnded: the program ended its process, or took too long.
        """
        self.server.send((jax.device_count(), self.wall_s, json.dumps(question)))
        ended, data = self.server.recv()
        if ended:
            raise ProgramEnded(ended)
        return data.decode(errors="replace")

    def begin_submission(self) -> None:
        self.server.send(None)


def serve(judge: Connection, other_end: Connection) -> None:
    """Starts and ends the children, as the judge asks for it."""
    other_end.close()
    with open(os.devnull, "r+b", buffering=0) as null:  # no child speaks for the judge
        for number in range(3):
            os.dup2(null.fileno(), number)
    gc.freeze()
    child, connection = None, None
    with contextlib.suppress(EOFError):
        while True:
            question, ended = judge.recv(), "with its submission"
            if question:
                num_devices, wall_s, text = question
                if child is None or not child.is_alive():
                    connection, theirs = processes.Pipe()
                    ends = num_devices, theirs, connection, judge
                    child = processes.Process(target=work, args=ends, daemon=True)
                    child.start()
                    theirs.close()
                ended, data = answered(child, connection, text.encode(), wall_s)
                judge.send((ended, data))
            if ended and child:
                child.kill()
                child.join()
                child = None


def answered(
    child: BaseProcess, connection: Connection, question: bytes, wall_s: float
) -> tuple[str, bytes]:
    """Asks a child; returns why it must be ended, or "", and its answer."""
    deadline = Deadline(wall_s, lambda: [child.pid], lambda: used_s(child.pid))
    with contextlib.suppress(OSError, EOFError):
        connection.send_bytes(question)
        while not connection.poll(POLL_S):
            if deadline.has_passed():
                return "timed out", b""
        return "", connection.recv_bytes(MAX_LINE)
    return "died", b""  # or it sends too much


def work(num_devices: int, server: Connection, *inherited: Connection) -> None:
    """Answers questions, as a child, until there are no more."""
    for connection in inherited:
        connection.close()
    with contextlib.redirect_stdout(io.StringIO()):
        setup.with_devices(num_devices)
    most = MAX_DATA_MIB * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    runner = ProgramRunner()
    while True:
        question = json.loads(server.recv_bytes())
        free_compiled_programs()
        server.send_bytes(runner.answer(question).encode())
