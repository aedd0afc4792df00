"""Contains a process by bubblewrap: namespaces, read-only files, an ordinary user."""

from __future__ import annotations

import os
import shutil

from grader import ROOT
from grader.containment.box import (
    SETTINGS,
    SYSTEM,
    Box,
    parents,
    unused_uid,
    with_box_init,
    with_limits,
)


def bubblewrap(command: list[str], box: Box) -> list[str]:
    """No network, no other processes, a read-only system, limits, an ordinary user."""
    limits, is_root = box.limits, os.geteuid() == 0
    # /proc shows the environment with which a process started, whatever it does later.
    words = ["/usr/bin/env", "-i", shutil.which("bwrap") or "bwrap", "--clearenv"]
    words += ["--die-with-parent", "--new-session"]
    words += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--hostname", "box"]
    if is_root:  # the limit on processes does not apply to root: see `drop_privileges`
        words += ["--cap-drop", "ALL"]
        for capability in ("SETUID", "SETGID", "SETPCAP"):
            words += ["--cap-add", f"CAP_{capability}"]
    else:
        words += ["--unshare-user", "--as-pid-1"]  # its own could be interfered with
    for name, value in box.environment.items():
        words += ["--setenv", name, value]
    for path in SYSTEM:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            words += ["--ro-bind", path, path]
    words += ["--perms", "0755", "--dir", "/etc"]
    for name in SETTINGS:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    # Processes of one submission talk to each other over the box's own loopback.
    words += ["--ro-bind", str(ROOT / "grader" / "containment" / "hosts"), "/etc/hosts"]
    half = str(limits.disk_mib * 2**19)
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += ["--perms", "1777", "--size", str(limits.disk_mib * 2**20)]
    words += ["--tmpfs", "/tmp", "--perms", "1777", "--size", half]
    words += ["--tmpfs", "/dev/shm"]
    for path in box.hidden:
        words += ["--perms", "0755", "--tmpfs", path]
    writable = [str(box.writable)] if box.writable else []
    for folder in parents([*box.mounts, *writable]):
        words += ["--perms", "0755", "--dir", folder]
    for inside, outside in box.mounts.items():
        words += ["--ro-bind", outside, inside]
    for path in writable:
        words += ["--bind", path, path]
    words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp", "--"]
    if is_root:  # an empty box's process stays root: untrusted code cannot signal it
        words += drop_privileges(unused_uid(box.writable) if command else 0)
    mode = ("exec" if is_root else "init") if command else "wait"
    return words + with_limits(with_box_init(mode, command), limits)


def drop_privileges(uid: int) -> list[str]:
    """Returns the words that drop root's privileges and become another user."""
    words = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return [*words, "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
