"""Tells in which language a learner works."""

from __future__ import annotations

import re

from nbformat import NotebookNode

from lessons.coursekit.i18n import is_spoken

# In a translated lesson's first cell; in a cell of the learner's own in Colab.
CHOICE = re.compile(r"COURSE_LANGUAGE\W{1,8}([a-z]{2,8})\b")


def language_of(notebook: NotebookNode) -> str:
    """Returns the language of a lesson's notebook: "en", unless it names another."""
    for cell in notebook.cells:
        for name in CHOICE.findall(cell.source):
            if is_spoken(name):
                return name
    return "en"
