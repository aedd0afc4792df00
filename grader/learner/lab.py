"""Opens JupyterLab on the lessons, with the list of lessons in view."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from grader import ROOT

PAGE = "/lab/tree/lessons/README.md"


def start_lab(port: int | None = None, *, browser: bool = True) -> None:
    """Replaces this process by JupyterLab.

    It listens on `port`, and ends with an error if that is in use; by default it takes
    the first free port from 8888 on.
    """
    command = [sys.executable, "-m", "jupyterlab"]
    command += [f"--ServerApp.root_dir={ROOT}", f"--LabApp.default_url={PAGE}"]
    if port is not None:
        command += [f"--port={port}", "--ServerApp.port_retries=0"]
    if not browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    print(
        "JupyterLab opens in your browser; if it does not, open the address below. "
        "Ctrl+C ends it.",
        flush=True,
    )
    paths = [str(Path(__file__).parent / "jupyter")]
    paths += filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])
    env = {**os.environ, "JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}
    if os.name == "nt":  # where exec would return to the shell at once
        sys.exit(subprocess.call(command, env=env))
    os.execve(sys.executable, command, env)
