"""Starts kernels and judges by a fork server: one server for all of this process."""

from __future__ import annotations

import atexit
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grader import ROOT
from grader.containment.box import Box, unused_uid
from grader.containment.temp_dirs import prefix

START_S = 120
REPLY_S = 20
# The module in a box that starts a fork server there, for Python; "" for none.
PYTHON_FORKS = "grader.containment.inside.python_forks"


class ForkServerError(Exception):
    """The fork server cannot start this process; it can still be started as usual."""


class ForkServer:
    """A process whose forks become kernels and judges: see inside/fork_server.py.

    Args:
        inside: where the course's modules lie in a box.
        packages: folders of these modules, by their path in there.
        env: the environment that every box starts with.
    """

    def __init__(
        self, inside: str, packages: Mapping[str, Path], env: Mapping[str, str]
    ):
        self.folder = tempfile.TemporaryDirectory(prefix=prefix("fork-server"))
        self.lock, self.ready = threading.Lock(), False
        self.channel, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        script = ROOT / "grader" / "containment" / "inside" / "fork_server.py"
        modules = (
            word
            for name, folder in packages.items()
            for path in sorted(folder.rglob("*.py"))
            for word in (f"{name}/{path.relative_to(folder).as_posix()}", str(path))
        )
        words = [sys.executable, "-P", "-s", str(script), inside, self.folder.name]
        with theirs:
            self.process = subprocess.Popen(
                [*words, *modules],
                env={k: v for k, v in env.items() if k != "PYTHONPATH"},
                cwd="/",
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def start(
        self,
        argv: Sequence[str],
        box: Box,
        box_socket: socket.socket,
        streams: Sequence[int],
        group: Path | None = None,
    ) -> int:
        """Starts `python ARGV` in a box; returns the process that waits for its end.

        Args:
            argv: the arguments of the command line.
            box: what the box was made from.
            box_socket: our end of its `box_sockets`; the process keeps it open, too.
            streams: the three standard streams of the process.
            group: the control group that it belongs to, if any.

        Raises:
            ForkServerError: it did not work, or there was no reply in time.
        """
        request = {
            **await_box(box_socket),
            "argv": [*argv],
            "env": dict(box.environment),
            "cwd": "/tmp",
            "uid": os.geteuid() or unused_uid(box.writable),
            "cpus": [*os.sched_getaffinity(0)],
            "python_forks": PYTHON_FORKS,
            "group": str(group / "cgroup.procs") if group else "",
        }
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with self.lock, ours:
            try:
                with theirs:
                    if not self.ready:
                        receive(self.channel, START_S)
                        self.ready = True
                    descriptors = [theirs.fileno(), box_socket.fileno(), *streams]
                    message = json.dumps(request).encode()
                    socket.send_fds(self.channel, [message], descriptors)
                reply = receive(ours, REPLY_S)
            except (OSError, ValueError) as error:
                self.close()
                message = f"The fork server does not reply: {error}"
                raise ForkServerError(message) from None
        if "problem" in reply:
            raise ForkServerError(reply["problem"])
        return reply["parent"]

    @property
    def alive(self) -> bool:
        """Tells whether it can still start processes."""
        return self.channel.fileno() >= 0

    def close(self) -> None:
        """Ends the server; the processes that it started continue."""
        self.channel.close()
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


def receive(channel: socket.socket, timeout_s: float) -> dict[str, Any]:
    """Receives a message; OSError or ValueError: there is none."""
    channel.settimeout(timeout_s)
    return json.loads(channel.recv(2**16))


def box_sockets() -> tuple[socket.socket, socket.socket]:
    """Makes the sockets of an empty box: (ours, its standard input).

    The box exists until every copy of ours is closed.
    """
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def await_box(box_socket: socket.socket) -> dict[str, Any]:
    """Waits until a box is ready; returns the pid of its first process, and its limits.

    Raises:
        ForkServerError: it did not start.
    """
    size = socket.CMSG_SPACE(struct.calcsize("3i"))
    box_socket.settimeout(REPLY_S)
    try:
        message, data, _, _ = box_socket.recvmsg(2**12, size)
        [(_, _, credentials)] = data
        pid, _, _ = struct.unpack("3i", credentials)
        return {"box": pid, "limits": json.loads(message)}
    except (OSError, ValueError, struct.error):
        raise ForkServerError("The box did not start.") from None


# Empty before the first kernel, [None] before the first server.
_shared: list[ForkServer | None] = []
_shared_lock = threading.Lock()


def shared_server(
    inside: str, packages: Mapping[str, Path], env: Mapping[str, str]
) -> ForkServer:
    """Returns this process's fork server, a new one if the last has ended.

    Raises:
        ForkServerError: for the first kernel: a server does not pay for one alone.
    """
    with _shared_lock:
        if not _shared:
            _shared.append(None)
            raise ForkServerError("The first kernel starts as usual.")
        if _shared[0] is None:
            atexit.register(close_shared_server)
        if _shared[0] is None or not _shared[0].alive:
            _shared[0] = ForkServer(inside, packages, env)
        return _shared[0]


def running_server() -> ForkServer:
    """Returns this process's fork server, if kernels have started one.

    Raises:
        ForkServerError: there is none.
    """
    with _shared_lock:
        if not _shared or _shared[0] is None or not _shared[0].alive:
            raise ForkServerError("No fork server is running.")
        return _shared[0]


def close_shared_server() -> None:
    """Ends this process's fork server."""
    if _shared and _shared[0]:
        _shared[0].close()
