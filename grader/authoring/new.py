"""Writes new lessons and exercises into an author's own, private folder.

A new exercise is a working example: its author replaces it step by step.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import string
from pathlib import Path

from grader import ROOT, CourseError
from grader.atomic_files import write
from grader.authoring.check_source import bound_names, checks_path, parse
from grader.authoring.known_answers import answers_folder, cells_in
from grader.authoring.lesson import names_of_setup
from grader.lessons.coursekit import course_of
from grader.lessons.release import lesson_number, lesson_paths, names_lesson

TEMPLATES = Path(__file__).parent / "templates"
NAME = re.compile(r"[a-z][a-z0-9_]*")
BADGE = "# COLAB_BADGE\n#\n"  # Colab cannot open what is private
# Its cell, and the text cell that introduces it: in a lesson with one part, the last.
SCORECARD = re.compile(r"(?m)^(# %% \[markdown\]\n(#(?! %%).*\n|\n)*)?# %% scorecard")


def new_lesson(name: str, folder: Path) -> list[Path]:
    """Writes a lesson without exercises, with the next free number.

    Returns the files.
    """
    folder = private_folder(folder)
    refuse_bad_name(name, "lesson")
    taken = [*lesson_paths(root=ROOT), *lesson_paths(root=folder)]
    for one in taken:
        if name == one.stem[3:]:
            raise CourseError(
                f"There is a lesson {one.stem} already. Choose another name, "
                f"or change it: {one}"
            )
    number = 1 + max(lesson_number(one.stem) for one in taken)
    path = folder / "solutions" / f"{number:02}_{name}.py"
    values = {"number": number, "title": name.replace("_", " ").capitalize()}
    return write_all(
        {
            path: template("lesson", **values),
            checks_path(path): template("lesson_checks", **values),
        }
    )


def new_exercise(lesson: str, name: str, folder: Path) -> list[Path]:
    """Adds a working exercise to a lesson; returns the files that it wrote.

    One of the course's own lessons is copied into the folder first.
    """
    folder = private_folder(folder)
    refuse_bad_name(name, "exercise")
    files = sources_of(lesson, folder)
    path = next(iter(files))
    checks, answers = checks_path(path), answers_folder(path) / f"{name}.py"
    for file in (path, checks):
        if name in bound_names(files[file]) | names_of_setup(path):
            raise CourseError(
                f'{file} already uses the name "{name}". Choose another one.'
            )
    place = 1 + files[path].count("\n# ### Exercise ")
    number = f"{lesson_number(path.stem)}.{place}"
    end = SCORECARD.search(files[path])
    is_last = end and "# ### Exercise " not in files[path][end.end() :]
    end = end.start() if is_last else len(files[path])
    cells = template("exercise", number=number, name=name)
    files[path] = files[path][:end] + cells + files[path][end:]
    files[checks] = with_check(files[checks], template("exercise_checks", name=name))
    files[answers] = template("answers", name=name)
    return write_all(files)


def private_folder(folder: Path) -> Path:
    """Returns the folder's whole path."""
    folder = folder.expanduser().resolve()
    if folder.is_relative_to(ROOT) or course_of(folder) == folder:
        raise CourseError(
            f"{folder} is in the course's repository, which learners can read: "
            "solutions and hidden tests must not be in it. Choose a folder of your own."
        )
    if folder.is_file():
        raise CourseError(f"{folder} is a file. Choose a folder.")
    return folder


def refuse_bad_name(name: str, kind: str) -> None:
    is_pythons = keyword.iskeyword(name) or hasattr(builtins, name)
    if not NAME.fullmatch(name) or (kind == "exercise" and is_pythons):
        raise CourseError(
            f'"{name}" cannot be the name of this {kind}. Write small letters, digits '
            "and _, such as masked_mean, and none of Python's own names."
        )


def sources_of(lesson: str, folder: Path) -> dict[Path, str]:
    """Reads the source of a private lesson, and its checks.

    Of one of the course's own, these are copies, with the first right and wrong answer
    to each exercise.
    """
    taken = [*lesson_paths(root=folder), *lesson_paths(root=ROOT)]
    path = next((one for one in taken if names_lesson(lesson, one.stem)), None)
    if path is None:
        known = ", ".join(one.stem for one in lesson_paths(root=folder)) or "none"
        raise CourseError(
            f'There is no lesson "{lesson}". In {folder}: {known}. Make one: '
            f"python -m grader new lesson NAME --folder {folder}"
        )
    for file in (path, checks_path(path)):
        parse(file)  # an error names its line
    own = folder / "solutions" / path.name
    files = {own: path.read_text(encoding="utf-8")}
    files[checks_path(own)] = checks_path(path).read_text(encoding="utf-8")
    if own != path:
        files[own] = files[own].replace(BADGE, "")
        for answers in sorted(answers_folder(path).glob("*.py")):
            files[answers_folder(own) / answers.name] = one_of_each(answers)
    return files


def one_of_each(path: Path) -> str:
    """Returns the text of the first right answer in a file, and of the first wrong."""
    found = {}
    for _, header, text in cells_in(path):
        found.setdefault(header.split("=")[0], f"{header}\n{text.strip()}\n")
    return "\n\n".join(found.values())


def with_check(source: str, added: str) -> str:
    """Adds functions to a module of checks, and their imports to its imports."""
    new = imports_in(added)
    if "from coursekit" not in source:  # it has no check yet
        return f"{source.rstrip()}\n\n{added}"
    for node in new:
        source = with_import(source, node)
    functions = added.splitlines()[new[-1].end_lineno :]
    return "\n".join([source.rstrip(), *functions, ""])


def with_import(source: str, new: ast.Import | ast.ImportFrom) -> str:
    """Adds an import in its place among those of a module, merged as isort does."""
    lines, own = source.splitlines(), imports_in(source)
    earlier = [one.end_lineno for one in own if order(one) < order(new)]
    start = end = max(earlier, default=own[0].lineno - 1)
    text = ast.unparse(new)
    for one in own:
        if order(one) == order(new):
            names = {ast.unparse(name) for name in (*one.names, *new.names)}
            if len(names) == len(one.names):
                return source
            start, end = one.lineno - 1, one.end_lineno
            names = "".join(f"    {name},\n" for name in sorted(names))
            text = f"from {one.module} import (\n{names})"
    return "\n".join([*lines[:start], text, *lines[end:], ""])


def order(node: ast.Import | ast.ImportFrom) -> tuple[bool, bool, bool, str]:
    """Returns a key that sorts imports as isort does, the same for those to merge."""
    text = ast.unparse(node).partition(" import ")[0]
    is_ours = text.startswith("from coursekit")
    return text != "from __future__", is_ours, text.startswith("from"), text


def imports_in(source: str) -> list[ast.Import | ast.ImportFrom]:
    nodes = ast.parse(source).body
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def template(file: str, **values: object) -> str:
    """Reads a template, with its words after a $ replaced."""
    text = (TEMPLATES / f"{file}.txt").read_text(encoding="utf-8")
    return string.Template(text).substitute(values)


def write_all(files: dict[Path, str]) -> list[Path]:
    folder = next(iter(files)).parents[1]
    if not (folder / "solutions").exists():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)  # solutions and hidden tests are in it
    for path, text in files.items():
        write(path, text)
    return [*files]
