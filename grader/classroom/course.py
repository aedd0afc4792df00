"""Makes an ordinary nbgrader course folder out of the lessons, and updates it."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import zoneinfo
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from grader import ROOT
from grader.atomic_files import read_text, write
from grader.authoring.build import refuse_unbuilt
from grader.authoring.siblings import draw, read_with
from grader.classroom.folder import CONFIG, SEED
from grader.lessons import coursekit
from grader.lessons.release import (
    checks,
    dumps,
    lesson_paths,
    points_for,
    without_grading_facts,
)

SIBLINGS = Path("grading", "siblings.json")  # which, by lesson and exercise
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
# In which zone times are shown, and extensions are read.
c.Classroom.timezone = {zone!r}
# Late work: choose a penalty, and give due dates with a zone, without which nbgrader
# takes them for UTC: `nbgrader db assignment add LESSON --duedate="2026-04-03 23:59
# {zone}"`. Extensions are in grading/extensions.csv.
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
    without: Iterable[Path] = (),
    timezone: str = "",
    siblings: bool = False,
    root: Path = ROOT,
) -> dict[str, str]:
    """Writes nbgrader_config.py and source/ into `folder`; says what it did by lesson.

    With `update` the lessons in source/ are renewed, except those that an instructor
    changed, and a missing seed is drawn anew. `lessons` are taken as they are in the
    course, and no others. With `all_or_nothing` no exercise gives a part of its points:
    the set-up cell says so, and all who run or grade the lesson follow it. None: as the
    folder has it. `private` folders of lessons are remembered; a lesson replaces ours
    of its name. The folders in `without` are no longer remembered, and ours come back.
    `timezone` is that of a new class, else the machine's. With `siblings` the seed
    draws a sibling of each exercise that has some; the folder keeps those that it has.

    Raises:
        SourceError, BuildError: a private lesson breaks a rule, or is not built.
        ValueError: `folder` is in the course's repository, is a file, already contains
            something and `update` is not given, or has a name that nbgrader cannot use;
            there is no such lesson.
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
    if update and timezone:
        raise ValueError(
            f"The class has a time zone: change c.Classroom.timezone in "
            f"{folder / CONFIG}."
        )
    if update and siblings and not lessons:
        raise ValueError(
            "Siblings are other exercises for the learners. Name the lessons that get "
            "them: --update --siblings --lessons 02"
        )
    if timezone and timezone not in zoneinfo.available_timezones():
        raise ValueError(
            f'"{timezone}" is no time zone. Write it like "Europe/Berlin" or '
            '"Asia/Seoul".'
        )
    if not update and re.search(r"[\[\]*?]", str(folder)):
        raise ValueError(
            f"nbgrader's own commands do not work in {folder}, since its path has one "
            "of the characters [ ] * ?. Choose a path without them."
        )
    named = [one.expanduser().resolve() for one in private]
    dropped = [one.expanduser().resolve() for one in without]
    folders = private_folders(folder, named, dropped)
    is_strict = any(map(gives_no_part, folder.glob("source/*/*.ipynb")))
    # A random seed of the hidden tests' cases, so that nobody knows them.
    seed = read_text(folder / SEED) or f"{secrets.randbits(128)}\n"
    drawn = json.loads(read_text(folder / SIBLINGS) or "{}")
    done: dict[str, str] = {}
    for path in lesson_paths(lessons, root, folders):
        name, copy = path.stem, LessonCopy(folder, path.stem)
        if update and not lessons and path.parents[1] not in named:
            if not copy.notebook.parent.exists():
                done[name] = "left out: it is not in source/"
                continue
            copy.restore()
            if changes := ", ".join(copy.changes()):
                if all_or_nothing not in (None, gives_no_part(copy.notebook)):
                    kept = nbformat.read(copy.notebook, 4)
                    write(copy.notebook, dumps(with_setting(kept, all_or_nothing)))
                done[name] = f"kept: you changed {changes}"
                continue
        is_new = not copy.notebook.exists()
        done[name] = "written" if is_new else "renewed"
        strict = all_or_nothing
        if strict is None:
            strict = is_strict if is_new else gives_no_part(copy.notebook)
        if siblings and (found := draw(path, seed)):
            drawn[name] = found | drawn.get(name, {})
        others = drawn.get(name, {})
        if others:
            done[name] += f", with a sibling of {', '.join(others)}"
        elif siblings:
            done[name] += ", but no exercise has a sibling"
        notebook = with_setting(read_with(path, path.parents[1], others), strict)
        # Modules that are gone would make it another version of the package.
        shutil.rmtree(copy.notebook.parent / "coursekit", ignore_errors=True)
        coursekit.copy(copy.notebook.parent, root)
        copy.write(notebook)
    taken = (path.name for path in folder.glob("source/*/") if update and not lessons)
    for name in sorted({*taken} - done.keys()):
        what = "stays as it is: no folder of lessons has it"
        done[name] = f"{what}. To take it out, remove source/{name}"
    if not update:
        folder.chmod(0o700)  # solutions, submissions and scores will be in it
        facts = {"root": str(root), "zone": timezone or machines_zone()}
        (folder / CONFIG).write_text(SETTINGS.format(**facts), encoding="utf-8")
    if folders or dropped:
        write(folder / PRIVATE, "".join(f"{one}\n" for one in folders))
    if drawn:
        write(folder / SIBLINGS, json.dumps(drawn, indent=2) + "\n")
    if not (folder / SEED).exists():
        write(folder / SEED, seed)
    return done


