"""Opens JupyterLab on the lessons, with the list of lessons in view."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import zmq
from jupyter_server.serverapp import ServerApp

from grader import ROOT

PAGE = "/lab/tree/lessons/README.md"
CONFIG = Path(__file__).parent / "jupyter"  # what this server has beside a user's own
OPENS = "JupyterLab opens in your browser, or at this address. Ctrl+C twice ends it."
WAITS = "Open this address in your browser. Ctrl+C twice ends JupyterLab."


class Lab(ServerApp):
    """A Jupyter server that says where it is, and after that reports only errors."""

    def start_app(self) -> None:
        """Starts to listen, and writes a line and the address in place of the log."""

        def is_no_banner(record):
            return self.local_url not in record.getMessage()

        self.log.addFilter(is_no_banner)
        super().start_app()
        self.log.removeFilter(is_no_banner)
        for handler in self.log.handlers:  # warnings matter only while it starts
            handler.setLevel(logging.ERROR)
        is_local = self.ip in ("localhost", "127.0.0.1")
        print(OPENS if self.open_browser else WAITS)
        print(self.local_url if is_local else self.connect_url, flush=True)


def start_lab(port: int | None = None, *, browser: bool = True) -> None:
    """Runs JupyterLab until somebody stops it.

    It listens on `port`, and ends with an error if that is in use; by default it takes
    the first free port from 8888 on.
    """
    arguments = [f"--ServerApp.root_dir={ROOT}", f"--ServerApp.default_url={PAGE}"]
    arguments.append(f"--ServerApp.open_browser={browser}")
    arguments += ["--Application.log_level=WARN", "--allow-root"]
    if port is not None:
        arguments += [f"--port={port}", "--ServerApp.port_retries=0"]
    if zmq.has("curve"):  # else each kernel writes a warning into the terminal
        arguments.append("--KernelManager.transport_encryption=auto")
    paths = [str(CONFIG), os.environ.get("JUPYTER_CONFIG_PATH")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
    Lab.launch_instance(arguments)
