"""The lesson works from its notebook file alone where `google.colab` can be imported.

A local server stands in for the repository, an empty package for Colab's own. The
notebook's address is replaced as a rebuild in a fork would replace it.
"""

import http.server
import os
import re
import threading
from pathlib import Path

import IPython
import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.ipynb"))


class Repository(http.server.SimpleHTTPRequestHandler):
    """Serves lessons/ under the path that a repository's raw files have."""

    def translate_path(self, path):
        return str(ROOT / path.removeprefix("/raw/main/"))

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def address():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Repository) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def run(address, tmp_path):
    def run(path, *, first_cell="", **variables):
        package = tmp_path / "packages" / "google" / "colab"
        package.mkdir(parents=True)
        # "google" itself stays a namespace, which other packages share.
        (package / "__init__.py").write_text("")
        folder = tmp_path / "content"
        folder.mkdir()
        text = re.sub(r"https://[^\"{]*(?=/raw/main)", address, path.read_text("utf-8"))
        notebook = nbformat.reads(text, as_version=4)
        if first_cell:
            notebook.cells = [nbformat.v4.new_code_cell(first_cell), notebook.cells[1]]
        env = {
            k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))
        }
        env |= {"PYTHONPATH": str(package.parent.parent), "IPYTHONDIR": str(tmp_path)}
        client = NotebookClient(
            notebook,
            timeout=120,
            allow_errors=True,
            coalesce_streams=True,
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute(env=env | variables)
        return [cell for cell in notebook.cells if cell.cell_type == "code"]

    return run


def printed(cell):
    return "".join(o.text for o in cell.outputs if o.output_type == "stream")


def errors(cells):
    return [o for cell in cells for o in cell.outputs if o.output_type == "error"]


def test_solved_lesson_passes_from_an_empty_folder(run):
    # All lessons have the same set-up cell.
    cells = run(LESSONS[0], JAX_PLATFORMS="tpu,cuda")  # as on an accelerator's runtime
    assert printed(cells[0]) == "Ready: 8 simulated CPU devices.\n"
    assert not errors(cells)
    [total] = re.findall(r"total +(\d+) of (\d+)", printed(cells[-1]))
    assert total[0] == total[1]


# All where Colab's own versions are: `make test-oldest`.
HERE = LESSONS if IPython.version_info[0] < 8 else LESSONS[:1]


@pytest.mark.parametrize("path", HERE, ids=lambda path: path.stem)
def test_untouched_lesson_fails_exactly_its_checks(path, run):
    cells = run(ROOT / "lessons" / path.name)
    failed = [cell.metadata.nbgrader.grade_id for cell in cells if errors([cell])]
    checks = [c.metadata.nbgrader.grade_id for c in cells if c.metadata.nbgrader.grade]
    assert failed == checks
    for error in errors(cells):  # the message, and no traceback
        assert error.traceback == error.evalue.splitlines()
        assert error.traceback[0].startswith("Not attempted yet: ")
    assert re.search(r"total +0 of", printed(cells[-1]))


def test_jax_that_had_started_asks_for_a_restart_of_the_session(run):
    cells = run(LESSONS[0], first_cell="import jax; jax.devices()", JAX_PLATFORMS="cpu")
    [error] = errors(cells)
    assert "with 1 device(s)" in error.evalue
    assert "Restart the session (Runtime > Restart session)" in error.evalue
    assert error.traceback == error.evalue.splitlines()
