"""Starts Python by forking a process that has imported JAX, inside of a box.

What a lesson starts in processes of its own spends most of its time on imports. So a
kernel and a judge from the fork server have a zygote beside them in their box: forked
before anything of a stranger's ran, under the same limits, and as little trusted.
Where it has ended, or what is asked for needs imports of its own, Python is started as
everywhere else.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import processes

LATE = {"JAX_PLATFORMS": str, "JAX_NUM_CPU_DEVICES": int}  # can be set after the import
fresh = processes.python
environment: dict[str, str] = {}  # with which this process, and so the zygote, began
channel: socket.socket | None = None


def stand_by() -> None:
    """Forks the zygote, which `processes.python` asks from now on."""
    global channel
    environment.update(os.environ)
    mine, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    if not os.fork():
        mine.close()
        with open(os.devnull, "r+b", buffering=0) as null:
            for number in range(3):
                os.dup2(null.fileno(), number)
        serve(theirs)
    theirs.close()
    channel, processes.python = mine, python


class Forked:
    """A process that the zygote forked: what we use of `subprocess.Popen`.

    Attributes:
        returncode: as there; None while it runs.
    """

    def __init__(self, status: socket.socket):
        self.status, self.returncode = status, None
        self.pid = int(status.recv(16))

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end and returns the exit code; or `TimeoutExpired`."""
        if self.returncode is None:
            if not select.select([self.status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("python", timeout)
            self.returncode = int(self.status.recv(16) or -signal.SIGKILL)
            self.status.close()
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
) -> Forked | subprocess.Popen:
    """Starts Python as `processes.python` does, by a fork where that is the same."""
    if is_like_ours(env):
        # It will need memory: what is free here goes back to the system.
        with contextlib.suppress(AttributeError):  # not glibc
            ctypes.CDLL(None).malloc_trim(0)
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        asked = {"words": [*words], "env": {**env}, "folder": os.getcwd()}
        with theirs, contextlib.suppress(OSError, ValueError):
            streams = [theirs.fileno(), out.fileno(), errors.fileno()]
            socket.send_fds(channel, [json.dumps(asked).encode()], streams)
            theirs.close()
            # Without a time limit: a late answer would leave two of them at work.
            return Forked(ours)
        ours.close()
    return fresh(words, env, out, errors)


def is_like_ours(env: Mapping[str, str]) -> bool:
    """Tells whether Python and JAX would be the same, imported in this environment."""
    if not all(type(text) is str and "\0" not in text for text in env.values()):
        return False
    if not env.get("JAX_NUM_CPU_DEVICES", "1").isdecimal():
        return False
    names = {n for n in {*env, *environment} if n.startswith(("JAX_", "PYTHON"))}
    return all(env.get(name) == environment.get(name) for name in names - LATE.keys())


def serve(channel: socket.socket) -> None:
    """Forks for each request, until nobody can ask any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    while True:
        message, received, _, _ = socket.recv_fds(channel, 2**20, 3)
        if not message:
            os._exit(0)
        if not os.fork():
            with contextlib.suppress(BaseException):
                channel.close()
                begin(json.loads(message), *received)
            os._exit(1)
        for descriptor in received:
            os.close(descriptor)


def begin(asked: dict[str, Any], status: int, out: int, errors: int) -> None:
    """Starts the process and tells its number, then how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if not child:
        os.close(status)
        become(asked, out, errors)
    os.closerange(out, errors + 1)
    with socket.socket(fileno=status) as line:
        line.send(b"%d" % child)
        _, ended = os.waitpid(child, 0)
        line.send(b"%d" % os.waitstatus_to_exitcode(ended))


def become(asked: dict[str, Any], out: int, errors: int) -> None:
    """Runs what `python WORDS` would run, and ends as Python ends."""
    code = 1
    try:
        os.dup2(out, 1)
        os.dup2(errors, 2)
        os.closerange(3, 2**10)
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update(asked["env"])
        import jax

        for name, kind in LATE.items():
            if name in os.environ:
                jax.config.update(name.lower(), kind(os.environ[name]))
        code = run(asked["words"])
        threading._shutdown()
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def run(words: Sequence[str]) -> int:
    """Runs a script, or the text after `-c`; returns the exit code."""
    first, *rest = words
    sys.path[:] = [folder for folder in sys.path if folder]
    try:
        if first == "-c":
            sys.argv[:] = words[:1] + words[2:]
            sys.path.insert(0, "")
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv[:] = words
            sys.path.insert(0, str(Path(first).absolute().parent))
            runpy.run_path(first, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
