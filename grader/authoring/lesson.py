"""Reads a lesson's percent script, and makes its notebook with solutions."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from coursekit.outcomes import share_of_each
from coursekit.setup import version_of
from grader import ROOT
from grader.authoring.check_source import (
    ExerciseCheck,
    bound_names,
    checks_path,
    parse,
    problems_of_checks,
    read_checks,
    visible_source,
)
from grader.authoring.rules import (
    MAX_LINES,
    MAX_SOLUTION_LINES,
    MAX_STATEMENTS,
    Problem,
    SourceError,
    problem,
)
from grader.lessons import coursekit
from grader.lessons.release import CHECK_PREFIX, COURSE, with_checks

MARKS = ("setup", "exercise", "hints", "check", "built", "scorecard")
TEXTS = ("hints", "built")  # marks of text cells
HEADER = re.compile(r"(?m)^#\s*%%(?=\s|$)")
SOLUTION = re.compile(r"(?s)### BEGIN SOLUTION\n(.*?)### END SOLUTION")
# A statement begins with its name, as a card shows it: "- [nan] Masked entries ..."
STATEMENT_NAME = re.compile(r"(?m)^- \[([a-z0-9][^\[\]\n]*)\] ")
# A list of statements, with blank lines between them or without.
STATEMENTS = re.compile(
    r"(?m)(?:^- \[[a-z0-9].*\n?(?:^  .*\n?)*(?:\n+(?=- \[[a-z0-9]))?)+"
)
STATEMENT = re.compile(r"(?ms)^- \[([a-z0-9][^\[\]\n]*)\] (.*?)(?=^- |^$|\Z)")
COMMENT = re.compile(r"(?s)<!--.*?-->\n?")  # what an author notes in a text cell
ALWAYS_IMPORTED = ("check", "example", "observe", "scorecard")
PYTHON = {
    "name": "python3",
    "display_name": "Python 3 (ipykernel)",
    "language": "python",
}


class Cell:
    """One cell of a percent script.

    Attributes:
        line: the line of its header.
        marks: what its header says: `{"exercise": "double", "minutes": 3}`.
        mark, name: what the cell is for, and of which exercise: "check", "double".
        source: its text.
        statements, unnamed: the names of its statements, and list items without one.
    """

    def __init__(self, path: Path, line: int, cell: NotebookNode):
        self.path, self.line = path, line
        self.marks = dict(cell.metadata)
        self.marks.pop("lines_to_next_cell", None)  # jupytext's own
        self.mark = next((mark for mark in MARKS if mark in self.marks), "")
        name = self.marks.get(self.mark, "")
        self.name = self.mark if name is True else name  # setup=true, scorecard=true
        self.is_code = cell.cell_type == "code"
        self.source, self.statements, self.unnamed = cell.source, [], []
        if not self.is_code:
            self.source = COMMENT.sub("", self.source)
            self.statements = STATEMENT_NAME.findall(self.source)
            self.unnamed = re.findall(r"(?m)^- (?!\[[a-z0-9])(.*)", self.source)

    def problem(self, rule: str, **values: object) -> Problem:
        return problem(self.path, self.line, rule, **{"name": self.name} | values)


def read_lesson(path: Path, repository: str) -> NotebookNode:
    """Makes the notebook of the lesson in `path`, with solutions and without outputs.

    `repository` is the course's address, from which Colab fetches the package.

    Raises:
        SourceError: the lesson or its checks break some of the `RULES`.
    """
    cells, checks = read_sources(path)
    solutions = {cell.name: cell.source for cell in cells if cell.mark == "exercise"}
    made, hashes, rules = [], Counter(), rules_of(cells)
    for cell, follower in zip(cells, [*cells[1:], None], strict=True):
        source, check = cell.source, checks.get(cell.name)
        if cell.mark == "setup":
            source = setup_source(path, repository)
        elif cell.mark == "exercise":
            source = f"# exercise: {cell.name}\n{source}"
        elif cell.mark == "hints":
            source = folded_hints(cell)
        elif cell.mark == "built":
            source = folded("What you have built", source)
        elif cell.mark == "check":
            source = check_cell(check, cell.name, solutions[cell.name])
        elif cell.mark == "scorecard":
            source = "scorecard()"
        elif not cell.is_code:
            source = source.replace("COLAB_BADGE", colab_badge(repository, path.stem))
        if follower and follower.mark == "exercise":
            check_of_task = checks[follower.name]
            source = with_exercise_facts(source, follower, check_of_task, rules)
        if not cell.is_code:
            source = STATEMENT_NAME.sub("- ", source)
        name = cell.name if cell.is_code else ""
        if cell.mark == "check":
            name = CHECK_PREFIX + name
        if not name:  # one from its text, so that builds agree
            name = "cell-" + hashlib.sha256(source.encode()).hexdigest()[:12]
            hashes[name] += 1
            name += f"-{hashes[name]}" if hashes[name] > 1 else ""
        if cell.is_code:
            metadata = grading_metadata(cell.mark, name, check)
            made.append(nbformat.v4.new_code_cell(source, id=name, metadata=metadata))
        else:
            made.append(nbformat.v4.new_markdown_cell(source, id=name))
    metadata = {"kernelspec": PYTHON, "language_info": {"name": "python"}}
    notebook = nbformat.v4.new_notebook(cells=made, metadata=metadata)
    visible = visible_source(checks_path(path).read_text(encoding="utf-8"))
    return with_checks(notebook, visible)


def read_sources(path: Path) -> tuple[list[Cell], dict[str, ExerciseCheck]]:
    """Reads a lesson's cells and checks, and checks all rules for them."""
    problems: list[Problem] = []
    cells, checks = [], None
    with noted(problems):
        cells = read_cells(path)
        problems += problems_of_cells(cells)
    with noted(problems):
        checks = read_checks(checks_path(path))
        problems += problems_of_checks(checks_path(path), checks)
    if cells and checks is not None:
        problems += problems_of_both(cells, checks)
    if problems:
        raise SourceError(problems)
    return cells, checks


