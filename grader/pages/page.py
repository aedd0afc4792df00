"""Renders one self-contained HTML page that stays small whatever is put into it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import escape

from grader.submissions.clean_text import ENDING, clean_line, clean_text
from grader.submissions.pictures import picture_size

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


@dataclasses.dataclass
class PageBudget:
    """How much a page may still hold: all untrusted text passes through here.

    With the limits on how many things a page lists, it stays below 2 MB.

    Attributes:
        text_bytes: bytes left for text, as written in the page.
        picture_bytes: bytes left for pictures, in base64, and for drawn layouts.
        cut: whether text was left out because the budget was spent.
        dropped: pictures left out because the budget was spent, or as unreadable.
    """

    text_bytes: int = 600_000
    picture_bytes: int = 800_000
    cut: bool = False
    dropped: int = 0

    def text(self, value: str, limit: int, max_lines: int) -> str:
        shown = clean_text(value, limit).strip("\n")
        lines = shown.split("\n", max_lines)
        if len(lines) > max_lines:
            shown = "\n".join(lines[:max_lines]) + ENDING
        return self._take(shown)

    def line(self, value: str, limit: int) -> str:
        return self._take(clean_line(value, limit))

    def lines(self, values: Sequence[str], most: int) -> list[str]:
        """Takes in the first of several texts, each as one line."""
        return [self.line(value, 500) for value in values[:most]]

    def _take(self, shown: str) -> str:
        return shown if self.has_room(len(escape(shown).encode())) else ENDING

    def has_room(self, size: int) -> bool:
        """Takes so many bytes, or notes that they do not fit."""
        if size > self.text_bytes:
            self.cut = True
            return False
        self.text_bytes -= size
        return True

    def picture(self, text: str) -> dict[str, Any] | None:
        """Takes in a PNG that `safe_picture` made, or counts it as dropped."""
        size = picture_size(text) if len(text) <= self.picture_bytes else None
        if size is None:
            self.dropped += 1
            return None
        self.picture_bytes -= len(text)
        return {"base64": text, "width": size[0], "height": size[1]}

    def layouts(self, found: tuple | None) -> tuple | None:
        """Takes in two layouts of an array, to be drawn, if they still fit."""
        size = PART_BYTES * sum(map(len, found[1:])) if found else 0
        if size > self.picture_bytes:
            self.dropped += 1
            return None
        self.picture_bytes -= size
        return found


def render(template: str, **facts: Any) -> str:
    """Fills one of the templates beside this module; all text is escaped."""
    return TEMPLATES.get_template(template).render(facts)
