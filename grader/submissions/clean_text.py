"""Makes untrusted text safe to show: no escapes, nothing invisible, not too long.

Markup stays: templates escape it. Joiners stay: scripts and emoji need them.
"""

from __future__ import annotations

import re

ENDING = " ..."
# What terminals interpret and do not show: OSC (hyperlinks, titles) and other strings
# up to their terminator, CSI (colours, cursor), other escapes; each with its C1 form.
ESCAPES = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|\x1b[ -/]*[0-~]"
)
LINE_ENDS = re.compile(r"\r\n?|[\u2028\u2029]")
# C0 and C1 except \n and \t, lone surrogates, noncharacters; marks, embeddings,
# overrides and isolates of writing direction; characters without width or shape.
UNWANTED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065"
    "\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]+"
)


def clean_text(text: str, limit: int) -> str:
    """Returns `text` as plain visible text of at most `limit` characters.

    Terminal escapes (with the address of an OSC-8 hyperlink), control characters, bidi
    overrides, lone surrogates and invisible characters are removed; tabs stay, each
    line end becomes a newline. " ..." marks a cut.
    """
    room = 8 * limit + 1000
    shown = UNWANTED.sub("", LINE_ENDS.sub("\n", ESCAPES.sub("", text[:room])))
    if len(shown) <= limit and len(text) <= room:
        return shown
    return (shown[: max(0, limit - len(ENDING))].rstrip() + ENDING)[: max(0, limit)]


def clean_line(text: str, limit: int) -> str:
    """Returns `text` cleaned, on one line, with single spaces."""
    return clean_text(" ".join(clean_text(text, 8 * limit).split()), limit)


def quoted(text: str, limit: int = 80) -> str:
    """Returns an untrusted name for a message: in quotes, visible and short."""
    return f'"{clean_line(text, limit)}"'
