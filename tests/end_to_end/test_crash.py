"""A grading that is killed loses nothing, and ends as if it had never been."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from classes import RIGHT, WRONG, answered, hand_in, make_class

from grader import ROOT
from grader.classroom.export import export
from grader.containment.backend import backend
from grader.containment.limits import ContainmentError

KILLS = int(os.environ.get("KILLS", "8"))
LONGEST_S = 9.0  # from a start to its kill: some come before the first result


def grade(folder, *, kill_after=None):
    """Runs the command in a process group of its own; returns its exit status."""
    command = [sys.executable, "-m", "grader", "grade", str(folder / "class")]
    try:
        backend()
    except ContainmentError:
        command.append("--trusted")
    command += ["--workers", "2"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, **quiet)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=kill_after)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    said = process.communicate()[1].decode()
    assert process.returncode in (0, -signal.SIGKILL), said
    return process.returncode


def results(folder):
    kept = (folder / "class" / "grading" / "results").rglob("*.json")
    return {path.name: path.read_bytes() for path in kept}


@pytest.fixture(scope="module")
def forty(tmp_path_factory):
    """Forty small submissions, no two alike: right, wrong, untouched, damaged."""
    folder = tmp_path_factory.mktemp("forty")
    lesson = make_class(folder)
    for number in range(40):
        note = f"\n# learner {number}\n"
        kind, student = number % 10, f"learner{number:02}"
        if kind < 2:
            answers = {name: code + note for name, code in RIGHT.items()}
            hand_in(folder, student, answered(lesson, **answers))
        elif kind == 2:
            answers = {name: code + note for name, code in WRONG.items()}
            hand_in(folder, student, answered(lesson, **answers))
        elif kind < 6:
            notebook = answered(lesson)
            notebook.cells[0].source += note
            hand_in(folder, student, notebook)
        else:
            hand_in(folder, student, f"<html>{note}</html>".encode())
    return folder


def test_killed_at_random_moments_it_loses_nothing(forty, tmp_path):
    shutil.copytree(forty, tmp_path / "whole")
    assert grade(tmp_path / "whole") == 0
    shutil.copytree(forty, tmp_path / "killed")
    moments, before, killed = random.Random(7), {}, 0
    for _ in range(KILLS):
        status = grade(tmp_path / "killed", kill_after=moments.uniform(0.0, LONGEST_S))
        killed += status == -signal.SIGKILL
        kept = results(tmp_path / "killed")
        assert before.items() <= kept.items()
        before = kept
        if status == 0:  # all done: begin anew, so that each moment is a real one
            shutil.rmtree(tmp_path / "killed")
            shutil.copytree(forty, tmp_path / "killed")
            before = {}
    assert killed >= KILLS / 2
    assert grade(tmp_path / "killed") == 0
    exports = []
    for name in ("whole", "killed"):
        export(tmp_path / name / "class", say=lambda _: None)
        path = tmp_path / name / "class" / "grading" / "grades.csv"
        exports.append(path.read_bytes())
    assert exports[0] == exports[1]
    assert exports[0].count(b"\r\n") == 41
    assert left_behind(tmp_path) == []


def left_behind(folder):
    """Lists processes that still work for a class in `folder`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(folder) in path.read_text(errors="replace"):
                found.append(path.read_text().replace("\0", " "))
    return found
