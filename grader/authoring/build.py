"""Writes all that is made of the lessons' sources, or names the files that differ."""

from __future__ import annotations

import ast
import hashlib
import html
import itertools
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import nbformat
from nbclient.exceptions import CellControlSignal, DeadKernelError
from nbformat import NotebookNode
from nbgrader.utils import compute_checksum
from tqdm import tqdm

from coursekit.card import MARKS
from coursekit.outcomes import LATER, RIGHT
from coursekit.setup import version_of
from grader import ROOT
from grader.atomic_files import write_file
from grader.authoring.answer_trial import refuse_wrong_answers, trial_cell
from grader.authoring.check_source import (
    checks_path,
    parse,
    shown_only,
    visible_source,
)
from grader.authoring.execution import execute
from grader.authoring.known_answers import (
    KnownAnswer,
    answers_folder,
    answers_to,
    problems_of_answers,
)
from grader.authoring.lesson import noted, read_lesson, repository_address
from grader.authoring.rules import BuildError, SourceError
from grader.authoring.translation import languages, translated_files
from grader.lessons import coursekit
from grader.lessons.release import (
    checks,
    dumps,
    lesson_paths,
    nbgrader_metadata,
    points_for,
    release,
    without_hidden,
)

COMMAND = "python -m grader build"


def build(
    names: Iterable[str] = (), root: Path = ROOT, *, rerun: bool = False
) -> list[Path]:
    """Writes what is made of the sources of the lessons in `names`, or of all.

    A lesson is run if its code, its checks or the package has changed since its last
    run, or if `rerun` says so. Nothing is written before all is made, so after an error
    every file is as it was. Returns the files that changed.

    Raises:
        SourceError: sources break rules.
        BuildError: a cell of a solved lesson raises, a solution or a known answer does
            not get what it deserves, or a released notebook holds an answer.
    """
    lessons = read_lessons(root, names)
    for path, language in itertools.product(lessons, ("", *languages(root))):
        released = released_path(path, language)
        if name := answer_in(released):
            raise BuildError(
                f"{released} holds an answer to {name}, which a build would overwrite. "
                "Move the file away, or delete it."
            )
    made, _ = generated(lessons, root)
    files = {}
    for path in lesson_paths(names, root):
        earlier = last_run(path, lessons[path])
        solved = earlier if earlier and not rerun else run(path, lessons[path])
        files[path.with_suffix(".ipynb")] = dumps(solved).encode()
    return write_differing(files | made)


def refuse_unbuilt(root: Path) -> None:
    """Raises `BuildError` unless all lessons of a private folder have been built.

    Nothing else proves that a solution gets its points.
    """
    for path, lesson in read_lessons(root).items():
        if last_run(path, lesson) is None:
            raise BuildError(
                f"{path} has changed since its last build, or the course has. "
                f"Build it first: {COMMAND} --folder {root}"
            )


def read_lessons(root: Path, names: Iterable[str] = ()) -> dict[Path, NotebookNode]:
    """Reads all lessons of the course, or those in `names` of a private folder.

    An error names all that breaks a rule in them.
    """
    if not lesson_paths(root=root):
        raise BuildError(
            f"{root} holds no lesson. Write one: "
            f"python -m grader new lesson NAME --folder {root}"
        )
    private, lessons, problems = is_private(root), {}, []
    for path in lesson_paths(names if private else (), root):
        with noted(problems):
            lessons[path] = read(path, root)
        with noted(problems):
            problems += problems_of_answers(path) if private else ()
    if problems:
        raise SourceError(problems)
    return lessons


def stale(names: Iterable[str] = (), root: Path = ROOT) -> dict[Path, str]:
    """Names each file that a build would change, and why. Nothing is run."""
    lessons, files = read_lessons(root, names), {}
    for path in lesson_paths(names, root):
        solved = path.with_suffix(".ipynb")
        made = with_outputs(path, lessons[path], read_notebook(solved).cells)
        files[solved] = dumps(made).encode()
    made, missing = generated(lessons, root)
    found = dict.fromkeys(differing(files | made), "is not what a build writes")
    for path, texts in missing.items():
        named = "".join(f"\n  {text}" for text in texts)
        found[path] = f"lacks a translation, or has a stale (fuzzy) one, of:{named}"
    return found


