"""The learner's package is packed for Colab: named by its version, imported whole."""

import hashlib
import json
import subprocess
import sys
import zipfile
import zipimport

import pytest

from coursekit import setup
from grader import ROOT
from grader.authoring import coursekit


@pytest.fixture(scope="module")
def modules():
    return coursekit.read()


@pytest.fixture(scope="module")
def packed(modules, tmp_path_factory):
    """Our package's archive, in a folder far from the course."""
    path = tmp_path_factory.mktemp("colab") / "coursekit.zip"
    path.write_bytes(coursekit.archive(modules))
    return path


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
    assert coursekit.version(modules) == setup.version()


@pytest.mark.parametrize("name", ["__init__.py", "setup.py", "draw/array.py"])
def test_every_module_counts_for_the_version(modules, name):
    version = coursekit.version(modules)
    assert coursekit.version(modules | {name: modules[name] + "\n"}) != version
    moved = {f"other_{key}" if key == name else key: modules[key] for key in modules}
    assert coursekit.version(moved) != version


def test_the_version_depends_neither_on_messages_nor_on_an_order(modules):
    version = coursekit.version(modules)
    assert coursekit.version(modules | {"messages_ko.py": ""}) == version
    assert coursekit.version(modules | {"messages_xx.py": "MESSAGES = {}"}) == version
    assert coursekit.version(dict(reversed([*modules.items()]))) == version


def test_the_archive_is_named_by_its_version():
    assert str(coursekit.archive_path("abc")) == "docs/colab/coursekit-abc.zip"


def test_packing_twice_gives_the_same_bytes(modules, packed, tmp_path):
    assert coursekit.archive(modules) == packed.read_bytes()
    assert coursekit.archive(dict(reversed([*modules.items()]))) == packed.read_bytes()
    coursekit.copy(tmp_path / "lessons")  # other times of writing
    assert coursekit.archive(coursekit.read(tmp_path)) == packed.read_bytes()


def test_another_process_packs_the_same_bytes(packed, tmp_path):
    code = (
        "import hashlib, json, sys; sys.path.append(sys.argv[1])\n"
        "from grader.authoring import coursekit\n"
        "data = coursekit.archive(coursekit.read())\n"
        "print(json.dumps(hashlib.sha256(data).hexdigest()))"
    )
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    assert in_a_fresh_process(code, tmp_path, ROOT) == digest


def test_the_archive_holds_the_modules_and_nothing_else(modules, packed):
    with zipfile.ZipFile(packed) as archive:
        assert archive.testzip() is None
        found = {name: archive.read(name).decode() for name in archive.namelist()}
    assert found == {f"coursekit/{name}": text for name, text in modules.items()}


def test_the_archive_is_imported_in_a_fresh_process(packed, tmp_path):
    """As in Colab: every module comes from the archive, and what it says is whole."""
    code = """
import importlib, json, pkgutil, sys

sys.path.append(sys.argv[1])
import coursekit

names = [one.name for one in pkgutil.walk_packages(coursekit.__path__, "coursekit.")]
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
    }
    names = {name.removesuffix(".__init__") for name in names} - {"coursekit"}
    assert set(said["places"]) == names
    assert all(place.startswith(f"{packed}/") for place in said["places"].values())


def test_a_copy_leaves_out_what_python_compiled(tmp_path):
    source = tmp_path / "lessons" / "coursekit"
    (source / "draw" / "__pycache__").mkdir(parents=True)
    (source / "draw" / "array.py").write_text("x = 1\n")
    (source / "draw" / "__pycache__" / "array.cpython-311.pyc").write_bytes(b"old")
    for _ in range(2):  # also where the folder is there already
        coursekit.copy(tmp_path / "to", tmp_path)
    found = [path for path in (tmp_path / "to").rglob("*") if path.is_file()]
    assert found == [tmp_path / "to" / "coursekit" / "draw" / "array.py"]
