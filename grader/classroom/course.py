"""Makes an ordinary nbgrader course folder out of the lessons."""

from __future__ import annotations

import re
import secrets
import shutil
from pathlib import Path

from nbformat import NotebookNode

from grader import ROOT
from grader.authoring import coursekit
from grader.authoring.build import read
from grader.authoring.release import dumps, lesson_paths, without_grading_facts
from grader.classroom.folder import SEED

NO_PART = "partial_credit=False"  # what the set-up cell of such a lesson says
CONFIG = '''\
"""nbgrader's settings for this course; `nbgrader --help-all` explains each."""

import sys

sys.path.insert(0, {root!r})  # the course's repository, which has grader/
from grader.classroom.nbgrader_plugin import RELEASE_CONFIG, GradingExporter
from traitlets.config import Config

c = get_config()
c.merge(Config(RELEASE_CONFIG))  # the stub and the locks that lessons/ have too
c.CourseDirectory.course_id = "distributed-jax"
# `nbgrader autograde` grades as `python -m grader grade` does: contained, and judged
# by another process than the learner's.
c.Autograde.exporter_class = GradingExporter
# zip_collect takes files that are named as this: ada_01_pmap_spmd.ipynb.
c.FileNameCollectorPlugin.named_regexp = (
    r".*[/\\\\](?P<student_id>[^/\\\\]+)_(?P<file_id>[0-9][0-9]_\\w+)\\.ipynb"
)
'''


def make_course(
    folder: Path,
    *,
    update: bool = False,
    all_or_nothing: bool | None = None,
    root: Path = ROOT,
) -> list[str]:
    """Writes nbgrader_config.py and source/ into `folder`; returns the lessons' names.

    With `update` the lessons in source/ are renewed; everything else stays as it is.
    With `all_or_nothing` their exercises give no part of their points: the set-up cell
    says so, and all who run or grade them follow it. None: as the folder has it.

    Raises:
        ValueError: `folder` lies in the course's repository, is a file, or already
            holds something and `update` is not given.
    """
    folder = folder.expanduser().resolve()
    if folder.is_relative_to(root):
        raise ValueError(
            f"{folder} lies inside the course's repository. A class's data must not: "
            "choose a folder outside of it."
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file. Choose a folder.")
    config = folder / "nbgrader_config.py"
    if update and not config.exists():
        raise ValueError(f"{folder} is no course folder yet. Leave out --update.")
    if not update and folder.exists() and any(folder.iterdir()):
        raise ValueError(
            f"{folder} is not empty. Choose another folder, or renew its lessons with "
            "--update."
        )
    notebooks = {path.stem: read(path, root) for path in lesson_paths(root=root)}
    for name, notebook in notebooks.items():
        target = folder / "source" / name
        place = target / f"{name}.ipynb"
        if all_or_nothing or (all_or_nothing is None and gives_no_part(place)):
            without_partial_credit(notebook)
        text = dumps(without_grading_facts(notebook))
        target.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        # Modules that are gone would make it another version of the package.
        shutil.rmtree(target / "coursekit", ignore_errors=True)
        coursekit.copy(target, root)
        checks = target / "coursekit" / "checks" / f"{name}.py"
        checks.write_text(notebook.metadata["checks"], encoding="utf-8")
    if not update:
        write_seed(folder)
        folder.chmod(0o700)  # solutions, submissions and scores will lie here
        config.write_text(CONFIG.format(root=str(root)), encoding="utf-8")
    return list(notebooks)


def without_partial_credit(notebook: NotebookNode) -> None:
    """Makes the set-up cell ask for all statements of an exercise, or no points.

    Raises:
        ValueError: the set-up cell is not one that can be asked.
    """
    [setup] = (cell for cell in notebook.cells if cell.id == "setup")
    call = re.compile(r"(setup\.with_devices\([^()]*)\)")
    setup.source, found = call.subn(rf"\1, {NO_PART})", setup.source)
    if found != 1:
        raise ValueError("The set-up cell does not call setup.with_devices(...) once.")


def gives_no_part(path: Path) -> bool:
    """Tells whether the class's lesson in a file is all or nothing."""
    return path.is_file() and NO_PART in path.read_text(encoding="utf-8")


def write_seed(folder: Path) -> None:
    """Draws this class's seed of the hidden tests' cases, so that nobody knows them."""
    path = folder / SEED
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{secrets.randbelow(10**6)}\n", encoding="utf-8")
