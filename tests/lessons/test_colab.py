"""The lesson works from its notebook file alone in Colab and on Kaggle.

A local server stands in for the repository, an empty package for Colab's own, which the
kernel imports before the first cell, as Colab's kernel does. The notebook's address is
replaced as a rebuild in a fork would replace it. The lesson's modules come in the
archive that GitHub makes of the course, from which Python imports them; nothing is
unpacked.
"""

import http.server
import itertools
import os
import re
import threading
from pathlib import Path

import IPython
import nbformat
import pytest
from nbclient import NotebookClient

from grader.atomic_files import packed

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.ipynb"))
ARCHIVE = "course.zip"
INSIDE = "distributed-jax-course-main"  # the archive's one folder
READY = "Ready: 8 simulated CPU devices.\n"
SCRIPT = """
import inspect, tempfile
from pathlib import Path
from coursekit import processes, script

def devices(path):
    Path(path).write_text(f"{jax.device_count()} devices")

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "devices.py")
    script.write_script(path, devices)
    print(processes.run_script(path, {"path": f"{folder}/said"}, 2))
    print(Path(folder, "said").read_text())
print(inspect.getsource(script.free_names).splitlines()[0])
print(script.__file__)
"""


def archive_of_course():
    """Packs what lessons need of the course, as GitHub's archive of it has it."""
    paths = [*(ROOT / "lessons").rglob("*.py"), *(ROOT / "solutions").rglob("*.py")]
    files = {f"{INSIDE}/{path.relative_to(ROOT)}": path.read_bytes() for path in paths}
    return packed(files.items())


class Repository(http.server.BaseHTTPRequestHandler):
    """Serves the course's archive under the path that it has on GitHub."""

    def do_GET(self):
        is_known = self.path == "/archive/main.zip"
        self.send_response(200 if is_known else 404)
        self.end_headers()
        self.wfile.write(self.server.archive if is_known else b"")

    def log_request(self, code="-", size="-"):
        self.server.requests.append(f"{self.command} {self.path} {int(code)}")

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Repository) as server:
        server.requests, server.archive = [], archive_of_course()
        threading.Thread(target=server.serve_forever).start()
        yield server
        server.shutdown()


@pytest.fixture
def requests(server):
    """Lists what the server was asked for in this test, and what it answered."""
    server.requests.clear()
    return server.requests


@pytest.fixture
def folder(tmp_path):
    """The folder in which a notebook runs; it is empty."""
    folder = tmp_path / "content"
    folder.mkdir()
    return folder


@pytest.fixture
def run(server, folder, tmp_path):
    def run(path, *, before="", after="", on_kaggle=False, **variables):
        package = tmp_path / "packages" / "google" / "colab"
        if not on_kaggle:
            package.mkdir(parents=True)
            # "google" itself stays a namespace, which other packages share.
            for name in ("__init__", "output"):  # JAX's debugger imports the second
                (package / f"{name}.py").write_text("")
        address = f"http://127.0.0.1:{server.server_port}"
        text = re.sub(r"https://[^\"{]*(?=/archive/)", address, path.read_text("utf-8"))
        notebook = nbformat.reads(text, as_version=4)
        if before or after:  # the set-up cell alone, between these
            first, last = map(nbformat.v4.new_code_cell, (before, after))
            [setup_cell] = [cell for cell in notebook.cells if cell.id == "setup"]
            notebook.cells = [first, setup_cell, last]
        env = {
            k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))
        }
        env |= {"PYTHONPATH": str(package.parent.parent), "IPYTHONDIR": str(tmp_path)}
        arguments = ["--log-level=ERROR"]
        if on_kaggle:
            env["KAGGLE_KERNEL_RUN_TYPE"] = "Interactive"
        else:
            arguments += ["--InteractiveShellApp.exec_lines=import google.colab"]
        client = NotebookClient(
            notebook,
            timeout=120,
            allow_errors=True,
            coalesce_streams=True,
            extra_arguments=arguments,
            resources={"metadata": {"path": str(folder)}},
        )
        client.execute(env=env | variables)
        return [cell for cell in notebook.cells if cell.cell_type == "code"]

    return run


