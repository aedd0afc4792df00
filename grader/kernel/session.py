"""Runs one learner's code in a kernel, cell by cell, within limits."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import zmq
from jupyter_client import BlockingKernelClient, KernelManager

from grader import ROOT, CourseError
from grader.authoring.execution import environment
from grader.containment.inside.deadline import Deadline, used_s
from grader.containment.limits import Limits
from grader.containment.monitor import Monitor
from grader.containment.scratch import prefix
from grader.kernel import compile_cache
from grader.kernel.cell_result import CellResult, SessionEnded
from grader.kernel.iopub import IopubReader
from grader.kernel.provisioner import (
    NAME,
    Kernels,
    learner_box,
    learner_packages,
    register,
)

START_S = 60
ASK_AGAIN_S = 0.05
EXIT_S = 5
CHANNELS = dict.fromkeys(("shell", "iopub", "stdin", "hb", "control"), False)
ONE_CELL = dict.fromkeys(("store_history", "allow_stdin", "stop_on_error"), False)
DISCONNECTED = "limit: output: too much at once, or the connection was closed"
MAX_MESSAGE = 2**26
# The kernel's own `exit` would end it a moment later, during another cell. And without
# this it drops messages that we do not read in time, even that a cell has ended.
FIRST_CELL = """
def first():
    import sys, threading, zmq

    thread, done = get_ipython().kernel.iopub_thread, threading.Event()
    thread.schedule(lambda: (thread.socket.set(zmq.SNDHWM, 0), done.set()))
    done.wait()
    return sys.exit


