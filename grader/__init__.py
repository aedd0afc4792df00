"""Builds the lessons and grades the notebooks that learners hand in."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class CourseError(Exception):
    """A fault whose text says what to do; the command line shows nothing but that."""


# What a notebook needs beside it; Colab fetches the same files.
MODULES = (
    *("messages", "start", "facts", "compare", "survey", "compiled", "tracing"),
    *("observe", "outcomes", "expect", "expect_program", "script", "processes"),
    *("canvas", "viz_array", "viz_collectives", "viz_training", "viz_memory"),
    *("viz_pipeline", "viz"),
)
# What else of ours lies in a learner's box, while it is graded.
COMPANIONS = ("forget", "responder", "wire", "zygote")
