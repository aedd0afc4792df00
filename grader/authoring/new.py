"""Writes new lessons and exercises into an author's own, private folder.

A new exercise is a working example: its author replaces it step by step.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from pathlib import Path

from grader import ROOT, CourseError
from grader.atomic_files import read_text, write
from grader.authoring.check_source import bound_names, checks_path, parse
from grader.authoring.coursekit import course_of
from grader.authoring.known_answers import CELL, answers_folder, cells_in
from grader.authoring.lesson import names_of_setup
from grader.authoring.release import lesson_number, lesson_paths, names_lesson

TEMPLATES = Path(__file__).parent / "templates"
NAME = re.compile(r"[a-z][a-z0-9_]*")
BADGE = "# COLAB_BADGE\n#\n"  # Colab cannot open what is private


class NewError(CourseError):
    """A name or a folder in which nothing new can be made."""


def new_lesson(name: str, folder: Path) -> list[Path]:
    """Writes a lesson without exercises; returns the files.

    `name` may begin with its number; otherwise it gets the next one that is free.
    """
    folder = private_folder(folder)
    taken = [*lesson_paths(root=ROOT), *lesson_paths(root=folder)]
    number, plain = re.fullmatch(r"(?:(\d\d)_)?(.*)", name).groups()
    refuse_bad_name(plain, "lesson")
    number = int(number or 1 + max(lesson_number(one.stem) for one in taken))
    for one in taken:
        if number == lesson_number(one.stem) or plain == one.stem[3:]:
            raise NewError(
                f"There is a lesson {one.stem} already. Choose another name or number, "
                f"or change it: {one}"
            )
    path = folder / "solutions" / f"{number:02}_{plain}.py"
    title = plain.replace("_", " ").capitalize()
    return write_all(
        {
            path: template("lesson", NUMBER=number, TITLE=title),
            checks_path(path): template("lesson_checks", NUMBER=number, TITLE=title),
        }
    )


def new_exercise(lesson: str, name: str, folder: Path) -> list[Path]:
    """Adds a working exercise to a lesson; returns the files that changed.

    One of the course's own lessons is copied into the folder first.
    """
    folder = private_folder(folder)
    refuse_bad_name(name, "exercise")
    files = sources_of(lesson, folder)
    path = next(iter(files))
    checks, answers = checks_path(path), answers_folder(path) / f"{name}.py"
    for file, source in ((path, files[path]), (checks, files[checks])):
        tree = parse(file) if file.exists() else ast.parse(source)
        if name in bound_names(tree) | names_of_setup(path):
            raise NewError(
                f'{file} already uses the name "{name}". Choose another one.'
            )
    headings = re.findall(r"(?m)^# ### Exercise (\d+)\.(\d+)", files[path])
    place = 1 + max((int(last) for _, last in headings), default=0)
    number = f"{lesson_number(path.stem)}.{place}"
    cells = template("exercise", NUMBER=number, NAME=name)
    files[path] = inserted(files[path], cells)
    files[checks] = with_check(files[checks], template("exercise_checks", NAME=name))
    files[answers] = template("answers", NAME=name)
    return write_all(files)


def private_folder(folder: Path) -> Path:
    """Returns the folder's whole path."""
    folder = folder.expanduser().resolve()
    if folder.is_relative_to(ROOT) or course_of(folder) == folder:
        raise NewError(
            f"{folder} is in the course's repository, which learners can read: "
            "solutions and hidden tests must not be in it. Choose a folder of your own."
        )
    if folder.exists() and not folder.is_dir():
        raise NewError(f"{folder} is a file. Choose a folder.")
    return folder


def refuse_bad_name(name: str, kind: str) -> None:
    is_pythons = keyword.iskeyword(name) or hasattr(builtins, name)
    if not NAME.fullmatch(name) or (kind == "exercise" and is_pythons):
        raise NewError(
            f'"{name}" cannot be the name of this {kind}. Write small letters, digits '
            "and _, such as masked_mean, and none of Python's own names."
        )


def sources_of(lesson: str, folder: Path) -> dict[Path, str]:
    """Reads the source of a private lesson, and its checks.

    Of one of the course's own, these are copies, with the first right and wrong answer
    to each exercise.
    """
    for root in (folder, ROOT):
        for path in lesson_paths(root=root):
            if names_lesson(lesson, path.stem):
                own = folder / "solutions" / path.name
                files = {own: path.read_text(encoding="utf-8")}
                files[checks_path(own)] = checks_path(path).read_text(encoding="utf-8")
                if root == ROOT:
                    files[own] = files[own].replace(BADGE, "")
                    for answers in sorted(answers_folder(path).glob("*.py")):
                        files[answers_folder(own) / answers.name] = one_of_each(answers)
                return files
    known = ", ".join(path.stem for path in lesson_paths(root=folder)) or "none"
    raise NewError(
        f'There is no lesson "{lesson}". In {folder}: {known}. Make one: '
        f"python -m grader new lesson NAME --folder {folder}"
    )


def one_of_each(path: Path) -> str:
    """Returns the text of the first right answer in a file, and of the first wrong."""
    found = {}
    for _, header, text in cells_in(path):
        found.setdefault(header.split("=")[0], f"{header}\n{text.strip()}\n")
    return "\n\n".join(found.values())


def inserted(source: str, cells: str) -> str:
    """Adds cells to a lesson, before its scorecard and the text that introduces it."""
    headers = [*CELL.finditer(source)]
    end = next((k for k, one in enumerate(headers) if "scorecard" in one[0]), None)
    if end is None:
        return f"{source.rstrip()}\n\n{cells}"
    if headers[end - 1][0].strip() == "# %% [markdown]":
        end -= 1
    place = headers[end].start()
    return source[:place] + cells + source[place:]


def with_check(source: str, added: str) -> str:
    """Adds functions, and those of their imports that a module of checks lacks."""
    own, new = imports_in(source), imports_in(added)
    known = set().union(*map(bound_names, own))
    lines, more = source.splitlines(), added.splitlines()
    lacking = []
    for node in new:
        node.names = [one for one in node.names if not bound_names(one) & known]
        lacking += [ast.unparse(node)] if node.names else []
    if not own or own[-1].module == "__future__":
        lacking = ["", *more[: new[-1].end_lineno]]
    place = own[-1].end_lineno if own else len(lines)
    both = [*lines[:place], *lacking, *lines[place:], *more[new[-1].end_lineno :]]
    return "\n".join(both).rstrip() + "\n"


def imports_in(source: str) -> list[ast.ImportFrom]:
    nodes = ast.parse(source).body
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def template(file: str, **values: object) -> str:
    """Reads a template, with its words in capitals replaced."""
    text = (TEMPLATES / f"{file}.txt").read_text(encoding="utf-8")
    for word, value in values.items():
        text = re.sub(rf"(?<![A-Z]){word}(?![A-Z])", str(value), text)
    return text


def write_all(files: dict[Path, str]) -> list[Path]:
    """Writes a lesson's files; returns those that changed."""
    folder = next(iter(files)).parents[1]
    if not (folder / "solutions").exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # solutions and hidden tests are in it
    changed = [path for path, text in files.items() if read_text(path) != text]
    for path in changed:
        write(path, files[path])
    return changed
