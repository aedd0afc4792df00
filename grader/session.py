"""Holds one learner's code in a kernel and asks it questions, within limits."""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import zmq
from jupyter_client import BlockingKernelClient, KernelManager

from grader import ROOT, CourseError, compile_cache
from grader.containment import Limits
from grader.provisioner import NAME, Kernels, learner_box, learner_modules, register
from grader.ran import Ended, Ran, keep
from grader.sandbox import environment
from grader.watch import Listener

START_S = 60
ASK_AGAIN_S = 0.05
CUT_S = 5
CHANNELS = dict.fromkeys(("shell", "iopub", "stdin", "hb", "control"), False)
ONE_CELL = dict.fromkeys(("store_history", "allow_stdin", "stop_on_error"), False)
CUT = "limit: output: too much at once, or no connection any more"
MAX_MESSAGE = 2**26
# The kernel's own `exit` would end it a moment later, in another cell than theirs; and
# it drops what it publishes faster than we read, even the word that a cell has ended.
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
    """The kernel could not be started: a fault of this machine, not of the code."""


class Session:
    """One kernel, contained unless `trusted`, from its start to its end.

    The thread that opens a session must close it: the kernel ends with that thread.

    Args:
        limits: what it may use.
        trusted: whether it runs with our rights.
        root: the course whose modules it imports.
        env: variables beside those of every kernel.
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
        self.home = tempfile.TemporaryDirectory(prefix="learner-")
        self.context = zmq.Context()
        self.context.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)
        self.context.setsockopt(zmq.RCVHWM, 2)  # more waits in the learner's process
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
        self.listener: Listener | None = None
        try:
            self.start(trusted, root)
        except BaseException:
            self.close()
            raise

    def start(self, trusted: bool, root: Path) -> None:
        """Starts the kernel and waits until it listens."""
        if trusted:
            for path in learner_modules(root):
                (Path(self.home.name) / path.name).write_bytes(path.read_bytes())
            folder = self.home.name
            self.manager.start_kernel(cwd=folder, env=environment(folder) | self.env)
        else:
            self.manager.start_kernel()
        self.client = self.manager.blocking_client()
        self.client.context = self.context
        self.client.start_channels(**CHANNELS | {"shell": True})
        # What is published is never lost, as the word that a cell has ended: the
        # listener reads it all, and ends a process that publishes too much.
        self.context.setsockopt(zmq.RCVHWM, 0)
        self.client.start_channels(**CHANNELS | {"iopub": True})
        socket, most = self.client.iopub_channel.socket, self.limits.output_mib * 2**20
        self.listener = Listener(socket, most, self.manager.provisioner.process.kill)
        self.listener.start()
        self.await_kernel()
        if not trusted:
            self.manager.provisioner.seal()
        try:
            first = self.run(FIRST_CELL)
        except Ended as end:
            raise SessionError(f"The kernel ended at its start: {end}.") from None
        if first.error:
            raise SessionError(f"The kernel's first cell failed: {first.error}")

    def await_kernel(self) -> None:
        """Waits until the kernel answers, and until we hear what it publishes.

        What it publishes before it knows of us is lost, so it is asked again and again.
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
        words = getattr(self.manager.provisioner, "words", None)  # on its stderr
        raise SessionError(f"{problem} {words or ''}".strip())

    def run(self, code: str, wall_s: float | None = None, silent: bool = False) -> Ran:
        """Runs one cell; where it is `silent`, the kernel does not send it back.

        Raises:
            Ended: it took too long, or the process died or broke a limit.
        """
        if self.ended:
            raise Ended(self.ended)
        ran = Ran()
        deadline = time.monotonic() + (wall_s or self.limits.wall_s)
        request = self.client.execute(code, silent, **ONE_CELL)
        while True:
            header, parent, content = self.receive(deadline)
            if parent.get("msg_id") != request:
                continue
            kind = header.get("msg_type")
            if kind == "status" and content.get("execution_state") == "idle":
                return ran
            keep(ran, kind, content)

    def receive(self, deadline: float) -> tuple[dict, dict, dict]:
        """Returns header, parent's header and content of the kernel's next message.

        Raises:
            Ended: there will be none.
        """
        message = None
        while message is None:
            with contextlib.suppress(queue.Empty):
                message = self.read(0.2)
            if self.listener.too_much:
                self.end(f"limit: output: more than {self.limits.output_mib} MiB")
            if message is None and self.listener.cut:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    # A process that ends cuts its connection first.
                    self.manager.provisioner.process.wait(CUT_S)
            if message is None and not self.manager.is_alive():
                self.end(self.exceeded() or "died")
            if message is None and self.listener.cut:
                self.end(CUT)
            if time.monotonic() > deadline:
                self.end("timed out")
        return message

    def read(self, timeout_s: float) -> tuple[dict, dict, dict]:
        """Takes the next message from the listener: three empty parts for a forged one.

        Raises:
            queue.Empty: there was none in time.
        """
        frames = self.listener.messages.get(timeout=timeout_s)
        with contextlib.suppress(Exception):  # whatever a forged message leads to
            _, parts = self.client.session.feed_identities(frames)
            message = self.client.session.deserialize(parts)
            parts = [message[name] for name in ("header", "parent_header", "content")]
            if all(isinstance(part, dict) for part in parts):
                return tuple(parts)
        return {}, {}, {}

    def end(self, why: str) -> None:
        """Kills the process at once and remembers why."""
        self.ended = why
        self.close()
        raise Ended(why)

    def exceeded(self) -> str:
        """Names the limit over which the watch killed the box, or ""."""
        watch = getattr(self.manager.provisioner, "watch", None)
        return f"limit: {watch.exceeded}" if watch and watch.exceeded else ""

    def close(self) -> None:
        """Kills the kernel with all its processes and removes its files."""
        if self.listener:
            self.listener.ended.set()  # which it notices as the kernel's end wakes it
        try:
            if self.manager.has_kernel:
                # At once: the manager looks ten times a second whether it has ended.
                self.manager.provisioner.process.kill()
                self.manager.provisioner.process.wait()
            if self.listener:
                self.listener.stop()
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
