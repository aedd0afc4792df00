"""A fault in what an author wrote, with its place and remedy."""

from __future__ import annotations

from pathlib import Path

from grader import CourseError


class SourceError(CourseError):
    """A fault in a lesson's source: file, line, what is wrong and how to fix it."""

    def __init__(self, path: Path, line: int, problem: str, remedy: str):
        super().__init__(f"{path}:{line}: {problem} {remedy}")
