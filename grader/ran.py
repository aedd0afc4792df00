"""What one cell did, of what its kernel published, or why its process ended."""

from __future__ import annotations

import dataclasses
from typing import Any

REPLY = "application/x-course-answer+json"
KEPT_TEXT = 20_000  # characters of one cell's printed text


class Ended(Exception):
    """The learner's process is over; no further question can be asked.

    Attributes:
        why: "timed out", "died", or "limit: ..." with the limit that it ran into.
    """

    def __init__(self, why: str):
        super().__init__(why)
        self.why = why


@dataclasses.dataclass
class Ran:
    """What one cell did: its error ("" where none), text, pictures and replies."""

    error: str = ""
    text: str = ""
    pictures: list[str] = dataclasses.field(default_factory=list)
    replies: list[str] = dataclasses.field(default_factory=list)


def keep(ran: Ran, kind: Any, content: dict[str, Any]) -> None:
    """Adds a message's content to what a cell did."""
    data = content.get("data") if isinstance(content.get("data"), dict) else {}
    if kind == "stream" and len(ran.text) < KEPT_TEXT:
        ran.text += text(content.get("text"))[: KEPT_TEXT - len(ran.text)]
    elif kind == "error" and not ran.error:
        ran.error = f"{text(content.get('ename'))}: {text(content.get('evalue'))}"
        ran.error = ran.error[:KEPT_TEXT]
    elif kind == "display_data" and REPLY in data:
        ran.replies.append(text(data[REPLY]))
    elif kind in ("display_data", "execute_result") and "image/png" in data:
        ran.pictures.append(text(data["image/png"]))


def text(value: Any) -> str:
    """Returns a text that can be written to a file, "" for what is none."""
    if not isinstance(value, str):
        return ""
    return value.encode("utf-8", "replace").decode()
