"""The grader's fork server: forks a process that has imported what kernels need.

A fork enters an empty box that bubblewrap has made, sets its limits, gives up all
privileges and becomes a kernel or a judge. Untrusted code can read what it inherits, so
this process must hold no secret. It imports nothing of the course: a fork finds those
modules in its box.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import resource
import runpy
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import box_init

LIBRARIES = (
    "IPython.core.interactiveshell",
    "jax",
    "matplotlib.pyplot",
    "matplotlib_inline.backend_inline",
    "optax",
    "orbax.checkpoint",
    "scipy.linalg",
    "tqdm",
)
MAX_MESSAGE = 2**20
SET_DUMPABLE, DROP_FROM_BOUNDING_SET, NUM_CAPABILITIES = 4, 24, 64
CAPABILITY_VERSION, SYS_CAPSET = 0x20080522, {"x86_64": 126, "aarch64": 91}
libc = ctypes.CDLL(None, use_errno=True)


def import_libraries() -> None:
    """Imports what is installed, and keeps the memory that forks share unchanged."""
    gc.disable()  # collections would make the imports take a third longer
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # a collection would write to shared memory, and so copy it
    # Traces of programs are many small objects, of which few are garbage.
    gc.set_threshold(100_000)
    gc.enable()


def accept(channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Forks for each request; in the fork, returns the request and its descriptors.

    These are a socket that keeps the box until it is closed, and the standard streams.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, MAX_MESSAGE, 4)
        if not message:  # the grader has ended
            os._exit(0)
        if not os.fork():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return json.loads(message), descriptors
        for descriptor in descriptors:
            os.close(descriptor)


def enter_box(
    request: dict[str, Any], streams: list[int], channel: socket.socket
) -> None:
    """Joins a box's control group and namespaces; returns in a child, which is in it.

    This process waits for the child, and so keeps the box until then.
    """
    try:
        if request["group"]:
            Path(request["group"]).write_text("0", encoding="utf-8")
        if libc.setns(os.pidfd_open(request["box"]), request["namespaces"]):
            raise OSError(ctypes.get_errno(), "setns")
        child = os.fork()
    except OSError as error:
        channel.send(json.dumps({"problem": str(error)}).encode())
        os._exit(1)
    if child:
        channel.send(json.dumps({"parent": os.getpid()}).encode())
        for stream in streams:  # a pipe ends when the last writer has closed it
            os.close(stream)
        os.waitpid(child, 0)
        os._exit(0)


def contain(request: dict[str, Any], streams: list[int]) -> None:
    """Becomes what a process is that starts in the box: streams, limits, user, path."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 2**16)
    os.setsid()
    os.chdir("/tmp")
    os.environ.clear()
    os.environ.update(request["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.sched_setaffinity(0, request["cpus"])
    for name, value in request["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (value, value))
    drop_privileges(request["uid"])
    box_init.install_seccomp_filter()
    importlib.invalidate_caches()
    first = request["env"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [path for path in [*first, *sys.path] if Path(path).is_dir()]


def drop_privileges(uid: int) -> None:
    """Becomes a user without any privileges, who can get none."""
    for capability in range(NUM_CAPABILITIES):  # those that do not exist are refused
        libc.prctl(DROP_FROM_BOUNDING_SET, ctypes.c_ulong(capability), 0, 0, 0)
    if os.getuid() != uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if libc.syscall(SYS_CAPSET[os.uname().machine], header, nothing):
        raise OSError(ctypes.get_errno(), "capset")
    # As after an exec: a process must be able to read its own files in /proc.
    box_init.prctl(SET_DUMPABLE, ctypes.c_ulong(1))


if __name__ == "__main__":
    import_libraries()
    with socket.socket(fileno=os.dup(0)) as channel:
        request, (_, *streams) = accept(channel)
        enter_box(request, streams, channel)
    contain(request, streams)
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
