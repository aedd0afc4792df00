"""Reads a stranger's bytes as a notebook's JSON, or says in plain words why not."""

from __future__ import annotations

import json
import re

# Bytes that Python needs for each of these characters, where they stand in JSON.
COSTS = {b"[": 70, b"{": 70, b":": 180, b",": 40}
MAX_COST = 300 << 20
SAVE = "Open the lesson in JupyterLab or Colab, save it, and hand in that .ipynb file."
CLEAR = (
    "Clear its outputs (Kernel > Restart Kernel and Clear Outputs), save and hand in "
    "again."
)
CONFLICT = f"This file holds the marks of a Git merge conflict. Resolve it. {SAVE}"
BEGINNINGS = {
    b"%PDF": "a PDF file",
    b"PK": "an archive (.zip) or an office document",
    b"\x1f\x8b": "a compressed file (.gz)",
    b"7z\xbc\xaf": "an archive (.7z)",
    b"Rar!": "an archive (.rar)",
    b"\xd0\xcf\x11\xe0": "an office document",
    b"{\\rtf": "a word processor's document",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    b"\x89HDF": "an HDF5 checkpoint",
    b"\x93NUMPY": "a NumPy file",
    b"version https://git-lfs": "a Git LFS pointer",
} | {b"\x80" + bytes([protocol]): "a pickle" for protocol in range(2, 6)}


class Refused(Exception):
    """Why there is nothing to grade, with the remedy."""


def read_json(data: bytes) -> tuple[dict, list[str]]:
    """Reads a JSON object and lists what had to be repaired for that.

    Raises:
        Refused: this is no JSON object, or one that needs too much memory.
        RecursionError: it is nested too deeply.
    """
    text, notes = decode(data)
    start = re.match(r"\s*", text).end()
    if text[start : start + 1] not in ("{", "["):
        raise Refused(f"{what_is(text[start : start + 10_000])} {SAVE}")
    if sum(cost * data.count(char) for char, cost in COSTS.items()) > MAX_COST:
        raise Refused(f"This notebook holds too much data. {CLEAR}")
    constants: list[str] = []
    decoder = json.JSONDecoder(
        strict=False,
        parse_float=lambda digits: float(digits) if len(digits) < 40 else 0.0,
        parse_int=lambda digits: int(digits) if len(digits) < 20 else 0,
        parse_constant=constants.append,
    )
    try:
        facts, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise Refused(damage(error)) from None
    if not isinstance(facts, dict):
        raise Refused(f"This is a list of data, not a notebook. {SAVE}")
    if constants:
        notes.append("The file held NaN or Infinity, which a notebook cannot hold.")
    if re.compile(r"[^\s\0]").search(text, end):
        notes.append("What stood behind the notebook's end was left out.")
    return facts, notes


def decode(data: bytes) -> tuple[str, list[str]]:
    """Reads the bytes as text, whatever their encoding."""
    if not data.strip(b"\0 \t\r\n\xef\xbb\xbf\xff\xfe"):
        raise Refused(f"The file is empty. {SAVE}")
    for beginning, kind in BEGINNINGS.items():
        if data.startswith(beginning):
            raise Refused(f"This is {kind}, not a notebook. {SAVE}")
    notes = []
    encoding = json.detect_encoding(data)
    if encoding == "utf-8-sig":
        notes.append("The file began with a byte-order mark, which was left out.")
    elif encoding != "utf-8":
        notes.append(f"The file was saved as {encoding[:6].upper()}, not as UTF-8.")
    try:
        return data.decode(encoding), notes
    except UnicodeDecodeError:
        if not encoding.startswith("utf-8"):
            raise Refused(f"The file is damaged: it is no text. {SAVE}") from None
        notes.append("Characters that could not be read were replaced by \ufffd.")
        return data.decode(encoding, errors="replace"), notes


def what_is(beginning: str) -> str:
    """Says what a text that is no JSON is instead."""
    if beginning.startswith("<<<<<<<"):
        return "This file holds the marks of a Git merge conflict."
    if beginning.startswith("<"):
        return (
            "This is a web page, not a notebook: a log-in page, perhaps, or the page "
            "that shows the notebook."
        )
    if sum(not c.isprintable() and not c.isspace() for c in beginning) > 5:
        return "This is a binary file, not a notebook."
    if re.search(r"(?m)^(?:import|from|def|class|#|@|%)[^\w\n]*\w", beginning):
        return "This is a Python script, not a notebook."
    return "This is plain text, not a notebook."


def damage(error: json.JSONDecodeError) -> str:
    """Says where a notebook's file is damaged."""
    marked = "<<<<<<< " in error.doc
    if marked and re.search(r"(?m)^[ \t]*<<<<<<< ", error.doc):
        return CONFLICT
    left = error.doc[error.pos :].strip("\0 \t\r\n")
    if not left or error.msg.startswith("Unterminated string"):
        again = "Upload it once more, or save it again."
        return f"The file breaks off in line {error.lineno}. {again}"
    return f"The file is damaged in line {error.lineno}: this is no notebook. {SAVE}"
