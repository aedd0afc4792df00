"""Runs one learner's code in a process of its own, cell by cell, within limits."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import select
import subprocess
from pathlib import Path

from grader import CourseError
from grader.containment.deadline import Deadline, used_s
from grader.containment.limits import Limits
from grader.containment.monitor import Monitor
from grader.containment.process import PythonProcess
from grader.kernel.inside.frames import DONE, ERROR, FRAME, REPLY, REQUEST
from grader.kernel.learner_box import fork_server, learner_box, trusted_environment

RUNNER = "grader.kernel.inside.runner"
START_S = 60
LOOK_AGAIN_MS = 200
EXIT_S = 5
MAX_ERROR = 20_000  # characters
FRAME_BYTES = 256  # that a frame counts for, in addition to its text
DISCONNECTED = "limit: output: the connection to the grader was closed"


class SessionError(CourseError):
    """The process could not be started: a fault of this machine, not of the learner."""


class SessionEnded(Exception):
    """The learner's process has ended; no further cell can run.

    Attributes:
        why: "timed out", "died", or "limit: ..." with the limit that it exceeded.
    """

    def __init__(self, why: str):
        super().__init__(why)
        self.why = why


@dataclasses.dataclass
class CellResult:
    """What one cell did: its errors, and its replies."""

    errors: list[str] = dataclasses.field(default_factory=list)
    replies: list[str] = dataclasses.field(default_factory=list)

    @property
    def error(self) -> str:
        """The first error; "" if there is none."""
        return self.errors[0] if self.errors else ""


class Session:
    """One learner's process, contained unless `trusted`, from its start to its end.

    The thread that opens a session must close it: the process ends with that thread.

    Args:
        limits: what it may use.
        trusted: whether it runs with the grader's privileges, not contained.
        compiled: a folder of compiled programs, to which a trusted process adds.

    Attributes:
        python: the process; when it has ended, all that the learner's code started has.
        monitor: of the box; a trusted process has none.

    Raises:
        SessionError: the process did not start.
        ContainmentError: nothing here can contain it.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        trusted: bool = False,
        compiled: Path | None = None,
    ):
        self.limits, self.ended, self.cell = limits, "", 0
        self.output_left = limits.output_mib * 2**20
        self.monitor: Monitor | None = None
        env = trusted_environment(compiled) if trusted else None
        box = learner_box(limits, compiled)
        with contextlib.ExitStack() as self.cleanup:
            self.python = PythonProcess(RUNNER, box, fork_server(), trusted=env)
            self.cleanup.callback(self.python.kill)
            self.process, self.group = self.python.process, self.python.group
            if not trusted:
                self.monitor = Monitor(self.python.pids, limits, self.group)
                self.monitor.start()
                self.cleanup.callback(self.monitor.stop)
            self.requests = self.python.requests.fileno()
            self.frames = self.python.replies.fileno()
            os.set_blocking(self.requests, False)  # it may not read, on purpose
            self.readable, self.writable = select.poll(), select.poll()
            self.readable.register(self.frames, select.POLLIN)
            self.writable.register(self.requests, select.POLLOUT)
            self.await_start()
            self.cleanup = self.cleanup.pop_all()

    def await_start(self) -> None:
        """Waits until the process can run cells; SessionError: it cannot."""
        deadline = self.deadline(START_S)
        try:
            while self.receive(deadline)[0] != DONE:
                pass
        except SessionEnded as end:
            why = f"It {end.why}"
            if end.why == "timed out":
                why = f"It did not respond in {START_S} s"
            text = (
                f"A learner's process did not start. {why}. {self.python.stderr_tail}"
            )
            raise SessionError(text.strip()) from None

    def run(
        self, code: str, wall_s: float | None = None, silent: bool = False
    ) -> CellResult:
        """Runs one cell; the value of a `silent` one's last line is not displayed.

        Raises:
            SessionEnded: it took too long, or the process died or exceeded a limit.
        """
        if self.ended:
            raise SessionEnded(self.ended)
        result, self.cell = CellResult(), self.cell + 1
        deadline = self.deadline(wall_s or self.limits.wall_s)
        source = code.encode("utf-8", "replace")
        self.send(REQUEST.pack(self.cell, silent, len(source)) + source, deadline)
        while True:
            kind, cell, text = self.receive(deadline)
            if cell != self.cell:
                continue
            if kind == DONE:
                return result
            if kind == ERROR:
                result.errors.append(text[:MAX_ERROR])
            elif kind == REPLY:
                result.replies.append(text)

    def deadline(self, seconds: float) -> Deadline:
        monitor, pid = self.monitor, self.process.pid
        if monitor is None:
            return Deadline(seconds, lambda: [pid], lambda: used_s(pid))
        return Deadline(
            seconds,
            lambda: [process.pid for process in monitor.processes()],
            lambda: monitor.cpu_s,
        )

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU time that the box has used; 0 of a trusted process."""
        if self.group:
            return self.group.cpu_s
        return self.monitor.cpu_s if self.monitor else 0.0

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Sends a request to a process that may not take it."""
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self.requests, left) :]
            except BlockingIOError:
                self.writable.poll(LOOK_AGAIN_MS)
                self.look(deadline)
            except BrokenPipeError:
                self.end_of_process()

    def receive(self, deadline: Deadline) -> tuple[bytes, int, str]:
        """Returns the next frame: its kind, the number of its cell, and its text.

        Bytes are counted before they are read, so that this process never holds more.
        """
        kind, cell, size = FRAME.unpack(self.read(FRAME.size, deadline))
        self.output_left -= size + FRAME_BYTES
        if self.output_left < 0:
            self.end(f"limit: output: more than {self.limits.output_mib} MiB")
        return kind, cell, self.read(size, deadline).decode("utf-8", "replace")

    def read(self, size: int, deadline: Deadline) -> bytes:
        """Reads so many bytes from the process, which may never send them."""
        found = bytearray()
        while len(found) < size:
            self.look(deadline)
            if self.readable.poll(LOOK_AGAIN_MS):
                block = os.read(self.frames, min(size - len(found), 2**16))
                if not block:
                    self.end_of_process()
                found += block
            elif self.process.poll() is not None:
                self.end_of_process()
        return bytes(found)

    def look(self, deadline: Deadline) -> None:
        if deadline.has_passed():
            self.end("timed out")

    def end_of_process(self) -> None:
        """Ends a session whose process has ended, or has closed its pipes."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(EXIT_S)  # a process that ends closes its pipes first
        has_ended = self.process.poll() is not None
        self.end(self.exceeded() or ("died" if has_ended else DISCONNECTED))

    def end(self, why: str) -> None:
        """Kills the process and raises `SessionEnded`, now and in each later cell."""
        self.ended = why
        self.close()
        raise SessionEnded(why)

    def exceeded(self) -> str:
        """Names the limit for which the process was killed, or returns ""."""
        exceeded = self.monitor.exceeded if self.monitor else ""
        if self.group and self.group.ran_out_of_memory:
            exceeded = exceeded or f"memory: more than {self.limits.memory_mib} MiB"
        return f"limit: {exceeded}" if exceeded else ""

    def close(self) -> None:
        """Kills the process with all that it started, and removes its files."""
        self.cleanup.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_) -> None:
        self.close()
