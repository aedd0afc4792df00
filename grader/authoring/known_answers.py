"""Reads the known answers to exercises, right and wrong ones, in `solutions/answers/`.

Each exercise has a file, each answer a cell in it. A wrong answer's header names the
statements that fail; below it may be the likely cause that its learner is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from grader.authoring.check_source import (
    bound_names,
    checks_path,
    parse,
    read_checks,
)
from grader.authoring.rules import Problem, SourceError, problem

CELL = re.compile(r"(?m)^(# *%%.*)$")
HEADER = re.compile(r'# %% (wrong|right)="([^"]+)"(?: fails="(.+)")?')
CAUSE = re.compile(r"# cause: (.+)\n")


@dataclass(frozen=True)
class KnownAnswer:
    """A known answer to an exercise; `fails` and `cause` are a wrong answer's."""

    lesson: str
    exercise: str
    kind: str
    name: str
    fails: tuple[str, ...]
    cause: str | None
    source: str
    line: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.exercise}: {self.name}"


def answers_folder(lesson: Path) -> Path:
    return lesson.parent / "answers" / lesson.stem


def cells_in(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yields the cells of a percent script: the header's line, the header, the text."""
    if path.exists():
        before, *cells = CELL.split(path.read_text(encoding="utf-8"))
        line = before.count("\n") + 1
        for header, text in zip(cells[::2], cells[1::2], strict=True):
            yield line, header, text.removeprefix("\n")
            line += text.count("\n")


def read_answers(path: Path) -> Iterator[KnownAnswer]:
    """Yields the answers in a file, in its order."""
    for line, header, text in cells_in(path):
        if found := HEADER.fullmatch(header):
            kind, name, fails = found.groups()
            failing = tuple(fails.split("; ")) if fails else ()
            cause = CAUSE.match(text)
            source = f"{text[cause.end() if cause else 0 :].strip()}\n"
            about = path.parent.name, path.stem, kind, name, failing
            yield KnownAnswer(*about, cause and cause[1], source, line)


def answers_to(lesson: Path) -> list[KnownAnswer]:
    """Lists the known answers to all exercises of a lesson."""
    files = sorted(answers_folder(lesson).glob("*.py"))
    return [answer for path in files for answer in read_answers(path)]


def problems_of_answers(lesson: Path) -> Iterator[Problem]:
    """Yields what breaks the rules for the known answers to a private lesson.

    Each exercise needs a right and a wrong one. (The course's own have a test.)
    """
    checks = read_checks(checks_path(lesson))
    folder = answers_folder(lesson)
    for path in sorted(folder.glob("*.py")):
        if path.stem not in checks:
            yield problem(path, 1, "answers of an exercise", name=path.stem)
    for name, check in checks.items():
        path = folder / f"{name}.py"
        try:
            if path.exists():
                parse(path)
        except SourceError as error:
            yield from error.problems
            continue
        for line, header, _ in cells_in(path):
            if not HEADER.fullmatch(header):
                yield problem(path, line, "header of an answer")
        answers = [*read_answers(path)]
        for kind in {"right", "wrong"} - {answer.kind for answer in answers}:
            yield problem(path, 1, "both answers", name=name, kind=kind)
        known = ", ".join(f'"{one}"' for one in check.statements)
        for one in answers:
            values = {"name": name, "answer": one.name, "known": known}
            if name not in bound_names(one.source):
                yield problem(path, one.line, "answer", **values)
            if one.kind == "wrong" and not one.fails:
                yield problem(path, one.line, "what fails", **values)
            unknown = {*one.fails} - {*check.statements}
            for text in unknown if known else ():  # else `@visible` cannot be read
                values["statement"] = text
                yield problem(path, one.line, "failing statement", **values)