@pytest.fixture(autouse=True)
def one_request(requests, folder):
    """Each test's notebook asks once, and keeps nothing but what it got."""
    yield
    assert requests == ["GET /archive/main.zip 200"]
    assert [path.name for path in folder.iterdir()] == [ARCHIVE]


def printed(cell):
    return "".join(o.text for o in cell.outputs if o.output_type == "stream")


def errors(cells):
    return [o for cell in cells for o in cell.outputs if o.output_type == "error"]


def scorecard(cells):
    return printed(next(cell for cell in cells if cell.id == "scorecard"))


def checks(cells):
    """Lists the checks' cells: their exercises, the points, the cards."""
    found = []
    for cell in cells:
        if cell.metadata.nbgrader.grade:
            [result] = [o for o in cell.outputs if o.output_type == "execute_result"]
            name = cell.metadata.nbgrader.grade_id.removeprefix("check-")
            found.append((name, result.data["text/plain"], result.data["text/html"]))
    return found


# Most where Colab's own versions are: `make test-oldest`. nbval executes the solved
# ones there; from the archive, one of them is enough.
IS_COLABS = IPython.version_info[0] < 8
UNTOUCHED = LESSONS if IS_COLABS else LESSONS[:1]
of_colab = pytest.mark.skipif(not IS_COLABS, reason="make test-oldest runs it")


@of_colab
@pytest.mark.parametrize("path", LESSONS[:1], ids=lambda path: path.stem)
def test_solved_lesson_passes_from_an_empty_folder(path, run):
    cells = run(path, JAX_PLATFORMS="tpu,cuda")  # as on an accelerator's runtime
    assert printed(cells[0]) == READY
    assert not errors(cells)
    for name, _, card in checks(cells):  # hidden cases are in the archive
        assert f'aria-label="{name}: right, ' in card and "Our solution" in card
    [total] = re.findall(r"total +(\d+) of \d+", scorecard(cells))  # so far
    above = itertools.takewhile(lambda cell: cell.id != "scorecard", cells)
    assert int(total) == sum(float(points) for _, points, _ in checks(above))


@pytest.mark.parametrize("path", UNTOUCHED, ids=lambda path: path.stem)
def test_untouched_lesson_runs_to_its_end_without_a_point(path, run):
    cells = run(ROOT / "lessons" / path.name)
    assert printed(cells[0]) == READY
    assert not errors(cells)
    assert checks(cells)
    for name, points, card in checks(cells):
        assert points == "0"
        assert f'aria-label="{name}: not attempted yet, ' in card
        assert "still holds its stub." in card
    assert re.search(r"total +0 of", scorecard(cells))


def test_kaggle_fetches_the_course_and_keeps_a_platform_that_is_named(run):
    after = "import os; print(os.environ['JAX_PLATFORMS'], len(jax.devices()))"
    cells = run(LESSONS[0], before="1", after=after, on_kaggle=True)
    assert (printed(cells[1]), printed(cells[2])) == (READY, "cpu 8\n")


def test_jax_that_had_started_asks_for_a_restart_of_the_session(run):
    cells = run(LESSONS[0], before="import jax; jax.devices()", JAX_PLATFORMS="cpu")
    [error] = errors(cells)
    assert "with 1 device(s)" in error.evalue
    assert "Restart the session (Runtime > Restart session)" in error.evalue
    assert error.traceback == error.evalue.splitlines()


@of_colab
def test_another_language_comes_from_the_archive_too(run):
    cells = run(ROOT / "lessons" / "ko" / LESSONS[0].name, COURSE_LANGUAGE="ko")
    assert printed(cells[0]) == "준비 완료: 모의 CPU 장치 8개.\n"
    for name, _, card in checks(cells):
        assert f'aria-label="{name}: 아직 ' in card
    assert re.search(r"합계 +0 ", scorecard(cells))


@of_colab
def test_scripts_are_written_and_sources_are_found(run):
    _, ready, said = run(LESSONS[0], after=SCRIPT)
    assert printed(ready) == READY
    assert printed(said).splitlines() == [
        "finished",
        "8 devices",
        "def free_names(table: symtable.SymbolTable) -> Iterator[str]:",
        f"{ARCHIVE}/{INSIDE}/lessons/coursekit/script.py",
    ]
