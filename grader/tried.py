"""What a trial found out about one exercise."""

from __future__ import annotations

import dataclasses
from typing import Any

from grader.ran import Ran
from grader.results import Outcome


@dataclasses.dataclass
class Tried:
    """What a trial found out about one exercise."""

    outcome: Outcome
    message: str = ""
    details: tuple[tuple[str, str], ...] = ()
    pictures: list[str] = dataclasses.field(default_factory=list)


def verdict(said: dict[str, Any], ran: Ran) -> Tried:
    """Makes of the judge's words, and of the cell's own error, what is told."""
    outcome = Outcome[said["verdict"]]
    if said.get("fate") == "missing" and ran.error:
        return Tried(Outcome.RAISED, ran.error[:400])
    details = tuple((str(name), str(text)) for name, text in said["details"])
    if said.get("fate") == "died":
        return Tried(outcome, "It gave no answer.")
    return Tried(outcome, said["message"], details)
