"""Reads a lesson's percent script and checks it against the rules for lessons."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NoReturn

import jupytext
from nbformat import NotebookNode

from grader.authoring.check_source import ExerciseCheck, checks_path, read_checks
from grader.authoring.source_error import SourceError

MARKS = ("setup", "exercise", "hints", "check", "scorecard")
OPTIONS = {"exercise": ("minutes", "difficulty")}
REGION = "SOLUTION"
# Before a statement, its name, which learners do not see: "- [nan] Masked entries ..."
ANCHOR = re.compile(r"(?m)^(- |)\[([a-z0-9][^\[\]\n]*)\] ")
MAX_LINES, MAX_SOLUTION_LINES = 20, 15


class Cell:
    """One cell of a source: its text, its marks, and where it stands in the file.

    Attributes:
        anchors: names of the statements in a text cell, which its text no longer holds.
        unnamed: first lines of list items in a text cell that have no name.
    """

    def __init__(self, path: Path, line: int, cell: NotebookNode):
        self.path, self.line, self.source = path, line, cell.source
        self.is_code = cell.cell_type == "code"
        self.anchors: list[str] = []
        self.unnamed: list[str] = []
        if not self.is_code:
            self.anchors = [found[2] for found in ANCHOR.finditer(cell.source)]
            self.unnamed = re.findall(r"(?m)^- (?!\[[a-z0-9])(.*)", cell.source)
            self.source = ANCHOR.sub(r"\1", cell.source)
        self.marks = dict(cell.metadata)
        self.marks.pop("lines_to_next_cell", None)  # jupytext's own
        self.mark = next((mark for mark in MARKS if mark in self.marks), "")
        name = self.marks.get(self.mark, "")
        self.name = self.mark if name is True else name  # setup=true, scorecard=true

    def fail(self, problem: str, remedy: str, offset: int = -1) -> NoReturn:
        """Raises a `SourceError` for this cell's header, or a line of its text."""
        raise SourceError(self.path, self.line + 1 + offset, problem, remedy)

    def number(self, option: str) -> float:
        """Reads a mark that must be a positive number."""
        value = self.marks.get(option)
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            self.fail(
                f'{option} of "{self.name}" is {value!r}, not a positive number.',
                f"Write {option}=2 in the cell's header.",
            )
        return value


def read_source(path: Path) -> list[Cell]:
    """Splits a percent script into cells, and checks the rules for each.

    Raises:
        SourceError: the source breaks one of the rules in CONTRIBUTING.md.
    """
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise SourceError(path, line, "Not UTF-8.", "Save it as UTF-8.") from None
    cells = jupytext.reads(text, fmt="py:percent").cells
    lines = [
        number
        for number, line in enumerate(text.splitlines(), 1)
        if re.match(r"# %%(\s|$)", line)
    ]
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"#\s*%%", line) and number not in lines:
            remedy = 'Start it with "# %%" and a space: "# %% [markdown]".'
            raise SourceError(path, number, "Not a cell's header.", remedy)
    if not lines:
        raise SourceError(path, 1, "No cells.", 'Begin with "# %% [markdown]".')
    if len(cells) != len(lines):
        raise SourceError(path, 1, "Text before the first cell.", "Move it into one.")
    cells = [Cell(path, *pair) for pair in zip(lines, cells, strict=True)]
    check_marks(cells)
    for cell in cells:
        check_size(cell)
    return cells


def check_marks(cells: list[Cell]) -> None:
    """Checks names, order and completeness of exercises, hints and checks."""
    named: dict[tuple[str, str], Cell] = {}
    for cell in cells:
        allowed = {cell.mark, *OPTIONS.get(cell.mark, ())}
        for key in cell.marks.keys() - allowed:
            cell.fail(f'Unknown mark "{key}".', f"Known are: {', '.join(MARKS)}.")
        if cell.mark and (cell.mark, cell.name) in named:
            cell.fail(f'Duplicate {cell.mark} "{cell.name}".', "Rename one of the two.")
        if cell.mark:
            named[cell.mark, cell.name] = cell
        if cell.mark and cell.is_code != (cell.mark != "hints"):
            kind = "a text cell: # %% [markdown]" if cell.is_code else "a code cell"
            cell.fail(
                f'{cell.mark} "{cell.name}" is in the wrong cell.', f"Use {kind}."
            )
        if cell.mark in ("check", "hints") and ("exercise", cell.name) not in named:
            cell.fail(
                f'{cell.mark} "{cell.name}" has no exercise before it.',
                f"Add a cell '# %% exercise=\"{cell.name}\"' or correct the name.",
            )
    for mark in ("setup", "scorecard"):
        if (mark, mark) not in named:
            cells[-1].fail(f"The {mark} cell is missing.", f"Add # %% {mark}=true.")
    for (mark, name), cell in named.items():
        if mark != "exercise":
            continue
        for partner in ("hints", "check"):
            if (partner, name) not in named:
                kind = " [markdown]" if partner == "hints" else ""
                remedy = f"Add a cell '# %%{kind} {partner}=\"{name}\"' after it."
                what = "hint" if partner == "hints" else "check"
                cell.fail(f'Exercise "{name}" has no {what}.', remedy)