@contextlib.contextmanager
def noted(problems: list[Problem]) -> Iterator[None]:
    """Goes on after a file that cannot be read."""
    try:
        yield
    except SourceError as error:
        problems += error.problems


def read_cells(path: Path) -> list[Cell]:
    """Splits a percent script into cells."""
    parse(path)
    text = path.read_text(encoding="utf-8")
    lines = [text.count("\n", 0, at.start()) + 1 for at in HEADER.finditer(text)]
    cells = jupytext.reads(text, fmt="py:percent").cells
    if not cells or len(cells) != len(lines):
        raise SourceError([problem(path, 1, "first cell")])
    return [Cell(path, *pair) for pair in zip(lines, cells, strict=True)]


def problems_of_cells(cells: list[Cell]) -> Iterator[Problem]:
    """Yields what breaks the rules for cells."""
    named: dict[tuple[str, str], Cell] = {}
    for previous, cell in zip([None, *cells], cells, strict=False):
        mark = cell.mark
        options = {"minutes", "difficulty"} if mark == "exercise" else set()
        for key in cell.marks.keys() - {mark} - options:
            yield cell.problem("known mark", mark=key, known=", ".join(MARKS))
        if mark and cell.is_code == (mark in TEXTS):
            yield cell.problem("kind of cell", mark=mark)
        elif mark == "hints":
            before, *hints = re.split(r"(?m)^- ", cell.source)
            if before.strip() or not 2 <= len(hints) <= 3:
                yield cell.problem("number of hints", count=len(hints))
        if mark and (mark, cell.name) in named:
            yield cell.problem("one of each", mark=mark)
        if mark in ("check", *TEXTS) and ("exercise", cell.name) not in named:
            yield cell.problem("exercise first", mark=mark)
        if mark == "check" and cell.source.strip():
            yield cell.problem("empty check", file=checks_path(cell.path))
        if mark == "exercise":
            yield from problems_of_exercise(cell, previous)
        elif cell.is_code and num_lines(cell.source) > MAX_LINES:
            yield cell.problem("length of code", lines=num_lines(cell.source))
        if mark:
            named.setdefault((mark, cell.name), cell)
    for mark in ("setup", "scorecard"):
        if (mark, mark) not in named:
            yield cells[-1].problem("set-up and scorecard", mark=mark)
    for (mark, name), cell in named.items():
        for part in ("hints", "check", "built"):
            if mark == "exercise" and (part, name) not in named:
                kind = "[markdown] " if part in TEXTS else ""
                yield cell.problem("part", part=part, kind=kind)


