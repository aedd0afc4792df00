"""What a learner's process sees, and the fork server that makes such processes."""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path

from grader import ROOT
from grader.containment.backend import backend
from grader.containment.box import Box
from grader.containment.fork_server import ForkServer
from grader.containment.limits import Limits
from grader.kernel import compile_cache
from grader.lessons import coursekit
from grader.lessons.environment import environment

# Where a judge, or a trusted process, finds our modules.
PYTHONPATH = os.pathsep.join([str(ROOT / "lessons"), str(ROOT)])
INSIDE = "/tmp/course"  # the path of the course's modules in a box
_server: ForkServer | None = None
_lock = threading.Lock()


def learner_packages() -> dict[str, Path]:
    """Lists the folders that a learner's process imports, by their path in the box."""
    inside = "grader/kernel/inside"
    return {"coursekit": coursekit.folder(), inside: ROOT / inside}


def learner_box(limits: Limits, compiled: Path | None = None) -> Box:
    """Makes the box of a learner's process; `compiled` is as in compile_cache.py."""
    found = {f"{INSIDE}/{name}": path for name, path in learner_packages().items()}
    found |= {compile_cache.INSIDE: compiled} if compiled else {}
    env = {"PYTHONPATH": INSIDE, "MPLCONFIGDIR": "/tmp/.matplotlib"}
    return Box(limits, found, env | compile_cache.variables())


def trusted_environment(compiled: Path | None = None) -> dict[str, str]:
    """Returns the environment of a process that runs with our rights, in any folder.

    It adds what it compiles to the folder `compiled`.
    """
    cache = compile_cache.variables(compiled, writes=True) if compiled else {}
    return environment(".") | {"PYTHONPATH": PYTHONPATH} | cache


def fork_server(*, start: bool = False) -> ForkServer | None:
    """Returns this process's fork server, None where there is none that works.

    With `start`, starts one if there is none and boxes can use it: to grade, since one
    submission takes a judge and a learner's process at least.
    """
    global _server
    with _lock:
        if start and not (_server and _server.alive) and backend() == "bubblewrap":
            _server = ForkServer(learner_box(Limits()).environment)
            atexit.register(_server.close)
        return _server if _server and _server.alive else None
