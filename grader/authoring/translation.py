"""Carries lessons and their messages into other languages, by gettext catalogues.

A catalogue (`solutions/locales/ko/LC_MESSAGES/01_pmap_spmd.po`) holds a paragraph, a
heading, a list item or a check's message per entry. In a message, `{1}`, `{2}`, ...
stand for its values, in the order of the English text.
"""

from __future__ import annotations

import ast
import copy
import io
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from babel.messages import Catalog, pofile
from babel.messages.extract import extract_from_file
from nbformat import NotebookNode

from grader import ROOT, CourseError
from grader.authoring.check_source import read_checks, visible_source
from grader.lessons import coursekit
from grader.lessons.release import dumps, title

# The learner's modules with messages; pictures keep their English labels.
MESSAGE_MODULES = "setup outcomes card notebook observation observe expect".split()
MESSAGE_MODULES += "expect_program reference_checks processes script".split()
COMMON = "common"  # the catalogue of what these modules say, and several lessons
# The grader's modules with notes, reasons and messages that a learner's page shows.
GRADER_MODULES = "judging/trial submissions/read_submission submissions/answers".split()
GRADER_MODULES += ["containment/monitor", "judging/grade_submission"]
GRADER_MODULES += ["judging/tampering", "results", "classroom/final_result"]
PAGE_FILES = {".py": "python", ".j2": "jinja2"}  # in grader/pages, as Babel reads them
SENTENCE = re.compile(r"(?s)[\w{].*([.?](?: \{\d+\})?$|: )")
# Messages that look like names in code.
SHORT_TEXTS = "called seen expected likely where wrong right total holds fails".split()
SHORT_TEXTS += "later again essential microbatches nothing".split()
SHORT_TEXTS += ["In words", "{1} of {2}", "late, as the LMS says"]
SHORT_TEXTS += ["{1} day{2} late", "{1} hour{2} late", "{1} minute{2} late"]
SHORT_TEXTS += ["less than a minute late"]
COLAB_NOTE = (
    "In Colab the checks speak English. A cell with `%env COURSE_LANGUAGE={1}`, "
    "run before the set-up cell, changes that."
)
BADGE = re.compile(r"(\[!\[.*/blob/main/lessons/)(.*\))")
HEADER = 'msgid ""\nmsgstr ""\n"Language: {}\\n"\n'
HEADER += '"Content-Type: text/plain; charset=utf-8\\n"\n\n'
VALUE = re.compile(r"\{\d+\}")
# Between a text's paragraphs; before an item of a list; around a text on its line.
SEPARATORS = re.compile(r"(?s)(```.*?```|\n\s*\n|</?details>|</?summary>)")
ITEMS = re.compile(r"(?m)^(?=\s*(?:[-*]|\d+\.) )")
CELLS = re.compile(r"((?<!\\)\|)")
# Also around a text that is bold from end to end, as a statement's name may be.
BOLD = r"(?P<bold>\*\*(?=[^*]*\*\*\s*$))"
MARK = re.compile(
    rf"(?s)(?P<before>\s*(?:#+ |[-*] |\d+\. |> |{BOLD})?)(?P<text>.*?)"
    r"(?P<after>(?(bold)\*\*)\s*)"
)
# Patterns, flags, imports, HTML, calls and style sheets.
CODE = re.compile(r"[\\|\n]|\(\?|^--|^import |^<|^\w+\(|[a-z]:[^;]+;[a-z]")


def languages(root: Path = ROOT) -> list[str]:
    return sorted(path.name for path in (root / "solutions/locales").glob("*/"))


def catalogue_path(language: str, name: str, root: Path = ROOT) -> Path:
    return root / "solutions/locales" / language / "LC_MESSAGES" / f"{name}.po"


def translated_files(
    released: Mapping[str, NotebookNode], root: Path = ROOT
) -> tuple[dict[Path, str], dict[Path, list[str]]]:
    """Makes, for each language, catalogues, released notebooks and messages.

    `released` holds every lesson by its name. Also lists the texts of each catalogue
    that have no translation, or a stale one.
    """
    files, missing = {}, {}
    texts = all_texts(released, root)
    said = {text for name in released for text in check_messages(name, root)}
    said |= {*texts[COMMON], *(title(one, name) for name, one in released.items())}
    for language in languages(root):
        translated: dict[str, str] = {}
        for name, wanted in texts.items():
            path = catalogue_path(language, name, root)
            catalogue = read_catalogue(path, language)
            found = translations(catalogue)
            files[path] = merged(catalogue, wanted, language)
            if lacking := [text for text in wanted if text not in found]:
                missing[path] = lacking
            translated |= {text: found[text] for text in wanted if text in found}
        for name, lesson in released.items():
            path = root / "lessons" / language / f"{name}.ipynb"
            files[path] = dumps(translate(lesson, translated, language))
        spoken = {text: translated[text] for text in translated if text in said}
        path = coursekit.folder(root) / f"messages_{language}.py"
        files[path] = module_of(spoken, language)
    return files, missing


