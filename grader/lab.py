"""Opens JupyterLab on the lessons, with the list of lessons in view."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from grader import ROOT

PAGE = "/lab/tree/lessons/README.md"
DEFAULT_PORT, MORE_PORTS = 8888, 50


def start_lab(port: int | None = None, *, browser: bool = True) -> None:
    """Replaces this process by JupyterLab.

    Raises:
        ValueError: `port` is not free, or no port is.
    """
    if port is not None and not is_free(port):
        raise ValueError(
            f"Port {port} is in use. Close the program that uses it, or choose another "
            "one: python -m grader lab --port 8890."
        )
    ports = range(DEFAULT_PORT, DEFAULT_PORT + MORE_PORTS)
    chosen = port if port is not None else next(filter(is_free, ports), None)
    if chosen is None:
        raise ValueError(
            f"Ports {ports[0]} to {ports[-1]} are all in use. Name a free one: "
            "python -m grader lab --port 9000."
        )
    arguments = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={ROOT}",
        f"--LabApp.default_url={PAGE}",
        f"--port={chosen}",
        "--ServerApp.port_retries=0",
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


def is_free(port: int) -> bool:
    """Tells whether a server can listen on `port` of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
