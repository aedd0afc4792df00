"""Renders one self-contained HTML page that stays small whatever goes into it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import escape

from grader.submissions.clean_text import ENDING, clean_line, clean_text
from grader.submissions.pictures import picture_size

MAX_ESCAPED = 5  # bytes that one character takes at most: &#34;
# What a card takes at most beside its texts: for a statement, for a row of it, and for
# a part of an array in a drawing of a layout.
STATEMENT_BYTES, ROW_BYTES, PART_BYTES = 700, 250, 500
TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclasses.dataclass
class PageBudget:
    """How much a page may still hold: all untrusted text passes through here.

    With the limits on how many things a page lists, it stays below 2 MB.

    Attributes:
        text_bytes: bytes left for text, as they will stand in the page.
        picture_bytes: bytes left for pictures, in base64, and for drawn layouts.
        cut: whether text was left out as the budget was spent.
        dropped: pictures left out, as the budget was spent, or because they are none.
    """

    text_bytes: int = 600_000
    picture_bytes: int = 800_000
    cut: bool = False
    dropped: int = 0

    def text(self, value: Any, limit: int, max_lines: int) -> str:
        """Takes in a text of several lines."""
        shown = clean_text(str(value), limit).strip("\n")
        lines = shown.split("\n", max_lines)
        if len(lines) > max_lines:
            shown = "\n".join(lines[:max_lines]) + ENDING
        return self._take(shown)

    def line(self, value: Any, limit: int) -> str:
        """Takes in a text as one line."""
        return self._take(clean_line(str(value), limit))

    def lines(self, values: Iterable[Any], most: int, limit: int = 500) -> list[str]:
        """Takes in the first of several texts, each as one line."""
        return [self.line(value, limit) for value in itertools.islice(values, most)]

    def picture(self, text: str) -> dict[str, Any] | None:
        """Takes in a PNG that `safe_picture` made, or counts it as dropped."""
        size = picture_size(text) if len(text) <= self.picture_bytes else None
        if size is None:
            self.dropped += 1
            return None
        self.picture_bytes -= len(text)
        return {"base64": text, "width": size[0], "height": size[1]}

    def has_room(self, size: int) -> bool:
        """Takes in bytes that stand around a text, or tells that they do not fit."""
        if size > self.text_bytes:
            self.cut = True
            return False
        self.text_bytes -= size
        return True

    def layouts(self, found: tuple | None) -> tuple | None:
        """Takes in two layouts of an array that are to be drawn, if they still fit."""
        size = PART_BYTES * sum(map(len, found[1:])) if found else 0
        if size > self.picture_bytes:
            self.dropped += 1
            return None
        self.picture_bytes -= size
        return found

    def _take(self, shown: str) -> str:
        """Takes what still fits of a clean text."""
        if len(escape(shown).encode()) > self.text_bytes:
            self.cut = True
            shown = clean_text(shown, self.text_bytes // MAX_ESCAPED)
        self.text_bytes -= len(escape(shown).encode())
        return shown


def render(template: str, **facts: Any) -> str:
    """Fills one of the templates beside this module; all text is escaped."""
    return TEMPLATES.get_template(template).render(facts)
