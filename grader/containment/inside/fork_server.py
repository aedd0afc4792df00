"""The grader's fork server: forks a process that has imported what kernels need.

Bubblewrap makes a box with all its namespaces and folders; a fork of this process
enters it, takes over its user and its limits, gives up all privileges and becomes a
kernel or a judge. Importing takes a second and a half, a fork milliseconds.

It runs as a script outside of any box, and runs untrusted code only in forks that have
entered one. Untrusted code can read what a fork inherits: this process must hold no
secret. It imports nothing of the course: the modules that lie in a box are compiled in
advance, and the result is used where the source in the box is the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import gc
import importlib.machinery
import importlib.util
import os
import resource
import socket
import sys
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, ClassVar

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
NAMESPACES = {"mnt": 0x20000, "uts": 0x4000000, "ipc": 0x8000000, "pid": 0x20000000}
NAMESPACES |= {"net": 0x40000000, "cgroup": 0x2000000, "user": 0x10000000}
SET_DUMPABLE, DROP_FROM_BOUNDING_SET, LAST_CAPABILITY = 4, 24, 63
CAPABILITY_VERSION, SYS_CAPSET = 0x20080522, {"x86_64": 126, "aarch64": 91}


def load(name: str) -> ModuleType:
    """Loads a module of this folder, which is not on the path: it could hide others."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


box_init, forking = load("box_init"), load("forking")


class PrecompiledLoader(importlib.machinery.SourceFileLoader):
    """Loads a module whose source was compiled before the fork."""

    compiled: ClassVar[dict[tuple[str, bytes], CodeType]] = {}

    def source_to_code(self, data, path, *, _optimization=-1):
        """Compiles a source, once."""
        key = str(path), bytes(data)
        if key not in self.compiled:
            self.compiled[key] = super().source_to_code(data, path)
        return self.compiled[key]


def find_inside(inside: str, folder: str) -> importlib.machinery.FileFinder:
    """Finds the modules in a box's own folder: a hook for `sys.path_hooks`."""
    if folder != inside and not folder.startswith(f"{inside}/"):
        raise ImportError
    return importlib.machinery.FileFinder(folder, (PrecompiledLoader, [".py"]))


def import_all(inside: str, modules: list[str]) -> None:
    """Imports the installed libraries and compiles the course's modules.

    Args:
        inside: the folder in which the modules lie in a box.
        modules: by turns a module's path in there and its path out here.
    """
    gc.disable()  # collections would make the imports take a third longer
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name, path in zip(modules[::2], modules[1::2], strict=True):
        place = f"{inside}/{name}"
        PrecompiledLoader("", place).source_to_code(Path(path).read_bytes(), place)
    sys.path_hooks.insert(0, functools.partial(find_inside, inside))
    # Forks share memory until it is written to, which a collection would do.
    gc.freeze()
    # Traces of programs are many small objects, of which few are garbage.
    gc.set_threshold(100_000)
    gc.enable()


def enter_box(request: dict[str, Any]) -> None:
    """Joins the control group of a box and the namespaces of its first process.

    Children start in the box.
    """
    if request["group"]:
        Path(request["group"]).write_text("0")
    pid = request["box"]
    own = {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES}
    theirs = {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in NAMESPACES}
    flags = sum(NAMESPACES[name] for name in own if own[name] != theirs[name])
    box = os.pidfd_open(pid)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(box, flags):
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
    os.close(box)


def contain(request: dict[str, Any]) -> None:
    """Sets limits, gives up all privileges and sets the path of a process in a box."""
    os.setsid()
    os.sched_setaffinity(0, request["cpus"])
    for kind, bounds in request["limits"]:
        resource.setrlimit(kind, bounds)
    drop_privileges(request["uid"])
    box_init.install_seccomp_filter()
    importlib.invalidate_caches()
    first = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [path for path in [*first, *sys.path] if Path(path).is_dir()]
    if request["python_forks"]:
        importlib.import_module(request["python_forks"]).start_server()


def drop_privileges(uid: int) -> None:
    """Becomes a user without any privileges, and with no way to get some."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(LAST_CAPABILITY + 1):
        if libc.prctl(DROP_FROM_BOUNDING_SET, ctypes.c_ulong(number), 0, 0, 0):
            if ctypes.get_errno() != errno.EINVAL:  # which means: there are no more
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
    # As after an exec: a process must be able to read its own files in /proc.
    box_init.prctl(SET_DUMPABLE, ctypes.c_ulong(1))


if __name__ == "__main__":
    _, inside, home, *modules = sys.argv
    os.environ |= {"HOME": home, "MPLCONFIGDIR": home}
    import_all(inside, modules)
    with socket.socket(fileno=0) as channel:
        channel.send(b"{}")  # it is ready
        forking.serve(channel, contain, enter_box)
