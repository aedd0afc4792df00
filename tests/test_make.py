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
LOCKS = {
    path: dict(re.findall(r"(?m)^([\w.-]+)==([\w.]+)", (ROOT / path).read_text()))
    for path in ("requirements.txt", "tests/requirements.txt")
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def make(*arguments, path=None, cwd=ROOT):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    env |= {"PATH": path} if path else {}
    command = [shutil.which("make"), *arguments]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


def names_in(*lists):
    # A group that includes another one names it by a table.
    lines = [line for lines in lists for line in lines if isinstance(line, str)]
    return {re.match(r"[\w-]+", line).group() for line in lines}


def test_what_learners_and_instructors_need_is_locked():
    extras = PROJECT["project"]["optional-dependencies"]
    lists = extras["cluster"], extras["postgresql"]
    names = names_in(PROJECT["project"]["dependencies"], *lists)
    assert names <= LOCKS["requirements.txt"].keys()


def test_what_tests_and_the_website_need_is_locked_beside_it():
    groups = PROJECT["dependency-groups"]
    pins, first = LOCKS["tests/requirements.txt"], LOCKS["requirements.txt"]
    assert names_in(groups["test"], groups["site"]) <= pins.keys()
    assert first.items() <= pins.items()
    assert not {"pytest", "ruff", "sphinx", "playwright"} & first.keys()


def test_programs_in_flax_and_keras_are_tested_on_the_locked_jax():
    locks = ("requirements.txt", "tests/references/requirements.txt")
    jax, same = (re.findall("(?m)^jax==.*", (ROOT / p).read_text()) for p in locks)
    assert jax == same
    assert "make test-references" in (ROOT / ".ci" / "run").read_text().splitlines()
    done = make("--dry-run", "test-references")
    assert done.stdout.strip().endswith(" tests/references")


def test_ci_runs_each_test_in_one_of_two_tiers():
    quick, slow = (
        make("--dry-run", target).stdout.splitlines()[-1]
        for target in ("test", "test-slow")
    )
    same = slow.removesuffix(" 3 -m slow")
    assert quick.removesuffix(' 2 -m "not slow" tests') == same
    assert make("--dry-run", "test-all").stdout.splitlines()[-2:] == [quick, slow]
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert {"make test", "make test-slow"} <= {*lines}


def test_tests_run_on_the_locked_versions():
    for name in ("nbgrader", "nbval", "jupyterlab", "matplotlib", "nbclient"):
        assert importlib.metadata.version(name) == LOCKS["tests/requirements.txt"][name]


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
    assert "is Python 3.10.9; this course needs Python 3.11 to 3.14" in run.stdout
    assert "make lab PYTHON=" in run.stdout
    assert not (tmp_path / ".venv").exists()


def test_missing_python_is_named_with_the_remedy(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "requirements.txt", tmp_path)
    for tool in ("sh", "test", "echo"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    run = make("lab", path=str(tmp_path), cwd=tmp_path)
    assert run.returncode != 0
    assert "No Python 3.11 to 3.14 was found" in run.stdout


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


def test_the_grader_is_found_in_every_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # it needs no package
    course = tmp_path / "my course"
    (course / "grader").mkdir(parents=True)
    (course / "grader" / "__main__.py").write_text("print('found')")
    shutil.copy(ROOT / "Makefile", course)
    (course / "requirements.txt").touch()
    make(".venv/ready", f"PYTHON={sys.executable}", cwd=course)
    command = [course / ".venv/bin/python", "-m", "grader"]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert run.stdout == "found\n", run.stderr


@pytest.mark.parametrize("target", ["test", "check", "site"])
def test_what_tests_need_is_added_when_it_is_first_asked_for(target, tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for path in LOCKS:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    ready = tmp_path / ".venv" / "ready"
    ready.parent.mkdir()
    ready.touch()
    assert "Adding" not in make("--dry-run", "lab", cwd=tmp_path).stdout
    assert "Adding" in make("--dry-run", target, cwd=tmp_path).stdout
    (tmp_path / ".venv" / "with-tests").touch()
    assert "Adding" not in make("--dry-run", target, cwd=tmp_path).stdout


@pytest.mark.parametrize("python", ["3.10", "3.15"])
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
    assert f"This is Python {python}; the course needs 3.11 to 3.14." in line


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
        [sys.executable, "-m", "IPython", "--colors=NoColor", "-c", cell],
        cwd=tmp_path,
        env=os.environ | {"IPYTHONDIR": str(tmp_path / "ipython")},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    [line] = [line for line in run.stdout.splitlines() if line.startswith("---->")]
    assert line.endswith("# not found? Put this notebook into the folder lessons/.")
    last = run.stdout.rstrip().splitlines()[-1]
    assert last == "ModuleNotFoundError: No module named 'coursekit'"
