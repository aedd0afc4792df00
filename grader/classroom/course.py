"""Makes an ordinary nbgrader course folder out of the lessons."""

from __future__ import annotations

import re
import secrets
import shutil
from pathlib import Path

from nbformat import NotebookNode

from grader import ROOT
from grader.atomic_files import read_text, write
from grader.authoring import coursekit
from grader.authoring.build import read
from grader.authoring.release import dumps, lesson_paths, without_grading_facts
from grader.classroom.folder import CONFIG, SEED

NO_PART = "partial_credit=False"  # what the set-up cell of such a lesson says
SETTINGS = '''\
"""nbgrader's settings for this course; `nbgrader --help-all` explains each."""

import sys

sys.path.insert(0, {root!r})  # the course's repository, which has grader/
from grader.classroom.nbgrader_plugin import (
    RELEASE_CONFIG,
    FeedbackExporter,
    GradingExporter,
)
from traitlets.config import Config

c = get_config()
c.merge(Config(RELEASE_CONFIG))  # the stub and the locks that lessons/ have too
c.CourseDirectory.course_id = "distributed-jax"
# `nbgrader autograde` grades as `python -m grader grade` does: contained, and judged
# by another process than the learner's.
c.Autograde.exporter_class = GradingExporter
# `nbgrader generate_feedback` writes the pages that `python -m grader grade` writes.
c.GenerateFeedback.exporter_class = FeedbackExporter
# Late work: give due dates with `nbgrader db assignment add LESSON --duedate=TIME`,
# and choose a penalty; extensions are in grading/extensions.csv.
# c.LateSubmissionPlugin.penalty_method = "zero"
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

    With `update` the lessons in source/ are renewed, and a missing seed is drawn anew.
    With `all_or_nothing` no exercise gives a part of its points: the set-up cell says
    so, and all who run or grade the lesson follow it. None: as the folder has it.

    Raises:
        ValueError: `folder` is in the course's repository, is a file, or already
            contains something and `update` is not given.
    """
    folder = folder.expanduser().resolve()
    if folder.is_relative_to(root):
        raise ValueError(
            f"{folder} is inside the course's repository. A class's data must not be: "
            "choose a folder outside it."
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file. Choose a folder.")
    if update and not (folder / CONFIG).exists():
        raise ValueError(f"{folder} is no course folder yet. Leave out --update.")
    if not update and folder.exists() and any(folder.iterdir()):
        raise ValueError(
            f"{folder} is not empty. Choose another folder, or renew its lessons with "
            "--update."
        )
    paths = lesson_paths(root=root)
    for path in paths:
        lesson, target = read(path, root), folder / "source" / path.stem
        file = target / f"{path.stem}.ipynb"
        if all_or_nothing or (all_or_nothing is None and gives_no_part(file)):
            without_partial_credit(lesson)
        write(file, dumps(without_grading_facts(lesson)))
        # Modules that are gone would make it another version of the package.
        shutil.rmtree(target / "coursekit", ignore_errors=True)
        coursekit.copy(target, root)
        checks = target / "coursekit" / "checks" / path.name
        checks.write_text(lesson.metadata["checks"], encoding="utf-8")
    if not update:
        folder.chmod(0o700)  # solutions, submissions and scores will be in it
        (folder / CONFIG).write_text(SETTINGS.format(root=str(root)), encoding="utf-8")
    if not (folder / SEED).exists():
        # A random seed of the hidden tests' cases, so that nobody knows them.
        (folder / SEED).parent.mkdir(exist_ok=True)
        (folder / SEED).write_text(f"{secrets.randbelow(10**6)}\n", encoding="utf-8")
    return [path.stem for path in paths]


def without_partial_credit(notebook: NotebookNode) -> None:
    """Makes the set-up cell demand all statements of an exercise for any points."""
    [setup] = (cell for cell in notebook.cells if cell.id == "setup")
    call = re.compile(r"(setup\.with_devices\([^()]*)\)")
    setup.source, num_calls = call.subn(rf"\1, {NO_PART})", setup.source)
    if num_calls != 1:
        raise ValueError("The set-up cell does not call setup.with_devices(...) once.")


def gives_no_part(path: Path) -> bool:
    return NO_PART in read_text(path)
