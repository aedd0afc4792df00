"""Starts kernels and judges by forks of a process that has imported their libraries."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from grader import ROOT
from grader.containment.box import Box, rlimits, unused_uid

REPLY_S = 120  # the first one comes after the imports
NAMESPACES = 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x20000000 | 0x40000000
USER_NAMESPACE = 0x10000000  # which root's boxes do not have


class ForkServerError(Exception):
    """The fork server cannot start this process; it can still be started as usual."""


class ForkServer:
    """A process whose forks become kernels and judges: see inside/fork_server.py.

    It makes its imports with the environment `env`. It is `alive` while it can start
    processes.
    """

    def __init__(self, env: Mapping[str, str]):
        self.home = tempfile.TemporaryDirectory(prefix="fork-server-")
        own = {"HOME": self.home.name, "MPLCONFIGDIR": self.home.name}
        script = ROOT / "grader" / "containment" / "inside" / "fork_server.py"
        self.alive, self.lock = True, threading.Lock()
        self.channel, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self.channel.settimeout(REPLY_S)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-s", str(script)],
                env={k: v for k, v in env.items() if k != "PYTHONPATH"} | own,
                cwd="/",
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def start(
        self,
        module: str,
        box: Box,
        first: int,
        descriptors: Sequence[int],
        group: Path | None,
    ) -> int:
        """Starts `python -m MODULE` in a box; returns the process that waits for it.

        `first` is the first process of an empty box that was made from `box`. The
        descriptors are a socket that keeps it, and the standard streams.

        Raises:
            ForkServerError: it did not work, or there was no reply in time.
        """
        request = {
            "module": module,
            "box": first,
            "namespaces": NAMESPACES | (USER_NAMESPACE if os.geteuid() else 0),
            "group": str(group / "cgroup.procs") if group else "",
            "env": dict(box.environment),
            "uid": os.geteuid() or unused_uid(),
            "cpus": [*os.sched_getaffinity(0)],
            "limits": rlimits(box.limits),
        }
        with self.lock:
            try:
                message = json.dumps(request).encode()
                socket.send_fds(self.channel, [message], descriptors)
                reply = json.loads(self.channel.recv(2**16))
            except (OSError, ValueError) as error:
                self.close()
                raise ForkServerError(f"The fork server ended: {error}") from None
        if "problem" in reply:
            raise ForkServerError(reply["problem"])
        return reply["parent"]

    def close(self) -> None:
        """Ends the server; the processes that it started continue."""
        self.alive = False
        self.channel.close()
        self.process.kill()
        self.process.wait()
        self.home.cleanup()
