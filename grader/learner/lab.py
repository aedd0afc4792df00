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

    It listens on `port`, and ends with an error where that is in use; by default on the
    first free port that JupyterLab finds from 8888 on.
    """
    arguments = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={ROOT}",
        f"--LabApp.default_url={PAGE}",
        *([f"--port={port}", "--ServerApp.port_retries=0"] if port is not None else []),
        *([] if browser else ["--no-browser"]),
        *(["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
    ]
    print(
        "JupyterLab opens in your browser; if it does not, open the address below. "
        "Ctrl+C ends it.",
        flush=True,
    )
    settings = str(Path(__file__).parent / "jupyter")
    others = os.environ.get("JUPYTER_CONFIG_PATH", "")
    paths = os.pathsep.join(filter(None, [settings, others]))
    env = {**os.environ, "JUPYTER_CONFIG_PATH": paths}
    if os.name == "nt":  # where exec would return to the shell at once
        sys.exit(subprocess.call(arguments, env=env))
    os.execve(sys.executable, arguments, env)
