"""Runs cells as a notebook's kernel does, for the grader at the other end of two pipes.

A learner's code can write to the pipes, too: the grader believes nothing because of the
way by which it came. What cells print is dropped; the grader keeps the end of what they
write to the standard error.
"""

from __future__ import annotations

import builtins
import getpass
import os
import select
import signal
import sys
import threading
from typing import Any

from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import StdinNotImplementedError, UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

from .frames import DONE, ERROR, FRAME, REPLY, REPLY_TYPE, REQUEST

# As in a notebook's kernel: a pager would wait for keys.
ENVIRONMENT = {"TERM": "xterm-color", "PAGER": "cat", "GIT_PAGER": "cat"}
INLINE = "module://matplotlib_inline.backend_inline"


class Channel:
    """Sends frames; in a fork of this process it sends nothing."""

    def __init__(self, descriptor: int):
        self.descriptor, self.cell = descriptor, 0
        self.lock = threading.Lock()
        os.register_at_fork(after_in_child=self.close)

    def close(self) -> None:
        self.descriptor, self.lock = -1, threading.Lock()

    def send(self, kind: bytes, text: Any = "") -> None:
        if self.descriptor < 0:
            return
        data = str(text).encode("utf-8", "replace")
        data = memoryview(FRAME.pack(kind, self.cell, len(data)) + data)
        with self.lock:
            while data:
                data = data[os.write(self.descriptor, data) :]


class Publisher(DisplayPublisher):
    """Sends answers to questions; whatever else is displayed is dropped."""

    def publish(self, data, metadata=None, **others):
        if REPLY_TYPE in data:
            self.shell.channel.send(REPLY, data[REPLY_TYPE])


class Shell(InteractiveShell):
    """IPython's shell, as a notebook's kernel sets it up, without the kernel."""

    display_pub_class = Type(Publisher)

    def __init__(self, channel: Channel):
        self.channel = channel
        super().__init__(config=Config(HistoryManager={"enabled": False}))

    def init_environment(self):
        os.environ.update(ENVIRONMENT)

    def init_io(self):
        builtins.input = getpass.getpass = no_input

    def enable_gui(self, gui=None):
        """Does nothing: there is no window, and so no event loop of windows."""

    def init_user_ns(self):
        """Lets `exit` raise: other cells still run in this process."""
        super().init_user_ns()
        self.user_ns["exit"] = self.user_ns["quit"] = sys.exit

    async def run_code(self, code_obj, result=None, *, async_=False):
        """Goes on after a statement that needs what this process does not have.

        That is a package, a magic of such a package, a keyboard, or a name that a
        demonstration defines, which need not have run: the rest of the cell may do
        without it.
        """
        failed = await super().run_code(code_obj, result, async_=async_)
        return failed and not isinstance(
            getattr(result, "error_in_exec", None),
            ImportError | NameError | UsageError | StdinNotImplementedError,
        )

    def _showtraceback(self, etype, evalue, stb):
        try:
            message = str(evalue)
        except Exception as error:
            message = f"<its text raises {type(error).__name__}>"
        self.channel.send(ERROR, f"{etype.__name__}: {message}")


def no_input(*_: Any, **__: Any) -> str:
    raise StdinNotImplementedError("There is no keyboard here: input() cannot work.")


def serve(shell: Shell, requests: Any) -> None:
    """Runs the cells that are asked for, until there are no more requests."""
    # It may be ignored, as where a grader runs in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    channel = shell.channel
    channel.send(DONE)
    while header := requests.read(REQUEST.size):
        channel.cell, silent, size = REQUEST.unpack(header)
        source = requests.read(size).decode()
        try:
            shell.run_cell(source, store_history=True, silent=silent)
        except (Exception, KeyboardInterrupt) as error:
            shell.showtraceback((type(error), error, error.__traceback__))
        if channel.descriptor < 0:
            os._exit(0)  # a fork that came back from the cell
        channel.send(DONE)


def end_with_grader(requests: int) -> None:
    """Ends this process when nobody can send requests any more, even in a cell."""
    end = select.poll()
    end.register(requests, 0)  # no events but its end, whatever is still unread
    end.poll()
    os._exit(1)


def main() -> None:
    requests, channel = os.fdopen(os.dup(0), "rb"), Channel(os.dup(1))
    with open(os.devnull, "r+b", buffering=0) as null:
        os.dup2(null.fileno(), 0)
        os.dup2(null.fileno(), 1)
    sys.stdout.reconfigure(errors="replace")
    descriptor = (requests.fileno(),)
    threading.Thread(target=end_with_grader, args=descriptor, daemon=True).start()
    # The working directory comes behind Python's own modules, as in a notebook.
    path = [folder for folder in sys.path if folder not in ("", os.getcwd())]
    at = [folder.endswith("-packages") for folder in path].index(True)
    sys.path[:] = [*path[:at], "", *path[at:]]
    os.environ.setdefault("MPLBACKEND", INLINE)
    shell = Shell.instance(channel)
    if "matplotlib" in sys.modules:  # before the fork, so without this shell
        shell.enable_matplotlib("inline")
    serve(shell, requests)


if __name__ == "__main__":
    main()
