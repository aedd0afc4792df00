"""Grades the notebooks that a learner has worked on in lessons/."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from grader import ROOT
from grader.autograde import autograde
from grader.build import read, released_path
from grader.containment import Limits
from grader.intake import read_submission
from grader.judging import JudgeProcess
from grader.notebooks import checks, lesson_paths
from grader.results import Result


def check_own(names: Iterable[str] = (), root: Path = ROOT) -> Iterator[Result]:
    """Grades `lessons/*.ipynb` one by one, by the road that a class's work takes.

    Nothing is contained: it is one's own code.

    Raises:
        ValueError: an unknown lesson, or a file that is missing or no notebook.
    """
    for source in lesson_paths(names, root):
        path = released_path(source)
        if not path.exists():
            remedy = f"Get it back: git checkout -- lessons/{path.name}"
            raise ValueError(f"{path} is missing. {remedy}")
        submitted = read_submission(path, source.stem)
        if submitted.notebook is None:
            raise ValueError(f"{path}: {' '.join(submitted.reasons)}")
        lesson = read(source, root)
        judge = JudgeProcess(lesson, trusted=True)
        total = len(checks(lesson))
        bar = tqdm(total=total, desc=source.stem, unit="exercise", disable=None)
        with bar, contextlib.closing(judge):
            yield autograde(
                submitted,
                lesson,
                source.stem,
                judge,
                Limits(),
                trusted=True,
                on_exercise=bar.update,
            )
