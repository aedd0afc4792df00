"""Builds the lessons and grades the notebooks that learners submit."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class CourseError(Exception):
    """A fault whose text says what to do; the command line shows nothing but that."""
