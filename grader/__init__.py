"""Builds the lessons and grades the notebooks that learners submit."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "lessons"))  # where the learner's package is
FULL = "Make room on the disk, and run the command again: what is finished is saved."


class CourseError(Exception):
    """A fault whose text says what to do; the command line shows nothing but that."""
