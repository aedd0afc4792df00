"""Starts Python between pipes, in a box: by a fork of the fork server, or as usual."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection

from grader.containment.backend import READY, backend, contained
from grader.containment.box import Box
from grader.containment.cgroup import new_group
from grader.containment.docker import remove
from grader.containment.fork_server import ForkServer, ForkServerError
from grader.containment.monitor import StderrTail

HOST = ("PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST")  # what engines need
START_S = 20  # of an empty box


class PythonProcess:
    """`python -m MODULE` in a box, which ends with the thread that started it.

    Args:
        module: what runs.
        box: what it sees and may use.
        server: forks the process, where that is possible.
        trusted: an environment; with one, the process runs with our rights, in an empty
            folder and in no box.

    Attributes:
        requests, replies: our ends of its standard input and output; it ends with its
            input.
        stderr_tail: the end of what it writes to its standard error.
        process: holds the box: when it has ended, all that was in the box has.
        pids: processes whose children are in the box.
        group: the box's control group, or None.

    Raises:
        ContainmentError: nothing here can contain it.
    """

    def __init__(
        self,
        module: str,
        box: Box,
        server: ForkServer | None = None,
        trusted: Mapping[str, str] | None = None,
    ):
        self.box, self.trusted, self.group = box, trusted, None
        self.name = "trusted" if trusted else backend()
        self.home = tempfile.TemporaryDirectory(prefix="trusted-") if trusted else None
        pipes = [os.pipe() for _ in range(3)]
        streams = [pipes[0][0], pipes[1][1], pipes[2][1]]
        self.requests = Connection(pipes[0][1], readable=False)
        self.replies = Connection(pipes[1][0], writable=False)
        self.stderr_tail = StderrTail(pipes[2][0])
        self.stderr_tail.start()
        try:
            if self.name == "bubblewrap":  # Docker and Podman make groups of their own
                self.group = new_group(box.limits)
            usable = server if self.name == "bubblewrap" else None
            if not (usable and self.fork(module, streams, usable)):
                self.start([sys.executable, "-P", "-m", module], *streams)
                self.pids = [self.process.pid]
        except BaseException:
            self.clean_up()
            raise
        finally:
            for end in streams:
                os.close(end)

    def start(self, command: list[str], *streams: int | socket.socket) -> None:
        if self.home:
            self.words, folder = command, self.home.name
            env = {**self.trusted, "TMPDIR": folder}
        else:
            self.words, folder = contained(command, self.box, self.name), "/"
            env = {name: os.environ[name] for name in HOST if name in os.environ}
        words = self.group.starting(self.words) if self.group else self.words
        stdin, stdout, stderr = streams
        self.process = subprocess.Popen(
            words,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=env,
            cwd=folder,
            start_new_session=self.home is not None,
        )

    def fork(self, module: str, streams: Sequence[int], server: ForkServer) -> bool:
        """Lets the fork server start the process in an empty box; tells whether it did.

        The box exists until every copy of the socket `keep` is closed.
        """
        keep, stdio = socket.socketpair()
        keep.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with keep:
            with stdio:
                self.start([], stdio, stdio, streams[2])
            try:
                first, descriptors = sender(keep), [keep.fileno(), *streams]
                group = self.group.folder if self.group else None
                parent = server.start(module, self.box, first, descriptors, group)
            except ForkServerError:
                self.process.kill()
                self.process.wait()
                return False
        self.pids = [self.process.pid, parent]
        return True

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.name in ("docker", "podman"):  # only the client was killed above
            remove(self.words)
        self.clean_up()

    def clean_up(self) -> None:
        """Closes the pipes and removes what was made; what a group counted is kept."""
        self.requests.close()
        self.replies.close()
        if self.group:
            self.group.remove()
        if self.home:
            self.home.cleanup()


def sender(channel: socket.socket) -> int:
    """Waits until a box is ready; returns its first process.

    Raises:
        ForkServerError: it did not start.
    """
    channel.settimeout(START_S)
    size = socket.CMSG_SPACE(struct.calcsize("3i"))
    try:
        message, [(_, _, credentials)], _, _ = channel.recvmsg(len(READY), size)
    except (OSError, ValueError):
        message = b""
    if message != READY.encode():
        raise ForkServerError("The box did not start.")
    return struct.unpack("3i", credentials)[0]
