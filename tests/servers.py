"""Starts Jupyter servers and a browser for tests that look at real pages."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from importlib.resources import files

import pytest

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def jupyter_env(folder):
    """The tests' environment, activated, without a user's own Jupyter settings."""
    own = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    env |= {name: str(folder / path) for name, path in own.items()}
    # An activated environment: nbgrader calls alembic by its bare name.
    programs = os.path.dirname(sys.executable)
    return env | {"PATH": os.pathsep.join([programs, env.get("PATH", "")])}


@contextlib.contextmanager
def server(command, *, cwd, env, printed=None):
    """Runs a Jupyter server; yields the address, token included, that it prints.

    All lines that it prints, then and later, are added to the list `printed`.
    """
    printed = [] if printed is None else printed
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    later = threading.Thread(target=lambda: printed.extend(process.stdout))
    try:
        for line in process.stdout:
            printed.append(line)
            found = re.search(r"http://127\.0\.0\.1:(\d+)/\S*token=\w+", line)
            if found:
                accept_connections(process, int(found.group(1)))
                later.start()
                yield found.group()
                break
        else:
            pytest.fail("The server ended before it was ready:\n" + "".join(printed))
    finally:
        process.terminate()
        process.wait(timeout=90)
        if later.ident:
            later.join()
        process.stdout.close()


def accept_connections(process, port):
    """Returns once the server listens, which it does a moment after it says so."""
    while process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=30).close()
            return
    pytest.fail(f"The server on port {port} ended.")


@contextlib.contextmanager
def browser_page(*, width=1400, height=1000, scale=1):
    """Opens a page of headless Chromium; skips, saying so, where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if program is None:
        pytest.skip(f"none of {', '.join(CHROMIUMS)} is installed")
    # Chromium's own sandbox does not work as root or in most containers.
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=arguments)
        try:
            size = {"width": width, "height": height}
            page = browser.new_page(viewport=size, device_scale_factor=scale)
            page.set_default_timeout(20_000)
            yield page
        finally:
            browser.close()


WCAG = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")


def axe_violations(page, rules=WCAG, without=()):
    """Lists what axe-core finds wrong on an open page: WCAG 2.2, A and AA."""
    axe = pytest.importorskip("axe_playwright_python")
    page.evaluate((files(axe) / "axe.min.js").read_text(encoding="utf-8"))
    options = {"runOnly": rules, "resultTypes": ["violations"]}
    options["rules"] = {name: {"enabled": False} for name in without}
    options = json.dumps(options)
    result = page.evaluate(f"axe.run({options})")
    assert result["passes"]
    return [
        f"{page.url}: {one['id']}: {node['target']} {node['html'][:120]}"
        for one in result["violations"]
        for node in one["nodes"]
    ]
