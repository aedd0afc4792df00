"""Builds the solved and the released notebook of each lesson, or proves them fresh."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.utils import compute_checksum
from tqdm import tqdm

from grader import MODULES, ROOT, CourseError
from grader.lesson import read_lesson, repository_address
from grader.notebooks import exercises, lesson_paths, marks, release
from grader.own_files import dumps, read_text, write, write_file
from grader.readme import lesson_lists, pictures
from grader.sandbox import error_of, execute
from grader.translation import languages, translated_files

COMMAND = "python -m grader build"


class BuildError(CourseError):
    """A solution that fails, or a file that a build needs and does not find."""


def build(names: Iterable[str] = (), root: Path = ROOT) -> list[Path]:
    """Writes all that is made of `solutions/*.py`: notebooks, translations, lists.

    All files are written at the end, each in one step: a fault anywhere leaves every
    file as it was. Returns the files that changed.

    Raises:
        SourceError: a source breaks a rule.
        BuildError: a solved lesson's cell raises, or a released notebook holds what a
            learner wrote.
    """
    files: dict[Path, str] = {}
    sources = {path: read(path, root) for path in lesson_paths(names, root)}
    for path in sources:
        for language in ("", *languages(root)):
            refuse_to_overwrite_answers(released_path(path, language))
    for path, notebook in sources.items():
        code = sum(cell.cell_type == "code" for cell in notebook.cells)
        with tqdm(total=code, desc=path.stem, unit="cell", disable=None) as bar:
            solved = execute(notebook, on_cell=bar.update)
        for number, cell in enumerate(solved.cells):
            error = error_of(cell) if cell.cell_type == "code" else None
            if error:
                where = f"{path.name}, cell {number + 1} ({cell.id})"
                raise BuildError(f"{where}: {error.ename}: {error.evalue}")
        # The kernel's own description names its Python's version.
        solved.metadata = copy.deepcopy(notebook.metadata)
        solved.metadata["course"] = {
            "inputs": inputs_hash(notebook, root),
            "outputs": outputs_hash(solved),
        }
        files[path.with_suffix(".ipynb")] = dumps(solved)
        files[released_path(path)] = dumps(release(notebook))
    files |= translated_files(all_lessons(root), root)[0] | lesson_lists(root)
    changed = [path for path, text in files.items() if read_text(path) != text]
    for path in changed:
        write(path, files[path])
    return changed + renewed_pictures(root)


def stale(names: Iterable[str] = (), root: Path = ROOT) -> dict[Path, str]:
    """Rebuilds in memory and names each file that a build would change, and why.

    Nothing is executed: a solved notebook carries the hash of all that went into its
    run and of the outputs that came out.
    """
    found = {}
    for path in lesson_paths(names, root):
        notebook = read(path, root)
        solved_path = path.with_suffix(".ipynb")
        reason = why_stale(read_text(solved_path), notebook, root)
        if reason:
            found[solved_path] = reason
        if read_text(released_path(path)) != dumps(release(notebook)):
            found[released_path(path)] = "differs from what its source releases"
    translated, missing = translated_files(all_lessons(root), root)
    for path, text in translated.items():
        if read_text(path) != text:
            found[path] = "differs from what its source and its catalogue give"
    for path, texts in missing.items():
        if texts:
            named = "".join(f"\n  {text}" for text in texts)
            found[path] = f"lacks a translation, or has a stale (fuzzy) one, of:{named}"
    for path, text in lesson_lists(root).items():
        if read_text(path) != text:
            found[path] = "has another list of lessons than solutions/"
    for path, content in pictures(root).items():
        if not path.exists() or path.read_bytes() != content:
            found[path] = "is not the picture that the lesson shows"
    return found


def why_stale(text: str, notebook: NotebookNode, root: Path) -> str:
    """Says why a solved notebook's file is not what a build would write, or ""."""
    if not text:
        return "is missing"
    try:
        solved = nbformat.reads(text, as_version=4)
    except Exception as error:  # whatever a damaged file leads to
        return f"is no notebook ({type(error).__name__})"
    canonical = dumps(solved)
    course = solved.metadata.pop("course", {})
    if not isinstance(course, dict):
        return "was edited by hand"
    if course.get("inputs") != inputs_hash(notebook, root):
        return "was run with another source or other modules"
    if course.get("outputs") != outputs_hash(solved):
        return "has outputs that no build wrote"
    counts = [c.execution_count for c in solved.cells if c.cell_type == "code"]
    in_order = counts == list(range(1, len(counts) + 1))
    same_cells = dumps(without_outputs(solved)) == dumps(without_outputs(notebook))
    if text != canonical or not in_order or not same_cells:
        return "differs from its source"
    return ""


def renewed_pictures(root: Path) -> list[Path]:
    """Writes the READMEs' pictures, out of the solved notebooks; returns new ones."""
    changed = []
    for path, content in pictures(root).items():
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, content)
            changed.append(path)
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
    """Names an exercise that somebody has worked on in a released notebook, or "".

    A release carries the checksum of each of its exercises.
    """
    try:
        cells = exercises(nbformat.reads(read_text(released), as_version=4))
    except Exception:  # missing or damaged: nothing of a learner's that could be read
        return ""
    for name, cell in cells.items():
        if marks(cell).get("checksum", "") not in ("", compute_checksum(cell)):
            return name
    return ""


def refuse_to_overwrite_answers(released: Path) -> None:
    """Raises `BuildError` where somebody has worked in a released notebook."""
    name = answer_in(released)
    if name:
        raise BuildError(
            f"{released} holds an answer to {name}, which a build would overwrite. "
            "Move the file away, or drop the answers: git checkout lessons"
        )


def inputs_hash(notebook: NotebookNode, root: Path) -> str:
    """Hashes what a run depends on: the cells' code and the learner's modules."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    code += [read_text(root / "lessons" / f"{name}.py") for name in MODULES]
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
