"""Makes a lesson's notebook, solutions included, out of its source's cells."""

from __future__ import annotations

import ast
import hashlib
import re
import tomllib
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader import ROOT
from grader.authoring import coursekit
from grader.authoring.check_source import (
    ExerciseCheck,
    checks_path,
    read_text,
    visible_source,
)
from grader.authoring.release import (
    CHECK_PREFIX,
    COURSE,
    nbgrader_metadata,
    with_checks,
)
from grader.authoring.source import Cell, checks_of, read_source

ALWAYS_IMPORTED = ("check", "example", "observe", "scorecard")
IMPORT_HIDDEN = "from coursekit.checks import hidden, solution"


def read_lesson(path: Path, repository: str) -> NotebookNode:
    """Makes the notebook of the lesson in `path`, with solutions and without outputs.

    `repository` is the course's address, from which Colab fetches the package.

    Raises:
        SourceError: the source breaks one of the rules in CONTRIBUTING.md.
    """
    cells = read_source(path)
    checks = checks_of(path, cells)
    made, setup = [], setup_source(path, cells, repository)
    if cells[0].mark == "exercise":
        with_exercise_facts(cells[0], cells[0], checks)
    for position, cell in enumerate(cells):
        follower = cells[position + 1] if position + 1 < len(cells) else None
        made.append(make_cell(cell, follower, cells, checks, setup, repository))
    metadata = {
        "kernelspec": {
            "display_name": "Python 3 (ipykernel)",
            "language": "python",
            "name": "python3",
        },
        "language_info": {"name": "python"},
    }
    notebook = nbformat.v4.new_notebook(cells=made, metadata=metadata)
    set_ids(notebook)
    return with_checks(notebook, visible_source(read_text(checks_path(path))))


def make_cell(
    cell: Cell,
    follower: Cell | None,
    cells: list[Cell],
    checks: dict[str, ExerciseCheck],
    setup: str,
    repository: str,
) -> NotebookNode:
    """Makes a notebook cell: generated text, the source's, and nbgrader's metadata."""
    source = cell.source
    if cell.mark == "setup":
        source = setup
    elif cell.mark == "exercise":
        source = f"# exercise: {cell.name}\n{source}"
    elif cell.mark == "check":
        solved = next(c for c in cells if (c.mark, c.name) == ("exercise", cell.name))
        source = check_cell(checks[cell.name], solved.source)
    elif cell.mark == "scorecard":
        source = "scorecard()"
    elif cell.mark == "hints":
        source = details(cell)
    elif not cell.is_code:
        badge = colab_badge(repository, cell.path.stem)
        source = source.replace("COLAB_BADGE", badge)
    if follower is not None and follower.mark == "exercise":
        source = with_exercise_facts(cell, follower, checks)
    if not cell.is_code:
        return nbformat.v4.new_markdown_cell(source)
    metadata = grading_metadata(cell, checks.get(cell.name))
    return nbformat.v4.new_code_cell(source, metadata=metadata)


def check_cell(check: ExerciseCheck, solution: str) -> str:
    """Writes the line that checks an exercise, below its hidden cases and solution.

    nbgrader takes the lines between the marks out of what it releases, and puts them
    back into what it grades.
    """
    line = f'check("{check.exercise}")'
    if not check.hidden:
        return line
    text = re.sub(r"(?m)^\s*### (BEGIN|END) SOLUTION\n?", "", solution)
    text = text.replace("\\", r"\\").replace("'''", r"\'\'\'")
    return (
        f"### BEGIN HIDDEN TESTS\n{IMPORT_HIDDEN}\n\n"
        f"solution('''\n{text}\n''')\n\n\n{check.hidden}\n\n\n"
        f"### END HIDDEN TESTS\n{line}"
    )


def grading_metadata(cell: Cell, check: ExerciseCheck | None) -> dict:
    """Writes nbgrader's metadata."""
    is_check, is_exercise = cell.mark == "check", cell.mark == "exercise"
    metadata = {
        "grade": is_check,
        "grade_id": (CHECK_PREFIX if is_check else "") + cell.name,
        "locked": not is_exercise,
        "schema_version": 3,
        "solution": is_exercise,
        "task": False,
    }
    if not is_check:
        return {"nbgrader": metadata}
    metadata["points"] = check.maximum
    bonus = {COURSE: {"bonus": check.points}} if check.bonus else {}
    return {"nbgrader": metadata} | bonus


