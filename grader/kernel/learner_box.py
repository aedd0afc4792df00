"""What a learner's process sees, and the fork server that makes such processes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from grader import ROOT
from grader.authoring import coursekit
from grader.containment.backend import backend
from grader.containment.box import Box
from grader.containment.fork_server import ForkServer, ForkServerError, shared_server
from grader.containment.limits import ContainmentError
from grader.kernel import compile_cache

MIN_JOBS_FOR_FORK_SERVER = 4  # submissions
INSIDE = "/tmp/course"  # where the course's modules lie inside the box


def learner_packages(root: Path = ROOT) -> dict[str, Path]:
    """Lists the folders that a learner's process imports, by their path in the box."""
    inside = ("grader/containment/inside", "grader/kernel/inside")
    return {"coursekit": coursekit.folder(root)} | {
        name: ROOT / name for name in inside
    }


def learner_box(root: Path = ROOT, compiled: Path | None = None, **more: Any) -> Box:
    """Makes the box of a learner's process.

    Args:
        root: the course whose modules lie in it.
        compiled: a folder of compiled programs; see compile_cache.py.
        more: sets other fields of the box.
    """
    packages = learner_packages(root).items()
    found = [(path, f"{INSIDE}/{name}") for name, path in packages]
    found += [(compiled, compile_cache.INSIDE)] if compiled else []
    env = {"PYTHONPATH": INSIDE, "MPLCONFIGDIR": "/tmp/.matplotlib"}
    env |= compile_cache.variables()
    return Box(read_only=tuple(found), env=env, **more)


def fork_server() -> ForkServer:
    """Returns the fork server of this process.

    Raises:
        ForkServerError: for the first process: a server does not pay for one alone.
    """
    return shared_server(INSIDE, learner_packages(), learner_box().environment)


def start_fork_server() -> None:
    """Starts the fork server before it is needed, where boxes can use it."""
    if backend() == "bubblewrap":
        for _ in range(2):  # the first call is refused, as if for a single process
            with contextlib.suppress(ForkServerError):
                fork_server()


def start_fork_server_for(folder: Path) -> None:
    """Starts the fork server if many submissions in a class's folder are not graded."""
    submitted = len([*folder.glob("submitted/*/*")])
    graded = len([*folder.glob("grading/published/*/*")])
    if submitted - graded >= MIN_JOBS_FOR_FORK_SERVER:
        with contextlib.suppress(ContainmentError):  # reported by the grading itself
            start_fork_server()