def generated(
    lessons: Mapping[Path, NotebookNode], root: Path
) -> tuple[dict[Path, bytes | None], dict[Path, list[str]]]:
    """Makes all files that need no run, and lists the texts without a translation.

    These are the released notebooks, the learners' copies of the checks, and
    translations. Private lessons have no translations, but a copy of the package beside
    them. Modules that the package no longer has are None: they are to be removed.
    """
    released = {path.stem: release(notebook) for path, notebook in lessons.items()}
    private, folder = is_private(root), coursekit.folder(root)
    texts, missing = ({}, {}) if private else translated_files(released, root)
    for path in lessons:
        texts[released_path(path)] = dumps(released[path.stem])
        source = checks_path(path).read_text(encoding="utf-8")
        texts[folder / "checks" / path.name] = visible_source(source)
    files = {path: text.encode() for path, text in texts.items()}
    if private:
        gone = {*folder.rglob("*.py")} - {*folder.glob("checks/[0-9]*")}
        package = {folder / n: t.encode() for n, t in coursekit.read_common().items()}
        return dict.fromkeys(gone) | files | package, missing
    return files, missing


def lesson_sources(root: Path, names: Iterable[str] = ()) -> dict[str, str]:
    """Reads lessons' sources and checks, by their path below `root`."""
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for source in lesson_paths(names, root)
        for path in (source, checks_path(source))
    }


def examples_alone(names: Iterable[str], root: Path) -> list[tuple[str, str]]:
    """Lists the essential statements that no hidden case tries: (exercise, name)."""
    paths = map(checks_path, lesson_paths(names, root))
    return [one for path in paths for one in shown_only(path)]


def differing(files: Mapping[Path, bytes | None]) -> list[Path]:
    """Lists the files that do not hold these bytes; None: that should not exist."""
    return [
        path
        for path, data in files.items()
        if data != (path.read_bytes() if path.is_file() else None)
    ]


def write_differing(files: Mapping[Path, bytes | None]) -> list[Path]:
    """Writes or removes the files that differ; returns those that it wrote."""
    changed = differing(files)
    for path in changed:
        if files[path] is None:
            path.unlink()
        else:
            write_file(path, files[path])
    return [path for path in changed if path.exists()]


def run(path: Path, lesson: NotebookNode) -> NotebookNode:
    """Runs a lesson with its solutions, and makes the solved notebook.

    After a private lesson its known answers are tried, in the same process.
    """
    root, notebook = path.parents[1], without_hidden(lesson)
    files, end = lesson_sources(root, [path.stem]), len(notebook.cells)
    proven, answers = {}, []
    if is_private(root):
        proven, tried = proven_by_ours(path, lesson)
        answers = [one for one in answers_to(path) if one not in tried]
    for cell in notebook.cells:
        if cell.id in proven:
            cell.source = ""
    notebook.cells += [trial_cell(one, lesson) for one in answers]
    total = sum(cell.cell_type == "code" for cell in notebook.cells)
    with tqdm(total=total, desc=path.stem, unit="cell", disable=None) as bar:
        try:
            solved = execute(notebook, on_cell=bar.update, files=files)
        except (CellControlSignal, DeadKernelError) as error:
            raise BuildError(f"{path.name}: {error}") from None
    ran = solved.cells[end:]
    del solved.cells[end:]
    for cell in solved.cells:
        cell.update({"outputs": proven[cell.id]} if cell.id in proven else {})
    refuse_wrong_solutions(path, solved)
    refuse_wrong_answers(answers_folder(path), answers, ran)
    return with_outputs(path, lesson, solved.cells)


def proven_by_ours(
    path: Path, lesson: NotebookNode
) -> tuple[dict[str, list[NotebookNode]], set[KnownAnswer]]:
    """Finds in a copy of one of our lessons what our own build has proven.

    Returns the outputs of the checks of unchanged exercises, by cell, and the known
    answers that have been tried; nothing where anything of ours was changed, since any
    code may depend on it.
    """
    ours = ROOT / "solutions" / path.name
    if not ours.exists():
        return {}, set()
    theirs, solved = read(ours, ROOT), None
    sources = [
        {cell.source for cell in one.cells if cell.cell_type == "code"} - {setup}
        for one in (theirs, lesson)
        for setup in [next(cell.source for cell in one.cells if cell.id == "setup")]
    ]
    functions = [functions_in(checks_path(one)) for one in (ours, path)]
    if sources[0] <= sources[1] and functions[0] <= functions[1]:
        solved = last_run(ours, theirs)
    if solved is None:
        return {}, set()
    cells = checks(solved).values()
    return {one.id: one.outputs for one in cells}, {*answers_to(ours)}


