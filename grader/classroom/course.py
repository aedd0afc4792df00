"""Makes an ordinary nbgrader course folder out of the lessons."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from nbformat import NotebookNode

from grader import ROOT
from grader.atomic_files import read_text, write
from grader.authoring import coursekit
from grader.authoring.build import read, refuse_unbuilt
from grader.authoring.release import lesson_paths
from grader.classroom.folder import CONFIG, SEED
from grader.classroom.lesson_copy import LessonCopy

PRIVATE = Path("grading", "private-lessons.txt")  # the folders that they are from
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
    lessons: Sequence[str] = (),
    all_or_nothing: bool | None = None,
    private: Iterable[Path] = (),
    root: Path = ROOT,
) -> dict[str, str]:
    """Writes nbgrader_config.py and source/ into `folder`; says what it did by lesson.

    With `update` the lessons in source/ are renewed, except those that an instructor
    changed, and a missing seed is drawn anew. `lessons` are taken as they are in the
    course, and no others. With `all_or_nothing` no exercise gives a part of its points:
    the set-up cell says so, and all who run or grade the lesson follow it. None: as the
    folder has it. `private` folders of lessons are remembered; a lesson replaces ours
    of its name.

    Raises:
        SourceError, BuildError: a private lesson breaks a rule, or is not built.
        ValueError: `folder` is in the course's repository, is a file, or already
            contains something and `update` is not given; there is no such lesson.
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
    folders = private_folders(folder, private)
    named = {one.expanduser().resolve() for one in private}
    is_strict = any(map(gives_no_part, folder.glob("source/*/*.ipynb")))
    paths, done = lesson_paths(lessons, root, folders), {}
    asked_for = {
        path.stem for path in paths if lessons or not update or path.parents[1] in named
    }
    for path in paths:
        name, copy = path.stem, LessonCopy(folder, path.stem)
        if name not in asked_for:
            if not copy.notebook.parent.exists():
                done[name] = "left out: it is not in source/"
                continue
            copy.restore()
        existed = copy.exists
        was_strict = gives_no_part(copy.notebook) if copy.exists else is_strict
        strict = was_strict if all_or_nothing is None else all_or_nothing
        notebook = read(path, path.parents[1])
        set_partial_credit(notebook, is_given=not strict)
        if name not in asked_for and (changes := copy.changes(notebook)):
            if strict != was_strict:
                copy.edit(partial(set_partial_credit, is_given=not strict))
            done[name] = f"kept: you changed {', '.join(changes)}"
            continue
        # Modules that are gone would make it another version of the package.
        shutil.rmtree(copy.notebook.parent / "coursekit", ignore_errors=True)
        coursekit.copy(copy.notebook.parent, root)
        copy.write(notebook)
        done[name] = "renewed" if existed else "written"
    if not update:
        folder.chmod(0o700)  # solutions, submissions and scores will be in it
        (folder / CONFIG).write_text(SETTINGS.format(root=str(root)), encoding="utf-8")
    if folders:
        write(folder / PRIVATE, "".join(f"{one}\n" for one in folders))
    if not (folder / SEED).exists():
        # A random seed of the hidden tests' cases, so that nobody knows them.
        (folder / SEED).parent.mkdir(exist_ok=True)
        (folder / SEED).write_text(f"{secrets.randbits(128)}\n", encoding="utf-8")
    return done


def private_folders(folder: Path, named: Iterable[Path]) -> list[Path]:
    """Lists the folders of a class's private lessons: those that it remembers first."""
    remembered = map(Path, read_text(folder / PRIVATE).splitlines())
    given = (one.expanduser().resolve() for one in named)
    folders = [*dict.fromkeys([*remembered, *given])]
    for one in folders:
        if not lesson_paths(root=one):
            raise ValueError(
                f"{one} holds no lesson. Bring it back; or name the right folder, and "
                f"remove this one from {folder / PRIVATE}, if it is in there."
            )
        refuse_unbuilt(one)
    return folders


def path_warning(folder: Path) -> str:
    """Says that nbgrader cannot work in a folder of this name, or ""."""
    if not re.search(r"[\[\]*?]", str(folder.expanduser().resolve())):
        return ""
    return (
        f"nbgrader's own commands do not work in {folder}, since its path has one of "
        "the characters [ ] * ?. Choose a path without them."
    )


def set_partial_credit(notebook: NotebookNode, *, is_given: bool) -> None:
    """Makes the set-up cell give a part of an exercise's points, or all or none."""
    [setup] = (cell for cell in notebook.cells if cell.id == "setup")
    setup.source = setup.source.replace(f", {NO_PART}", "")
    if not is_given:
        call = re.compile(r"(setup\.with_devices\([^()]*)\)")
        setup.source, num_calls = call.subn(rf"\1, {NO_PART})", setup.source)
        if num_calls != 1:
            raise ValueError(
                "The set-up cell does not call setup.with_devices(...) once."
            )


def gives_no_part(path: Path) -> bool:
    return NO_PART in read_text(path)
