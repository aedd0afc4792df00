"""Grades the notebooks that a learner has worked on in lessons/."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from coursekit import i18n
from coursekit.context import current_context
from grader import ROOT
from grader.authoring.build import answer_in, own_path, read, released_path
from grader.containment.limits import Limits
from grader.judging import known_results
from grader.judging.grade_submission import grade_submission
from grader.judging.judge_process import JudgeProcess
from grader.lessons.release import checks, lesson_paths, with_check_of
from grader.results import Result
from grader.submissions.lms_names import fit
from grader.submissions.read_submission import read_submission
from grader.workers.cache_key import lesson_hashes


def newer_copies(path: Path, root: Path) -> list[Path]:
    """Lists copies of a notebook that hold answers and were saved later.

    JupyterLab names one 01_pmap_spmd-Copy1.ipynb; nbgitpuller keeps what a learner had
    as 01_pmap_spmd__20261104104101.ipynb, beside a new one without any answer.
    """
    copies = (root / "lessons").rglob("*.ipynb")
    copies = [one for one in copies if one.name != path.name]
    copies = [one for one in copies if fit(one.name, path.stem) > 1 and answer_in(one)]
    saved = path.stat().st_mtime if answer_in(path) else 0
    return sorted(one for one in copies if one.stat().st_mtime > saved)


def copy_note(copy: Path, path: Path, root: Path) -> str:
    names = [one.relative_to(root).as_posix() for one in (copy, path)]
    return (
        f"{names[0]} holds answers, too, and {names[1]} holds none or was saved before "
        f"it. To have that one graded, rename it to {path.name}."
    )


def check_own(
    names: Iterable[str] = (), root: Path = ROOT, exercise: str = ""
) -> Iterator[Result]:
    """Grades one's own notebooks one by one, by the code that grades a class.

    They are in lessons/, or in another language's folder. With an `exercise`, no other
    one is checked. Nothing is contained: it is one's own code.

    Raises:
        ValueError: an unknown lesson or exercise, or a file that is missing or no
            notebook.
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
        if exercise and exercise not in (known := checks(lesson)):
            raise ValueError(
                f'{source.stem} has no exercise "{exercise}". Its exercises are '
                f"{', '.join(known)}."
            )
        lesson = with_check_of(lesson, exercise) if exercise else lesson
        known = known_results.find(lesson_hashes(lesson, Limits()))
        judge = JudgeProcess(lesson, trusted=True, known=known)
        total = len(checks(lesson))
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
            judge.keep_known()
        notes = [copy_note(copy, path, root) for copy in newer_copies(path, root)]
        if path != released_path(source):
            notes = [f"{shown} was graded: it was saved last.", *notes]
        result = dataclasses.replace(result, notes=(*result.notes, *notes))
        language = path.parent.name
        # The caller shows the result in the language of the notebook.
        spoken = language if i18n.is_spoken(language) else ""
        current_context().language = spoken
        yield result
