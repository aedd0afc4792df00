"""Writes new lessons and exercises into an author's own, private folder.

A new exercise is a working example: its author replaces it step by step.
"""

from __future__ import annotations

import keyword
import re
import string
from pathlib import Path

from grader import ROOT, CourseError
from grader.atomic_files import write
from grader.authoring.check_source import checks_path
from grader.authoring.coursekit import course_of
from grader.authoring.known_answers import answers_folder, cells_in
from grader.authoring.release import lesson_number, lesson_paths

TEMPLATES = Path(__file__).parent / "templates"
NAME = re.compile(r"[a-z][a-z0-9_]*")
BADGE = "# COLAB_BADGE\n#\n"  # Colab cannot open what is private
# A lesson's last cell, and the text cell that introduces it.
SCORECARD = re.compile(r"(?m)^(# %% \[markdown\]\n(#(?! %%).*\n|\n)*)?# %% scorecard")


def new_lesson(name: str, folder: Path) -> list[Path]:
    """Writes a lesson without exercises, with the next free number.

    Returns the files.
    """
    folder = private_folder(folder)
    refuse_bad_name(name)
    taken = [*lesson_paths(root=ROOT), *lesson_paths(root=folder)]
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
    refuse_bad_name(name)
    files = sources_of(lesson, folder)
    path = next(iter(files))
    checks, answers = checks_path(path), answers_folder(path) / f"{name}.py"
    if f'exercise="{name}"' in files[path]:
        raise CourseError(f'{path} has an exercise "{name}". Choose another name.')
    place = 1 + files[path].count("\n# ### Exercise ")
    number = f"{lesson_number(path.stem)}.{place}"
    end = SCORECARD.search(files[path])
    end = end.start() if end else len(files[path])
    cells = template("exercise", number=number, name=name)
    files[path] = files[path][:end] + cells + files[path][end:]
    files[checks] += "\n\n" + template("exercise_checks", name=name)
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
    return folder


def refuse_bad_name(name: str) -> None:
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        raise CourseError(
            f'"{name}" cannot be the name of a lesson or an exercise. Write small '
            "letters, digits and _, such as masked_mean, and no word of Python's."
        )


def sources_of(lesson: str, folder: Path) -> dict[Path, str]:
    """Reads the source of a private lesson, and its checks.

    Of one of the course's own, these are copies, with the first right and wrong answer
    to each exercise.
    """
    path = lesson_paths([lesson], private=[folder])[0]
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
