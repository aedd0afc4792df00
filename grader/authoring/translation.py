"""Carries lessons and their messages into other languages, by gettext catalogues.

A catalogue (`solutions/locales/ko/LC_MESSAGES/01_pmap_spmd.po`) holds a paragraph, a
heading or a list item per entry, and what the lesson's checks may say.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from babel.messages import Catalog, pofile
from nbformat import NotebookNode

from grader import ROOT, CourseError
from grader.authoring import coursekit
from grader.authoring.check_source import checks_path, read_checks, visible_source
from grader.authoring.check_source import read_text as read_check_text
from grader.authoring.release import dumps, lesson_paths, release
from grader.authoring.translatable_text import messages, rewritten

# The learner's modules with messages; pictures keep their English labels.
MESSAGE_MODULES = (
    *("setup", "outcomes", "card", "notebook", "observation", "observe", "expect"),
    *("expect_program", "reference_checks", "processes", "script"),
)
COMMON = "common"  # the catalogue of what these modules say, and several lessons
SHORT_TEXTS = (  # which nothing tells from names
    *("called", "seen", "expected", "likely", "where", "wrong", "right", "total"),
    *("holds", "fails", "later", "again", "essential"),
    *("devices", "microbatches", "nothing", "In words", "{1} of {2}"),
)
COLAB_NOTE = (
    "In Colab the checks speak English. A cell with `%env COURSE_LANGUAGE={1}`, "
    "run before the set-up cell, changes that."
)

BADGE = re.compile(r"(\[!\[.*/blob/main/lessons/)(.*\))")


class TranslationError(CourseError):
    """A catalogue that cannot be read, or a translation that lost a value."""


def languages(root: Path = ROOT) -> list[str]:
    """Lists the languages that have catalogues."""
    return sorted(path.name for path in (root / "solutions/locales").glob("*/"))


def catalogue_path(language: str, name: str, root: Path = ROOT) -> Path:
    """Names the catalogue of a lesson, or of the modules' messages."""
    return root / "solutions/locales" / language / "LC_MESSAGES" / f"{name}.po"


def all_texts(released: Mapping[str, NotebookNode], root: Path) -> dict[str, list[str]]:
    """Lists what is to be translated, by catalogue; what lessons share, once."""
    found = {name: texts_of(name, lesson, root) for name, lesson in released.items()}
    counts = Counter(text for texts in found.values() for text in texts)
    common = dict.fromkeys([COLAB_NOTE, *SHORT_TEXTS])
    for name in MESSAGE_MODULES:
        path = coursekit.folder(root) / f"{name}.py"
        common |= dict.fromkeys(messages(path.read_text(encoding="utf-8")))
    common |= {text: None for text, count in counts.items() if count > 1}
    own = {n: [t for t in texts if t not in common] for n, texts in found.items()}
    return {COMMON: list(common), **own}


def translated_files(
    lessons: Mapping[str, NotebookNode], root: Path = ROOT
) -> tuple[dict[Path, str], dict[Path, list[str]]]:
    """Makes, for each language, catalogues, released notebooks and messages.

    Args:
        lessons: every lesson, by its name, with solutions.
        root: the course's folder.

    Returns:
        What each file must hold, and the texts of each catalogue that have no
        translation, or a stale one.

    Raises:
        TranslationError: a catalogue is damaged.
    """
    files, missing = {}, {}
    if not languages(root):
        return files, missing
    released = {name: release(lesson) for name, lesson in lessons.items()}
    texts = all_texts(released, root)
    said = {text for name in released for text in check_messages(name, root)}
    said |= set(texts[COMMON])
    for language in languages(root):
        translated: dict[str, str] = {}
        for name, wanted in texts.items():
            path = catalogue_path(language, name, root)
            catalogue = read_catalogue(path, language)
            found = translations(catalogue)
            files[path] = merge(catalogue, wanted, language)
            missing[path] = [text for text in wanted if text not in found]
            translated |= {text: found[text] for text in wanted if text in found}
        folder = root / "lessons"
        for name, lesson in released.items():
            notebook = dumps(translate(lesson, translated, language))
            files[folder / language / f"{name}.ipynb"] = notebook
        spoken = {text: translated[text] for text in translated if text in said}
        files[coursekit.folder(root) / f"messages_{language}.py"] = module_of(
            spoken, language
        )
    return files, missing


