"""Uses nbgrader's exchange on one machine: each learner has a folder beside it."""

import subprocess
import sys

import nbformat
import tiny
from servers import jupyter_env

from grader import ROOT
from grader.lessons.release import exercises

NAME = tiny.NAME
COURSE = "distributed-jax"


def nbgrader(home, *arguments):
    """Runs a command of nbgrader as the user whose folder this is."""
    exchange = home.parent / "exchange"
    command = [sys.executable, "-m", "nbgrader", *arguments]
    command.append(f"--Exchange.root={exchange}")
    env = jupyter_env(home / ".jupyter") | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr, run.stderr


def release_lesson(folder):
    """Puts the class's lesson into the exchange."""
    exchange = folder / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)
    (folder / "class" / ".jupyter").mkdir()
    nbgrader(folder / "class", "generate_assignment", NAME)
    nbgrader(folder / "class", "release_assignment", NAME)


def learn(folder, student, **answers):
    """Fetches the lesson as a learner, works on it and submits it."""
    home = folder / student
    (home / ".jupyter").mkdir(parents=True)
    nbgrader(home, "fetch_assignment", NAME, "--course", COURSE)
    path = home / NAME / f"{NAME}.ipynb"
    notebook = nbformat.read(path, 4)
    for name, source in answers.items():
        exercises(notebook)[name].source = source
    nbformat.write(notebook, path)
    nbgrader(home, "submit", NAME, "--course", COURSE, "--student", student)
