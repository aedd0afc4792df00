"""Renders one self-contained HTML page that stays small whatever is put into it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from coursekit import i18n
from grader.submissions.clean_text import ENDING, clean_line, clean_text

# The most that a card takes beside its texts: for a statement, for a row of it, and for
# a part of an array in a drawing of a layout.
STATEMENT_BYTES, ROW_BYTES, PART_BYTES = 700, 250, 500
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
SENTENCES = re.compile(r"(?<=[.?]) (?=[A-Z\"])")


@dataclasses.dataclass
class PageBudget:
    """How much a page may still hold: all untrusted text passes through here.

    It stays below 2 MB, as there are as many exercises and statements as we wrote.

    Attributes:
        num_bytes: those left for text, as written in the page, and for drawn layouts.
        cut: whether anything was left out because the budget was spent.
    """

    num_bytes: int = 1_400_000
    cut: bool = False

    def text(self, value: str, limit: int, max_lines: int) -> str:
        shown = clean_text(value, limit).strip("\n")
        lines = shown.split("\n", max_lines)
        if len(lines) > max_lines:
            shown = "\n".join(lines[:max_lines]) + ENDING
        return self._take(shown)

    def line(self, value: str, limit: int) -> str:
        return self._take(clean_line(value, limit))

    def said(self, message: str, limit: int) -> str:
        """Takes in a message, in the page's language."""
        return self.line(translated(clean_line(message, limit)), limit)

    def _take(self, shown: str) -> str:
        return shown if self.has_room(len(escape(shown).encode())) else ENDING

    def has_room(self, size: int) -> bool:
        """Takes so many bytes, or notes that they do not fit."""
        if size > self.num_bytes:
            self.cut = True
            return False
        self.num_bytes -= size
        return True

    def layouts(self, found: tuple | None) -> tuple | None:
        """Takes in two layouts of an array, to be drawn, if they still fit."""
        size = PART_BYTES * sum(map(len, found[1:])) if found else 0
        return found if self.has_room(size) else None


def render(template: str, **facts: Any) -> str:
    """Fills one of the templates beside this module; all text is escaped."""
    return TEMPLATES.get_template(template).render(facts)


def say(text: str, *values: object) -> str:
    """Returns a text of our own in the page's language, with its values in place."""
    return translated(text).format(None, *values)


def translated(text: str) -> str:
    """Translates the sentences of a message one by one, or else all of it."""
    sentences = SENTENCES.split(text)
    said = [i18n.translated(one) for one in sentences]
    whole = i18n.translated(text)
    if whole == text or not {*said} & {*sentences}:
        return " ".join(said)
    return whole


def say_as_html(text: str, *values: object) -> Markup:
    """Does the same in a template, where a value may be HTML."""
    return escape(translated(text)).format(None, *values)


TEMPLATES.globals["_"] = say_as_html
