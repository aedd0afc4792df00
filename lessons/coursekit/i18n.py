"""Says in the learner's language what the set-up and the checks have to say."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import re
import textwrap
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from .context import current_context

FILLER = "\0"
VALUE = re.compile(r"\{(\d+)\}")  # stands for a value in a message
ENDING = re.compile(r"(?<=[A-Za-z])\{\d+\}")  # for the s of an English plural


def language() -> str:
    """Names the language: the context's, COURSE_LANGUAGE's, the folder's, else "en"."""
    return (
        current_context().language
        or os.environ.get("COURSE_LANGUAGE")
        or (Path.cwd().name if is_spoken(Path.cwd().name) else "en")
    )


@contextlib.contextmanager
def speaking(name: str) -> Iterator[None]:
    """Chooses a language, which counts more than the environment's."""
    context = current_context()
    before, context.language = context.language, name
    try:
        yield
    finally:
        context.language = before


def is_spoken(name: str) -> bool:
    """Tells whether the course has messages in a language."""
    module = f"messages_{name}"  # a folder may have any name
    path = f"{__package__}.{module}"
    found = module.isidentifier() and importlib.util.find_spec(path)
    return name == "en" or bool(found)


def translated(text: str, into: str = "") -> str:
    """Returns a message in the learner's language; an unknown one stays as it is.

    A value in a message is translated too, where it is a phrase of the course's. A
    single word is a name, of a learner's maybe, and stays.
    """
    into = into or language()
    if into == "en" or not is_spoken(into):
        return text
    if text in (messages := read_messages(into)):
        return messages[text]
    for pattern, order, translation in patterns(into):
        found = pattern.fullmatch(text)
        if found:
            values = (
                translated(value, into) if " " in value else value
                for value in found.groups()
            )
            places = dict(zip(order, values, strict=True))
            # Only English has its plural's ending.
            return VALUE.sub(
                lambda one, places=places: places.get(one[1], ""), translation
            )
    return text


def read_messages(name: str) -> dict[str, str]:
    return importlib.import_module(f"{__package__}.messages_{name}").MESSAGES


@functools.cache
def patterns(name: str) -> list[tuple[re.Pattern, list[str], str]]:
    """Reads a language's messages, those with most words of their own first."""
    messages = read_messages(name)
    words = {text: VALUE.sub("", text) for text in messages}
    return [
        (pattern_of(text), VALUE.findall(ENDING.sub("", text)), messages[text])
        for text in sorted(messages, key=lambda text: -len(words[text]))
        if VALUE.search(text)
    ]


def pattern_of(text: str) -> re.Pattern:
    """Makes the pattern that matches a message with any values in it.

    Where a message has hardly a word of its own, its values are numbers: it would match
    much that is none of the course's.
    """
    parts = VALUE.split(ENDING.sub(FILLER, text))[::2]
    value = r"([\d.]*)" if len("".join(parts)) < 6 else "(.*?)"
    pattern = value.join(map(re.escape, parts)).replace(re.escape(FILLER), "s?")
    return re.compile(pattern, re.DOTALL)


def plural(count: float) -> str:
    """Returns the ending of an English plural: "devices" is `f"device{plural(2)}"`."""
    return "" if count == 1 else "s"


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Breaks a text into lines of `width` columns, the later ones indented."""
    fixed = functools.partial(textwrap.wrap, width=width, break_on_hyphens=False)
    return [
        line.replace(FILLER, "")
        for line in fixed(filled(text), subsequent_indent=indent)
    ]


def padded(text: str, width: int) -> str:
    """Adds blanks up to a width in columns."""
    return filled(text).ljust(width).replace(FILLER, "")


def columns(text: str) -> int:
    """Counts the columns of a text in a font of fixed width."""
    return len(filled(text))


def filled(text: str) -> str:
    """Puts a filler behind each sign that is two columns wide, as Korean ones are."""
    wide = (unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return "".join(s + FILLER * w for s, w in zip(text, wide, strict=True))
