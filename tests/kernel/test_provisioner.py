"""Contained kernels for whoever starts one: nbclient, kernel managers, the engines."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from jupyter_client import KernelManager
from jupyter_client.provisioning import KernelProvisionerFactory
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from grader import ROOT
from grader.containment import backend, monitor
from grader.containment.limits import ContainmentError, Limits
from grader.kernel import provisioner
from grader.kernel.provisioner import (
    NAME,
    ContainedProvisioner,
    Kernels,
    learner_box,
    register,
)
from grader.kernel.session import Session

PATIENCE_S = 60


@pytest.fixture
def folder(monkeypatch):
    """An empty folder for temporary files, of a short name."""
    folder = tempfile.mkdtemp(prefix="p-", dir="/tmp")
    monkeypatch.setattr(tempfile, "tempdir", folder)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture
def by_environment(monkeypatch):
    """Contained kernels by default, as the environment variable asks for."""
    monkeypatch.setenv("JUPYTER_DEFAULT_PROVISIONER_NAME", NAME)
    KernelProvisionerFactory.clear_instance()
    register()
    yield
    KernelProvisionerFactory.clear_instance()


def until(condition):
    """Waits until a condition holds; fails where it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came to pass"
        threading.Event().wait(0.02)


@contextlib.contextmanager
def started(manager):
    """A client of a started kernel, and the kernel's end."""
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE_S)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        client.context.destroy(linger=0)
        manager.context.destroy(linger=0)


def said(client, code):
    """Runs code and returns what it prints, or the name of its error."""
    texts = []

    def hear(message):
        content = message["content"]
        texts.append(content.get("text") or content.get("ename") or "")

    client.execute_interactive(code, output_hook=hear, timeout=PATIENCE_S)
    return "".join(texts)


def kernel(limits=None):
    """A manager of a contained kernel that no session looks after."""
    register()
    box = learner_box(limits=limits or Limits())
    return KernelManager(kernel_name=NAME, kernel_spec_manager=Kernels(box=box))


# Who chooses it.


def test_the_environment_contains_an_ordinary_notebook(
    contained_here, by_environment, folder
):
    cells = ["import os\nprint(os.environ['COURSE_CONTAINED'])", "1 / 0"]
    book = new_notebook(cells=[new_code_cell(source) for source in cells])
    NotebookClient(book, kernel_name="python3", allow_errors=True).execute()
    first, second = (cell.outputs[0] for cell in book.cells)
    assert (first.text, second.ename) == ("1\n", "ZeroDivisionError")
    assert [*folder.iterdir()] == []
    nbformat.validate(book)


def test_a_cell_that_takes_too_long_is_interrupted_by_message(
    contained_here, by_environment
):
    cells = ["print('before')\nwhile True: pass", "print('after')"]
    book = new_notebook(cells=[new_code_cell(source) for source in cells])
    on_timeout = {"timeout": 1, "interrupt_on_timeout": True}
    NotebookClient(
        book, kernel_name="python3", allow_errors=True, **on_timeout
    ).execute()
    first, second = (cell.outputs for cell in book.cells)
    assert [out.get("ename") for out in first] == [None, "KeyboardInterrupt"]
    assert [out.text for out in second] == ["after\n"]


def test_a_kernel_spec_contains_by_its_metadata(contained_here, folder):
    manager = kernel()
    with started(manager) as client:
        assert isinstance(manager.provisioner, ContainedProvisioner)
        assert manager.transport == "ipc"
        assert said(client, "import os; print(os.environ['COURSE_CONTAINED'])") == "1\n"
        assert folder.stat().st_mode & 0o077 == 0
        [place] = folder.iterdir()
        assert place.stat().st_mode & 0o077 == 0
    assert [*folder.iterdir()] == []


def test_a_kernel_restarts_for_the_clients_that_it_has(contained_here, folder):
    manager = kernel()
    with started(manager) as client:
        assert said(client, "x = 1\nprint(x)") == "1\n"
        first = psutil.Process(manager.provisioner.process.pid)
        manager.restart_kernel(now=True)
        client.wait_for_ready(timeout=PATIENCE_S)
        assert said(client, "print(x)") == "NameError"
        assert not first.is_running()
        manager.restart_kernel(now=False)
        client.wait_for_ready(timeout=PATIENCE_S)
        assert said(client, "print(2)") == "2\n"
    assert [*folder.iterdir()] == []


def test_no_other_kernel_is_known_to_the_grader():
    kernels = Kernels()
    assert kernels.get_kernel_spec("trusted").metadata == {}
    assert kernels.get_kernel_spec("trusted").interrupt_mode == "signal"
    chosen = kernels.get_kernel_spec(NAME)
    assert chosen.metadata["kernel_provisioner"]["provisioner_name"] == NAME
    assert chosen.argv[0] == sys.executable


def test_a_kernel_that_cannot_be_launched_leaves_no_folder(contained_here, folder):
    manager = kernel()
    with pytest.raises(TypeError):
        manager.start_kernel(nonsense=1)
    assert [*folder.iterdir()] == []
    manager.context.destroy(linger=0)


