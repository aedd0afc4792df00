"""What one cell did, from what its process sent, or why that process ended."""

from __future__ import annotations

import dataclasses

from grader.kernel.inside.frames import ERROR, PICTURE, REPLY, TEXT

MAX_TEXT = 20_000  # characters of one cell's printed text


class SessionEnded(Exception):
    """The learner's process has ended; no further cell can run.

    Attributes:
        why: "timed out", "died", or "limit: ..." with the limit that it exceeded.
    """

    def __init__(self, why: str):
        super().__init__(why)
        self.why = why


@dataclasses.dataclass
class CellResult:
    """What one cell did: its error ("" if none), text, pictures and replies."""

    error: str = ""
    text: str = ""
    pictures: list[str] = dataclasses.field(default_factory=list)
    replies: list[str] = dataclasses.field(default_factory=list)

    def add(self, kind: bytes, text: str) -> None:
        """Adds a frame's text, if its kind is known."""
        if kind == TEXT:
            self.text += text[: MAX_TEXT - len(self.text)]
        elif kind == ERROR:
            self.error = self.error or text[:MAX_TEXT]
        elif kind == REPLY:
            self.replies.append(text)
        elif kind == PICTURE:
            self.pictures.append(text)
