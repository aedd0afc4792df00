"""What a new user meets first: the Makefile, the locks, the README's commands."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PINS = dict(
    re.findall(r"(?m)^([\w.-]+)==([\w.]+)", (ROOT / "requirements.txt").read_text())
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def make(*arguments, path=None, cwd=ROOT):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    env |= {"PATH": path} if path else {}
    command = [shutil.which("make"), *arguments]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


def test_every_dependency_is_locked():
    groups = PROJECT["dependency-groups"]
    wanted = [*PROJECT["project"]["dependencies"], *groups["test"], *groups["site"]]
    # The test group includes another one by a table.
    named = [line for line in wanted if isinstance(line, str)]
    names = {re.match(r"[\w-]+", line).group() for line in named}
    assert names <= PINS.keys()


def test_tests_run_on_the_locked_versions():
    for name in ("nbgrader", "nbval", "jupyterlab", "matplotlib", "nbclient"):
        assert importlib.metadata.version(name) == PINS[name]


def test_conda_takes_the_same_lock():
    assert "-r requirements.txt" in (ROOT / "environment.yml").read_text()


def test_unsupported_python_is_named_with_the_remedy(tmp_path):
    old = tmp_path / "python3.10"
    old.write_text(
        '#!/bin/sh\ncase $1 in --version) echo "Python 3.10.9";; *) exit 1; esac'
    )
    old.chmod(0o755)
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "requirements.txt", tmp_path)
    run = make("lab", f"PYTHON={old}", cwd=tmp_path)
    assert run.returncode != 0
    assert "is Python 3.10.9; this course needs Python 3.11 to 3.13" in run.stdout
    assert "make lab PYTHON=" in run.stdout
    assert not (tmp_path / ".venv").exists()


def test_missing_python_is_named_with_the_remedy(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "requirements.txt", tmp_path)
    for tool in ("sh", "test", "echo"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    run = make("lab", path=str(tmp_path), cwd=tmp_path)
    assert run.returncode != 0
    assert "No Python 3.11, 3.12 or 3.13 was found" in run.stdout


def test_environment_is_made_anew_only_when_its_lock_is_newer(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "requirements.txt", tmp_path)
    ready = tmp_path / ".venv" / "ready"
    ready.parent.mkdir()
    ready.touch()
    os.utime(tmp_path / "requirements.txt", (1, 1))
    assert "Setting up" not in make("--dry-run", "lab", cwd=tmp_path).stdout
    os.utime(ready, (0, 0))
    assert "Setting up" in make("--dry-run", "lab", cwd=tmp_path).stdout


@pytest.mark.parametrize("python", ["3.10", "3.14"])
def test_command_line_names_an_unsupported_python(python, tmp_path):
    major, minor = python.split(".")
    program = (
        f"import sys; sys.version_info = ({major}, {minor}, 0, 'final', 0);"
        "import runpy; runpy.run_module('grader', run_name='__main__')"
    )
    command = [sys.executable, "-c", program, "check"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 1
    [line] = run.stderr.splitlines()
    assert f"This is Python {python}; the course needs 3.11, 3.12 or 3.13." in line


def test_missing_packages_are_named_with_the_remedy(tmp_path):
    command = [sys.executable, "-S", "-m", "grader", "check"]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert run.returncode == 2
    [line] = run.stderr.splitlines()
    assert "lacks the package" in line
    assert "`make lab`" in line


def test_notebook_far_from_its_modules_says_where_it_belongs(tmp_path):
    cell = (ROOT / "solutions" / "setup_cell.py").read_text()
    run = subprocess.run(
        [sys.executable, "-c", cell], cwd=tmp_path, capture_output=True, text=True
    )
    expected = "ModuleNotFoundError: Put this notebook beside start.py, in lessons/."
    assert run.stderr.splitlines()[-1] == expected