def all_texts(released: Mapping[str, NotebookNode], root: Path) -> dict[str, list[str]]:
    """Lists what is to be translated, by catalogue; what lessons share, once."""
    found: dict[str, dict[str, None]] = {}
    for name, lesson in released.items():
        found[name] = dict.fromkeys([*prose(lesson), *check_messages(name, root)])
    common = dict.fromkeys([COLAB_NOTE, *SHORT_TEXTS])
    for name in MESSAGE_MODULES:
        path = coursekit.folder(root) / f"{name}.py"
        common |= dict.fromkeys(messages(path.read_text(encoding="utf-8")))
    common |= dict.fromkeys(page_texts(root))
    counts = Counter(itertools.chain(*found.values()))
    common |= {text: None for text, count in counts.items() if count > 1}
    own = {n: [t for t in texts if t not in common] for n, texts in found.items()}
    return {COMMON: list(common), **own}


def page_texts(root: Path) -> list[str]:
    """Finds what a learner's feedback page says; nothing where there is no grader."""
    found = []
    for path in sorted((root / "grader" / "pages").rglob("*")):
        if method := PAGE_FILES.get(path.suffix):
            marked = extract_from_file(method, path, {"_": None, "say": None})
            found += [text for _, text, *_ in marked]
    for name in GRADER_MODULES:
        path = root / "grader" / f"{name}.py"
        if path.is_file():
            said = map(str.strip, messages(path.read_text(encoding="utf-8")))
            found += filter(SENTENCE.match, said)
    return found


def check_messages(name: str, root: Path) -> list[str]:
    """Finds what a lesson's visible checks say, and how they name their statements."""
    path = root / "solutions" / "checks" / f"{name}.py"
    said = messages(visible_source(path.read_text(encoding="utf-8")))
    return [*said, *(n for one in read_checks(path).values() for n in one.statements)]


def messages(source: str) -> list[str]:
    """Finds the texts in Python code that a learner may read, in their order."""
    tree = ast.parse(source)
    skipped: set[ast.AST] = set()  # docstrings, and the parts of f-strings
    for node in ast.walk(tree):
        skipped |= {node.value} if isinstance(node, ast.Expr) else set()
        skipped |= {*node.values} if isinstance(node, ast.JoinedStr) else set()
    strings = [
        (node.lineno, node.col_offset, template(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant | ast.JoinedStr) and node not in skipped
    ]
    return [text for _, _, text in sorted(strings) if is_message(text)]


def template(node: ast.Constant | ast.JoinedStr) -> str:
    """Returns a string of the code, with the values of an f-string numbered."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    places = (f"{{{number}}}" for number in itertools.count(1))
    return "".join(
        part.value if isinstance(part, ast.Constant) else next(places)
        for part in node.values
    )


def is_message(text: str) -> bool:
    """Tells messages from names, patterns and code."""
    has_words = " " in text.strip() and re.search("[A-Za-z]{3,}", VALUE.sub(" ", text))
    return bool(has_words) and not CODE.search(text)


def prose(lesson: NotebookNode) -> list[str]:
    """Lists the texts in a lesson's text cells."""
    found: list[str] = []
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            rewritten(cell.source, lambda text: found.append(text) or text)
    return found


def rewritten(source: str, change: Callable[[str], str]) -> str:
    """Applies `change` to each paragraph, heading, list item and table cell."""
    parts = SEPARATORS.split(source)
    for number, part in enumerate(parts):
        start = part.lstrip()
        if SEPARATORS.fullmatch(part) or start.startswith("[!["):  # the badge
            continue
        units = (CELLS if start.startswith("|") else ITEMS).split(part)
        for place, unit in enumerate(units):
            before, text, after = MARK.fullmatch(unit).group("before", "text", "after")
            plain = " ".join(text.split())
            changed = change(plain) if re.search("[A-Za-z]{2}", plain) else plain
            if changed != plain:
                units[place] = before + changed + after
        parts[number] = "".join(units)
    return "".join(parts)


def read_catalogue(path: Path, language: str) -> Catalog:
    """Reads a catalogue; a missing file reads as an empty one."""
    if not path.exists():
        return Catalog(locale=language, charset="utf-8")
    try:
        with open(path, "rb") as file:
            catalogue = pofile.read_po(file, locale=language, abort_invalid=True)
    except (pofile.PoFileError, ValueError) as error:
        raise CourseError(f"{path} is no catalogue: {error}") from None
    for text, translation in translations(catalogue).items():
        values = set(VALUE.findall(text))
        if values != set(VALUE.findall(translation)):
            raise CourseError(
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


def merged(catalogue: Catalog, texts: Iterable[str], language: str) -> str:
    """Writes a catalogue anew for `texts`, in their order.

    A text that has changed a little keeps its former translation, marked as fuzzy; the
    translation of one that is gone is dropped.
    """
    template = Catalog(charset="utf-8")
    for text in texts:
        template.add(text)
    catalogue.update(template, no_fuzzy_matching=False)
    for message in catalogue:
        message.flags &= {"fuzzy"}
    data = io.BytesIO()
    pofile.write_po(data, catalogue, width=88, omit_header=True, ignore_obsolete=True)
    return HEADER.format(language) + data.getvalue().decode().removesuffix("\n")


def translate(
    lesson: NotebookNode, translated: Mapping[str, str], language: str
) -> NotebookNode:
    """Copies a released lesson with its prose in another language.

    Cells, ids and code stay; a text without a translation stays English.
    """
    lesson = copy.deepcopy(lesson)
    note = translated.get(COLAB_NOTE, COLAB_NOTE).replace("{1}", language)
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            text = rewritten(cell.source, lambda text: translated.get(text, text))
            cell.source = BADGE.sub(rf"\g<1>{language}/\2\n\n{note}", text)
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
