"""Grades the notebooks that a learner has worked on in lessons/."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from coursekit import i18n
from grader import ROOT
from grader.authoring.build import own_path, read, released_path
from grader.authoring.release import checks, lesson_paths
from grader.containment.limits import Limits
from grader.judging.grade_submission import grade_submission
from grader.judging.judge_process import JudgeProcess
from grader.results import Result
from grader.submissions.read_submission import read_submission


def check_own(names: Iterable[str] = (), root: Path = ROOT) -> Iterator[Result]:
    """Grades one's own notebooks one by one, by the code that grades a class.

    They are in lessons/, or in another language's folder. Nothing is contained: it is
    one's own code.

    Raises:
        ValueError: an unknown lesson, or a file that is missing or no notebook.
    """
    for source in lesson_paths(names, root):
        path = own_path(source, root)
        shown = path.relative_to(root).as_posix()
        if not path.exists():
            raise ValueError(f"{path} is missing. Get it back: git checkout -- {shown}")
        submitted = read_submission(path, source.stem)
        if submitted.notebook is None:
            raise ValueError(f"{path}: {' '.join(submitted.reasons)}")
        lesson = read(source, root)
        judge, total = JudgeProcess(lesson, trusted=True), len(checks(lesson))
        bar = tqdm(total=total, desc=source.stem, unit="exercise", disable=None)
        with bar, contextlib.closing(judge):
            result = grade_submission(
                submitted,
                lesson,
                source.stem,
                judge,
                Limits(),
                trusted=True,
                on_exercise=bar.update,
            )
        if path != released_path(source):
            note = f"{shown} was graded: it was saved last."
            result = dataclasses.replace(result, notes=(*result.notes, note))
        language = path.parent.name
        # The caller shows the result in the language of the notebook.
        i18n.chosen = language if i18n.is_spoken(language) else ""
        yield result
