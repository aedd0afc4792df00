"""Asks the fork server for kernels and judges: one server for all of this process."""

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

START_S = 120
ANSWER_S = 20


class ColdError(Exception):
    """The fork server cannot start this; a process of its own can."""


class ForkServer:
    """A process that becomes kernels and judges: see grader/forkserver.py.

    Args:
        inside: where the course's modules lie in a box.
        modules: these modules, where they lie here.
        env: what every box starts with.
    """

    def __init__(self, inside: str, modules: Sequence[Path], env: Mapping[str, str]):
        self.folder = tempfile.TemporaryDirectory(prefix="warm-")
        self.lock, self.ready = threading.Lock(), False
        self.channel, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        words = [sys.executable, "-P", "-s", str(ROOT / "grader" / "forkserver.py")]
        with theirs:
            self.process = subprocess.Popen(
                [*words, inside, self.folder.name, *map(str, modules)],
                env={k: v for k, v in env.items() if k != "PYTHONPATH"},
                cwd="/",
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def start(
        self, asked: Mapping[str, Any], held: socket.socket, streams: Sequence[int]
    ) -> int:
        """Starts a process in a box; returns the one that waits for its end.

        Args:
            asked: what `holder` tells of the box, and the process's "uid", command line
                "argv" and environment "env"; for another than a kernel the "module" to
                run, and the "folder" where it is found.
            held: the box stands until all have closed this.
            streams: what its three standard streams become.

        Raises:
            ColdError: it did not work, or nobody answered in time.
        """
        with self.lock:
            try:
                if not self.ready:
                    self.answer(START_S)
                    self.ready = True
                asked = {**asked, "processors": [*os.sched_getaffinity(0)]}
                descriptors = [held.fileno(), *streams]
                socket.send_fds(self.channel, [json.dumps(asked).encode()], descriptors)
                answer = self.answer(ANSWER_S)
            except (OSError, ValueError) as error:
                self.close()
                raise ColdError(f"The fork server has ended: {error}") from None
        if "pid" not in answer:
            raise ColdError(answer.get("problem", ""))
        return answer["pid"]

    def answer(self, timeout_s: float) -> dict:
        """Returns the server's next message; OSError or ValueError: there is none."""
        self.channel.settimeout(timeout_s)
        return json.loads(self.channel.recv(2**16))

    @property
    def alive(self) -> bool:
        """Tells whether kernels can still come from it."""
        return self.channel.fileno() >= 0

    def close(self) -> None:
        """Ends the server; the kernels that it started go on."""
        self.channel.close()
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


def holder(held: socket.socket) -> dict[str, Any]:
    """Waits until a box stands; returns "box", the process that holds it, and "limits".

    Raises:
        ColdError: it does not stand.
    """
    size = socket.CMSG_SPACE(struct.calcsize("3i"))
    held.settimeout(ANSWER_S)
    try:
        message, data, _, _ = held.recvmsg(2**12, size)
        return {
            "box": struct.unpack("3i", data[0][2])[0],
            "limits": json.loads(message),
        }
    except (OSError, ValueError, IndexError):
        raise ColdError("The box did not come to stand.") from None


def line() -> tuple[socket.socket, socket.socket]:
    """Makes the line that a box stands by: (ours, its standard input)."""
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


_shared: list[ForkServer | None] = []
_one_at_a_time = threading.Lock()


def shared(inside: str, modules: Sequence[Path], env: Mapping[str, str]) -> ForkServer:
    """Returns this process's fork server, a new one where the last has ended.

    Raises:
        ColdError: for the first kernel, as for one alone the server does not pay.
    """
    with _one_at_a_time:
        if not _shared:
            _shared.append(None)
            raise ColdError("The first kernel starts by itself.")
        if _shared[0] is None:
            atexit.register(close_shared)
        if _shared[0] is None or not _shared[0].alive:
            _shared[0] = ForkServer(inside, modules, env)
        return _shared[0]


def standing() -> ForkServer:
    """Returns this process's fork server, where kernels have made one.

    Raises:
        ColdError: there is none.
    """
    with _one_at_a_time:
        if not _shared or _shared[0] is None or not _shared[0].alive:
            raise ColdError("No fork server is there.")
        return _shared[0]


def close_shared() -> None:
    """Ends this process's fork server."""
    if _shared and _shared[0]:
        _shared[0].close()
