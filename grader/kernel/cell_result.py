"""What one cell did, from what its kernel published, or why its process ended."""

from __future__ import annotations

import dataclasses
from typing import Any

REPLY = "application/x-course-answer+json"
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

    def add(self, kind: Any, content: dict[str, Any]) -> None:
        """Adds the content of a message of this kind."""
        data = content.get("data") if isinstance(content.get("data"), dict) else {}
        if kind == "stream" and len(self.text) < MAX_TEXT:
            self.text += clean(content.get("text"))[: MAX_TEXT - len(self.text)]
        elif kind == "error" and not self.error:
            name, message = clean(content.get("ename")), clean(content.get("evalue"))
            self.error = f"{name}: {message}"[:MAX_TEXT]
        elif kind == "display_data" and REPLY in data:
            self.replies.append(clean(data[REPLY]))
        elif kind in ("display_data", "execute_result") and "image/png" in data:
            self.pictures.append(clean(data["image/png"]))


def clean(value: Any) -> str:
    """Returns a text that a file can hold, "" for any other value."""
    if not isinstance(value, str):
        return ""
    return value.encode("utf-8", "replace").decode()
