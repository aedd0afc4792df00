"""Builds the command line that runs an untrusted process where it can do no harm."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Sequence

from grader import ROOT
from grader.containment.box import Box
from grader.containment.bubblewrap import bubblewrap
from grader.containment.docker import engine, make_image
from grader.containment.limits import ContainmentError

READY = "ready\n"
REMEDY = (
    "Install bubblewrap 0.7 or newer (Debian, Ubuntu: apt install bubblewrap), or run "
    "Docker or Podman. If you trust every author, --trusted runs their code with your "
    "rights."
)


@functools.cache
def backend() -> str:
    """Returns the first of bubblewrap, Docker and Podman that works here.

    Raises:
        ContainmentError: none of them works; the message says why.
    """
    problems = []
    for name in ("bubblewrap", "docker", "podman"):
        program = "bwrap" if name == "bubblewrap" else name
        if not shutil.which(program):
            problems.append(f"{program} is not installed")
            continue
        problem = probe(name)
        if not problem:
            return name
        problems.append(f"{program} does not work here ({problem})")
    raise ContainmentError(
        f"Nothing here can contain untrusted code: {'; '.join(problems)}. {REMEDY}"
    )


def probe(name: str) -> str:
    """Makes an empty box; returns what went wrong, or ""."""
    try:
        if name != "bubblewrap":
            make_image(name)
        how = {"input": "", "capture_output": True, "text": True, "timeout": 60}
        run = subprocess.run(contained([], Box(), name), **how)
    except subprocess.CalledProcessError as error:
        return failure(error.stderr.decode(errors="replace"), error.returncode)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"
    if run.stdout == READY:
        return ""
    problem = failure(run.stderr, run.returncode)
    if "uid map" in problem or "namespace" in problem:
        problem += (
            "; user namespaces are refused: on Ubuntu 24.04 and newer, "
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0"
        )
    elif "Permission denied" in problem and os.geteuid() == 0:
        problem += f"; every user must be able to read this Python and {ROOT}"
    return problem


def failure(text: str, status: int) -> str:
    """Returns the end of what a program wrote, or else its exit status."""
    return " ".join(text.split())[-300:] or f"exit status {status}"


def contained(command: Sequence[str], box: Box, name: str) -> list[str]:
    """Returns the command line that runs `command` in a box.

    Without a command the box is empty: it prints READY and ends when its standard input
    closes.
    """
    build = bubblewrap if name == "bubblewrap" else functools.partial(engine, name)
    return build(list(command), box)