def problems_of_exercise(cell: Cell, previous: Cell | None) -> Iterator[Problem]:
    """Yields what breaks the rules for an exercise's cell and the text before it."""
    heading = rf"### Exercise [\d.]+: {cell.name}\b.*\n"
    if not previous or previous.is_code or not re.match(heading, previous.source):
        yield cell.problem("task")
    elif len(previous.statements) > MAX_STATEMENTS:
        count = len(previous.statements)
        yield previous.problem("number of statements", name=cell.name, count=count)
    minutes, difficulty = cell.marks.get("minutes"), cell.marks.get("difficulty")
    if not isinstance(minutes, int) or minutes <= 0 or minutes % 5:
        yield cell.problem("minutes", minutes=minutes)
    if difficulty not in (1, 2, 3):
        yield cell.problem("difficulty", difficulty=difficulty)
    solutions = SOLUTION.findall(cell.source)
    marks = re.findall("### (BEGIN|END) SOLUTION", cell.source)
    count = num_lines("".join(solutions))
    if marks != ["BEGIN", "END"] * len(solutions) or not count:
        yield cell.problem("solution")
    elif count > MAX_SOLUTION_LINES:
        yield cell.problem("length of solution", lines=count)
    if cell.is_code and cell.name not in bound_names(cell.source):
        yield cell.problem("function")


def problems_of_both(
    cells: list[Cell], checks: dict[str, ExerciseCheck]
) -> Iterator[Problem]:
    """Yields where the text states something else than what the checks are about."""
    lesson = cells[0].path
    path = checks_path(lesson)
    tasks = tasks_of(cells)
    others = [cell for cell in cells if cell not in tasks.values()]
    of_all = {one for cell in others for one in cell.statements}
    for name in tasks.keys() - checks.keys():
        yield problem(path, 1, "visible check", name=name)
    for name in checks.keys() - tasks.keys():
        yield problem(path, checks[name].line, "check of an exercise", name=name)
    for name in checks.keys() & tasks.keys():
        stated, own = {*tasks[name].statements}, {*checks[name].statements}
        for item in tasks[name].unnamed:
            yield tasks[name].problem("named statement", name=name, item=item)
        faults = dict.fromkeys(stated - own if own else (), "proven")
        faults |= dict.fromkeys(own - stated - of_all, "stated")
        for one, rule in faults.items():
            yield problem(path, checks[name].line, rule, name=name, statement=one)
    defined = bound_names(lesson.read_text(encoding="utf-8")) | names_of_setup(lesson)
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.ImportFrom) and node.module == "coursekit.learner":
            for name in {one.name for one in node.names} - defined:
                yield problem(path, node.lineno, "learner's name", name=name)


def num_lines(text: str) -> int:
    """Counts the lines of code: neither blank nor a comment."""
    lines = (line.strip() for line in text.splitlines())
    return sum(bool(line) and not line.startswith("#") for line in lines)


def check_cell(check: ExerciseCheck, exercise: str, solution: str) -> str:
    """Writes the line that checks an exercise, below its hidden cases and solution.

    nbgrader takes the lines between the marks out of what it releases, and puts them
    back into what it grades.
    """
    line = f'check("{exercise}")'
    if not check.hidden:
        return line
    text = re.sub(r"(?m)^\s*### (BEGIN|END) SOLUTION\n?", "", solution)
    text = text.replace("\\", r"\\").replace("'''", r"\'\'\'")
    return (
        "### BEGIN HIDDEN TESTS\nfrom coursekit.checks import hidden, solution\n\n"
        f"solution('''\n{text}\n''')\n\n\n{check.hidden}\n\n\n"
        f"### END HIDDEN TESTS\n{line}"
    )


def grading_metadata(mark: str, name: str, check: ExerciseCheck | None) -> dict:
    """Writes nbgrader's metadata of a code cell, and what a bonus is worth."""
    metadata = {
        "grade": mark == "check",
        "grade_id": name,
        "locked": mark != "exercise",
        "schema_version": 3,
        "solution": mark == "exercise",
        "task": False,
    }
    if mark != "check":
        return {"nbgrader": metadata}
    bonus = {COURSE: {"bonus": check.points}} if check.bonus else {}
    return {"nbgrader": metadata | {"points": check.maximum}} | bonus


def tasks_of(cells: list[Cell]) -> dict[str, Cell]:
    """Maps each exercise to the cell before it, which states its task."""
    pairs = zip([cells[0], *cells], cells, strict=False)
    return {cell.name: before for before, cell in pairs if cell.mark == "exercise"}


def rules_of(cells: list[Cell]) -> dict[str, str]:
    """Lists what holds for all exercises of a lesson: each statement's first sentence.

    A name in bold before it, as a list may have, is no part of it.
    """
    tasks = tasks_of(cells).values()
    others = [cell.source for cell in cells if not cell.is_code and cell not in tasks]
    return {
        name: re.match(r"(?:\*\*.*?\*\* )?(.*?[.!?])(?=\s|$)", one_line(text))[1]
        for source in others
        for name, text in STATEMENT.findall(source)
    }


