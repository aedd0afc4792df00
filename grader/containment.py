"""Builds the command line that runs a stranger's process where it can do no harm."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from grader import ROOT
from grader.box import (
    SETTINGS,
    SYSTEM,
    Box,
    ContainmentError,
    Limits,
    bounded,
    guarded,
    parents,
    stranger,
)
from grader.engine import engine, make_image

__all__ = ["Box", "ContainmentError", "Limits", "backend", "contained"]

BACKENDS = ("bubblewrap", "docker", "podman")
REMEDY = (
    "Install bubblewrap 0.7 or newer (Debian, Ubuntu: apt install bubblewrap), or run "
    "Docker or Podman. If you trust every author, --trusted runs their code with your "
    "rights."
)


@functools.cache
def backend(wanted: str = "") -> str:
    """Names the first of bubblewrap, Docker and Podman that really contains here.

    Raises:
        ContainmentError: none of them works; the text says what was tried.
    """
    tried = []
    for name in [wanted] if wanted else BACKENDS:
        if name not in BACKENDS:
            raise ContainmentError(f'No containment "{name}": {", ".join(BACKENDS)}.')
        program = "bwrap" if name == "bubblewrap" else name
        if not shutil.which(program):
            tried.append(f"{program} is not installed")
            continue
        problem = probe(name)
        if not problem:
            return name
        tried.append(f"{program} does not work here ({problem})")
    raise ContainmentError(
        f"Nothing here can contain strangers' code: {'; '.join(tried)}. {REMEDY}"
    )


def probe(name: str) -> str:
    """Runs an empty program in a box; returns what went wrong, or ""."""
    try:
        if name != "bubblewrap":
            make_image(name)
        command = contained([sys.executable, "-S", "-c", "print('in')"], Box(), name)
        # Open until the end: a container ends with its standard input.
        reading, writing = os.pipe()
        with open(reading), open(writing, "w"):
            run = subprocess.run(
                command, stdin=reading, capture_output=True, text=True, timeout=60
            )
    except subprocess.CalledProcessError as error:
        return short(error.stderr.decode(errors="replace"), error.returncode)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"
    if run.returncode == 0 and run.stdout == "in\n":
        return ""
    said = short(run.stderr, run.returncode)
    if "uid map" in said or "namespace" in said:
        said += (
            "; user namespaces are refused: on Ubuntu 24.04 and newer, "
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        )
    elif "Permission denied" in said and os.geteuid() == 0:
        said += f"; every user must be able to read this Python and {ROOT}"
    return said


def short(said: str, status: int) -> str:
    """Returns the end of what a program wrote, or else its exit status."""
    return " ".join(said.split())[-300:] or f"exit status {status}"


def contained(command: Sequence[str], box: Box, name: str) -> list[str]:
    """Returns the command line that runs `command` inside of `box`.

    Without a command, bubblewrap's box stands empty for a process that enters it.
    """
    build = bubblewrap if name == "bubblewrap" else functools.partial(engine, name)
    return build(list(command), box)


def bubblewrap(command: list[str], box: Box) -> list[str]:
    """No network, no other processes, a read-only system, limits, an ordinary user."""
    limits, is_root = box.limits, os.geteuid() == 0
    # A process's first environment can be read in /proc, whatever it does later.
    words = ["/usr/bin/env", "-i", shutil.which("bwrap") or "bwrap", "--clearenv"]
    words += ["--die-with-parent", "--new-session"]
    words += ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--hostname", "box"]
    if is_root:  # the limit on processes does not hold for root: see `without_rights`
        words += ["--cap-drop", "ALL"]
        for right in ("SETUID", "SETGID", "SETPCAP"):
            words += ["--cap-add", f"CAP_{right}"]
    else:
        words += ["--unshare-user", "--as-pid-1"]  # its own would be open to meddling
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
    words += ["--ro-bind", str(ROOT / "grader" / "hosts"), "/etc/hosts"]
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
    if is_root:  # who holds a box for others stays root, whom no stranger can signal
        words += without_rights(stranger(box.writable) if command else 0)
    mode = ("seal" if is_root else "stay") if command else "hold"
    return words + bounded(guarded(mode, command), limits)


def without_rights(uid: int) -> list[str]:
    """Words that drop root's rights, and root for another user."""
    words = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return [*words, "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
