"""Starts Python in a box: by a fork of the fork server, or else as usual."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence

from grader.containment.backend import READY, backend, contained
from grader.containment.box import Box
from grader.containment.cgroup import new_group
from grader.containment.docker import remove
from grader.containment.fork_server import ForkServer, ForkServerError

HOST = ("PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST")  # what engines need
START_S = 20  # of an empty box


class BoxProcess:
    """`python -m MODULE` in a box, which ends with the thread that started it.

    Args:
        module: what runs.
        box: what it sees and may use.
        streams: its three standard streams; with Docker and Podman, it ends with the
            first.
        server: forks the process, where that is possible.

    Attributes:
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
        streams: Sequence[int],
        server: ForkServer | None = None,
    ):
        self.name, self.box = backend(), box
        # Docker and Podman make groups of their own.
        self.group = new_group(box.limits) if self.name == "bubblewrap" else None
        try:
            usable = server if self.name == "bubblewrap" else None
            if not (usable and self.fork(module, streams, usable)):
                self.start([sys.executable, "-P", "-m", module], *streams)
                self.pids = [self.process.pid]
        except BaseException:
            self.remove_group()
            raise

    def start(self, command: list[str], *streams: int | socket.socket) -> None:
        self.words = contained(command, self.box, self.name)
        words = self.group.starting(self.words) if self.group else self.words
        env = {name: os.environ[name] for name in HOST if name in os.environ}
        stdin, stdout, stderr = streams
        self.process = subprocess.Popen(
            words, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd="/"
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
        if self.name != "bubblewrap":  # only the engine's client was killed above
            remove(self.words)
        self.remove_group()

    def remove_group(self) -> None:
        """Removes the group of the box; what it has counted stays known."""
        if self.group:
            self.group.remove()


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