def read_catalogue(path: Path, language: str) -> Catalog:
    """Reads a catalogue; a missing file reads as an empty one.

    Raises:
        TranslationError: the file is no catalogue, or a translation lacks a value of
            its text, or has one that the text lacks.
    """
    if not path.exists():
        return Catalog(locale=language, charset="utf-8")
    try:
        with open(path, "rb") as file:
            catalogue = pofile.read_po(file, locale=language, abort_invalid=True)
    except (pofile.PoFileError, UnicodeDecodeError, ValueError) as error:
        raise TranslationError(f"{path} is no catalogue: {error}") from None
    for text, translation in translations(catalogue).items():
        values = set(re.findall(r"\{\d+\}", text))
        if values != set(re.findall(r"\{\d+\}", translation)):
            raise TranslationError(
                f'{path}: the translation of "{text}" must hold the same values: '
                f"{', '.join(sorted(values)) or 'none'}."
            )
    return catalogue


def translations(catalogue: Catalog) -> dict[str, str]:
    """Maps each text to its translation, unless that is missing or stale."""
    return {
        message.id: message.string
        for message in catalogue
        if message.id and message.string and not message.fuzzy
    }


def merge(catalogue: Catalog, texts: Iterable[str], language: str) -> str:
    """Writes a catalogue anew for `texts`, in their order.

    A text that has changed a little keeps its former translation, marked as fuzzy; the
    translation of one that is gone is dropped.
    """
    template = Catalog(charset="utf-8")
    for text in texts:
        template.add(text)
    catalogue.update(template, no_fuzzy_matching=False)
    lines = ['msgid ""', 'msgstr ""', f'"Language: {language}\\n"']
    lines += ['"Content-Type: text/plain; charset=utf-8\\n"', ""]
    for message in catalogue:
        if message.id:
            lines += ["#, fuzzy"] if message.fuzzy else []
            lines += [f"msgid {pofile.normalize(message.id, width=88)}"]
            lines += [f"msgstr {pofile.normalize(message.string or '', width=88)}", ""]
    return "\n".join(lines)


def texts_of(name: str, released: NotebookNode, root: Path) -> list[str]:
    """Lists a lesson's texts: its prose, then its checks' messages, each once."""
    found: list[str] = []
    for cell in released.cells:
        if cell.cell_type == "markdown":
            rewritten(cell.source, lambda text: found.append(text) or text)
    return list(dict.fromkeys([*found, *check_messages(name, root)]))


def check_messages(name: str, root: Path) -> list[str]:
    """Finds what a lesson's visible checks say, and how they name their statements."""
    [path] = map(checks_path, lesson_paths([name], root))
    names = [one for check in read_checks(path).values() for one in check.statements]
    return [*messages(visible_source(read_check_text(path))), *names]


def translate(lesson: NotebookNode, translated: dict[str, str], language: str):
    """Copies a released lesson with its prose in another language.

    Cells, ids and code stay; a text without a translation stays English.
    """
    lesson = copy.deepcopy(lesson)
    note = translated.get(COLAB_NOTE, COLAB_NOTE).replace("{1}", language)
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            cell.source = rewritten(
                cell.source, lambda text: translated.get(text, text)
            )
            cell.source = BADGE.sub(
                lambda badge: f"{badge[1]}{language}/{badge[2]}\n\n{note}", cell.source
            )
    return lesson


def module_of(translated: Mapping[str, str], language: str) -> str:
    """Writes the module from which a notebook takes its messages in a language."""
    rows = "".join(f"    {text!r}: {translated[text]!r},\n" for text in translated)
    return (
        f'"""What the set-up and the checks say, in the language "{language}"."""\n\n'
        "# Written by `python -m grader build` out of solutions/locales.\n"
        "# ruff: noqa: E501\n"
        "# fmt: off\n"
        f"MESSAGES = {{\n{rows}}}\n"
    )
