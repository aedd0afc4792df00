"""The fork server of one box: starts Python by forking a process that has imported JAX.

Python processes that a lesson starts spend most of their time on imports. So a kernel
or a judge from the grader's fork server has another fork server beside it in its box,
forked before any untrusted code ran, with the same limits and as little trusted. Where
that has ended, or a process needs imports of its own, Python is started as usual.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from coursekit import processes

from . import forking

# These settings of JAX may differ: they can be changed after its import.
CHANGEABLE = {"JAX_PLATFORMS": str, "JAX_NUM_CPU_DEVICES": int}
start_python = processes.python  # as usual, without a fork
environment: dict[str, str] = {}  # with which the fork server's imports were made
channel: socket.socket | None = None


def start_server() -> None:
    """Forks the fork server, which `processes.python` asks from now on."""
    global channel
    environment.update(os.environ)
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    if not os.fork():
        try:
            ours.close()
            with open(os.devnull, "r+b", buffering=0) as null:
                for number in range(3):
                    os.dup2(null.fileno(), number)
            forking.serve(theirs, configure_jax)
        finally:
            os._exit(0)
    theirs.close()
    channel, processes.python = ours, python


def configure_jax(request: forking.Request) -> None:
    """Sets in JAX, which is imported already, what its environment asks for."""
    import jax

    for name, kind in CHANGEABLE.items():
        if name in os.environ:
            jax.config.update(name.lower(), kind(os.environ[name]))


class ForkedProcess:
    """A process that the fork server started: what we use of `subprocess.Popen`.

    Attributes:
        returncode: as there; None while it runs.
    """

    def __init__(self, reply: socket.socket):
        self.reply, self.returncode = reply, None
        self.pid = json.loads(reply.recv(forking.MAX_MESSAGE))["pid"]

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end and returns the exit code; or `TimeoutExpired`."""
        if self.returncode is None:
            if not select.select([self.reply], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("python", timeout)
            self.returncode = -signal.SIGKILL  # with the parent that would report
            with self.reply, contextlib.suppress(OSError, ValueError, KeyError):
                message = self.reply.recv(forking.MAX_MESSAGE)
                self.returncode = json.loads(message)["code"]
        return self.returncode

    def poll(self) -> int | None:
        """Returns the exit code, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def kill(self) -> None:
        """Kills it, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def python(
    words: Sequence[str], env: Mapping[str, str], out: Any, errors: Any
) -> ForkedProcess | subprocess.Popen:
    """Starts Python as `processes.python` does, by a fork where that is the same."""
    if needs_no_imports(env):
        # It will need memory: what is free here goes back to the system.
        with contextlib.suppress(AttributeError):  # not glibc
            ctypes.CDLL(None).malloc_trim(0)
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        request = {"argv": [*words], "env": {**env}, "cwd": os.getcwd()}
        with theirs, contextlib.suppress(OSError, ValueError, KeyError):
            descriptors = [theirs.fileno(), 0, out.fileno(), errors.fileno()]
            socket.send_fds(channel, [json.dumps(request).encode()], descriptors)
            theirs.close()
            # No time limit: after a late reply there would be two processes.
            return ForkedProcess(ours)
        ours.close()
    return start_python(words, env, out, errors)


def needs_no_imports(env: Mapping[str, str]) -> bool:
    """Tells whether Python and JAX would be the same, imported in this environment."""
    if not all(type(text) is str and "\0" not in text for text in env.values()):
        return False
    if not env.get("JAX_NUM_CPU_DEVICES", "1").isdecimal():
        return False
    names = {n for n in {*env, *environment} if n.startswith(("JAX_", "PYTHON"))}
    return all(env.get(n) == environment.get(n) for n in names - CHANGEABLE.keys())
