"""Starts Python processes by forking: what the two fork servers have in common.

A request is a JSON object: the arguments "argv" of the command line `python ARGV`, its
environment "env" and working directory "cwd". With it come file descriptors: a socket
for the reply, any that must stay open until the process ends, and its three standard
streams. The reply is {"pid", "parent"}, later {"code"}; or {"problem"}.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

MAX_MESSAGE, MAX_DESCRIPTORS = 2**20, 8

Request = dict[str, Any]
Step = Callable[[Request], None]


def serve(channel: socket.socket, prepare: Step, enter: Step | None = None) -> None:
    """Forks for each request, until the other end of the channel is closed.

    Args:
        channel: where requests arrive.
        prepare: called in each new process, before it runs anything.
        enter: called in its parent, which waits for its end.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    while True:
        message, descriptors, _, _ = socket.recv_fds(
            channel, MAX_MESSAGE, MAX_DESCRIPTORS
        )
        if not message:
            return
        if not os.fork():
            channel.close()
            start(json.loads(message), descriptors, prepare, enter)
        for descriptor in descriptors:
            os.close(descriptor)


def start(
    request: Request, descriptors: list[int], prepare: Step, enter: Step | None
) -> NoReturn:
    """Starts a process and waits for its end; reports both."""
    try:
        reply = socket.socket(fileno=descriptors[0])
        streams = descriptors[-3:]
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if enter:
                enter(request)
            child = os.fork()
            if not child:
                become(request, streams, prepare)
            for stream in streams:  # a pipe ends when the last writer has closed it
                os.close(stream)
            send(reply, pid=child, parent=os.getpid())
            _, status = os.waitpid(child, 0)
            send(reply, code=os.waitstatus_to_exitcode(status))
        except BaseException:
            send(reply, problem=traceback.format_exc()[-500:])
    finally:
        os._exit(0)


def send(reply: socket.socket, **facts: Any) -> None:
    """Sends a part of the reply."""
    reply.send(json.dumps(facts).encode())


def become(request: Request, streams: Sequence[int], prepare: Step) -> NoReturn:
    """Becomes the process that is asked for, and ends as Python ends."""
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, 2**16)
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        prepare(request)
        code = run(request["argv"])
        threading._shutdown()
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code & 0xFF)


def run(argv: Sequence[str]) -> int:
    """Runs what `python ARGV` would run; returns the exit code."""
    first, *rest = argv
    try:
        if first == "-m":
            sys.argv[:] = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        elif first == "-c":
            sys.argv[:] = ["-c", *rest[1:]]
            sys.path.insert(0, "")
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv[:] = argv
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
