"""Lets programs run in children of the judge: what one does to its process ends there.

A process in which JAX has started has threads, and must not be forked. So the judge is
forked before that: the fork waits, and each of its own forks starts JAX for itself.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import queue
import resource
import select
import signal
import socket
from typing import Any, NoReturn

import jax
import scipy.linalg  # noqa: F401 - JAX imports it late, in each child anew

from coursekit import setup
from grader.containment.inside.deadline import Deadline, used_s
from grader.containment.limits import DEFAULT_WALL_S
from grader.judging.observation_reader import loads
from grader.judging.program_runner import ProgramRunner
from grader.kernel.frame_reader import FrameReader
from grader.kernel.inside.frames import FRAME, REPLY, REQUEST

MAX_DATA_MIB = 4000  # of a child's memory, shared with nobody
MAX_ANSWERS = 2**28  # bytes, of one child
LOOK_AGAIN_S = 0.2
EXIT_S = 5


class ChildEnded(Exception):
    """A program ended its child, or had to be ended with it: "died", "timed out"."""


class ProgramChildren:
    """Answers as `ProgramRunner` does, in a child until `end`.

    Make it before JAX starts.

    Attributes:
        wall_s: how long an answer may take.
        answers: how many the child has given.
    """

    def __init__(self):
        self.wall_s = DEFAULT_WALL_S
        self.child: Child | None = None
        self.answers = 0  # of this child
        self.channel, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        if not os.fork():
            try:
                self.channel.close()
                serve(theirs)
            finally:
                os._exit(1)
        theirs.close()

    def answer(self, question: dict[str, Any], looks: bool) -> dict[str, Any]:
        """Answers one question.

        A child that dies gets a successor once: the machine may have ended it.

        Raises:
            ChildEnded: it died, or took too long.
            WireError: a program speaks in its place.
        """
        for is_last in (False, True):
            self.child = self.child or self.start()
            self.answers += 1
            try:
                return self.child.answer(question, looks, self.wall_s)
            except ChildEnded as end:
                self.end()
                if is_last or str(end) == "timed out":
                    raise
        raise AssertionError

    def start(self) -> Child:
        """Starts a child; ends this process where that has become impossible."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                count = str(jax.device_count()).encode()
                socket.send_fds(self.channel, [count], [theirs.fileno()])
            return Child(int(self.channel.recv(100)), ours)
        except (OSError, ValueError):
            os._exit(1)  # who watches this process starts it anew

    def end(self) -> None:
        """Ends the child, if there is one."""
        if self.child:
            self.child.close()
        self.child, self.answers = None, 0


class Child:
    """One child, from outside.

    Args:
        pid: its number.
        connection: to it.
    """

    def __init__(self, pid: int, connection: socket.socket):
        self.pid, self.connection, self.number = pid, connection, 0
        self.handle = -1
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self.handle = os.pidfd_open(pid)
        self.reader = FrameReader(connection.fileno(), MAX_ANSWERS, self.kill)
        self.reader.start()

    def answer(
        self, question: dict[str, Any], looks: bool, wall_s: float
    ) -> dict[str, Any]:
        """Answers one question.

        Raises:
            ChildEnded: it does not.
            WireError: its answer is none of ours.
        """
        self.number += 1
        deadline = Deadline(wall_s, lambda: [self.pid], lambda: used_s(self.pid))
        data = json.dumps(question).encode()
        with contextlib.suppress(OSError):  # it has ended: then its frames end, too
            self.connection.sendall(REQUEST.pack(self.number, looks, len(data)) + data)
        while True:
            try:
                frame = self.reader.frames.get(timeout=LOOK_AGAIN_S)
            except queue.Empty:
                if deadline.passed:
                    raise ChildEnded("timed out") from None
                continue
            if frame is None:
                raise ChildEnded("died")
            if frame[:2] == (REPLY, self.number):
                return loads(frame[2])

    def kill(self) -> None:
        """Kills it, whatever it does."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)

    def close(self) -> None:
        """Ends it, and waits until it is gone."""
        self.kill()
        if self.handle >= 0:
            select.select([self.handle], [], [], EXIT_S)
            os.close(self.handle)
        self.reader.stop()
        self.connection.close()


def serve(channel: socket.socket) -> NoReturn:
    """Forks a child for each request, until nobody can ask for one."""
    with open(os.devnull, "r+b", buffering=0) as null:
        for number in range(3):
            os.dup2(null.fileno(), number)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    gc.freeze()
    while True:
        count, descriptors, _, _ = socket.recv_fds(channel, 100, 1)
        if not count:
            os._exit(0)
        child = os.fork()
        if not child:
            try:
                channel.close()
                work(int(count), socket.socket(fileno=descriptors[0]))
            finally:
                os._exit(1)
        os.close(descriptors[0])
        channel.send(str(child).encode())


def work(num_devices: int, connection: socket.socket) -> None:
    """Answers questions, as a child, until there are no more."""
    with contextlib.redirect_stdout(io.StringIO()):
        setup.with_devices(num_devices)
    most = MAX_DATA_MIB * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    runner = ProgramRunner()
    questions = connection.makefile("rb")
    while header := questions.read(REQUEST.size):
        number, looks, size = REQUEST.unpack(header)
        answer = runner.answer(json.loads(questions.read(size)), looks)
        data = json.dumps(answer).encode()
        connection.sendall(FRAME.pack(REPLY, number, len(data)) + data)