def checks_of(path: Path, cells: list[Cell]) -> dict[str, ExerciseCheck]:
    """Reads a lesson's checks, which must prove what its text states and nothing else.

    Raises:
        SourceError: they do not.
    """
    path = checks_path(path)
    found = read_checks(path)
    for cell in (one for one in cells if one.mark == "check"):
        if cell.name not in found:
            problem = f'There is no check of "{cell.name}".'
            remedy = f'Add a function with @visible("{cell.name}", ...).'
            raise SourceError(path, 1, problem, remedy)
    for name, check in found.items():
        texts = texts_of(cells, name)
        own = [anchor for cell in texts for anchor in cell.anchors]
        if texts and not own:
            problem = f"The text of {name} states nothing by name."
            texts[0].fail(problem, "Begin a statement with its name: [name] ...")
        for cell in texts:
            for line in cell.unnamed:
                problem = f'A statement of {name} has no name: "{line}"'
                cell.fail(problem, "Begin it with one: - [name] ...")
        for anchor in own:
            if anchor not in check.statements:
                problem = f'Nothing proves "{anchor}" of {name}.'
                remedy = "Name it in @visible, and prove it."
                raise SourceError(path, check.line, problem, remedy)
        for anchor in check.statements:
            if texts and anchor not in (*own, *shared(cells)):
                remedy = f"Mark the sentence that does: - [{anchor}] ..."
                problem = f'The text of {name} does not state "{anchor}".'
                raise SourceError(path, check.line, problem, remedy)
    for name, check in found.items():
        if not any(cell.mark == "check" and cell.name == name for cell in cells):
            problem = f'The lesson has no exercise "{name}".'
            raise SourceError(path, check.line, problem, "Remove its check.")
    return found


def shared(cells: list[Cell]) -> list[str]:
    """Lists what a lesson states of several exercises."""
    names = [cell.name for cell in cells if cell.mark == "exercise"]
    of_exercises = [cell for name in names for cell in texts_of(cells, name)]
    return [n for c in cells if c not in of_exercises for n in c.anchors]


def texts_of(cells: list[Cell], exercise: str) -> list[Cell]:
    """Lists the text cells from an exercise's heading to its own cell."""
    found: list[Cell] = []
    for cell in cells:
        if cell.mark == "exercise" and cell.name == exercise:
            return found
        if cell.mark or cell.source.startswith("### Exercise"):
            found = []
        if not cell.mark and not cell.is_code:
            found.append(cell)
    return []


def check_size(cell: Cell) -> None:
    """Checks regions, syntax, and the limits of a cell's length."""
    if not cell.is_code:
        return
    solution = region_lines(cell, REGION)
    if cell.mark == "exercise" and not solution:
        remedy = "Put ### BEGIN SOLUTION and ### END SOLUTION around the answer."
        cell.fail(f'Exercise "{cell.name}" has no solution region.', remedy)
    if solution > MAX_SOLUTION_LINES:
        problem = f"The solution has {solution} lines."
        cell.fail(problem, f"Shorten it to {MAX_SOLUTION_LINES}.")
    if cell.mark == "check" and cell.source.strip():
        remedy = f"Move its code to {checks_path(cell.path)}."
        cell.fail(f'The check of "{cell.name}" is written by the build.', remedy)
    code = len(re.findall(r"(?m)^\s*(?!### )\S", cell.source)) - solution
    if code > MAX_LINES and cell.mark != "exercise":
        cell.fail(f"The code has {code} lines.", f"Split it: {MAX_LINES} at most.")
    try:
        tree = ast.parse(cell.source)
    except SyntaxError as error:
        cell.fail(
            f"{error.msg}.", "Correct the syntax.", offset=(error.lineno or 1) - 1
        )
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if cell.mark == "exercise" and cell.name not in names:
        remedy = f"Name the function or the exercise alike (found: {names})."
        cell.fail(f'Exercise "{cell.name}" does not define {cell.name}().', remedy)


def region_lines(cell: Cell, region: str) -> int:
    """Counts a region's lines with text; its first and last line must pair up."""
    begin, count, lines = None, 0, cell.source.splitlines()
    for offset, line in enumerate(lines):
        if f"### BEGIN {region}" in line:
            if begin is not None:
                cell.fail(f"### BEGIN {region} twice.", "Close the first.", offset)
            begin = offset
        elif f"### END {region}" in line:
            if begin is None:
                remedy = f"Add ### BEGIN {region} before it."
                cell.fail(f"### END {region} closes nothing.", remedy, offset)
            count += sum(bool(text.strip()) for text in lines[begin + 1 : offset])
            begin = None
    if begin is not None:
        remedy = f"Add ### END {region} after the last of its lines."
        cell.fail(f"### BEGIN {region} is never closed.", remedy, begin)
    return count
