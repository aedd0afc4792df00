"""A run that is killed, or whose helper processes are, changes no grade."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from classes import RIGHT, WRONG, answered, hand_in, is_trusted, make_class

from grader import ROOT
from grader.classroom.export import export

KILLS = int(os.environ.get("KILLS", "5"))


def grade(
    folder,
    *options,
    kill_after=None,
    while_it_runs=lambda process: None,
    may_fail=False,
):
    """Runs the command in a new process group; returns its exit status."""
    command = [sys.executable, "-m", "grader", "grade", str(folder / "class"), *options]
    command += ["--workers", "2", *["--trusted"] * is_trusted()]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, **quiet)
    while_it_runs(process)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=kill_after)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    said = process.communicate()[1].decode()
    assert may_fail or process.returncode in (0, -signal.SIGKILL), said
    return process.returncode


def results(folder):
    kept = (folder / "class" / "grading" / "results").rglob("*.json")
    return {path.name: path.read_bytes() for path in kept}


@pytest.fixture(scope="module")
def twenty(tmp_path_factory):
    """Twenty small submissions, no two alike: right, wrong, untouched, damaged."""
    folder = tmp_path_factory.mktemp("twenty")
    lesson = make_class(folder)
    for number in range(20):
        note = f"\n# learner {number}\n"
        kind, student = number % 10, f"learner{number:02}"
        if kind < 2:
            answers = {name: code + note for name, code in RIGHT.items()}
            hand_in(folder, student, answered(lesson, **answers))
        elif kind == 2:
            answers = {name: code + note for name, code in WRONG.items()}
            hand_in(folder, student, answered(lesson, **answers))
        elif kind == 3:
            notebook = answered(lesson)
            notebook.cells[0].source += note
            hand_in(folder, student, notebook)
        else:
            hand_in(folder, student, f"<html>{note}</html>".encode())
    return folder


@pytest.fixture(scope="module")
def undisturbed(twenty, tmp_path_factory):
    """The undisturbed run: the twenty submissions' export, and its seconds."""
    folder = tmp_path_factory.mktemp("whole")
    shutil.copytree(twenty, folder, dirs_exist_ok=True)
    begun = time.monotonic()
    assert grade(folder) == 0
    return exported(folder), time.monotonic() - begun


@pytest.fixture(scope="module")
def whole(undisturbed):
    return undisturbed[0]


def exported(folder):
    export(folder / "class")
    return (folder / "class" / "grading" / "grades.csv").read_bytes()


HELPERS = ("inside/fork_server.py", "grader.judging.judge")
DASK = ("--multiprocessing-fork",)  # how the command of a local worker ends


def helpers(process, ends=HELPERS):
    """Lists the processes that a grader has started, by how their commands end."""
    found = []
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if any(word.endswith(ends) for word in child.cmdline()):
                    found.append(child)
    return found


def started_something(process):
    with contextlib.suppress(psutil.Error):
        return bool(process.children())
    return False


@pytest.mark.parametrize(
    ("options", "ends", "most"),
    [((), HELPERS, 2), (("--scheduler", "local"), DASK, 2)],
    ids=["fork server and judges", "Dask workers"],
)
def test_helpers_that_are_killed_change_no_grade(
    options, ends, most, twenty, whole, tmp_path
):
    shutil.copytree(twenty, tmp_path, dirs_exist_ok=True)
    moments, killed = random.Random(11), []

    def kill_some(process):
        while process.poll() is None and len(killed) < most:
            found = helpers(process, ends)
            if options:  # a worker at work: the start of a cluster may fail
                found = [one for one in found if started_something(one)]
            if found:
                helper = found[moments.randrange(len(found))] if options else found[0]
                threading.Event().wait(moments.uniform(0.0, 2.0))  # at work by now
                with contextlib.suppress(psutil.Error):
                    helper.kill()
                    killed.append(helper.pid)
            threading.Event().wait(2.0 if options else 0.1)

    assert grade(tmp_path, *options, while_it_runs=kill_some) == 0
    assert killed
    assert exported(tmp_path) == whole
    assert left_behind(tmp_path) == []


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a separate disk; returns it and what sets its size in kiB."""

    def mount(size, *more):
        words = ["mount", "-t", "tmpfs", "-o", f"{','.join(more)}size={size}k"]
        return subprocess.run(
            [*words, "tmpfs", str(tmp_path)], capture_output=True, text=True
        )

    made = mount(2**16)
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.strip()}")
    yield tmp_path, lambda size: mount(size, "remount,")
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_a_disk_that_fills_up_while_results_are_published_changes_no_grade(
    twenty, whole, small_disk
):
    folder, resize = small_disk
    shutil.copytree(twenty, folder, dirs_exist_ok=True)
    used, before, failed = shutil.disk_usage(folder).used // 1024, {}, 0
    for more in (500, 700):  # kiB; the gradebook alone takes about 400
        assert resize(used + more).returncode == 0
        failed += grade(folder, may_fail=True) != 0
        kept = results(folder)
        assert before.items() <= kept.items()
        before = kept
    assert failed == 2
    assert resize(2**16).returncode == 0
    assert grade(folder) == 0
    assert exported(folder) == whole
    assert left_behind(folder) == []


def test_a_run_killed_at_random_moments_loses_nothing(twenty, undisturbed, tmp_path):
    whole, seconds = undisturbed
    shutil.copytree(twenty, tmp_path / "killed")
    moments, before, killed = random.Random(7), {}, 0
    for _ in range(KILLS):
        # Some come before the first result.
        status = grade(tmp_path / "killed", kill_after=moments.uniform(0.0, seconds))
        killed += status == -signal.SIGKILL
        kept = results(tmp_path / "killed")
        assert before.items() <= kept.items()
        before = kept
        if status == 0:  # it finished: start again, so that each kill hits a real run
            shutil.rmtree(tmp_path / "killed")
            shutil.copytree(twenty, tmp_path / "killed")
            before = {}
    assert killed >= KILLS / 2
    assert grade(tmp_path / "killed") == 0
    assert exported(tmp_path / "killed") == whole
    assert whole.count(b"\r\n") == 21
    assert left_behind(tmp_path) == []


def left_behind(folder):
    """Lists processes that still work for a class in `folder`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(folder) in path.read_text(errors="replace"):
                found.append(path.read_text().replace("\0", " "))
    return found