def machines_zone() -> str:
    """Names the time zone that this machine is set to; UTC where nothing says it."""
    link = str(Path("/etc/localtime").resolve())
    name = os.environ.get("TZ", "") or link.partition("zoneinfo/")[2]
    return name if name in zoneinfo.available_timezones() else "UTC"


def private_folders(
    folder: Path, named: Sequence[Path], dropped: Sequence[Path]
) -> list[Path]:
    """Lists the folders of a class's private lessons, of which a later one wins."""
    remembered = [Path(line) for line in read_text(folder / PRIVATE).splitlines()]
    for one in dropped:
        if one not in remembered:
            known = ", ".join(map(str, remembered)) or "none"
            raise ValueError(f"The class has no lessons from {one}, but from: {known}.")
    earlier = (one for one in remembered if one not in (*named, *dropped))
    folders = [*dict.fromkeys([*earlier, *named])]
    for one in folders:
        if not lesson_paths(root=one):
            if one not in remembered:
                raise ValueError(f"{one} holds no lesson: name the folder of your own.")
            raise ValueError(
                f"{one} holds no lesson. Bring it back; or name the right folder, and "
                f"leave this one out: course {folder} --update --without {one}"
            )
        refuse_unbuilt(one)
    return folders


class LessonCopy:
    """A lesson's files in source/; grading/source/ has them as the course wrote them.

    Attributes:
        notebook, checks: the files that an instructor may change.
    """

    def __init__(self, folder: Path, name: str):
        self.notebook = folder / "source" / name / f"{name}.ipynb"
        self.checks = self.notebook.parent / "coursekit" / "checks" / f"{name}.py"
        self._written = folder / "grading" / "source" / name

    def written(self, path: Path) -> Path:
        """Names the copy of a file as the course wrote it."""
        return self._written / path.name

    def write(self, lesson: NotebookNode) -> None:
        text = dumps(without_grading_facts(lesson))
        for path, own in ((self.notebook, text), (self.checks, lesson.metadata.checks)):
            write(path, own)
            write(self.written(path), own)

    def restore(self) -> None:
        """Brings back a file that is missing."""
        for path in (self.notebook, self.checks):
            if not path.exists() and self.written(path).exists():
                write(path, read_text(self.written(path)))

    def changes(self) -> Iterator[str]:
        """Says in words what an instructor changed."""
        try:
            before = facts_of_cells(self.written(self.notebook))
            now = facts_of_cells(self.notebook)
        except Exception as error:  # whatever a damaged file leads to
            yield f"the notebook, or it cannot be read ({error})"
            return
        changed = [c for c in {**before, **now} if before.get(c) != now.get(c)]
        if changed:
            more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
            yield f"the cell {', '.join(changed[:3])}{more}"
        if read_text(self.checks) != read_text(self.written(self.checks)):
            yield "its checks"


def with_setting(lesson: NotebookNode, all_or_nothing: bool) -> NotebookNode:
    """Makes a lesson's set-up cell give a part of an exercise's points, or none."""
    [setup] = (cell for cell in lesson.cells if cell.id == "setup")
    setup.source = setup.source.replace(f", {NO_PART}", "")
    if all_or_nothing:
        call = re.compile(r"(setup\.with_devices\([^()]*)\)")
        setup.source, num_calls = call.subn(rf"\1, {NO_PART})", setup.source)
        if num_calls != 1:
            raise ValueError(
                "The set-up cell does not call setup.with_devices(...) once."
            )
    return lesson


def gives_no_part(path: Path) -> bool:
    return NO_PART in read_text(path)


def facts_of_cells(path: Path) -> dict[str, tuple[Any, ...]]:
    """Returns by id what counts as a change of a cell; its outputs do not."""
    notebook = nbformat.read(path, 4)
    points = {cell.id: points_for(cell) for cell in checks(notebook).values()}
    facts = {}
    for cell in notebook.cells:
        source = cell.source.replace(f", {NO_PART}", "")  # --all-or-nothing wrote it
        facts[cell.id] = cell.cell_type, source, points.get(cell.id)
    return facts