def with_exercise_facts(
    cell: Cell, exercise: Cell, checks: dict[str, ExerciseCheck]
) -> str:
    """Writes minutes, difficulty and points below the heading of an exercise."""
    heading = re.match(rf"### Exercise [\d.]+: {exercise.name}\b.*\n", cell.source)
    if cell.is_code or not heading:
        exercise.fail(
            f'Exercise "{exercise.name}" has no statement right before it.',
            f'Add a text cell that starts with "### Exercise N.M: {exercise.name}".',
        )
    minutes, difficulty = exercise.number("minutes"), exercise.number("difficulty")
    if difficulty not in (1, 2, 3):
        exercise.fail(f"difficulty is {difficulty}.", "Choose 1, 2 or 3.")
    points = checks[exercise.name].points
    bonus = "bonus " if checks[exercise.name].bonus else ""
    worth = f"{points} {bonus}point{'' if points == 1 else 's'}"
    facts = f"\n*About {minutes} minutes. Difficulty {difficulty} of 3. {worth}.*\n"
    return heading.group() + facts + cell.source[heading.end() :]


def details(cell: Cell) -> str:
    """Folds a list of two or three hints, each a `- ` item, into collapsed blocks."""
    before, *hints = re.split(r"(?m)^- ", cell.source)
    if before.strip() or not 2 <= len(hints) <= 3:
        problem = f'"{cell.name}" has {len(hints)} hints.'
        if hints and before.strip():
            problem = f'"{cell.name}" has text before its first hint.'
        cell.fail(problem, 'Give two or three, each a list item ("# - ...").')
    return "\n".join(
        f"<details><summary>Hint {number}</summary>\n\n"
        + re.sub(r"(?m)^  ", "", hint).strip()
        + "\n\n</details>"
        for number, hint in enumerate(hints, 1)
    )


def set_ids(notebook: NotebookNode) -> None:
    """Gives each cell its grade id, or one derived from its text, so builds agree."""
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        metadata = nbgrader_metadata(cell)
        name = metadata.get("grade_id") or ""
        if not name:
            name = "cell-" + hashlib.sha256(cell.source.encode()).hexdigest()[:12]
            seen[name] = seen.get(name, 0) + 1
            name += f"-{seen[name]}" if seen[name] > 1 else ""
        cell.id = name
        if metadata:
            metadata["grade_id"] = name


def repository_address(root: Path = ROOT) -> str:
    """Reads the course's address, the one place a fork changes, from pyproject.toml."""
    with open(root / "pyproject.toml", "rb") as file:
        return tomllib.load(file)["tool"]["course"]["repository"].rstrip("/")


def setup_source(path: Path, cells: list[Cell], repository: str) -> str:
    """Writes a lesson's set-up cell.

    It says where Colab finds the package, of which version and lesson the notebook is,
    and imports by name what the lesson's cells use of the package.
    """
    template = path.with_name("setup_cell.py").read_text(encoding="utf-8")
    modules = coursekit.read(path.parents[1])
    version = coursekit.version(modules)
    name = coursekit.archive_path(version).as_posix()
    used = {
        node.id
        for cell in cells
        if cell.is_code
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Name)
    }
    names = sorted({*ALWAYS_IMPORTED, *used & coursekit.names_for_notebooks(modules)})
    return (
        template.strip()
        .replace("COURSEKIT_URL", f"{repository}/raw/main/{name}")
        .replace("COURSEKIT_NAME", name.rpartition("/")[2])
        .replace("COURSEKIT_VERSION", version)
        .replace("COURSE_LESSON", path.stem)
        .replace("COURSE_NAMES", ", ".join(names))
    )


def colab_badge(repository: str, lesson: str, language: str = "") -> str:
    """Writes the Markdown badge that opens a lesson in Colab."""
    owner_and_name = "/".join(repository.split("/")[-2:])
    folder = f"lessons/{language}" if language else "lessons"
    target = f"github/{owner_and_name}/blob/main/{folder}/{lesson}.ipynb"
    image = "https://colab.research.google.com/assets/colab-badge.svg"
    return f"[![Open in Colab]({image})](https://colab.research.google.com/{target})"