def test_without_containment_no_folder_is_left(folder, monkeypatch):
    def refuse():
        raise ContainmentError("nothing here contains")

    monkeypatch.setattr(provisioner, "backend", refuse)
    manager = kernel()
    with pytest.raises(ContainmentError):
        manager.start_kernel()
    assert [*folder.iterdir()] == []
    manager.context.destroy(linger=0)


# What a kernel may write to its folder, where no session removes that.

NEST = """
import os
for _ in range(1200):
    os.mkdir("x")
    os.chdir("x")
"""


@pytest.mark.parametrize(
    "code", ["os.mkdir('d'); open('d/big', 'wb').write(bytes(9 * 2**20))", NEST]
)
def test_a_folder_that_fills_up_ends_its_kernel(contained_here, folder, code):
    manager = kernel()
    with started(manager) as client:
        [place] = folder.glob("box-*")  # a fork server may have its own
        client.execute(f"import os\nos.chdir({str(place)!r})\n{code}")
        until(lambda: not manager.is_alive())
        assert manager.provisioner.monitor.exceeded.startswith("disk: ")
    assert [*folder.glob("box-*")] == []


def test_a_folder_is_measured_while_it_changes(tmp_path):
    for name in ("a", "b/c", "b/d/e"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(4096))
    (tmp_path / "away").symlink_to("/usr")
    (tmp_path / "dangling").symlink_to("/nowhere")
    entries, size = monitor.folder_usage(tmp_path)
    assert entries == 7
    assert size >= 3 * 4096
    for number in range(100):
        (tmp_path / str(number)).touch()
    assert monitor.folder_usage(tmp_path)[0] == monitor.MAX_ENTRIES + 1
    assert monitor.folder_usage(tmp_path / "gone") == (0, 0)


FAMILY = """
import subprocess, sys
words = [sys.executable, "-c", "input()"]
with subprocess.Popen(words, stdin=subprocess.PIPE) as child:
    print(child.pid, flush=True)
    input()
    child.stdin.close()
"""


def test_all_that_a_process_started_is_found_by_one_look_for_all(monkeypatch):
    looks, all_processes = [], psutil.process_iter
    words = [sys.executable, "-c", FAMILY]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, **pipes) as parent:
        child = int(parent.stdout.readline())
        monkeypatch.setattr(
            psutil, "process_iter", lambda: looks.append(1) or all_processes()
        )
        monkeypatch.setattr(monitor, "FRESH_S", 1000)
        monkeypatch.setattr(monitor, "_read_at", -1000)
        found = [one.pid for one in monitor.descendants([os.getpid()])]
        assert found.index(parent.pid) < found.index(child)
        assert [one.pid for one in monitor.descendants([parent.pid])] == [child]
        assert len(looks) == 1
        parent.stdin.close()


def test_a_process_that_took_over_a_number_is_not_killed(tmp_path):
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        watcher = monitor.Monitor([process.pid], tmp_path, Limits(memory_mib=0))
    watcher.start()  # the process has ended by now
    assert watcher.exceeded_limit() == ""
    watcher.stop()
    watcher.join()
    assert watcher.exceeded == ""


def test_the_end_of_the_standard_error_is_kept():
    reading, writing = os.pipe()
    tail = monitor.StderrTail(reading)
    tail.start()
    os.write(writing, b"x" * 1000 + b" last words \xff\n")
    os.close(writing)
    assert str(tail).endswith("last words \ufffd")
    assert len(str(tail)) <= 500


# Docker and Podman.


@pytest.fixture(params=["docker", "podman"])
def running_engine(request):
    """Skips, naming the reason, where the engine does not run."""
    program = request.param
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    info = subprocess.run([program, "info"], capture_output=True, text=True, timeout=60)
    if info.returncode:
        pytest.skip(f"{program} does not run: {info.stderr.strip()[-200:]}")
    assert backend.probe(program) == ""
    return program


def test_an_engine_holds_a_kernel_to_its_end(running_engine, folder, monkeypatch):
    monkeypatch.setattr(provisioner, "backend", lambda: running_engine)
    with Session(Limits()) as session:
        result = session.run("import os\nprint(os.environ['COURSE_CONTAINED'])")
        assert (result.error, result.text) == ("", "1\n")
        name = name_of(session.manager.provisioner.command)
        assert name in listed(running_engine)
    assert name not in listed(running_engine)
    assert [*folder.iterdir()] == []


def test_the_end_of_the_grader_ends_its_containers(running_engine):
    grader = f"""
from grader.kernel import provisioner
provisioner.backend = lambda: {running_engine!r}
from grader.containment.limits import Limits
from grader.kernel.session import Session
session = Session(Limits())
print(*session.manager.provisioner.command, flush=True)
session.run("while True: pass")
"""
    words, root = [sys.executable, "-c", grader], ROOT
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        name = name_of(process.stdout.readline().split())
        assert name in listed(running_engine)
        process.kill()
    until(lambda: name not in listed(running_engine))


def name_of(command):
    return next(w for w in command if w.startswith("--name=")).removeprefix("--name=")


def listed(program):
    """Lists the names of the containers that run."""
    words = [program, "ps", "--format", "{{.Names}}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout
