"""Builds the solved and the released notebook of each lesson, or proves them fresh."""

from __future__ import annotations

import base64
import copy
import hashlib
import html
import json
import re
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.utils import compute_checksum
from tqdm import tqdm

from grader import ROOT, CourseError
from grader.atomic_files import read_text, write, write_file
from grader.authoring import coursekit
from grader.authoring.check_source import checks_path, visible_source
from grader.authoring.check_source import read_text as read_check_text
from grader.authoring.execution import error_of, execute
from grader.authoring.lesson import read_lesson, repository_address
from grader.authoring.release import (
    checks,
    dumps,
    exercises,
    lesson_paths,
    nbgrader_metadata,
    points_for,
    release,
    without_grading_facts,
    without_hidden,
)
from grader.authoring.translation import languages, translated_files
from lessons.coursekit.card import MARKS
from lessons.coursekit.outcomes import LATER, RIGHT

COMMAND = "python -m grader build"


class BuildError(CourseError):
    """A solution that fails, or a file that a build needs and does not find."""


def build(names: Iterable[str] = (), root: Path = ROOT) -> list[Path]:
    """Writes all that is made of `solutions/*.py`: notebooks and translations.

    All files are written at the end, each in one step: after an error every file is as
    it was. Returns the files that changed.

    Raises:
        SourceError: a source breaks a rule.
        BuildError: a solved lesson's cell raises, a solution does not get its points,
            or a released notebook holds what a learner wrote.
    """
    files: dict[Path, str] = {}
    sources = {path: read(path, root) for path in lesson_paths(names, root)}
    materials = lesson_sources(root)
    for path in sources:
        for language in ("", *languages(root)):
            refuse_to_overwrite_answers(released_path(path, language))
    for path, notebook in sources.items():
        code = sum(cell.cell_type == "code" for cell in notebook.cells)
        with tqdm(total=code, desc=path.stem, unit="cell", disable=None) as bar:
            solved = execute(
                without_hidden(notebook), on_cell=bar.update, files=materials
            )
        for number, cell in enumerate(solved.cells):
            error = error_of(cell) if cell.cell_type == "code" else None
            if error:
                where = f"{path.name}, cell {number + 1} ({cell.id})"
                raise BuildError(f"{where}: {error.ename}: {error.evalue}")
        refuse_wrong_solutions(path, solved)
        # The kernel's own description names its Python's version.
        solved.metadata = without_grading_facts(notebook).metadata
        solved.metadata["course"] = {
            "inputs": inputs_hash(notebook, path),
            "outputs": outputs_hash(solved),
        }
        files[path.with_suffix(".ipynb")] = dumps(solved)
        files[released_path(path)] = dumps(release(notebook))
    files |= visible_checks(sources, root)
    files |= translated_files(all_lessons(root), root)[0]
    changed = [path for path, text in files.items() if read_text(path) != text]
    for path in changed:
        write(path, files[path])
    return changed + renewed(root)


def stale(names: Iterable[str] = (), root: Path = ROOT) -> dict[Path, str]:
    """Rebuilds in memory and names each file that a build would change, and why.

    Nothing is executed: a solved notebook carries the hash of all that went into its
    run and of the outputs that came out.
    """
    found = {}
    for path in lesson_paths(names, root):
        notebook = read(path, root)
        solved_path = path.with_suffix(".ipynb")
        reason = why_stale(read_text(solved_path), notebook, path)
        if reason:
            found[solved_path] = reason
        if read_text(released_path(path)) != dumps(release(notebook)):
            found[released_path(path)] = "differs from what its source releases"
    translated, missing = translated_files(all_lessons(root), root)
    for path, text in translated.items():
        if read_text(path) != text:
            found[path] = "differs from what its source and its catalogue give"
    for path, text in visible_checks(lesson_paths(names, root), root).items():
        if read_text(path) != text:
            found[path] = "differs from the visible part of its checks"
    for path in checks_of_no_lesson(root):
        found[path] = "holds the checks of no lesson"
    for path, texts in missing.items():
        if texts:
            named = "".join(f"\n  {text}" for text in texts)
            found[path] = f"lacks a translation, or has a stale (fuzzy) one, of:{named}"
    wanted = archives(root)
    for path in differing(wanted):
        found[path] = "is not the archive of lessons/coursekit"
    for path in earlier_archives(wanted):
        found[path] = "is the archive of an earlier version"
    return found


def why_stale(text: str, notebook: NotebookNode, source: Path) -> str:
    """Says why a solved notebook's file is not what a build would write, or ""."""
    if not text:
        return "is missing"
    try:
        solved = nbformat.reads(text, as_version=4)
    except Exception as error:  # a damaged file may raise anything
        return f"is no notebook ({type(error).__name__})"
    canonical = dumps(solved)
    course = solved.metadata.pop("course", {})
    if not isinstance(course, dict):
        return "was edited by hand"
    if course.get("inputs") != inputs_hash(notebook, source):
        return "was run with another source or other modules"
    if course.get("outputs") != outputs_hash(solved):
        return "has outputs that no build wrote"
    counts = [c.execution_count for c in solved.cells if c.cell_type == "code"]
    in_order = counts == list(range(1, len(counts) + 1))
    wanted = without_outputs(without_hidden(notebook))
    same_cells = dumps(without_outputs(solved)) == dumps(wanted)
    if text != canonical or not in_order or not same_cells:
        return "differs from its source"
    return ""


def archives(root: Path) -> dict[Path, bytes]:
    """Makes the archive from which Colab's notebooks import the package.

    The lessons' sources and checks are in it: with these, a check runs hidden cases.
    """
    modules = coursekit.read(root)
    path = root / coursekit.archive_path(coursekit.version(modules))
    return {path: coursekit.archive(modules | lesson_sources(root))}


def lesson_sources(root: Path) -> dict[str, str]:
    """Reads the lessons' sources and checks, by their path in an archive."""
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for source in lesson_paths(root=root)
        for path in (source, checks_path(source))
    }


def earlier_archives(wanted: Iterable[Path]) -> list[Path]:
    """Lists the archives that no notebook of today fetches."""
    [path] = wanted
    return [one for one in path.parent.glob("*.zip") if one != path]


def visible_checks(sources: Iterable[Path], root: Path) -> dict[Path, str]:
    """Makes the learners' copies of check modules, without hidden cases."""
    folder = coursekit.folder(root) / "checks"
    return {
        folder / path.name: visible_source(read_check_text(checks_path(path)))
        for path in sources
    }


def checks_of_no_lesson(root: Path) -> list[Path]:
    """Lists the copies of checks whose lesson is gone."""
    names = {path.name for path in lesson_paths(root=root)}
    copies = (coursekit.folder(root) / "checks").glob("[0-9]*.py")
    return [path for path in copies if path.name not in names]


def refuse_wrong_solutions(path: Path, solved: NotebookNode) -> None:
    """Raises `BuildError` where a solution does not get all points of its check.

    A bonus has no points in nbgrader, so its check's value says nothing of it: what
    counts is that the card calls the solution right. A statement that was not tried is
    none that holds.
    """
    for exercise, cell in checks(solved).items():
        results = [one for one in cell.outputs if one.output_type == "execute_result"]
        points = nbgrader_metadata(cell)["points"]
        cards = [one.data.get("text/html", "") for one in results]
        values = [one.data.get("text/plain") for one in results]
        is_right = values == [f"{points:g}"]
        if not points:
            is_right &= f'"{exercise}: {RIGHT}, ' in "".join(cards)
        if not is_right or f">{MARKS[LATER]}</span>" in "".join(cards):
            shown = [one.text for one in cell.outputs if one.output_type == "stream"]
            said = " ".join([*map(plain_text, cards), *shown]).strip()
            raise BuildError(
                f"{path.name}: the solution of {exercise} does not get the "
                f"{points_for(cell):g} points of its check. It says: {said or values}"
            )


def plain_text(card: str) -> str:
    """Returns the words of a card, without its tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", card)).split())


def pictures(root: Path) -> dict[Path, bytes]:
    """Takes the READMEs' pictures from lessons: `02_collectives-5.png`, its fifth."""
    found = {}
    for path in (root / "docs" / "pictures").glob("*-*.png"):
        name, number = path.stem.rsplit("-", 1)
        solved = nbformat.read(root / "solutions" / f"{name}.ipynb", as_version=4)
        outputs = [one for cell in solved.cells for one in cell.get("outputs", [])]
        data = [one.data for one in outputs if "image/png" in one.get("data", {})]
        found[path] = base64.b64decode(data[int(number) - 1]["image/png"])
    return found


def differing(wanted: dict[Path, bytes]) -> list[Path]:
    """Lists the files that do not hold what is wanted."""
    return [
        path
        for path, content in wanted.items()
        if not path.is_file() or path.read_bytes() != content
    ]


def renewed(root: Path) -> list[Path]:
    """Writes the binary files that differ, once the notebooks are; returns them."""
    for path in [*checks_of_no_lesson(root), *earlier_archives(archives(root))]:
        path.unlink()
    wanted = archives(root) | pictures(root)
    changed = differing(wanted)
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, wanted[path])
    return changed


def read(path: Path, root: Path) -> NotebookNode:
    """Makes the notebook of a lesson's source, not executed."""
    return read_lesson(path, repository_address(root))


def all_lessons(root: Path) -> dict[str, NotebookNode]:
    """Makes the notebooks of all lessons, by name."""
    return {path.stem: read(path, root) for path in lesson_paths(root=root)}


def released_path(source: Path, language: str = "") -> Path:
    """Names the file that learners open: in lessons/, or lessons/ko/."""
    return source.parent.parent / "lessons" / language / f"{source.stem}.ipynb"


def own_path(source: Path, root: Path) -> Path:
    """Names the notebook that a learner works in: in lessons/, or in another language.

    Of several that hold answers, the one that was saved last.
    """
    paths = [released_path(source, language) for language in ("", *languages(root))]
    answered = [path for path in paths if answer_in(path)]
    return max(answered, key=lambda path: path.stat().st_mtime, default=paths[0])


def answer_in(released: Path) -> str:
    """Names an exercise that a learner has worked on in a released notebook, or "".

    A release carries the checksum of each of its exercises.
    """
    try:
        cells = exercises(nbformat.reads(read_text(released), as_version=4))
    except Exception:  # missing or damaged: nothing of a learner's that could be read
        return ""
    for name, cell in cells.items():
        checksum = nbgrader_metadata(cell).get("checksum")
        if checksum and checksum != compute_checksum(cell):
            return name
    return ""


def refuse_to_overwrite_answers(released: Path) -> None:
    """Raises `BuildError` where a learner has worked in a released notebook."""
    name = answer_in(released)
    if name:
        raise BuildError(
            f"{released} holds an answer to {name}, which a build would overwrite. "
            "Move the file away, or drop the answers: git checkout lessons"
        )


def inputs_hash(notebook: NotebookNode, source: Path) -> str:
    """Hashes what a run depends on: cells' code, checks, and the learner's modules."""
    cells = without_hidden(notebook).cells  # hidden cases are in the checks' source
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    code += [coursekit.version(coursekit.read(source.parents[1]))]
    code += [read_check_text(checks_path(source))]
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]


def outputs_hash(solved: NotebookNode) -> str:
    """Hashes all outputs of an executed notebook."""
    outputs = [cell.get("outputs") for cell in solved.cells]
    return hashlib.sha256(json.dumps(outputs, sort_keys=True).encode()).hexdigest()[:16]


def without_outputs(notebook: NotebookNode) -> NotebookNode:
    """Copies a notebook without what a run adds to it."""
    bare = copy.deepcopy(notebook)
    for cell in bare.cells:
        if cell.cell_type == "code":
            cell.update(outputs=[], execution_count=None)
    return bare