def one_line(text: str) -> str:
    return " ".join(text.split())


def with_exercise_facts(
    task: str, exercise: Cell, check: ExerciseCheck, rules: Mapping[str, str]
) -> str:
    """Adds minutes, difficulty and points, and makes a table of the statements."""
    heading, _, text = task.partition("\n")
    text = STATEMENTS.sub(lambda found: table_of(found[0], check, rules), text)
    minutes, difficulty = exercise.marks["minutes"], exercise.marks["difficulty"]
    worth = f"{check.points}{' bonus' if check.bonus else ''} point"
    worth += "" if check.points == 1 else "s"
    facts = f"*About {minutes} minutes. Difficulty {difficulty} of 3. {worth}.*"
    return f"{heading}\n\n{facts}\n{text}".rstrip()


def table_of(statements: str, check: ExerciseCheck, rules: Mapping[str, str]) -> str:
    """Writes a list of statements as a table: name, sentence, points.

    It has the rows of the card, those of the lesson's `rules` too, in the card's order.
    As there, essential ones are bold and worth half of the points together.
    """
    rows = ["| | What is checked | Points |", "|---|---|---|"]
    stated = {**rules, **dict(STATEMENT.findall(statements))}
    for name in check.statements:
        worth = "essential"
        if name in check.others:
            share = share_of_each(len(check.others))
            worth = f"{round(check.points * share, 2):g}"
        label = name if name in check.others else f"**{name}**"
        rows.append(f"| {label} | {one_line(stated[name])} | {worth} |")
    return "\n".join(rows) + "\n"


def folded_hints(cell: Cell) -> str:
    """Folds a list of hints, each a `- ` item, into collapsed blocks."""
    _, *hints = re.split(r"(?m)^- ", cell.source)
    return "\n".join(
        folded(f"Hint {number}", re.sub(r"(?m)^  ", "", hint))
        for number, hint in enumerate(hints, 1)
    )


def folded(summary: str, text: str) -> str:
    """Writes a block that a click opens."""
    return f"<details><summary>{summary}</summary>\n\n{text.strip()}\n\n</details>"


def repository_address(root: Path = ROOT) -> str:
    """Reads the course's address from pyproject.toml; only a fork changes it."""
    return settings(root)["repository"].rstrip("/")


def revision(root: Path = ROOT) -> str:
    """Reads which branch or tag learners open, from pyproject.toml."""
    return settings(root).get("revision", "main")


def settings(root: Path) -> dict[str, str]:
    path = coursekit.course_of(root) / "pyproject.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["course"]


def setup_source(path: Path, repository: str) -> str:
    """Writes a lesson's set-up cell.

    It says where Colab finds the course, which version of its package and which lesson
    the notebook is for, and imports by name what the lesson's cells use of the package.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"), path)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    course = coursekit.course_of(path.parents[1])
    modules = coursekit.read(course)
    version = version_of(modules)
    name, tag = repository.rpartition("/")[2], revision(course)
    # In GitHub's archive the folder of v1.0 is called 1.0.
    in_archive = f"{name}-{re.sub(r'^v(?=[0-9])', '', tag)}/lessons"
    names = sorted({*ALWAYS_IMPORTED, *used & coursekit.names_for_notebooks(modules)})
    return (
        (course / coursekit.SETUP_CELL)
        .read_text(encoding="utf-8")
        .strip()
        .replace("COURSEKIT_URL", f"{repository}/archive/{tag}.zip")
        .replace("COURSEKIT_FOLDER", in_archive)
        .replace("COURSEKIT_VERSION", version)
        .replace("COURSE_LESSON", path.stem)
        .replace("COURSE_NAMES", ", ".join(names))
    )


def names_of_setup(path: Path) -> set[str]:
    """Lists the names that a lesson's set-up cell can define."""
    course = coursekit.course_of(path.parents[1])
    own = bound_names((course / coursekit.SETUP_CELL).read_text(encoding="utf-8"))
    return own | coursekit.names_for_notebooks(coursekit.read(course))


def colab_badge(repository: str, lesson: str) -> str:
    """Writes the Markdown badge that opens a lesson in Colab."""
    owner_and_name = "/".join(repository.split("/")[-2:])
    target = f"github/{owner_and_name}/blob/{revision()}/lessons/{lesson}.ipynb"
    image = "https://colab.research.google.com/assets/colab-badge.svg"
    return f"[![Open in Colab]({image})](https://colab.research.google.com/{target})"
