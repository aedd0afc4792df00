"""Starts kernels and judges by forking a process that has imported what they need.

A box stands ready, made by bubblewrap with all its namespaces and folders; a fork of
this process enters it, takes over its user and its limits, gives up all rights and
becomes what was asked for. Importing costs a second and a half, a fork milliseconds.

Runs by itself, outside of any box, and never runs a stranger's code before the fork has
sealed itself inside. What a fork inherits, its stranger can read: nothing secret may be
in here. It imports nothing of the course's; the modules that lie in a box are compiled
ahead, and their code is taken where the text in the box is the same.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import gc
import importlib.machinery
import importlib.util
import json
import os
import resource
import runpy
import signal
import socket
import sys
import traceback
from pathlib import Path
from types import CodeType
from typing import ClassVar

LIBRARIES = (
    "ipykernel.kernelapp",
    "ipykernel.debugger",
    "ipykernel.zmqshell",
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.extensions.storemagic",
    "IPython.core.oinspect",
    "jax",
    "matplotlib.pyplot",
    "matplotlib_inline.backend_inline",
    "optax",
    "orbax.checkpoint",
    "tornado.platform.asyncio",
    "tqdm",
)
NAMESPACES = {"mnt": 0x20000, "uts": 0x4000000, "ipc": 0x8000000, "pid": 0x20000000}
NAMESPACES |= {"net": 0x40000000, "cgroup": 0x2000000, "user": 0x10000000}
SET_DUMPABLE, DROP_FROM_BOUNDING_SET, LAST_CAPABILITY = 4, 24, 63
CAPABILITY_VERSION, SYS_CAPSET = 0x20080522, {"x86_64": 126, "aarch64": 91}
MAX_MESSAGE = 2**16
INSIDE = sys.argv[1]  # where the course's modules lie in a box

# Not by its name: among this file's neighbours are some that libraries could mistake.
spec = importlib.util.spec_from_file_location(
    "guard", Path(__file__).parent / "guard.py"
)
guard = importlib.util.module_from_spec(spec)
spec.loader.exec_module(guard)


class Compiled(importlib.machinery.SourceFileLoader):
    """Loads a module whose text was compiled before the fork."""

    known: ClassVar[dict[tuple[str, bytes], CodeType]] = {}

    def source_to_code(self, data, path, *, _optimization=-1):
        """Compiles a text, once."""
        key = str(path), bytes(data)
        if key not in self.known:
            self.known[key] = super().source_to_code(data, path)
        return self.known[key]


def find_inside(folder: str) -> importlib.machinery.FileFinder:
    """Finds the modules in a box's own folder: a hook for `sys.path_hooks`."""
    if folder != INSIDE:
        raise ImportError
    return importlib.machinery.FileFinder(folder, (Compiled, [".py"]))


def prepare(modules: list[str]) -> None:
    """Imports the libraries that are here and compiles the course's modules."""
    gc.disable()  # it would look through all modules again and again: a third longer
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name in modules:
        inside = f"{INSIDE}/{Path(name).name}"
        Compiled("", inside).source_to_code(Path(name).read_bytes(), inside)
    sys.path_hooks.insert(0, find_inside)
    # Forks share what is here until they write to it, which the collector would do.
    gc.freeze()
    gc.enable()


def serve(channel: socket.socket) -> None:
    """Forks for each request, until the grader has closed its end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    while True:
        message, data, _, _ = channel.recvmsg(MAX_MESSAGE, socket.CMSG_SPACE(16))
        if not message:
            return
        received = array.array("i")
        for _, _, block in data:
            received.frombytes(block)
        asked = json.loads(message)
        if not os.fork():
            begin(channel, asked, *received)
        for descriptor in received:
            os.close(descriptor)


def begin(channel: socket.socket, asked: dict, held: int, *streams: int) -> None:
    """Goes into the box, starts what was asked for there and waits for its end.

    The box stands while `held` is open; `streams` become the standard streams.
    """
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        enter(asked["box"])
        child = os.fork()  # only a child is inside of the box's numbers of processes
        if not child:
            os.close(held)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            become(asked)
        channel.send(json.dumps({"pid": os.getpid()}).encode())
        channel.close()
        os.closerange(0, held)  # what is left open would keep others waiting
        os.closerange(held + 1, 2**16)
        os.waitpid(child, 0)
        code = 0
    except BaseException:
        channel.send(json.dumps({"problem": traceback.format_exc()[-500:]}).encode())
    finally:
        os._exit(code)


def enter(pid: int) -> None:
    """Joins a process's namespaces."""
    own = {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES}
    theirs = {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in NAMESPACES}
    flags = sum(NAMESPACES[name] for name in own if own[name] != theirs[name])
    box = os.pidfd_open(pid)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(box, flags):
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
    os.close(box)
    os.chdir("/tmp")


def become(asked: dict) -> None:
    """Gives up all rights and becomes the module that was asked for, or a kernel."""
    try:
        os.setsid()
        os.closerange(3, 2**16)
        os.sched_setaffinity(0, asked["processors"])
        for kind, bounds in asked["limits"]:
            resource.setrlimit(kind, bounds)
        give_up(asked["uid"])
        guard.seal()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(asked["env"])
        folders = [folder for folder in sys.path if Path(folder).is_dir()]
        libraries = [folder.endswith("-packages") for folder in folders].index(True)
        importlib.invalidate_caches()
        sys.argv[:] = asked["argv"]
        if "module" in asked:
            sys.path[:] = [*asked["folders"], *folders]
            stand_by(asked["zygote"])
            runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
            os._exit(0)
        # As IPython has it, but for the flag that kept this folder out before the fork.
        sys.path[:] = [INSIDE, *folders[:libraries], "", *folders[libraries:]]
        stand_by(asked["zygote"])
        from ipykernel import kernelapp

        kernelapp.launch_new_instance()
        os._exit(0)
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def stand_by(zygote: str) -> None:
    """Forks a zygote, by the name of its module, where one is wanted."""
    if zygote:
        importlib.import_module(zygote).stand_by()


def give_up(uid: int) -> None:
    """Becomes a user without any rights, and with no way to get some."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(LAST_CAPABILITY + 1):
        if libc.prctl(DROP_FROM_BOUNDING_SET, ctypes.c_ulong(number), 0, 0, 0):
            if ctypes.get_errno() != errno.EINVAL:  # that one says: there are no more
                raise OSError(ctypes.get_errno(), f"capability {number}")
            break
    if os.getuid() != uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc.syscall(SYS_CAPSET[os.uname().machine], header, nothing):
        raise OSError(ctypes.get_errno(), "capset")
    # As after an exec: a process must be able to read what /proc says of itself.
    guard.control(SET_DUMPABLE, ctypes.c_ulong(1))


if __name__ == "__main__":
    os.environ |= {"HOME": sys.argv[2], "MPLCONFIGDIR": sys.argv[2]}
    prepare(sys.argv[3:])
    with socket.socket(fileno=0) as mine:
        mine.send(b"{}")
        serve(mine)
