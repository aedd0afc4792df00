"""Makes an ordinary nbgrader course folder out of the lessons."""

from __future__ import annotations

import secrets
from pathlib import Path

from grader import ROOT
from grader.authoring import coursekit
from grader.authoring.build import read
from grader.authoring.notebook import dumps, lesson_paths
from grader.classroom.folder import SEED

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


def make_course(folder: Path, *, update: bool = False, root: Path = ROOT) -> list[str]:
    """Writes nbgrader_config.py and source/ into `folder`; returns the lessons' names.

    With `update` the lessons in source/ are renewed; everything else stays as it is.

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
    notebooks = {path.stem: dumps(read(path, root)) for path in lesson_paths(root=root)}
    for name, text in notebooks.items():
        target = folder / "source" / name
        target.mkdir(parents=True, exist_ok=True)
        (target / f"{name}.ipynb").write_text(text, encoding="utf-8")
        coursekit.copy(target, root)
    if not update:
        write_seed(folder)
        folder.chmod(0o700)  # solutions, submissions and scores will lie here
        config.write_text(CONFIG.format(root=str(root)), encoding="utf-8")
    return list(notebooks)


def write_seed(folder: Path) -> None:
    """Draws this class's seed of the hidden tests' cases, so that nobody knows them."""
    path = folder / SEED
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{secrets.randbelow(10**6)}\n", encoding="utf-8")