def functions_in(path: Path) -> set[str]:
    """Returns the statements of a module of checks, except its imports and docstring.

    Where an exercise was added, these differ.
    """
    body = parse(path).body
    kept = (one for one in body if not isinstance(one, ast.Import | ast.ImportFrom))
    return {ast.dump(one) for one in kept if not isinstance(one, ast.Expr)}


def last_run(path: Path, lesson: NotebookNode) -> NotebookNode | None:
    """Makes the solved notebook with the outputs of its last run, if they are fresh."""
    earlier = read_notebook(path.with_suffix(".ipynb"))
    made = with_outputs(path, lesson, earlier.cells)
    return made if made.metadata["course"] == earlier.metadata.get("course") else None


def with_outputs(
    path: Path, lesson: NotebookNode, ran: list[NotebookNode]
) -> NotebookNode:
    """Makes the solved notebook of a lesson, with the outputs of cells that ran.

    The hashes of all that went into its run and of what came out prove it fresh.
    """
    solved = without_hidden(lesson)
    code = [cell for cell in solved.cells if cell.cell_type == "code"]
    outputs = [cell.outputs for cell in ran if cell.cell_type == "code"]
    for number, (cell, found) in enumerate(zip(code, outputs, strict=False), 1):
        cell.update(outputs=found, execution_count=number)
    inputs = [cell.source for cell in code]
    package = coursekit.read(coursekit.course_of(path.parents[1]))
    inputs += [version_of(package)]
    inputs += [checks_path(path).read_text(encoding="utf-8")]
    if is_private(path.parents[1]):
        inputs += [repr(answer) for answer in answers_to(path)]
    outputs = [cell.get("outputs") for cell in solved.cells]
    solved.metadata["course"] = {"inputs": digest(inputs), "outputs": digest(outputs)}
    return solved


def digest(value: list) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def read_notebook(path: Path) -> NotebookNode:
    """Reads a notebook; a missing or damaged one is empty."""
    try:
        return nbformat.read(path, as_version=4)
    except Exception:  # a damaged file may raise anything
        return nbformat.v4.new_notebook()


def refuse_wrong_solutions(path: Path, solved: NotebookNode) -> None:
    """Raises `BuildError` where a solution does not get all points of its check.

    A statement that was not tried has no expectation.
    """
    wrong = []
    for exercise, cell in checks(solved).items():
        results = [one.data for one in cell.outputs if "execution_count" in one]
        card = "".join(one.get("text/html", "") for one in results)
        is_right = f'"{exercise}: {RIGHT}, ' in card
        if not is_right or f">{MARKS[LATER]}</span>" in card:
            words = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", card)).split())
            # An author is not asked to report a fault.
            said = words.partition(" likely a fault of the course")[0] or "nothing"
            wrong.append(
                f"{path.name}: the solution of {exercise} does not get the "
                f"{points_for(cell):g} points of its check, or no block tries one of "
                f"its statements. It says: {said}"
            )
    if wrong:
        raise BuildError("\n".join(wrong))


def is_private(root: Path) -> bool:
    """Tells whether a folder holds private lessons, which use the course's package."""
    return coursekit.course_of(root) != root


def read(path: Path, root: Path) -> NotebookNode:
    """Makes the notebook of a lesson's source, not executed."""
    return read_lesson(path, repository_address(root))


def released_path(source: Path, language: str = "") -> Path:
    """Returns the file that learners open: in lessons/, or lessons/ko/."""
    return source.parent.parent / "lessons" / language / f"{source.stem}.ipynb"


def own_path(source: Path, root: Path) -> Path:
    """Returns the notebook that a learner works in, which may be in another language.

    Of several that hold answers, the one that was saved last.
    """
    paths = [released_path(source, language) for language in ("", *languages(root))]
    answered = [path for path in paths if answer_in(path)]
    return max(answered, key=lambda path: path.stat().st_mtime, default=paths[0])


def answer_in(released: Path) -> str:
    """Names an exercise that a learner has worked on in a released notebook, or "".

    A release carries the checksum of each of its exercises.
    """
    for cell in read_notebook(released).cells:
        facts = nbgrader_metadata(cell)
        checksum = facts.get("checksum") if facts.get("solution") else None
        if checksum and checksum != compute_checksum(cell):
            return facts["grade_id"]
    return ""
