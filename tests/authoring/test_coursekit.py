"""The learner's package says its version, and is imported from the course's archive."""

import json
import subprocess
import sys
import zipfile
import zipimport

import pytest

from coursekit import notebook, setup
from coursekit.setup import version_of
from grader import ROOT
from grader.lessons import coursekit


@pytest.fixture(scope="module")
def modules():
    return coursekit.read()


@pytest.fixture(scope="module")
def packed(modules, tmp_path_factory):
    """The folder of our package in an archive of the course, as GitHub makes it."""
    path = tmp_path_factory.mktemp("colab") / "course.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in modules.items():
            archive.writestr(f"course-main/lessons/coursekit/{name}", text)
    return path / "course-main" / "lessons"


def in_a_fresh_process(code, folder, *words):
    """Runs code that knows nothing of the course; returns what it prints, as JSON."""
    command = [sys.executable, "-I", "-c", code, *map(str, words)]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    return json.loads(run.stdout.splitlines()[-1])


def test_all_modules_are_read_by_their_place(modules):
    folder = ROOT / "lessons" / "coursekit"
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")}
    assert set(modules) == found
    assert {"__init__.py", "setup.py", "draw/__init__.py", "draw/array.py"} <= found
    assert modules["draw/array.py"] == (folder / "draw" / "array.py").read_text()


def test_the_version_is_what_the_package_says_of_itself(modules):
    assert version_of(modules) == setup.version()


@pytest.mark.parametrize("name", ["__init__.py", "setup.py", "draw/array.py"])
def test_every_module_counts_for_the_version(modules, name):
    version = version_of(modules)
    assert version_of(modules | {name: modules[name] + "\n"}) != version
    moved = {f"other_{key}" if key == name else key: modules[key] for key in modules}
    assert version_of(moved) != version


@pytest.mark.parametrize("name", ["checks/01_tiny.py", "checks/12_long_name.py"])
def test_a_lessons_checks_do_not_count_for_the_version(modules, name):
    version = version_of(modules)
    assert version_of(modules | {name: "x = 1"}) == version
    assert not setup.is_versioned(name)


def test_what_runs_the_checks_counts_for_the_version(modules):
    name = "checks/__init__.py"
    assert setup.is_versioned(name)
    version = version_of(modules)
    assert version_of(modules | {name: modules[name] + "\n"}) != version


def test_the_package_says_its_version_with_solutions_and_checks_in_it(tmp_path):
    """As a build runs a lesson: the notebook was made for the same version."""
    coursekit.copy(tmp_path)
    folder = tmp_path / "coursekit"
    for name in ("checks/01_tiny.py", "solutions/checks/01_tiny.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    (folder / "solutions" / "01_tiny.py").write_text("y = 1\n")
    code = "import sys; sys.path.append('.'); import json; from coursekit import setup"
    code += "; print(json.dumps(setup.version()))"
    assert in_a_fresh_process(code, tmp_path) == version_of(coursekit.read())


def test_names_for_notebooks_are_those_that_the_package_offers(modules):
    offered = {*notebook.__all__}
    assert coursekit.names_for_notebooks(modules) == offered
    assert {"check", "observe", "scorecard", "draw_array"} <= offered


def test_the_version_depends_neither_on_messages_nor_on_an_order(modules):
    version = version_of(modules)
    assert version_of(modules | {"messages_ko.py": ""}) == version
    assert version_of(modules | {"messages_xx.py": "MESSAGES = {}"}) == version
    assert version_of(dict(reversed([*modules.items()]))) == version


def test_the_archive_is_imported_in_a_fresh_process(packed, tmp_path):
    """As in Colab: every module comes from the archive, messages included."""
    code = """
import importlib, json, pkgutil, sys

sys.path.append(sys.argv[1])
import coursekit

names = [one.name for one in pkgutil.walk_packages(coursekit.__path__, "coursekit.")]
names = [name for name in names if ".checks." not in name]  # run by their lesson
found = {name: importlib.import_module(name) for name in names}
print(json.dumps({
    "version": found["coursekit.setup"].version(),
    "languages": found["coursekit.i18n"].is_spoken("ko"),
    "places": {name: module.__file__ for name, module in found.items()},
    "loaders": sorted({type(one.__loader__).__name__ for one in found.values()}),
}))
"""
    said = in_a_fresh_process(code, tmp_path, packed)
    assert said["version"] == setup.version()
    assert said["languages"]
    assert said["loaders"] == [zipimport.zipimporter.__name__]
    names = {
        "coursekit." + name.removesuffix(".py").replace("/", ".")
        for name in coursekit.read()
        if not setup.is_lessons_checks(name)
    }
    names = {name.removesuffix(".__init__") for name in names} - {"coursekit"}
    assert set(said["places"]) == names
    assert all(place.startswith(f"{packed}/") for place in said["places"].values())


def test_a_copy_leaves_out_the_lessons_checks_and_what_python_compiled(tmp_path):
    source = tmp_path / "lessons" / "coursekit"
    (source / "draw" / "__pycache__").mkdir(parents=True)
    (source / "draw" / "array.py").write_text("x = 1\n")
    (source / "draw" / "__pycache__" / "array.cpython-311.pyc").write_bytes(b"old")
    (source / "checks").mkdir()
    (source / "checks" / "01_tiny.py").write_text("y = 1\n")
    for _ in range(2):  # also where the folder is there already
        coursekit.copy(tmp_path / "to", tmp_path)
    found = [path for path in (tmp_path / "to").rglob("*") if path.is_file()]
    assert found == [tmp_path / "to" / "coursekit" / "draw" / "array.py"]
