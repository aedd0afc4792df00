"""Starts Python in a box: by a fork of the fork server, or else as usual."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

from grader.containment.backend import backend, contained
from grader.containment.box import Box
from grader.containment.cgroup import new_group
from grader.containment.docker import remove
from grader.containment.fork_server import ForkServer, ForkServerError, box_sockets

HOST = ("PATH", "HOME", "XDG_RUNTIME_DIR", "DOCKER_HOST")  # what engines need


class BoxProcess:
    """`python ARGV` in a box, which ends with the thread that started it.

    Args:
        argv: the arguments of the command line.
        box: what it sees and may use.
        streams: its three standard streams; with Docker and Podman, it ends with the
            first.
        server: finds the fork server.

    Attributes:
        process: holds the box: when it has ended, all that was in the box has.
        pids: processes whose children are in the box.
        group: the box's control group, or None.

    Raises:
        ContainmentError: nothing here can contain it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        box: Box,
        streams: Sequence[int],
        server: Callable[[], ForkServer],
    ):
        self.name, self.words = backend(), []
        # Docker and Podman make groups of their own.
        self.group = new_group(box.limits) if self.name == "bubblewrap" else None
        try:
            self.begin(argv, box, streams, server)
        except BaseException:
            self.remove_group()
            raise

    def begin(
        self,
        argv: Sequence[str],
        box: Box,
        streams: Sequence[int],
        server: Callable[[], ForkServer],
    ) -> None:
        """Starts the process, by a fork if that is possible."""
        if self.name == "bubblewrap":
            with contextlib.suppress(ForkServerError):
                self.fork(argv, box, streams, server())
                return
        self.popen([sys.executable, *argv], box, *streams)
        self.pids = [self.process.pid]

    def popen(self, command: list[str], box: Box, *streams: int) -> None:
        """Starts the box, with a command in it or empty."""
        self.words = contained(command, box, self.name)
        words = self.group.starting(self.words) if self.group else self.words
        env = {name: os.environ[name] for name in HOST if name in os.environ}
        stdin, stdout, stderr = streams
        self.process = subprocess.Popen(
            words, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd="/"
        )

    def fork(
        self, argv: Sequence[str], box: Box, streams: Sequence[int], server: ForkServer
    ) -> None:
        """Lets the fork server start Python in an empty box.

        Raises:
            ForkServerError: it cannot; nothing is left behind.
        """
        box_socket, theirs = box_sockets()
        with box_socket:
            with theirs:
                self.popen([], box, theirs.fileno(), subprocess.DEVNULL, streams[2])
            try:
                group = self.group.folder if self.group else None
                parent = server.start(argv, box, box_socket, streams, group)
            except ForkServerError:
                self.process.kill()
                self.process.wait()
                raise
        self.pids = [self.process.pid, parent]

    def kill(self) -> None:
        """Kills the box and everything in it."""
        self.process.kill()
        self.process.wait()
        if self.words[0] in ("docker", "podman"):  # only its client was killed above
            remove(self.words)
        self.remove_group()

    def remove_group(self) -> None:
        """Removes the group of the box; what it has counted stays known."""
        if self.group:
            self.group.remove()
