"""Reads the known answers, wrong and right ones, in `solutions/answers/`.

Each exercise has a file, each answer a cell in it, with a docstring that says what the
answer stands for. A wrong answer's marker names the statements that fail. Where its
learner is shown a likely cause, this follows:

    # %% wrong="averages the loss alone" fails="same numbers; replicas agree"
    # cause: only a loss is sent: in pmap, its pmean leaves each gradient as it was
"""

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "solutions" / "answers"
CELL = re.compile(
    r'^# %% (wrong|right)="([^"]+)"(?: fails="(.+)")?\n(?:# cause: (.+)\n)?', re.M
)


@dataclass(frozen=True)
class KnownAnswer:
    """A known answer to an exercise; `fails` and `cause` are a wrong answer's."""

    lesson: str
    exercise: str
    kind: str
    name: str
    fails: tuple[str, ...]
    cause: str | None
    source: str

    def __str__(self):
        return f"{self.exercise}: {self.name}"


def known_answers(lesson="*", exercise="*", kind=None):
    """Lists the answers to the exercises of a lesson, or to one exercise."""
    return [
        answer
        for path in sorted(FOLDER.glob(f"{lesson}/{exercise}.py"))
        for answer in read(path)
        if kind in (None, answer.kind)
    ]


def read(path):
    _, *cells = CELL.split(path.read_text(encoding="utf-8"))
    for kind, name, fails, cause, source in zip(*[iter(cells)] * 5, strict=True):
        failing = tuple(fails.split("; ")) if fails else ()
        place = path.parent.name, path.stem
        yield KnownAnswer(*place, kind, name, failing, cause, f"{source.strip()}\n")
