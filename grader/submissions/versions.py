"""Decides which of the files that a learner submitted for a lesson counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.submissions.archives import ListedFile
from grader.submissions.clean_text import quoted


@dataclass(frozen=True)
class Version:
    """One of the files that a learner submitted for a lesson.

    Attributes:
        path: where it was in the download; "" for that of an earlier collection.
        kind: 3 for a notebook with cells of the lesson, 2 for any other, 1 for an
            archive, 0 for all else.
        time: when it was submitted, in seconds since 1970.
        digest: the hash of its bytes.
        file: to read it again, until it is placed.
        is_ours: whether its exercises are as we released or solved them.
        is_aside: whether it is where a repository keeps solutions and translations.
        number: Canvas's number of the file, which grows; 0 elsewhere.
        inner_time: when it was changed, as its learner's archive says.
        seems_of: a learner whose name a folder or the file may have, or "".
    """

    path: str
    kind: int
    time: float
    digest: str
    file: ListedFile | None = None
    is_ours: bool = False
    is_aside: bool = False
    number: int = 0
    inner_time: float = 0.0
    seems_of: str = ""

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return (
            quoted(self.path, 300) if self.path else "the file of an earlier collection"
        )

    @property
    def rank(self) -> tuple:
        return self.kind, not self.is_ours, not self.is_aside

    def supersedes(self, other: Version) -> bool:
        if self.rank != other.rank:
            return self.rank > other.rank
        if self.number and other.number:
            return self.number > other.number
        # A learner's archive could state any time: it only orders what is in it.
        return (self.time, self.inner_time) > (other.time, other.inner_time)

    def why_not(self, others: Sequence[Version]) -> str:
        """Says why it counts, and not the others, which are of one rank."""
        names = listed(others)
        if self.rank == others[0].rank:
            return f"{self.name} is newer than {names}, and counts."
        what = "is in the folder of solutions or translations"
        if self.kind > others[0].kind:
            what = "has no exercise of the lesson"
        elif others[0].is_ours and not self.is_ours:
            what = "is as the course released or solved it"
        return f"{self.name} counts: {names} {what}."


def best_of(versions: Sequence[Version]) -> list[Version]:
    """Returns the version that no other supersedes, or several of which none does."""
    best = versions[0]
    for version in versions:
        if version.supersedes(best):
            best = version
    return [one for one in versions if not best.supersedes(one)]


def listed(versions: Sequence[Version]) -> str:
    shown = ", ".join(version.name for version in versions[:5])
    return shown + f" and {len(versions) - 5} more" * (len(versions) > 5)
