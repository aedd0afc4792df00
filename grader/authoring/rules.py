"""The rules for lessons and their checks: what an author reads where one is broken.

All of them are found before anything runs. The build then runs each check on the
solution, which must get all of its points, with every statement tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from grader import CourseError

MAX_LINES, MAX_SOLUTION_LINES, MAX_STATEMENTS = 20, 15, 6
ANSWERS = (
    '# %% right="what it is", # %% wrong="what it is" fails="a statement; another"'
)
RULES = {
    # A file
    "syntax": "This is not Python: {text}. Correct the line.",
    # A cell of solutions/NN_name.py
    "first cell": 'Text before the first cell. Begin with "# %% [markdown]".',
    "known mark": 'Unknown mark "{mark}". Known are: {known}.',
    "one of each": 'Duplicate {mark} "{name}". Rename or remove one of the two.',
    "kind of cell": '{mark} "{name}" is in the wrong kind of cell. '
    "Hints and built are in text cells, # %% [markdown]; all else is in code cells.",
    "exercise first": '{mark} "{name}" has no exercise before it. '
    "Add a cell '# %% exercise=\"{name}\"' or correct the name.",
    "set-up and scorecard": "The {mark} cell is missing. Add # %% {mark}=true.",
    "part": 'Exercise "{name}" has no cell marked {part}. '
    "Add '# %% {kind}{part}=\"{name}\"' after it.",
    "length of code": f"The code has {{lines}} lines. Split it: {MAX_LINES} at most.",
    "empty check": 'The check of "{name}" is written by the build. '
    "Move its code to {file}.",
    # An exercise
    "task": 'Exercise "{name}" has no task right before it. '
    'Add a text cell that starts with "### Exercise N.M: {name}".',
    "minutes": 'Exercise "{name}" takes {minutes} minutes. '
    "Write a multiple of 5 into its header, such as minutes=10.",
    "difficulty": 'Exercise "{name}" has difficulty {difficulty}. Write 1, 2 or 3.',
    "solution": 'Exercise "{name}" has no solution. '
    "Put it between the lines ### BEGIN SOLUTION and ### END SOLUTION.",
    "function": 'The cell of exercise "{name}" does not define {name}. '
    "Rename the function or the exercise.",
    "length of solution": "The solution has {lines} lines. "
    f"Shorten it to {MAX_SOLUTION_LINES}.",
    "number of hints": '"{name}" has {count} hints. '
    'Give two or three, each a list item ("# - ..."), and no other text.',
    # Its statements, in the text and in solutions/checks/NN_name.py
    "named statement": 'A statement of {name} has no name: "{item}". '
    "Begin it with one: - [name] ...",
    "number of statements": "{name} states {count} things. "
    f"State {MAX_STATEMENTS} at most: what a reviewer at work would ask for.",
    "proven": 'Nothing proves "{statement}" of {name}. '
    'Name it in @visible, and prove it in a block: with statement("{statement}"):',
    "stated": 'The text of {name} does not state "{statement}". '
    "Mark the sentence that does: - [{statement}] ...",
    "tried": '@visible names "{statement}" of {name}, but no block tries it. '
    'Add one: with statement("{statement}"):',
    "known statement": '@visible of {name} does not name "{statement}". '
    "Known are: {known}. Correct it, or add it to essential or others.",
    "expectation": "An expectation proves no statement. "
    'Put it into a block: with statement("..."):',
    # A function of solutions/checks/NN_name.py
    "file of checks": "The file is missing. "
    "Write the checks of the lesson's exercises into it.",
    "visible check": 'There is no check of "{name}". '
    'Add a function with @visible("{name}", ...).',
    "check of an exercise": 'The lesson has no exercise "{name}". Remove its check.',
    "arguments": '@visible("{name}", ...) takes plain values of '
    'points=2, essential=["..."], others=["..."] and bonus=True. Correct them.',
    "undefined name": 'The name "{name}" is not defined. Import it; what the lesson '
    "defines is imported from coursekit.learner.",
    "learner's name": 'The lesson does not define "{name}". '
    "Correct the import from coursekit.learner.",
    "open facts": "expect_like_solution({name}, ...) neither compares nor frees: "
    '{facts}. Compare each with the solution, such as {fact}="a statement", or leave '
    'it open: free={{"{fact}": "the reason"}}.',
    "facts twice": "expect_like_solution({name}, ...) both compares and leaves open: "
    "{facts}. Remove one of the two.",
    "known facts": "expect_like_solution({name}, ...) knows no {facts}. "
    "Known are: {known}.",
    # A file of solutions/answers/NN_name/
    "answers of an exercise": 'The lesson has no exercise "{name}". '
    "Rename the file after an exercise, or remove it.",
    "both answers": 'Exercise "{name}" has no {kind} one among its known answers. '
    f"Add a cell: {ANSWERS}.",
    "header of an answer": f"This begins no known answer. Write {ANSWERS}.",
    "answer": 'The answer "{answer}" does not define {name}.',
    "what fails": 'The wrong answer "{answer}" does not say which statements it fails. '
    'Add fails="..." to its header. Known are: {known}.',
    "failing statement": 'The wrong answer "{answer}" fails "{statement}", '
    "which @visible of {name} does not name. Known are: {known}.",
}


class Problem(NamedTuple):
    """A line that breaks a rule, and what to do about it."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def problem(path: Path, line: int, rule: str, **values: object) -> Problem:
    return Problem(path, line, RULES[rule].format(**values))


class SourceError(CourseError):
    """All that breaks a rule in a lesson's source, checks and known answers."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = sorted({*problems})
        super().__init__("\n".join(map(str, self.problems)))


class BuildError(CourseError):
    """A solution that fails, or a file that a build must not overwrite."""
