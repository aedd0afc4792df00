"""Makes a lesson's notebook, solutions included, out of its source's cells."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import tomllib
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader import ROOT
from grader.authoring import coursekit
from grader.authoring.notebook import (
    CHECK_PREFIX,
    COURSE,
    HELPERS_PREFIX,
    nbgrader_metadata,
)
from grader.authoring.source import Cell, read_source, statements

MAX_WIDTH = 88  # columns of a line that the build writes


def read_lesson(path: Path, repository: str) -> NotebookNode:
    """Makes the notebook of the lesson in `path`, with solutions and without outputs.

    `repository` is the course's address, from which Colab fetches the package.

    Raises:
        SourceError: the source breaks one of the rules in CONTRIBUTING.md.
    """
    cells = read_source(path)
    checks = {c.name: c for c in cells if c.mark == "check"}
    made = []
    if cells[0].mark == "exercise":
        with_exercise_facts(cells[0], cells[0], checks)
    stated = {name: statements(cells, name) for name in checks}
    for position, cell in enumerate(cells):
        follower = cells[position + 1] if position + 1 < len(cells) else None
        made.append(make_cell(cell, follower, checks, stated, repository, path.stem))
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
    return notebook


def make_cell(
    cell: Cell,
    follower: Cell | None,
    checks: dict[str, Cell],
    stated: dict[str, list[str]],
    repository: str,
    lesson: str,
) -> NotebookNode:
    """Makes a notebook cell: generated text, the source's, and nbgrader's metadata."""
    source = cell.source
    if cell.mark == "setup":
        template = cell.path.with_name("setup_cell.py").read_text(encoding="utf-8")
        version = coursekit.version(coursekit.read(cell.path.parents[1]))
        source = fill_in_setup(template, repository, version)
    elif cell.mark == "exercise":
        source = f"# exercise: {cell.name}\n{source}"
    elif cell.mark == "helpers":
        source = f"# For the check of {cell.name}: nothing to do here.\n{source}"
    elif cell.mark == "check":
        header = check_header(cell.name, cell.number("points"), stated[cell.name])
        # Learners' check would end in these blank lines.
        source = re.sub(r"\n{2,}(?=### BEGIN HIDDEN TESTS)", "\n", source)
        source = f"{header}\n{indented(source)}"
    elif cell.mark == "scorecard":
        maxima = {name: maximum(check) for name, check in checks.items()}
        rows = "".join(f"    {name}={value},\n" for name, value in maxima.items())
        source = f"scorecard(\n{rows})"
    elif cell.mark == "hints":
        source = details(cell)
    elif not cell.is_code:
        source = source.replace("COLAB_BADGE", colab_badge(repository, lesson))
    if follower is not None and follower.mark == "exercise":
        source = with_exercise_facts(cell, follower, checks)
    if not cell.is_code:
        return nbformat.v4.new_markdown_cell(source)
    return nbformat.v4.new_code_cell(source, metadata=grading_metadata(cell))


def check_header(name: str, points: float, stated: list[str]) -> str:
    """Writes the line that a check begins with, and the statements that it proves."""
    words = [f'"{name}"', f"points={points}", f"statements={json.dumps(stated)}"]
    line = f"with check({', '.join(words)}):"
    if len(line) <= MAX_WIDTH:
        return line
    names = "".join(f"        {json.dumps(one)},\n" for one in stated)
    words[-1] = f"statements=[\n{names}    ]"
    return "with check(\n" + "".join(f"    {word},\n" for word in words) + "):"


def indented(source: str) -> str:
    """Indents code by four spaces, except inside strings over several lines."""
    strings = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant))
    inside = {line for n in strings for line in range(n.lineno + 1, n.end_lineno + 1)}
    lines = enumerate(source.split("\n"), 1)
    return "\n".join(
        line if number in inside or not line else f"    {line}"
        for number, line in lines
    )


def maximum(check: Cell) -> float:
    """Says how many points of a check count in the lesson's maximum: 0 of a bonus."""
    return 0 if check.marks.get("bonus") else check.number("points")


def grading_metadata(cell: Cell) -> dict:
    """Writes nbgrader's metadata; a failed check must not stop a "run all".

    JupyterLab shows helpers folded.
    """
    is_check, is_exercise = cell.mark == "check", cell.mark == "exercise"
    prefixes = {"check": CHECK_PREFIX, "helpers": HELPERS_PREFIX}
    metadata = {
        "grade": is_check,
        "grade_id": prefixes.get(cell.mark, "") + cell.name,
        "locked": not is_exercise,
        "schema_version": 3,
        "solution": is_exercise,
        "task": False,
    }
    if cell.mark == "helpers":
        return {"nbgrader": metadata, "jupyter": {"source_hidden": True}}
    if not is_check:
        return {"nbgrader": metadata}
    metadata["points"] = maximum(cell)
    found = {"nbgrader": metadata, "tags": ["raises-exception"]}
    if cell.marks.get("bonus"):
        found[COURSE] = {"bonus": cell.number("points")}
    return found


def with_exercise_facts(cell: Cell, exercise: Cell, checks: dict[str, Cell]) -> str:
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
    points = checks[exercise.name].number("points")
    bonus = "bonus " if checks[exercise.name].marks.get("bonus") else ""
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


def fill_in_setup(template: str, repository: str, version: str) -> str:
    """Writes the set-up cell: where Colab finds the package, and which version."""
    name = coursekit.archive_path(version).as_posix()
    return (
        template.strip()
        .replace("COURSEKIT_URL", f"{repository}/raw/main/{name}")
        .replace("COURSEKIT_NAME", name.rpartition("/")[2])
        .replace("COURSEKIT_VERSION", version)
    )


def colab_badge(repository: str, lesson: str, language: str = "") -> str:
    """Writes the Markdown badge that opens a lesson in Colab."""
    owner_and_name = "/".join(repository.split("/")[-2:])
    folder = f"lessons/{language}" if language else "lessons"
    target = f"github/{owner_and_name}/blob/main/{folder}/{lesson}.ipynb"
    image = "https://colab.research.google.com/assets/colab-badge.svg"
    return f"[![Open in Colab]({image})](https://colab.research.google.com/{target})"
