"""Runs one learner's code in a process of its own, cell by cell, within limits."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from grader import ROOT, CourseError
from grader.authoring.execution import environment
from grader.containment.box import Box
from grader.containment.cgroup import Group
from grader.containment.inside.deadline import Deadline, used_s
from grader.containment.limits import Limits
from grader.containment.monitor import Monitor, StderrTail, too_much_memory
from grader.containment.process import BoxProcess
from grader.containment.temp_dirs import prefix
from grader.kernel import compile_cache
from grader.kernel.cell_result import CellResult, SessionEnded
from grader.kernel.frame_reader import FrameReader
from grader.kernel.inside.frames import DONE, REQUEST
from grader.kernel.learner_box import fork_server, learner_box, learner_packages

RUNNER = ["-m", "grader.kernel.inside.runner"]
START_S = 60
LOOK_AGAIN_S = 0.2
EXIT_S = 5
DISCONNECTED = "limit: output: the connection to the grader was closed"


class SessionError(CourseError):
    """The process could not be started: a fault of this machine, not of the learner."""


class Session:
    """One learner's process, contained unless `trusted`, from its start to its end.

    The thread that opens a session must close it: the process ends with that thread.

    Args:
        limits: what it may use.
        trusted: whether it runs with our privileges, not contained.
        root: the course whose modules it imports.
        env: variables in addition to those of every learner's process.
        compiled: a folder of compiled programs, to which a trusted process adds.

    Attributes:
        process: when it has ended, all that the learner's code started has, too.
        monitor: of the box; a trusted process has none.
        group: the control group of the box, or None.

    Raises:
        SessionError: the process did not start.
        ContainmentError: nothing here can contain it.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        trusted: bool = False,
        root: Path = ROOT,
        env: Mapping[str, str] | None = None,
        compiled: Path | None = None,
    ):
        self.limits, self.ended, self.cell = limits, "", 0
        self.monitor: Monitor | None = None
        self.group: Group | None = None
        with contextlib.ExitStack() as self.cleanup:
            theirs = self.make_pipes()
            try:
                if trusted:
                    self.start_trusted(theirs, root, dict(env or {}), compiled)
                else:
                    box = learner_box(root, compiled, limits=limits)
                    box = dataclasses.replace(box, env={**box.env, **(env or {})})
                    self.start_contained(theirs, box)
            finally:
                for end in theirs:
                    os.close(end)
            kill, most = self.process.kill, limits.output_mib * 2**20
            self.reader = FrameReader(self.frames, most, kill)
            self.reader.start()
            self.cleanup.callback(self.reader.stop)
            self.cleanup.callback(self.kill)  # so that the reader finds an end
            self.await_start()
            self.cleanup = self.cleanup.pop_all()

    def make_pipes(self) -> list[int]:
        """Makes the pipes of the three standard streams; returns the process's ends."""
        pipes = [os.pipe() for _ in range(3)]
        self.requests, self.frames = pipes[0][1], pipes[1][0]
        os.set_blocking(self.requests, False)  # the process may not read, on purpose
        for end in (self.requests, self.frames):
            self.cleanup.callback(os.close, end)
        self.stderr_tail = StderrTail(pipes[2][0])
        self.stderr_tail.start()
        return [pipes[0][0], pipes[1][1], pipes[2][1]]

    def start_contained(self, streams: Sequence[int], box: Box) -> None:
        """Starts the process in its box, and the monitor of what it uses."""
        self.boxed = BoxProcess(RUNNER, box, streams, fork_server)
        self.process, self.kill = self.boxed.process, self.boxed.kill
        self.group = self.boxed.group
        self.monitor = Monitor(self.boxed.pids, self.limits, self.group)
        self.monitor.start()
        self.cleanup.callback(self.monitor.stop)

    def start_trusted(
        self,
        streams: Sequence[int],
        root: Path,
        env: dict[str, str],
        compiled: Path | None,
    ) -> None:
        """Starts the process in a folder of its own."""
        home = tempfile.TemporaryDirectory(prefix=prefix("learner"))
        self.cleanup.callback(home.cleanup)
        for name, path in learner_packages(root).items():
            shutil.copytree(path, Path(home.name) / name)
        if compiled:
            env |= compile_cache.variables(compiled, writes=True)
        stdin, stdout, stderr = streams
        self.process = subprocess.Popen(
            [sys.executable, *RUNNER],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment(home.name) | {"PYTHONPATH": home.name} | env,
            cwd=home.name,
            start_new_session=True,
        )

    def kill(self) -> None:
        """Kills a trusted process."""
        self.process.kill()
        self.process.wait()

    def await_start(self) -> None:
        """Waits until the process can run cells.

        Raises:
            SessionError: it cannot.
        """
        deadline, said = self.deadline(START_S), CellResult()
        try:
            while (frame := self.receive(deadline))[0] != DONE:
                said.add(frame[0], frame[2])
        except SessionEnded as end:
            why = f"It {end.why}"
            if end.why == "timed out":
                why = f"It did not respond in {START_S} s"
            last = f"{said.text} {self.stderr_tail}".strip()[-500:]
            text = f"A learner's process did not start. {why}. {last}"
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
            result.add(kind, text)

    def deadline(self, seconds: float) -> Deadline:
        """Makes the deadline of a cell that begins now."""
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

    @property
    def peak_mib(self) -> float:
        """The most memory that the box had at a time; 0 where nobody counts."""
        return self.group.peak_mib if self.group else 0.0

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Sends a request to a process that may not take it.

        Raises:
            SessionEnded: it did not, in time.
        """
        ready, left = select.poll(), memoryview(data)
        ready.register(self.requests, select.POLLOUT)
        while left:
            try:
                left = left[os.write(self.requests, left) :]
            except BlockingIOError:
                ready.poll(LOOK_AGAIN_S * 1000)
                self.look(deadline)
            except BrokenPipeError:
                self.end_of_process()

    def receive(self, deadline: Deadline) -> tuple[bytes, int, str]:
        """Returns the next frame: its kind, the number of its cell, and its text.

        Raises:
            SessionEnded: there will be none.
        """
        while True:
            with contextlib.suppress(queue.Empty):
                frame = self.reader.frames.get(timeout=LOOK_AGAIN_S)
                if frame is None:
                    self.end_of_process()
                self.look(deadline)
                return frame
            self.look(deadline)
            if self.process.poll() is not None:
                self.end_of_process()

    def look(self, deadline: Deadline) -> None:
        """Ends a session that sends too much or takes too long."""
        if self.reader.over_limit:
            self.end(f"limit: output: more than {self.limits.output_mib} MiB")
        if deadline.passed:
            self.end("timed out")

    def end_of_process(self) -> None:
        """Ends a session whose process has ended, or does nothing more for us."""
        if self.reader.over_limit:
            self.end(f"limit: output: more than {self.limits.output_mib} MiB")
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
        """Names the limit for which the box was killed, or returns ""."""
        if self.monitor and self.monitor.exceeded:
            return f"limit: {self.monitor.exceeded}"
        if self.group and self.group.ran_out_of_memory:
            return f"limit: {too_much_memory(self.limits)}"
        return ""

    def close(self) -> None:
        """Kills the process with all that it started, and removes its files."""
        self.cleanup.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_) -> None:
        self.close()
