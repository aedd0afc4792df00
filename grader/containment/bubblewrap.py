"""Contains a process by bubblewrap: namespaces, read-only files, an ordinary user."""

from __future__ import annotations

import os
import shutil

from grader import ROOT
from grader.containment.box import (
    SETTINGS,
    SYSTEM,
    Box,
    limited_init,
    parents,
    rlimits,
    unused_uid,
)


def bubblewrap(command: list[str], box: Box) -> list[str]:
    """No network, no other processes, a read-only system, limits, an ordinary user."""
    limits = box.limits
    # /proc shows the environment with which a process started, whatever it does later.
    words = ["/usr/bin/env", "-i", shutil.which("bwrap") or "bwrap", "--clearenv"]
    words += ["--die-with-parent", "--new-session"]
    words += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--hostname", "box"]
    # Bubblewrap's own first process could be interfered with, box_init.py cannot.
    words += ["--as-pid-1"]
    drop_privileges = []
    if os.geteuid() == 0:  # the limit on processes does not apply to root
        words += ["--cap-drop", "ALL"]
        for capability in ("SETUID", "SETGID", "SETPCAP"):
            words += ["--cap-add", f"CAP_{capability}"]
        uid = unused_uid()
        drop_privileges = ["setpriv", f"--reuid={uid}", f"--regid={uid}"]
        drop_privileges += ["--clear-groups", "--no-new-privs"]
        drop_privileges += ["--inh-caps=-all", "--bounding-set=-all"]
    else:
        words += ["--unshare-user"]
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
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += ["--perms", "1777", "--size", str(limits.disk_mib * 2**20)]
    words += ["--tmpfs", "/tmp"]
    words += ["--perms", "1777", "--size", str(limits.disk_mib * 2**19)]
    words += ["--tmpfs", "/dev/shm"]
    for folder in parents(box.mounts):
        words += ["--perms", "0755", "--dir", folder]
    for inside, outside in box.mounts.items():
        words += ["--ro-bind", outside, inside]
    words += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/tmp", "--"]
    return words + drop_privileges + limited_init(command, rlimits(limits))