exit = quit = first()
del first
"""


class SessionError(CourseError):
    """The kernel could not be started: a fault of this machine, not of the learner."""


class Session:
    """One kernel, contained unless `trusted`, from its start to its end.

    The thread that opens a session must close it: the kernel ends with that thread.

    Args:
        limits: what it may use.
        trusted: whether it runs with our privileges, not contained.
        root: the course whose modules it imports.
        env: variables in addition to those of every kernel.
        compiled: a folder of compiled programs, to which a trusted kernel adds.

    Raises:
        SessionError: the kernel did not start.
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
        self.limits, self.ended = limits, ""
        self.home = tempfile.TemporaryDirectory(prefix=prefix("learner"))
        self.context = zmq.Context()
        self.context.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
        self.context.setsockopt(zmq.RCVHWM, 2)  # more stays in the learner's process
        self.context.setsockopt(zmq.LINGER, 0)
        self.context.setsockopt(zmq.RECONNECT_IVL, 20)  # ms, until the kernel listens
        self.env = dict(env or {})
        if trusted and compiled:
            self.env |= compile_cache.variables(compiled, writes=True)
        box = learner_box(root, compiled, limits=limits)
        box = dataclasses.replace(box, env={**box.env, **self.env})
        register()
        self.manager = KernelManager(
            kernel_name="trusted" if trusted else NAME,
            kernel_spec_manager=Kernels(box=box),
            context=self.context,
        )
        self.client: BlockingKernelClient | None = None
        self.iopub: IopubReader | None = None
        try:
            self.start(trusted, root)
        except BaseException:
            self.close()
            raise

    def start(self, trusted: bool, root: Path) -> None:
        """Starts the kernel and waits until it listens."""
        if trusted:
            folder = self.home.name
            for name, path in learner_packages(root).items():
                shutil.copytree(path, Path(folder) / name)
            self.manager.start_kernel(cwd=folder, env=environment(folder) | self.env)
        else:
            self.manager.start_kernel()
        self.client = self.manager.blocking_client()
        self.client.context = self.context
        self.client.start_channels(**CHANNELS | {"shell": True})
        # No published message is lost, such as that a cell has ended: the reader takes
        # all of them, and kills a kernel that publishes too much.
        self.context.setsockopt(zmq.RCVHWM, 0)
        self.client.start_channels(**CHANNELS | {"iopub": True})
        socket, most = self.client.iopub_channel.socket, self.limits.output_mib * 2**20
        self.iopub = IopubReader(socket, most, self.manager.provisioner.process.kill)
        self.iopub.start()
        self.await_kernel()
        if not trusted:
            self.manager.provisioner.remove_connection_folder()
        try:
            first = self.run(FIRST_CELL)
        except SessionEnded as end:
            raise SessionError(f"The kernel ended at its start: {end}.") from None
        if first.error:
            raise SessionError(f"The kernel's first cell failed: {first.error}")

    def await_kernel(self) -> None:
        """Waits until the kernel replies, and until we receive what it publishes.

        What it publishes before we are subscribed is lost, so the request is repeated.
        """
        problem = f"The kernel did not respond in {START_S} s."
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            request = self.client.kernel_info()
            with contextlib.suppress(queue.Empty):
                while True:
                    _, parent, content = self.read(ASK_AGAIN_S)
                    is_idle = content.get("execution_state") == "idle"
                    if parent.get("msg_id") == request and is_idle:
                        return
            if not self.manager.is_alive():
                problem = "The kernel died at its start."
                break
        stderr = getattr(self.manager.provisioner, "stderr_tail", None)
        raise SessionError(f"{problem} {stderr or ''}".strip())

    def run(
        self, code: str, wall_s: float | None = None, silent: bool = False
    ) -> CellResult:
        """Runs one cell; if it is `silent`, the kernel does not publish its code.

        Raises:
            SessionEnded: it took too long, or the process died or exceeded a limit.
        """
        if self.ended:
            raise SessionEnded(self.ended)
        result = CellResult()
        deadline = self.deadline(wall_s or self.limits.wall_s)
        request = self.client.execute(code, silent, **ONE_CELL)
        while True:
            header, parent, content = self.receive(deadline)
            if parent.get("msg_id") != request:
                continue
            kind = header.get("msg_type")
            if kind == "status" and content.get("execution_state") == "idle":
                return result
            result.add(kind, content)

    def deadline(self, seconds: float) -> Deadline:
        """Makes the deadline of a cell that begins now."""
        monitor = self.monitor
        if monitor is None:
            pid = self.manager.provisioner.process.pid
            return Deadline(seconds, lambda: [pid], lambda: used_s(pid))
        return Deadline(
            seconds,
            lambda: [process.pid for process in monitor.processes()],
            lambda: monitor.cpu_s,
        )

    @property
    def cpu_s(self) -> float:
        """Seconds of CPU time that the box has used; 0 of a trusted process."""
        return self.monitor.cpu_s if self.monitor else 0.0

    @property
    def monitor(self) -> Monitor | None:
        """The monitor of the box; a trusted process has none."""
        return getattr(self.manager.provisioner, "monitor", None)

    def receive(self, deadline: Deadline) -> tuple[dict, dict, dict]:
        """Returns header, parent's header and content of the kernel's next message.

        Raises:
            SessionEnded: there will be none.
        """
        message = None
        while message is None:
            with contextlib.suppress(queue.Empty):
                message = self.read(0.2)
            if self.iopub.over_limit:
                self.end(f"limit: output: more than {self.limits.output_mib} MiB")
            if message is None and self.iopub.disconnected:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    # A process that ends closes its connections first.
                    self.manager.provisioner.process.wait(EXIT_S)
            if message is None and not self.manager.is_alive():
                self.end(self.exceeded() or "died")
            if message is None and self.iopub.disconnected:
                self.end(DISCONNECTED)
            if deadline.passed:
                self.end("timed out")
        return message

    def read(self, timeout_s: float) -> tuple[dict, dict, dict]:
        """Takes the next message from the reader: three empty parts for a forged one.

        Raises:
            queue.Empty: there was none in time.
        """
        frames = self.iopub.messages.get(timeout=timeout_s)
        with contextlib.suppress(Exception):  # whatever a forged message raises
            _, parts = self.client.session.feed_identities(frames)
            message = self.client.session.deserialize(parts)
            parts = [message[name] for name in ("header", "parent_header", "content")]
            if all(isinstance(part, dict) for part in parts):
                return tuple(parts)
        return {}, {}, {}

    def end(self, why: str) -> None:
        """Kills the process and raises `SessionEnded`, now and in each later cell."""
        self.ended = why
        self.close()
        raise SessionEnded(why)

    def exceeded(self) -> str:
        """Names the limit for which the monitor killed the box, or returns ""."""
        found = self.monitor
        return f"limit: {found.exceeded}" if found and found.exceeded else ""

    def close(self) -> None:
        """Kills the kernel with all its processes and removes its files."""
        if self.iopub:
            self.iopub.ended.set()  # it looks when the kernel's end wakes it
        try:
            if self.manager.has_kernel:
                # At once: the manager waits a tenth of a second at a time.
                self.manager.provisioner.process.kill()
                self.manager.provisioner.process.wait()
            if self.iopub:
                self.iopub.stop()
            if self.client:
                self.client.stop_channels()
            if self.manager.has_kernel:
                self.manager.shutdown_kernel(now=True)
        except queue.Empty:
            pass
        finally:
            self.context.destroy(linger=0)
            self.home.cleanup()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_) -> None:
        self.close()
