"""Renews what is generated in the READMEs: lists of lessons, and a lesson's picture."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from grader import ROOT, CourseError
from grader.lesson import colab_badge, repository_address
from grader.notebooks import lesson_paths
from grader.translation import languages, words_of

LIST_MARKS = "<!-- lessons: written by `python -m grader build` -->", "<!-- end -->"
PICTURE = re.compile(r"\((docs/pictures/(\d\d_\w+)-(\d+)\.png)\)")


class ReadmeError(CourseError):
    """A README that lacks its marks, or names a picture that no lesson shows."""


def lesson_lists(root: Path = ROOT) -> dict[Path, str]:
    """Returns the READMEs' texts, the list of lessons between their marks renewed.

    Raises:
        ReadmeError: a README or one of its marks is missing.
    """
    begin, end = LIST_MARKS
    texts = {}
    for path, folder, language in readmes(root):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        before, found, rest = text.partition(begin)
        if not found or end not in rest:
            raise ReadmeError(f"{path} needs the lines {begin} and {end}.")
        lines = []
        for source in lesson_paths(root=root):
            found = re.search(r"(?m)^# # (.+)$", source.read_text(encoding="utf-8"))
            title = found.group(1) if found else source.stem
            if language:
                title = words_of(language, source.stem, root).get(title, title)
            badge = colab_badge(repository_address(root), source.stem, language)
            lines.append(f"- [{title}]({folder}{source.stem}.ipynb) {badge}")
        after = rest.split(end, 1)[1]
        texts[path] = f"{before}{begin}\n\n" + "\n".join(lines) + f"\n\n{end}{after}"
    return texts


def readmes(root: Path) -> Iterator[tuple[Path, str, str]]:
    """Names each README with a list, the lessons' folder seen from it, its language."""
    yield root / "README.md", "lessons/", ""
    yield root / "lessons" / "README.md", "", ""
    for language in languages(root):
        yield root / f"README.{language}.md", f"lessons/{language}/", language
        yield root / "lessons" / language / "README.md", "", language


def pictures(root: Path = ROOT) -> dict[Path, bytes]:
    """Takes the pictures that READMEs show, `02_collectives-5.png`, from lessons.

    Raises:
        ReadmeError: the solved lesson has no such picture.
    """
    found = {}
    for readme, _, _ in readmes(root):
        for place, name, number in PICTURE.findall(readme.read_text(encoding="utf-8")):
            path = root / "solutions" / f"{name}.ipynb"
            shown = drawn(nbformat.read(path, as_version=4)) if path.exists() else []
            if not 1 <= int(number) <= len(shown):
                problem = (
                    f"{readme} shows {place}, but {path} has {len(shown)} pictures"
                )
                raise ReadmeError(f"{problem}. Name another.")
            found[root / place] = shown[int(number) - 1]
    return found


def drawn(solved: NotebookNode) -> list[bytes]:
    """Lists an executed notebook's pictures."""
    outputs = [output for cell in solved.cells for output in cell.get("outputs", [])]
    found = [output.get("data", {}).get("image/png") for output in outputs]
    return [base64.b64decode(text) for text in found if text]
